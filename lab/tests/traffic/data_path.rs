//! Bundles whose frames take the kernel path: programs carry them, links die under them, processes are replaced and killed, and
//! whatever cannot have it travels in cells and says why.

use std::os::unix::fs::PermissionsExt;

use tabane_kit::counters::first;
use tabane_kit::prerequisites::is_all_powerful;

use crate::traffic::experiments::lab;
use crate::traffic::faults::{carry, within};
use crate::traffic::reorder::{GUEST, MINUTES, NEW_GUEST};
use crate::traffic::stage::*;

/// Until both ends have left a path that swallows frames: 5 ms and as much for a busy machine in the median, and at worst after 42 ms of
/// silence and a report, whoever uses the processors.
const LEFT_WITHIN: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(150)];
/// For how long the connection may stand still meanwhile, in the median and at worst.
const STANDS_STILL: [Duration; 2] = [Duration::from_millis(30), STALL_MAX];
/// MiB that the link must have carried before it dies: for the first 40 ms of a flow nobody knows how long its path is silent by nature.
const UNDER_WAY: usize = 128;
const BLACK_HOLES: usize = 5;
const ROUNDS: usize = 4;
const STALL_MAX: Duration = Duration::from_millis(500);
/// Connections at once, for policies that divide them, which they do anew each 10 s.
const CONNECTIONS: u8 = 4;
const RENEWED_WITHIN: Duration = Duration::from_secs(14);
/// Frames in cells beside a file by the kernel path: neighbours' questions, and what leaves before addresses are known.
const FEW: u64 = 100;

/// Time for guests to boot on emulated processors twice, to measure and to end.
const GUESTS_WITHIN: Duration = Duration::from_secs(1_200);

pub(crate) const PROGRAMS: &[Need] = &[Daemon, Tool(SETPRIV), That(require_programs)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: up --data-path
        Case::new("kernel_path_carries_what_two_bundles_exchange", PROGRAMS, carries),
        Case::alone("kernel_path_leaves_a_black_hole_within_milliseconds", PROGRAMS, black_hole),
        Case::alone("kernel_path_leaves_a_pulled_cable_and_no_connection_is_lost", PROGRAMS, || {
            fault(|topology| topology.pull_cable(0, VICTIM), |topology| topology.plug_cable(0, VICTIM))
                .map(drop)
        }),
        Case::nightly("kernel_path_balances_the_connections_of_tlb", PROGRAMS, || balances("tlb")),
        Case::nightly("kernel_path_balances_the_connections_of_tlb_history", PROGRAMS, || {
            balances("tlb-history")
        }),
        Case::new("kernel_path_outlives_processes_that_are_replaced", PROGRAMS, upgrade),
        Case::alone("kernel_path_vanishes_with_a_process_that_is_killed", PROGRAMS, kill),
        Case::new("kernel_path_and_cells_take_turns_under_a_connection", PROGRAMS, turns),
        Case::new("cells_carry_what_the_kernel_path_cannot_and_say_why", PROGRAMS, fallbacks),
        // Exercises: link.protected =
        Case::new("kernel_path_of_a_sealed_bundle_over_protected_links", PROGRAMS, protected),
        Case::new("cells_do_without_rights_to_load_programs", PROGRAMS, without_rights),
        Case::new("kernel_path_needs_no_types_of_the_kernel", PROGRAMS, without_btf),
        Case::nightly(
            "kernel_path_through_the_nics_of_two_guests",
            [NEW_GUEST, MINUTES].concat(),
            through_nics,
        ),
        // Exercises: up --mtu
        Case::new("the_device_is_as_large_as_fits_into_links_whole", PROGRAMS, mtu_follows_links),
    ]
}

pub(crate) fn require_programs() -> Result<()> {
    tabane_kernel::available()?;
    ensure!(is_all_powerful(), "programs in the kernel need root outside of user namespaces");
    Ok(())
}

pub(crate) fn open(policy: &str, further: &[&str]) -> Result<Options> {
    let arguments = ["--policy", policy].iter().chain(further).map(ToString::to_string).collect();
    Ok(Options { protection: Protection::None, arguments, ..options()? })
}

pub(crate) fn kernel(policy: &str, further: &[&str]) -> Result<Options> {
    open(policy, &[&["--data-path", "kernel"], further].concat())
}

