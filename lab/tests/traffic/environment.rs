//! A bundle on a machine that others use, too: what the machine does not allow is refused in one clear sentence, with exit code 2 and
//! nothing left behind; what a running bundle cannot do changes nothing; and whatever happens to it, it goes on or ends cleanly.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use tabane_kit::prerequisites::STRACE;
use tabane_kit::process::words;
use tabane_kit::sandbox::Mounted;
use tempfile::NamedTempFile;

use crate::traffic::stage::*;

pub(crate) const NOBODY: &str = "65534";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: up --name
        Case::new("what_the_machine_does_not_allow_is_refused", [Daemon, Tool(SETPRIV)], refused),
        // Exercises: check --no-nics
        Case::new("check_looks_for_the_nics_unless_the_file_is_another_machines", DAEMON, nics_of_a_file),
        Case::new("a_node_whose_nics_have_no_address_has_one_all_the_same", DAEMON, without_addresses),
        Case::new("a_nic_that_is_down_is_raised", DAEMON, raised),
        Case::new("an_mtu_that_becomes_too_small_costs_that_link_alone", DAEMON, too_small),
        // Exercises: down
        Case::new("stops_cleanly_however_it_is_asked", DAEMON, stops),
        // Exercises: events --follow --json
        Case::new("events_are_followed_to_the_end", DAEMON, followed),
        Case::new("what_a_bundle_cannot_do_changes_nothing", DAEMON, unchanged),
        Case::new("a_new_process_that_cannot_take_over_leaves_the_bundle_alone", DAEMON, stays),
        Case::new("the_device_may_go_down_be_renamed_and_move", DAEMON, moved),
        Case::new("errors_of_the_device_and_of_epoll_end_nothing", [Daemon, Tool(STRACE)], errors_of_worker),
        Case::new(
            "errors_of_the_main_thread_and_the_control_socket_end_nothing",
            [Daemon, Tool(STRACE)],
            errors_of_others,
        ),
        Case::new("a_log_that_nobody_takes_stops_nothing", DAEMON, log_is_full),
    ]
}

/// What commands of `tabane` say on a host, and with which code they end: 2 and one sentence where they are refused, which stands here
/// behind `tabane: `. It begins so.
pub(crate) fn say(host: &Namespace, commands: &[(&str, &str)]) -> Result<()> {
    for (words, begins) in commands {
        let output = host.command(program(None)?).args(words.split(' ')).output()?;
        let said = String::from_utf8([output.stdout, output.stderr].concat())?;
        let code = if begins.starts_with("tabane: ") { 2 } else { 0 };
        ensure!(
            said.starts_with(begins) && output.status.code() == Some(code),
            "{words}: {:?}, {said}",
            output.status
        );
        ensure!(code == 0 || said.lines().count() == 1, "{words}: {said}");
    }
    Ok(())
}

pub(crate) fn lone<'a>(topology: &'a Topology, link: &str, arguments: &[&str]) -> Result<Bundle<'a>> {
    let mut bundle = Bundle::start(topology.host(0), 0, &[link.to_owned()], &options_with(arguments)?)?;
    bundle.wait_until("a bundle that answers", |_| true)?;
    Ok(bundle)
}

fn ended(bundle: Bundle<'_>) -> Result<()> {
    bundle.stop()?.success("a daemon told to stop").map(drop)
}

