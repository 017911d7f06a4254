//! The Debian package in a clean Debian with a service manager of its own: what it installs works, a newer version takes a
//! running bundle over, and `dpkg --purge` leaves nothing. `make deb-test` makes the package and that Debian.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use nix::mount::{MsFlags, mount};

use crate::traffic::stage::*;
use crate::traffic::systemd::page::{self, PRINTED};
use crate::traffic::systemd::{whole, with_peer_of};

pub(crate) const PACKAGE: &str = "TABANE_DEB";
pub(crate) const ROOT: &str = "TABANE_CLEAN_ROOT";
pub(crate) const SERVICE: &str = "tabane@tb0.service";
const LONG_FILE: u64 = 192 << 20;
const MEASURED: u64 = 64 << 20;
const CLEAN_ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/clean-root.sh");
const SPEEDUP_LEAST: f64 = 1.9;
/// So slow that a machine with two systems in it is not what limits them.
const OF_NEW_USERS: Bitrate = Bitrate::mbit(80);
/// The newer version: the same files, another number.
const NEWER: &str = "dpkg-deb --raw-extract /root/tabane.deb /tmp/newer \
    && sed -i 's/^Version: .*/&+newer/' /tmp/newer/DEBIAN/control && dpkg-deb --build /tmp/newer /root/newer.deb";
/// All files but those in memory and what `man` keeps for itself, and of accounts the content.
const LISTED: &str = "find / /etc/systemd /usr/lib/systemd /usr/lib/systemd/system /usr/lib/tmpfiles.d -xdev \
    -not -path '/root/*' -not -path '/tmp/*' -not -path '/var/cache/man/*' -printf '%p %y %m %u %g %l\\n' | sort -u; find /run -name '*tabane*'; \
    cat /etc/passwd /etc/group /etc/shadow /etc/gshadow; systemctl list-units --all --plain --no-legend 'tabane*'";

pub(crate) const NEEDS: &[Need] = &[Daemon, That(require)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::nightly("a_package_is_installed_works_is_upgraded_and_leaves_nothing", NEEDS, package),
        Case::nightly("a_package_makes_a_bundle_of_two_machines_by_a_command_on_each", NEEDS, new_user),
        Case::new("a_clean_debian_that_is_not_finished_takes_no_mounted_files_along", NOTHING, unfinished),
    ]
}

fn require() -> Result<()> {
    for variable in [PACKAGE, ROOT] {
        let there = env::var_os(variable).is_some_and(|path| PathBuf::from(path).exists());
        ensure!(there, Missing::new(format!("{variable} names nothing: `make deb-test`")));
    }
    tabane_kit::systemd::require()
}

/// What an interrupted run has left mounted is unmounted; what is in use stays, and so does the directory.
fn unfinished() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let [mounted, root, begun] = ["mounted", "root", "root.new"].map(|name| directory.path().join(name));
    let (file, seen) = (mounted.join("file"), begun.join("dev/file"));
    fs::create_dir(&mounted)?;
    fs::write(&file, "of this machine")?;
    fs::create_dir_all(begun.join("dev"))?;
    mount(Some(&mounted), &begun.join("dev"), None::<&Path>, MsFlags::MS_BIND, None::<&Path>)?;
    let make = || Command::new("sh").arg(CLEAN_ROOT).args([Path::new("no-such-suite"), &root]).status();
    let in_use = fs::File::open(&seen)?;
    ensure!(!make()?.success() && seen.exists() && file.exists(), "what is in use is gone");
    drop(in_use);
    ensure!(!make()?.success() && !begun.exists(), "{} stays", begun.display());
    ensure!(file.exists(), "what was mounted is gone");
    Ok(())
}

fn package() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let host = topology.host(0);
    let machine = clean_debian(host, &[])?;
    let before = listed(&machine)?;
    shell(&machine, "dpkg --install /root/tabane.deb")?;
    is_documented(&machine)?;
    is_verified(&machine)?;

    with_peer_of(&topology, &set_up(&machine)?, |peer| {
        whole(peer)?;
        send_file(host, topology.host(1), address(1), FILE)?;
        is_the_users(&machine)?;
        has_a_page(&machine)?;
        is_upgraded(&machine, &topology)?;
        whole(peer)
    })?;
    shell(&machine, "dpkg --remove tabane && test -f /etc/tabane/tb0.key")?;
    wait_for("a device that is gone", WITHIN, || {
        Ok((!host.ip("-brief link")?.contains(DEVICE)).then_some(()))
    })?;
    shell(&machine, "dpkg --purge tabane")?;
    is_as(&machine, &before)
}

pub(crate) fn clean_debian(host: &Namespace, files: &[(&str, &[u8], u32)]) -> Result<Systemd> {
    let deb = fs::read(env::var_os(PACKAGE).context(PACKAGE)?)?;
    let root = env::var_os(ROOT).context(ROOT)?;
    Systemd::start_in(root.as_ref(), host, &[&[("root/tabane.deb", &*deb, 0o644)], files].concat())
}