/// Waits until frames to the only peer travel in cells, for a reason with these words in it, which is told by all that tell.
pub(crate) fn in_cells(bundle: &mut Bundle<'_>, why: &str) -> Result<()> {
    let says = |said: &Option<String>| said.as_ref().is_some_and(|said| said.contains(why));
    bundle.wait_until(&format!("cells, for {why}"), |status| {
        says(&status.cells_because) || status.peers.iter().any(|peer| says(&peer.cells_because))
    })?;
    for command in ["status", "why"] {
        let said = bundle.ask(&[command, DEVICE])?.replace("\n    ", " ");
        ensure!(said.contains(why), "`tabane {command}` does not say {why:?}: {said}");
    }
    Ok(())
}

/// Bytes that a bundle's programs have sent to its only peer, and received from it, over each link.
pub(crate) fn carried(bundle: &Bundle<'_>) -> Result<[[u64; 2]; LINKS]> {
    let status = bundle.status()?;
    let peer = status.peers.first().context("no peer")?;
    let of = |link: usize| peer.paths.get(link).and_then(|path| path.kernel.as_ref());
    Ok([0, 1].map(|link| of(link).map_or([0; 2], |kernel| [kernel.bytes_sent, kernel.bytes_received])))
}

pub(crate) fn sent(bundle: &Bundle<'_>) -> Result<u64> {
    Ok(carried(bundle)?.iter().map(|[sent, _]| sent).sum())
}

/// TCP and UDP, over IPv4 and IPv6: what the programs count is what was sent, and cells carry next to nothing of it.
fn carries() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &kernel("hash", &[])?, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        send_both_ways(topology, 1 << 10)?;
        let before = (sent(&bundles[0])?, counted(&bundles[0], "frames_sent")?);
        for to in [address(1), address_v6(1)] {
            send_file(topology.host(0), topology.host(1), to, FILE)?;
        }
        let pace = Pace { per_second: 2_000, bytes: 200 };
        let outcome = all_came(datagrams(topology, pace, Duration::from_secs(1))?)?;
        let by_programs = sent(&bundles[0])? - before.0;
        let in_cells = counted(&bundles[0], "frames_sent")? - before.1;
        ensure!(by_programs > 2 * FILE + outcome.sent * 200, "{by_programs} bytes by programs");
        ensure!(in_cells < FEW, "{in_cells} frames in cells");
        let received: u64 = carried(&bundles[1])?.iter().map(|[_, received]| received).sum();
        ensure!(received >= by_programs, "{received} of {by_programs} bytes arrived by programs");
        let metrics = bundles[0].ask(&["metrics", DEVICE])?;
        ensure!(metrics.contains("tabane_path_kernel_bytes_total{"), "{metrics}");
        Ok(())
    })
}

/// What the programs send beside heartbeats shows soon that nothing arrives, and the last segment is sent again before TCP's timeout: no
/// connection is lost.
fn black_hole() -> Result<()> {
    let (mut left, mut stood, mut sent_again) = (Vec::new(), Vec::new(), 0);
    for _ in 0..BLACK_HOLES {
        let (after, lasted, again) = first(|| {
            fault(|topology| topology.kill_switch(VICTIM), |topology| topology.revive_switch(VICTIM))
        })?;
        left.push(after);
        stood.push(lasted);
        sent_again += usize::from(again > 0);
    }
    ensure!(sent_again > BLACK_HOLES / 2, "segments were sent again {sent_again} times of {BLACK_HOLES}");
    within("left after", left, LEFT_WITHIN)?;
    within("stood still for", stood, STANDS_STILL)
}