/// What is done to the host before, what `tabane up` is told, and how the sentence goes. IPv6 needs an MTU of 1,280 bytes; over IPv4 and
/// in Ethernet frames the smallest cells decide.
#[rustfmt::skip]
const REFUSALS: [(&[&str], &str, &str); 7] = [
    (&[], "--link eth7", "link eth7: no such NIC; there are: lo, eth"),
    (&["link set eth1 mtu 1279"], "--link eth1", "link eth1: an MTU of 1279 bytes is too small; allowed: 1280 bytes or more (`ip link set eth1 mtu 1280`)"),
    (&["address add 192.0.2.1/24 dev eth1", "link set eth1 mtu 76"], "--link eth1,local=192.0.2.1,peer=192.0.2.2", "link eth1: an MTU of 76 bytes is too small; allowed: 576 bytes or more (`ip link set eth1 mtu 576`)"),
    (&["link set eth1 mtu 500"], "--link ether:eth1", "link eth1: an MTU of 500 bytes is too small; allowed: 552 bytes or more (`ip link set eth1 mtu 552`)"),
    (&["link set eth1 mtu 1500"], "--link eth1 --name eth2", "device name eth2 is taken: choose another, or remove that device (`ip link delete eth2`)"),
    (&[], "--link eth1 --user no-such-user", "user no-such-user does not exist; allowed: a user of this machine, or no `user` at all"),
    (&[], "--link eth1 --control-group no-such-group", "control_group no-such-group does not exist; allowed: a group of this machine (`groupadd no-such-group` makes it)"),
];

fn refused() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let host = topology.host(0);
    let says = |before: &[&str], up: &str, sentence: &str| {
        before.iter().try_for_each(|change| host.ip(change).map(drop))?;
        say(host, &[(&format!("up --insecure {up}"), &format!("tabane: {sentence}"))])?;
        let devices = host.ip("-brief link")?;
        ensure!(!devices.contains(DEVICE), "{up}: {devices}");
        Ok(())
    };
    REFUSALS.iter().try_for_each(|(before, up, sentence)| says(before, up, sentence))?;
    // udev lets everyone open it, a bare container nobody.
    let is_open = fs::metadata("/dev/net/tun")?.permissions().mode() & 0o006 == 0o006;
    let deed = if is_open { format!("create device {DEVICE}") } else { "open /dev/net/tun".to_owned() };
    let mut without_rights = host.command(SETPRIV.program);
    without_rights.args(["--reuid", NOBODY, "--clear-groups"]).arg(program(None)?);
    let output = without_rights.args(["up", "--insecure", "--link", "eth1"]).output()?;
    let said = String::from_utf8(output.stderr)?;
    let sentence = format!("tabane: no permission to {deed}: run as root or with CAP_NET_ADMIN\n");
    ensure!(output.status.code() == Some(2) && said == sentence, "{said}");
    let _hidden = Mounted::new("/dev/net".as_ref(), "none", "tmpfs", "")?;
    says(
        &[],
        "--link eth1",
        "/dev/net/tun is missing: load the driver (`modprobe tun`), or show it to the container (`--device /dev/net/tun`)",
    )
}

fn nics_of_a_file() -> Result<()> {
    let (topology, file) = (Topology::build(plan(&[FAST]))?, NamedTempFile::with_suffix(".toml")?);
    fs::write(file.path(), "security = \"none\"\n[[link]]\nnic = \"no-such-nic\"\n")?;
    let check = |flags: &[&str]| -> Result<Output> {
        Ok(topology.host(0).command(program(None)?).arg("check").arg(file.path()).args(flags).output()?)
    };
    let (here, elsewhere) = (check(&[])?, check(&["--no-nics"])?);
    let said = String::from_utf8_lossy(&here.stderr);
    ensure!(said.starts_with("tabane: link no-such-nic: no such NIC; there are: "), "{said}");
    ensure!(here.status.code() == Some(2) && elsewhere.status.success(), "{here:?} {elsewhere:?}");
    ensure!(here.stdout == elsewhere.stdout, "{here:?} {elsewhere:?}");
    Ok(())
}

/// As a node whose uplinks are PPP: the same node after each start.
fn without_addresses() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    for change in ["tuntap add dev ppp0 mode tun", "link set ppp0 up", "address add 192.0.2.1/24 dev ppp0"] {
        topology.host(0).ip(change)?;
    }
    let node = || -> Result<String> {
        let bundle = lone(&topology, "ppp0,local=192.0.2.1", &[])?;
        let node = bundle.status()?.node;
        ended(bundle)?;
        Ok(node)
    };
    let nodes = [node()?, node()?];
    ensure!(nodes[0].starts_with("02:") && !nodes[0].starts_with("02:00:00:00:00:00"), "{nodes:?}");
    let has_id = fs::metadata("/etc/machine-id").is_ok_and(|id| id.len() > 0);
    ensure!(!has_id || nodes[0] == nodes[1], "{nodes:?}");
    Ok(())
}