fn is_as(machine: &Systemd, before: &BTreeSet<String>) -> Result<()> {
    let after = listed(machine)?;
    let left: Vec<_> = before.symmetric_difference(&after).collect();
    ensure!(left.is_empty(), "the package left or took: {left:#?}");
    Ok(())
}

/// As the README says: installed on two machines whose NICs have no addresses and are down, one command on the first, one on the
/// second; one connection is nearly as fast as both links; then undone on both.
fn new_user() -> Result<()> {
    let topology = Topology::build(plan(&[OF_NEW_USERS; LINKS]))?;
    let [first, second] = [clean_debian(topology.host(0), &[])?, clean_debian(topology.host(1), &[])?];
    let machines = [&first, &second];
    let before = [listed(&first)?, listed(&second)?];
    for host in topology.hosts() {
        (0..LINKS).try_for_each(|link| host.ip(&format!("link set {} down", nic(link))).map(drop))?;
    }
    machines.iter().try_for_each(|machine| shell(machine, "dpkg --install /root/tabane.deb").map(drop))?;

    let links: String = (0..LINKS).map(|link| format!(" --link {}", nic(link))).collect();
    let told = shell(&first, &format!("tabane init --yes{links}"))?;
    let line =
        told.lines().find(|line| line.starts_with("tabane1:")).context("no line for the second machine")?;
    let joined = shell(&second, &format!("echo {line} | tabane join --yes{links}"))?;
    ensure!(joined.contains("now and after each start of the machine"), "{joined}");
    wait_for("two healthy machines", WITHIN, || {
        let healthy = |machine: &&Systemd| {
            Ok(shell(machine, "tabane status")?.contains("healthy: 2 of 2 links, 1 peer"))
        };
        let all: Result<Vec<bool>> = machines.iter().map(healthy).collect();
        Ok(all?.into_iter().all(|healthy| healthy).then_some(()))
    })?;
    let both = speed(&topology, "10.9.0.2".parse()?)?;

    for machine in machines {
        let gone = shell(machine, "tabane forget tb0")?;
        ensure!(gone.starts_with("tb0 is down; deleted /etc/tabane/tb0.key"), "{gone}");
        shell(machine, "dpkg --purge tabane")?;
    }
    machines.iter().zip(before).try_for_each(|(machine, before)| is_as(machine, &before))?;
    for (number, host) in topology.hosts().iter().enumerate() {
        let devices = host.ip("-brief link")?;
        ensure!(!devices.contains(DEVICE), "{devices}");
        host.ip(&format!("address add {}/24 dev {}", address(number), nic(0)))?;
    }
    let one = speed(&topology, address(1))?;
    ensure!(both >= SPEEDUP_LEAST * one, "{both:.0} bytes/s over both links, {one:.0} over one alone");
    Ok(())
}

/// Bytes that one connection to the second host carries in a second, once it has begun well.
fn speed(topology: &Topology, to: IpAddr) -> Result<f64> {
    let source = Source::random(LONG_FILE, 1);
    let flow = Transfer::start(topology.host(0), topology.host(1), SocketAddr::new(to, 0), source)?;
    more(&flow, FILE, WITHIN)?;
    let (began, before) = (Instant::now(), flow.arrived());
    wait_for("a part of the file", WITHIN, || Ok((flow.arrived() - before > MEASURED).then_some(())))?;
    let rate = (flow.arrived() - before) as f64 / began.elapsed().as_secs_f64();
    flow.end();
    let outcome = flow.finish()?;
    ensure!(outcome.lost.is_none() && outcome.damaged == 0, "{outcome:?}");
    Ok(rate)
}

pub(crate) fn shell(machine: &Systemd, line: &str) -> Result<String> {
    process::run(machine.command("sh").args(["-c", line]))
}

fn listed(machine: &Systemd) -> Result<BTreeSet<String>> {
    Ok(shell(machine, LISTED)?.lines().map(str::to_owned).collect())
}