/// The link that carries all dies and comes back: both ends say so, and the connection goes on. Returns when both ends had left the
/// link, for how long the connection stood still, and how many segments its sender's end sent again.
fn fault(
    break_link: impl FnOnce(&Topology) -> Result<Moment>,
    mend_link: impl FnOnce(&Topology) -> Result<Moment>,
) -> Result<(Duration, Duration, u64)> {
    let options = kernel("active-backup", &["--primary", &nic(VICTIM)])?;
    let plan = Plan { links: vec![LinkPlan::unshaped(); LINKS], ..plan(&[FAST; LINKS]) };
    with_bundles(plan, &options, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        let before = carried(&bundles[0])?;
        let (mut left, mut again, mut broken, mut mended) = (Duration::ZERO, 0, 0, 0);
        let outcome = under_a_file(topology, FILE, || {
            (0..UNDER_WAY).try_for_each(|_| carry(topology, VICTIM))?;
            broken = break_link(topology)?.before_ns;
            told(bundles, LINK_DOWN, VICTIM, broken)?;
            for bundle in &*bundles {
                let status = bundle.status()?;
                let event = status.first_event(LINK_DOWN, VICTIM, broken).context("told")?;
                left = left.max(Duration::from_nanos(event.at_ns - broken));
            }
            ensure!(left <= LEFT_WITHIN[1], "it was left after {left:?}");
            again = counted(&bundles[0], "kernel_segments_again")?;
            carry(topology, 0)?;
            mended = mend_link(topology)?.before_ns;
            told(bundles, LINK_UP, VICTIM, mended)?;
            carry(topology, VICTIM)
        })?;
        let after = carried(&bundles[0])?;
        for link in 0..LINKS {
            let bytes = after[link][0] - before[link][0];
            ensure!(bytes > FILE / 16, "{bytes} bytes by programs over link {link}");
        }
        Ok((left, outcome.gaps.longest_within(broken, mended).length, again))
    })
}

/// Each flow keeps its link: nothing is overtaken or lost, and cells carry next to nothing. Connections are divided among the links, with
/// the renewal at the latest, and go on when one goes down.
fn balances(policy: &str) -> Result<()> {
    let plan = Plan { links: vec![LinkPlan::unshaped(); LINKS], ..plan(&[FAST; LINKS]) };
    with_bundles(plan, &kernel(policy, &[])?, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        send_both_ways(topology, 1 << 10)?;
        let in_cells = counted(&bundles[0], "frames_sent")?;
        let pace = Pace { per_second: 1_000, bytes: 200 };
        let flow = |_| datagrams(topology, pace, Duration::from_secs(1));
        let flows = (0..CONNECTIONS).map(flow).collect::<Result<Vec<_>>>()?;
        flows.into_iter().try_for_each(|flow| all_came(flow).map(drop))?;
        let _server = Server::start(topology.host(1), Stream::Tcp)?;
        let seconds = u32::try_from(RENEWED_WITHIN.as_secs())?;
        let connections = Flow { connections: CONNECTIONS, ..Flow::tcp(address(1), seconds + 4) };
        let running = connections.start(topology.host(0))?;
        wait_for("bytes by programs over both links", RENEWED_WITHIN, || {
            Ok(carried(&bundles[0])?.iter().all(|[sent, _]| *sent > FILE).then_some(()))
        })?;
        let in_cells = counted(&bundles[0], "frames_sent")? - in_cells;
        ensure!(in_cells < FEW, "{in_cells} frames in cells");
        let broken = topology.pull_cable(0, VICTIM)?.before_ns;
        told(bundles, LINK_DOWN, VICTIM, broken)?;
        carry(topology, 0)?;
        topology.plug_cable(0, VICTIM)?;
        running.finish().map(drop)
    })
}

fn upgrade() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &kernel("hash", &[])?, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        let file = begin(topology.host(0), topology.host(1), 1, 16 * FILE)?;
        for round in 0..ROUNDS {
            let before = sent(&bundles[0])?;
            wait_for("bytes by programs", Duration::from_secs(10), || {
                Ok((sent(&bundles[0])? > before + (1 << 20)).then_some(()))
            })?;
            bundles[round % 2].upgrade()?;
            ready(bundles, LINKS)?;
            Bundle::wait_for_programs(bundles)?;
        }
        let outcome = whole(file)?;
        let stall = outcome.gaps.longest().length;
        ensure!(stall <= STALL_MAX, "it stood still for {stall:?}");
        Ok(())
    })
}

/// What leaves whole is cut by a NIC or for it, and arrives as it was.
fn through_nics() -> Result<()> {
    let (_, report) = lab(&["nics", "--rounds", "1", "--seconds", "1", "--vm", GUEST], GUESTS_WITHIN)?;
    let verdicts = report["verdicts"].as_array().context("no verdicts")?;
    let met = |which: &str| verdicts.iter().filter(|it| it["ok"] == true && it["id"] == *which).count() == 1;
    for nic in ["e1000e", "virtio_net"] {
        for which in ["kernel.files_damaged", "kernel.frame_bytes", "kernel.in_cells"] {
            ensure!(met(&format!("{nic}.{which}")), "{nic}, {which}: {report}");
        }
    }
    Ok(())
}