/// Whoever makes a NIC a link wants to use it: at the start, and when it joins.
fn raised() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let host = topology.host(0);
    (0..2).try_for_each(|link| host.ip(&format!("link set {} down", nic(link))).map(drop))?;
    let bundle = lone(&topology, &nic(0), &[])?;
    say(host, &[("link add eth2", "link 1 joined\n")])?;
    for link in 0..2 {
        let shown = host.ip(&format!("link show {}", nic(link)))?;
        ensure!(shown.contains(",UP"), "{shown}");
    }
    ended(bundle)
}

/// The link whose NIC shrinks is left at both ends, reported, and used again when it has grown; meanwhile the other one carries cells as
/// large as before, a new process takes over, and no such link joins.
fn too_small() -> Result<()> {
    let topology = Topology::build(Plan { addressed: true, ..plan(&[FAST; 2]) })?;
    let link = |link, host| {
        format!("{},local={},peer={}", nic(link), address_of(link, host), address_of(link, 1 - host))
    };
    let mut bundles =
        Bundle::start_each(&topology, |host| vec![link(0, host), link(1, host)], &options_with(&[])?)?;
    let host = topology.host(0);
    let shrink = |bundles: &mut [Bundle<'_>], link: usize, mtu: u32, left: usize| {
        host.ip(&format!("link set {} mtu {mtu}", nic(link)))?;
        ready(bundles, left)
    };
    shrink(&mut bundles, 1, 76, 1)?;
    let came = answered(host, address(1), 20)?;
    ensure!(came == 20, "{came} of 20 pings");
    bundles[0].upgrade()?;
    ready(&mut bundles, 1)?;
    let add = format!("link add tb0 {}", link(1, 0));
    let small = "tabane: tb0 refuses: link eth2: an MTU of 76 bytes is too small; allowed: 576 bytes or more";
    say(host, &[("link remove tb0 eth2", "link 1 left\n"), (&add, small)])?;
    let cells = bundles[0].status()?.cell_bytes;
    ensure!(cells == 1_472, "cells of {cells} bytes");
    host.ip("link set eth2 mtu 1500")?;
    say(host, &[(&add, "link 1 joined\n")])?;
    ready(&mut bundles, 2)?;
    shrink(&mut bundles, 0, 76, 1)?;
    shrink(&mut bundles, 1, 68, 0)?;
    shrink(&mut bundles, 0, 1_500, 1)?;
    let events = bundles[0].status()?.events;
    let told: Vec<_> =
        events.iter().filter(|event| event.what == "nic-mtu").map(|event| &event.detail).collect();
    let unused = "too small for cells; the link is not used until it has 576";
    let small = |nic, mtu| format!("{nic} has an MTU of {mtu} bytes now, {unused}");
    let grown = "eth1 has an MTU of 1500 bytes now".to_owned();
    let wanted = [small("eth2", 76), small("eth1", 76), small("eth2", 68), grown];
    ensure!(told == wanted.iter().collect::<Vec<_>>(), "{told:?}");
    Bundle::stop_all(bundles)
}

fn stops() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let host = topology.host(0);
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let bundle = lone(&topology, &nic(0), &[])?;
        match signal {
            None => say(host, &[("down", "")])?,
            Some(signal) => bundle.signal(signal)?,
        }
        bundle.end()?.success("a daemon told to stop")?;
        let devices = host.ip("-brief link")?;
        ensure!(!devices.contains(DEVICE), "{signal:?}: {devices}");
    }
    Ok(())
}