fn is_documented(machine: &Systemd) -> Result<()> {
    let pages = shell(machine, "dpkg --listfiles tabane | sed -n 's,.*/man[15]/\\(.*\\)\\.[15]\\.gz,\\1,p'")?;
    ensure!(pages.lines().count() > 15, "{pages}");
    for page in pages.lines() {
        let shown = shell(machine, &format!("LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings {page} 2>&1"))?;
        ensure!(shown.contains("SYNOPSIS") || page == "tabane.toml", "{page}: {shown}");
        ensure!(!shown.contains("warning"), "{page}: {shown}");
    }
    let bash = ". /usr/share/bash-completion/bash_completion; _completion_loader tabane; COMP_WORDS=(tabane ev) COMP_CWORD=1; \
                _tabane tabane ev tabane; echo \"${COMPREPLY[@]}\"";
    let zsh = "autoload -U compinit; compinit -u -D; echo $_comps[tabane] $_comps[tabane-probe] $_comps[tabane-web] $_comps[tabane-follow]; autoload +X -U _tabane";
    for (program, arguments, expected) in [
        ("bash", ["--norc", "-c", bash], "events"),
        ("zsh", ["-f", "-c", zsh], "_tabane _tabane-probe _tabane-web _tabane-follow"),
        ("fish", ["--private", "-c", "complete -C 'tabane ev' | cut -f 1"], "events"),
    ] {
        let completed = process::run(machine.command(program).args(arguments))?;
        ensure!(completed.trim() == expected, "{program}: {completed}");
    }
    shell(machine, "ls /usr/lib/*/wireshark/plugins/tabane.lua /usr/share/doc/tabane/copyright").map(drop)
}

fn is_verified(machine: &Systemd) -> Result<()> {
    for unit in ["tabane@.service", "tabane-web.service", "tabane-follow@.service"] {
        let said = shell(machine, &format!("systemd-analyze verify /{UNITS}/{unit} 2>&1"))?;
        ensure!(said.trim().is_empty(), "systemd-analyze verify {unit}: {said}");
    }
    let user = shell(machine, "getent passwd tabane && getent group tabane")?;
    ensure!(user.contains("/nonexistent") && user.contains("nologin"), "{user}");
    shell(
        machine,
        "getent group tabane-watch && getent group tabane-control && getent passwd tabane-follow",
    )?;
    Ok(())
}

fn set_up(machine: &Systemd) -> Result<String> {
    let links: String = (0..LINKS).map(|link| format!(" --link {}", nic(link))).collect();
    shell(machine, &format!("tabane init --yes --address {}/24{links}", address(0)))?;
    shell(machine, "tabane check tb0 && stat --format %a /etc/tabane/tb0.key | grep -qx 600")?;
    ensure!(machine.property(SERVICE, "ActiveState")? == "active", "no service");
    shell(machine, "cat /etc/tabane/tb0.key")
}

/// The daemon is the package's user, whom root's commands trust without the service manager's help.
fn is_the_users(machine: &Systemd) -> Result<()> {
    shell(machine, &format!("tabane status {DEVICE}"))?;
    let pid = machine.property(SERVICE, "MainPID")?;
    let uid = "sed -n 's/^Uid:\\t\\([0-9]*\\).*/\\1/p'";
    shell(machine, &format!("test \"$({uid} /proc/{pid}/status)\" = \"$(id -u tabane)\"")).map(drop)
}

fn has_a_page(machine: &Systemd) -> Result<()> {
    let drop_in = "/etc/systemd/system/tabane-web.service.d";
    shell(
        machine,
        &format!("mkdir -p {drop_in} && printf '{PRINTED}' > {drop_in}/lab.conf && systemctl daemon-reload"),
    )?;
    shell(machine, "systemctl enable --now tabane-web")?;
    let answer = wait_for("an answer of the page", WITHIN, || {
        let answer = page::asked(machine, page::PORT, "GET /api/bundles").unwrap_or_default();
        Ok(answer.contains("\"state\":\"healthy\"").then_some(answer))
    })?;
    ensure!(answer.contains(DEVICE) && answer.contains("\"actions\":false"), "{answer}");
    let pid = machine.property("tabane-web.service", "MainPID")?;
    shell(machine, &format!("test $(stat -c %u /proc/{pid}) != 0")).map(drop)
}

fn is_upgraded(machine: &Systemd, topology: &Topology) -> Result<()> {
    shell(machine, NEWER)?;
    let first = machine.property(SERVICE, "MainPID")?;
    let flows = begin_both_ways(topology, LONG_FILE)?;
    wait_for("a transfer", WITHIN, || Ok(flows.iter().all(|flow| flow.arrived() > 0).then_some(())))?;
    shell(machine, "dpkg --install /root/newer.deb")?;
    let arrived: Vec<u64> = flows.iter().map(Transfer::arrived).collect();
    let goes_on =
        || Ok(flows.iter().zip(&arrived).all(|(flow, before)| flow.arrived() > *before).then_some(()));
    wait_for("more of the transfers", WITHIN, goes_on)?;
    for flow in flows {
        let outcome = flow.finish()?;
        ensure!(outcome.lost.is_none() && outcome.is_whole, "{outcome:?}");
    }
    let state = ["ActiveState", "NRestarts"].map(|name| machine.property(SERVICE, name));
    ensure!(matches!(&state, [Ok(state), Ok(restarts)] if state == "active" && restarts == "0"), "{state:?}");
    ensure!(machine.property(SERVICE, "MainPID")? != first, "the former program goes on");
    Ok(())
}