/// A killed process leaves no program: what was in its places is gone, and the next one takes them.
fn kill() -> Result<()> {
    let places = || tabane_kernel::places();
    let before = places();
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let mut bundles = Bundle::start_all(&topology, &kernel("hash", &[])?)?;
    Bundle::wait_for_programs(&mut bundles)?;
    let all = places();
    ensure!(all == before + 2 * (1 + LINKS), "{all} programs, and {before} before");
    bundles[1].kill()?;
    wait_for("no programs", Duration::from_secs(5), || Ok((places() == before + 1 + LINKS).then_some(())))?;
    bundles[1].start_again()?;
    ready(&mut bundles, LINKS)?;
    Bundle::wait_for_programs(&mut bundles)?;
    send_both_ways(&topology, FILE)?;
    Bundle::stop_all(bundles)?;
    ensure!(places() == before, "programs outlived their processes");
    Ok(())
}

fn turns() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &kernel("hash", &[])?, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        under_a_file(topology, FILE, || {
            for _ in 0..2 {
                carry_any(topology)?;
                bundles
                    .iter()
                    .try_for_each(|bundle| bundle.ask(&["policy", DEVICE, "duplicate"]).map(drop))?;
                bundles
                    .iter_mut()
                    .try_for_each(|bundle| in_cells(bundle, "the policy duplicate needs them"))?;
                carry_any(topology)?;
                bundles.iter().try_for_each(|bundle| bundle.ask(&["policy", DEVICE, "hash"]).map(drop))?;
                Bundle::wait_for_programs(bundles)?;
            }
            Ok(())
        })?;
        bundles[0].ask(&["class", "add", DEVICE, "dscp=46,policy=duplicate"])?;
        in_cells(&mut bundles[0], "classes give some frames a policy of their own")?;
        bundles[0].ask(&["class", "remove", DEVICE, "1"])?;
        Bundle::wait_for_programs(bundles)?;
        bundles[0].ask(&["link", "set", DEVICE, &format!("{},up=100Mbit/s", nic(0))])?;
        in_cells(&mut bundles[0], "a rate is stated for")?;
        send_both_ways(topology, FILE)
    })
}

fn carry_any(topology: &Topology) -> Result<()> {
    let sum = || Ok::<u64, anyhow::Error>(received(topology)?.iter().sum());
    let before = sum()?;
    wait_for("traffic", Duration::from_secs(10), || Ok((sum()? > before + (1 << 18)).then_some(())))
}

fn fallbacks() -> Result<()> {
    let auto = ["--data-path", "auto"];
    let sealed = Options { protection: Protection::LabKey, ..open("hash", &auto)? };
    let large = Options { mtu: Some(1_500), ..open("hash", &auto)? };
    let cases = [
        (sealed, "nothing is said to protect"),
        (large, "carries packets of 1500 bytes"),
        (open("duplicate", &auto)?, "the policy duplicate needs them"),
    ];
    for (options, why) in cases {
        with_bundles(plan(&[FAST; LINKS]), &options, |topology, bundles| {
            bundles.iter_mut().try_for_each(|bundle| in_cells(bundle, why))?;
            send_both_ways(topology, FILE)
        })?;
    }
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let start = |number: usize, options: &Options| {
        Bundle::start(topology.host(number), number, &topology.nics(), options)
    };
    let mut bundles = vec![start(0, &open("hash", &auto)?)?, start(1, &open("hash", &[])?)?];
    ready(&mut bundles, LINKS)?;
    in_cells(&mut bundles[0], "it takes no frames of the kernel path on")?;
    send_both_ways(&topology, FILE)?;
    let said = bundles[1].ask(&["status", DEVICE])?;
    ensure!(!said.contains("cells"), "nobody asked for more: {said}");
    Bundle::stop_all(bundles)
}