fn followed() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let mut bundles = Bundle::start_all(&topology, &options_with(&[])?)?;
    let host = topology.host(0);
    let follow = |format: &[&str]| {
        let mut command = host.command(program(None)?);
        command.args(["events", DEVICE, "--follow"]).args(format);
        Process::start(command)
    };
    let (lines, interrupted) = (follow(&["--json"])?, follow(&[])?);
    wait_for("what has happened", WITHIN, || {
        let has_printed = lines.has_printed("\"what\":\"link-up\"") && interrupted.has_printed("peer-joined");
        Ok(has_printed.then_some(()))
    })?;
    let mut read_once = host.command("sh");
    read_once.args(["-c", "\"$0\" events --follow | grep -m 1 -c peer-joined"]).arg(program(None)?);
    ensure!(process::run(&mut read_once)? == "1\n", "a reader that goes");
    interrupted.signal(Signal::SIGINT)?;
    interrupted.wait(WITHIN)?.success("a follower that was interrupted")?;
    ended(bundles.swap_remove(0))?;
    let lines = lines.wait(WITHIN)?.success("a follower whose bundle has ended")?;
    ensure!(lines.starts_with("{\"number\":0,\"time\":\""), "{lines}");
    Bundle::stop_all(bundles)
}

/// What commands say that change the policy, and those that ask for what cannot be.
#[rustfmt::skip]
const UNCHANGED: [(&str, &str); 19] = [
    ("up --insecure --link eth2", "tabane: tb0 is already up (pid "),
    ("up --insecure --link eth1 --name other", "tabane: UDP port 7420 on NIC eth1 is taken: choose another port, or stop what uses it (`ss -ulpn sport = 7420`)\n"),
    ("policy tb0 rr", "policy rr, was adaptive\n"),
    ("policy tb0 rr", "policy rr, was rr\n"),
    ("policy tb0 fast", "tabane: tb0 refuses: policy `fast` is unknown; allowed: adaptive, "),
    ("policy tb7 rr", "tabane: no bundle named tb7 is up in this network namespace\n"),
    ("link add tb0 eth7", "tabane: tb0 refuses: link eth7: no such NIC; there are: "),
    ("link add tb0 eth1", "tabane: tb0 refuses: link eth1 is in the bundle already"),
    ("link add tb0 tb0", "tabane: tb0 refuses: tb0 is the bundle's own device"),
    ("link add tb0 eth2,loca=1", "tabane: tb0 refuses: unknown part `loca=1`; allowed: local=, port=, peer=, rate="),
    ("link add tb0 eth2,rate=much", "tabane: tb0 refuses: link eth2: rate: "),
    ("link add tb0 eth2,local=192.0.2.1,peer=192.0.2.2", "tabane: tb0 refuses: 192.0.2.1 is not an address of NIC eth2 yet"),
    ("link add tb0 eth2,peer=-.net", "tabane: tb0 refuses: link eth2: peer: `-.net` is neither an address nor a name; allowed: "),
    ("link add tb0 eth2,peer=office.example.net", "tabane: tb0 refuses: peer office.example.net: the bundle was started without a name, and without the process that resolves names; allowed: an address, or start it with one"),
    ("link remove tb0 eth1", "tabane: tb0 refuses: link eth1 is the last one; `tabane down tb0` ends the bundle"),
    ("link remove tb0 eth2", "tabane: tb0 refuses: link eth2 is not in the bundle; there are: eth1"),
    ("link add tb7 eth2", "tabane: no bundle named tb7 is up in this network namespace"),
    ("link remove tb7 eth2", "tabane: no bundle named tb7 is up in this network namespace"),
    ("upgrade tb7", "tabane: no bundle named tb7 is up in this network namespace"),
];

fn unchanged() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    topology.host(0).ip("address add 198.51.100.1/24 dev eth1")?;
    let bundle = lone(&topology, &nic(0), &[])?;
    say(topology.host(0), &UNCHANGED)?;
    let status = bundle.status()?;
    let told: Vec<_> = status.events.iter().map(|event| event.detail.as_str()).collect();
    ensure!(told == ["policy rr, was adaptive"] && status.policy == "rr", "{told:?}");
    ensure!(status.links.len() == 1, "{:?}", status.links);
    ended(bundle)
}

fn with_few_descriptors(host: &Namespace) -> Result<Output> {
    let mut limited = host.command("sh");
    Ok(limited.args(["-c", "ulimit -n 7; exec \"$0\" upgrade"]).arg(program(None)?).output()?)
}

/// Too few descriptors, and a NIC that has gone.
fn stays() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let (host, bundle) = (topology.host(0), lone(&topology, &nic(0), &[])?);
    let output = with_few_descriptors(host)?;
    let said = String::from_utf8(output.stderr)?;
    let sentence = "tabane: tb0: the bundle stays with its process: too many open files\n";
    ensure!(output.status.code() == Some(1) && said == sentence, "{said}");
    host.ip("link add eth3 type veth peer name eth4")?;
    host.ip("link set eth3 up")?;
    say(host, &[("link add tb0 eth3", "link 1 joined\n")])?;
    host.ip("link delete eth3")?;
    let is_gone = || bundle.status().map(|status| status.events.iter().any(|event| event.what == "nic-gone"));
    wait_for("a NIC that is gone", WITHIN, || Ok(is_gone()?.then_some(())))?;
    let gone = "tabane: tb0 refuses: the NIC of link eth3 is gone; `tabane link remove` takes it out\n";
    say(host, &[("upgrade", gone)])?;
    ensure!(Some(bundle.status()?.pid) == bundle.pid(), "another process has the bundle");
    ended(bundle)
}

fn moved() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let bundles = Bundle::start_all(&topology, &options_with(&[])?)?;
    let (host, far, inner) = (topology.host(0), topology.host(1), Namespace::create("inner")?);
    for change in [format!("{DEVICE} down"), format!("{DEVICE} name inner0"), "inner0 netns inner".to_owned()]
    {
        host.ip(&format!("link set {change}"))?;
    }
    inner.ip("link set inner0 up")?;
    inner.ip("address add fd00::1/64 dev inner0 nodad")?;
    far.ip(&format!("address add fd00::2/64 dev {DEVICE} nodad"))?;
    wait_for("a neighbour", WITHIN, || {
        far.ip(&format!("neighbour replace fd00::1 dev {DEVICE} use"))?;
        Ok(far.ip("neighbour show fd00::1")?.contains("REACHABLE").then_some(()))
    })?;
    Bundle::stop_all(bundles)
}

fn thread(pid: u32, name: &str) -> Result<String> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        if fs::read_to_string(task.path().join("comm"))?.starts_with(name) {
            return Ok(task.file_name().to_string_lossy().into_owned());
        }
    }
    anyhow::bail!("process {pid} has no thread {name}")
}

/// Has system calls of a thread fail, each with this error so often: `when` of `strace`.
fn fail(pid: u32, thread: &str, failures: &[(&str, &str, &str)]) -> Result<Process> {
    let calls: Vec<_> = failures.iter().map(|(calls, ..)| *calls).collect();
    let mut strace =
        words(STRACE.program, &format!("-q -o /dev/null -p {thread} -e trace={}", calls.join(",")));
    for (calls, error, when) in failures {
        strace.args(["-e", &format!("inject={calls}:error={error}:when={when}")]);
    }
    let strace = Process::start(strace)?;
    let state = format!("/proc/{pid}/task/{thread}/status");
    wait_for("a thread that is traced", WITHIN, || {
        Ok(fs::read_to_string(&state)?.contains(&format!("TracerPid:\t{}\n", strace.pid())).then_some(()))
    })?;
    Ok(strace)
}