/// Programs carry frames where both ends say of all links that they are protected; the session is sealed all the same.
fn protected() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let options = Options { protection: Protection::LabKey, ..open("hash", &["--data-path", "auto"])? };
    let [bare, all] = ["", ",protected"].map(|word| [0, 1].map(|link| format!("{}{word}", nic(link))));
    with_links(&topology, &all, &options, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        ensure!(bundles[0].status()?.peers[0].sealed.is_some(), "the session is not sealed");
        let before = sent(&bundles[0])?;
        send_both_ways(topology, FILE)?;
        let by_programs = sent(&bundles[0])? - before;
        ensure!(by_programs > FILE, "{by_programs} bytes by programs");
        Ok(())
    })?;
    with_links(&topology, &[all[0].clone(), bare[1].clone()], &options, |topology, bundles| {
        let why = format!("nothing is said to protect {}", nic(1));
        bundles.iter_mut().try_for_each(|bundle| in_cells(bundle, &why))?;
        send_both_ways(topology, FILE)
    })?;
    let links = |host: usize| [&all, &bare][host].to_vec();
    let mut bundles = Bundle::start_each(&topology, links, &options)?;
    in_cells(&mut bundles[0], "it takes no frames of the kernel path on")?;
    in_cells(&mut bundles[1], "nothing is said to protect")?;
    send_both_ways(&topology, FILE)?;
    Bundle::stop_all(bundles)
}

fn mtu_follows_links() -> Result<()> {
    let (kernel, cells) = (["--mtu", "auto", "--data-path", "auto"], ["--mtu", "auto"]);
    let cases = [
        (1_500, 9_000, &kernel[..], 1_438, None),
        (9_000, 9_000, &kernel[..], 8_938, None),
        (1_300, 1_500, &kernel[..], 1_500, Some("carries packets of 1300 bytes")),
        (9_000, 9_000, &cells[..], 1_500, Some("")),
    ];
    for (first, second, arguments, expected, in_cells_for) in cases {
        let links = [first, second].map(|mtu| LinkPlan { mtu, ..LinkPlan::shaped(FAST) });
        with_bundles(Plan::two_hosts(links.to_vec()), &open("hash", arguments)?, |topology, bundles| {
            match in_cells_for {
                None => Bundle::wait_for_programs(bundles)?,
                Some("") => {}
                Some(why) => bundles.iter_mut().try_for_each(|bundle| in_cells(bundle, why))?,
            }
            for bundle in &*bundles {
                let mtu = bundle.status()?.mtu;
                ensure!(mtu == expected, "MTU {mtu} over links of {first} and {second}, {arguments:?}");
            }
            bundles[0].upgrade()?;
            ready(bundles, LINKS)?;
            let mtu = bundles[0].status()?.mtu;
            ensure!(mtu == expected, "MTU {mtu} after an upgrade");
            if in_cells_for.is_none() {
                Bundle::wait_for_programs(bundles)?;
            }
            send_both_ways(topology, FILE)
        })?;
    }
    Ok(())
}

/// A program that starts `tabane` by this command, whose last words are the program's name and arguments.
pub(crate) fn wrapped(directory: &Path, command: &str) -> Result<PathBuf> {
    let path = directory.join("tabane");
    let script = format!("#!/bin/sh\nset -- {} \"$@\"\nexec {command} \"$@\"\n", program(None)?.display());
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn without_btf() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let hidden = "unshare --mount sh -c 'mount -t tmpfs none /sys/kernel/btf && exec \"$@\"' sh";
    let program = wrapped(directory.path(), hidden)?;
    let options = Options { program, ..kernel("hash", &[])? };
    with_bundles(plan(&[FAST; LINKS]), &options, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        send_both_ways(topology, FILE)
    })
}

/// A process without the right to load programs does with cells when it may, and ends with a sentence when it may not.
fn without_rights() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = wrapped(directory.path(), "setpriv --bounding-set=-bpf,-sys_admin --")?;
    let options = |data_path| {
        let options = open("hash", &["--data-path", data_path])?;
        Ok::<_, anyhow::Error>(Options { program: path.clone(), ..options })
    };
    with_bundles(plan(&[FAST; LINKS]), &options("auto")?, |topology, bundles| {
        bundles.iter_mut().try_for_each(|bundle| in_cells(bundle, "no right to load programs"))?;
        send_both_ways(topology, FILE)
    })?;
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let refused = Bundle::start(topology.host(0), 0, &topology.nics(), &options("kernel")?)?.end()?;
    let said = &refused.complaint;
    ensure!(refused.status.code() == Some(2) && said.contains("data_path kernel: "), "{refused:?}");
    Ok(())
}