/// While datagrams pass, the worker gets errors for want of memory: at each tenth read of its device, each other change of what it
/// watches and each fifth wait. Most datagrams come through, and all when the errors are over.
fn errors_of_worker() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let mut bundles = Bundle::start_all(&topology, &options_with(&["--no-sandbox"])?)?;
    let received = |count| answered(topology.host(0), address(1), count);
    received(1)?;
    let pid = bundles[0].pid().context("a running daemon")?;
    let failures =
        [("readv", "ENOMEM", "10+10"), ("epoll_ctl", "ENOSPC", "1+2"), ("epoll_pwait2", "ENOMEM", "5+5")];
    let strace = fail(pid, &thread(pid, "worker 0")?, &failures)?;
    let came = received(400)?;
    ensure!(came >= 300, "{came} of 400 datagrams");
    strace.stop()?;
    let came = received(100)?;
    ensure!(came == 100, "{came} of 100 datagrams without errors");
    let status = bundles[0].status()?;
    let counted = ["device_unread", "device_unwatched"].map(|counter| status.counter(counter));
    ensure!(counted.iter().all(|count| *count >= 10), "{counted:?}");
    let ending = bundles.swap_remove(0).stop()?;
    let logged = ending.complaint.matches("report what is ready; the worker tries the device").count();
    ensure!((4..=19).contains(&logged), "{logged} lines: {}", ending.complaint);
    ending.success("a daemon told to stop")?;
    Bundle::stop_all(bundles)
}

/// Each other wait of the control socket's thread and of the main thread fails, and the latter's first try to serve the name again
/// after an upgrade has failed.
fn errors_of_others() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let bundle = lone(&topology, &nic(0), &["--no-sandbox"])?;
    let (host, pid) = (topology.host(0), bundle.pid().context("a running daemon")?);
    let control = fail(pid, &thread(pid, "control")?, &[("ppoll,poll", "ENOMEM", "1+2")])?;
    let failures = [("epoll_pwait2", "ENOMEM", "1+2"), ("eventfd2", "EMFILE", "1")];
    let main = fail(pid, &pid.to_string(), &failures)?;
    for _ in 0..5 {
        say(host, &[("policy tb0 rr", "policy rr, was "), ("policy tb0 hash", "policy hash, was rr\n")])?;
    }
    let upgrade = with_few_descriptors(host)?;
    ensure!(upgrade.status.code() == Some(1), "{upgrade:?}");
    control.wait(WITHIN)?;
    say(host, &[("policy tb0 rr", "policy rr, was hash\n")])?;
    main.stop()?;
    let ending = bundle.stop()?;
    for words in ["cannot poll", "cannot wait", "cannot serve the control socket"] {
        ensure!(ending.complaint.contains(words), "{words} is not in {}", ending.complaint);
    }
    ending.success("a daemon told to stop").map(drop)
}

/// To a disk that is full, and into a pipe that nobody reads and that is full soon: a hundred events later it still answers, and ends
/// in time.
fn log_is_full() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let host = topology.host(0);
    let (_reader, pipe) = std::io::pipe()?;
    fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(4_096))?;
    let disk = || OpenOptions::new().write(true).open("/dev/full");
    for (log, filter, changes) in [(Stdio::from(disk()?), "trace", 1), (Stdio::from(pipe), "info", 50)] {
        let mut command = host.command(program(None)?);
        command.args(["up", "--insecure", "--link", "eth1"]).env("TABANE_LOG", filter);
        let mut daemon = command.stdout(disk()?).stderr(log).spawn()?;
        wait_for("a bundle that answers", WITHIN, || {
            let answer = host.command(program(None)?).args(["status", "--json"]).output()?;
            Ok(answer.status.success().then_some(()))
        })?;
        for _ in 0..changes {
            say(host, &[("policy tb0 rr", "policy rr, was "), ("policy tb0 hash", "policy hash, was rr\n")])?;
        }
        say(host, &[("link add tb0 eth2", "link 1 joined\n"), ("down", "")])?;
        let end = wait_for("the end", WITHIN, || Ok(daemon.try_wait()?))?;
        ensure!(end.success(), "{end}");
    }
    Ok(())
}
