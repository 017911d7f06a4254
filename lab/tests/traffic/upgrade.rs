//! Daemons that are replaced in the middle of a transfer, at both ends in turn, by themselves or by another version: the connection
//! lives, the file is whole, and the receiver hardly notices. And daemons that are killed and started again.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::{env, thread};

use tabane_kit::counters::{lost_segments, protocol};
use tabane_kit::prerequisites::require_program;

use crate::traffic::data_path::PROGRAMS;
use crate::traffic::faults::carry;
use crate::traffic::stage::*;

const ROUNDS: usize = 10;
/// Replacements of one of three nodes while datagrams go to it: no more than it has pauses at once.
const UPGRADES: usize = 2;
/// The longest time without a byte that a replacement may cost in the median, beyond what the machine itself costs.
const STALL_MAX: Duration = Duration::from_millis(50);
/// The same for any of them, however busy the machine is.
const STALL_EACH_MAX: Duration = Duration::from_millis(200);
/// Segments that TCP may send again by mistake, without a report of it, in all replacements; a superframe that is lost
/// costs 45.
const LOST_MAX: u64 = 45;
/// What each link carries: so little that a busy machine fills them, and stalls little by itself.
const RATE: Bitrate = Bitrate::mbit(50);

const BEFORE: &[Need] = &[Daemon, That(require_before)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::alone("upgrades_under_a_connection_stall_it_for_50_ms_at_most", DAEMON, upgrade),
        Case::new("datagrams_to_and_past_a_node_that_is_replaced_all_arrive", DAEMON, among_three),
        Case::new("a_restarted_daemon_lets_its_host_connect_at_once", DAEMON, restart),
        Case::nightly("versions_replace_each_other_under_connections", BEFORE, || by_versions(false)),
        Case::nightly("versions_replace_each_other_by_programs", [BEFORE, PROGRAMS].concat(), || {
            by_versions(true)
        }),
    ]
}

fn upgrade() -> Result<()> {
    let options = options_with(&["--workers", "2"])?;
    with_bundles(plan(&[RATE; LINKS]), &options, |topology, bundles| {
        let before = lost_segments(topology.host(0))?;
        let (undisturbed, mut stalls) = upgrade_all(topology, bundles)?;
        let lost = lost_segments(topology.host(0))?.saturating_sub(before);
        stalls.sort();
        let said =
            format!("stalls of {stalls:?}, and {undisturbed:?} without a replacement; {lost} segments lost");
        ensure!(stalls[ROUNDS / 2] <= STALL_MAX + undisturbed, "{said}");
        ensure!(stalls.iter().all(|stall| *stall <= STALL_EACH_MAX + undisturbed), "{said}");
        ensure!(lost < LOST_MAX, "{said}");
        Ok(())
    })
}

/// Daemons at both ends in turn are replaced so often, while a file takes the first link as well as others.
pub(crate) fn replaced(topology: &Topology, bundles: &mut [Bundle<'_>], rounds: usize) -> Result<()> {
    let links = bundles[0].status()?.links.len();
    (0..rounds).try_for_each(|round| {
        carry(topology, 0)?;
        bundles[round % 2].upgrade()?;
        ready(bundles, links)
    })
}

fn upgrade_all(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<(Duration, Vec<Duration>)> {
    let (mut undisturbed_until, mut spans) = (0, Vec::new());
    let outcome = under_a_file(topology, 4 << 20, || {
        (0..ROUNDS).try_for_each(|_| carry(topology, 0))?;
        undisturbed_until = monotonic_ns()?;
        for round in 0..ROUNDS {
            carry(topology, 0)?;
            let begun = monotonic_ns()?;
            bundles[round % 2].upgrade()?;
            ready(bundles, LINKS)?;
            spans.push((begun, monotonic_ns()?));
        }
        Ok(())
    })?;
    let longest = |(from, to)| outcome.gaps.longest_within(from, to).length;
    Ok((longest((0, undisturbed_until)), spans.into_iter().map(longest).collect()))
}

/// The second of three nodes is replaced while the first sends to it and to the third: nothing is lost or late.
fn among_three() -> Result<()> {
    const AROUND: Duration = Duration::from_millis(200);
    const PACE: Pace = Pace { per_second: 2_000, bytes: 200 };
    const TIMED: Duration = Duration::from_secs(60);
    let plan = Plan { hosts: 3, ..plan(&[FAST; LINKS]) };
    with_bundles(plan, &options()?, |topology, bundles| {
        let begun = Instant::now();
        let flow = |host: usize| {
            let at = SocketAddr::new(address(host), 0);
            Sequence::start(topology.host(0), topology.host(host), at, PACE, TIMED)
        };
        let flows = [flow(1)?, flow(2)?];
        for _ in 0..UPGRADES {
            // Before, between and behind the replacements the flows are under way.
            thread::sleep(AROUND);
            bundles[1].upgrade()?;
            for bundle in &mut *bundles {
                bundle.wait_until("all links", |status| status.is_ready(2, LINKS))?;
            }
        }
        thread::sleep(AROUND);
        let lasted = begun.elapsed();
        for flow in flows {
            let outcome = all_came(flow)?;
            let paced = lasted.as_secs_f64() * f64::from(PACE.per_second);
            ensure!(outcome.sent as f64 >= paced / 2.0, "in {lasted:?} few were sent: {outcome:?}");
        }
        Ok(())
    })
}

const KILLS: usize = 7;

fn restart() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let listener = topology.host(0).enter(|| TcpListener::bind(SocketAddr::new(address(0), 0)))??;
        let to = listener.local_addr()?;
        let tried_again = || protocol(topology.host(1), "TcpExt", "TCPSynRetrans");
        let mut again = Vec::new();
        for _ in 0..KILLS {
            bundles[1].kill()?;
            let before = tried_again()?;
            bundles[1].start_again()?;
            // There is no way to the address before the device is there.
            let connect = || Ok(topology.host(1).enter(|| TcpStream::connect_timeout(&to, WITHIN))?.ok());
            wait_for("a connection", WITHIN, connect)?;
            again.push(tried_again()? - before);
            let status = bundles[1].status()?;
            ensure!(status.counter("drop_no_peer") == 0, "frames that found nobody: {:?}", status.counters);
        }
        // A machine that stands still for a second has TCP try again, too; a frame that is lost does it in each round.
        again.sort_unstable();
        ensure!(again[KILLS / 2] == 0, "connections tried again: {again:?}");
        Ok(())
    })
}

const BEFORE_NAME: &str = "TABANE_BEFORE";
/// The host whose program is replaced, and whether by the one of now: from a bundle of before and now by way of all other pairs to
/// the same again.
const REPLACED: [(usize, bool); 4] = [(0, true), (1, false), (0, false), (1, true)];
const FILE: u64 = 1 << 20;
const UNDER_WAY: u64 = 4 << 20;

fn require_before() -> Result<()> {
    let named = env::var_os(BEFORE_NAME)
        .with_context(|| Missing::new(format!("{BEFORE_NAME} is not set: `make versions-test`")))?;
    Ok(require_program(Path::new(&named), "tabane")?)
}

fn of(is_now: bool) -> Result<PathBuf> {
    if is_now { program(None) } else { Ok(env::var_os(BEFORE_NAME).context(BEFORE_NAME)?.into()) }
}

/// Has `place` be the program of now, or that before, whatever it was, as a package manager does.
fn install(place: &Path, is_now: bool) -> Result<()> {
    let new = place.with_extension("new");
    symlink(of(is_now)?, &new)?;
    Ok(fs::rename(new, place)?)
}

/// Sealed cells, or frames by programs in the kernel.
fn by_versions(by_programs: bool) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let directory = tempfile::tempdir()?;
    let places = [0, 1].map(|number| directory.path().join(format!("tabane{number}")));
    let start = |number: usize, is_now: bool| {
        let program = places[number].clone();
        install(&program, is_now)?;
        let sealed = Options { program: program.clone(), ..options()? };
        let options = if by_programs { Options::by_programs(&program, "kernel") } else { sealed };
        Bundle::start(topology.host(number), number, &topology.nics(), &options)
    };
    let mut bundles = [start(0, false)?, start(1, true)?];
    let joined = |bundles: &mut [Bundle<'_>]| {
        ready(bundles, LINKS)?;
        if by_programs { Bundle::wait_for_programs(bundles) } else { Ok(()) }
    };
    joined(&mut bundles)?;
    answer_each_other(&topology)?;
    let file = |from: usize, to: usize| {
        let at = (address(to), 0).into();
        Transfer::start(topology.host(from), topology.host(to), at, Source::random(FILE, from as u64))
    };
    let files = [file(0, 1)?, file(1, 0)?];
    for (host, is_now) in REPLACED {
        install(&places[host], is_now)?;
        bundles[host].upgrade()?;
        joined(&mut bundles)?;
        let pid = bundles[host].status()?.pid;
        ensure!(Some(pid) == bundles[host].pid(), "host {host} stays with process {pid}");
        let before = files.each_ref().map(Transfer::arrived);
        wait_for("bytes behind a replacement", WITHIN, || {
            let all = files.iter().zip(before).all(|(file, before)| file.arrived() > before + UNDER_WAY);
            Ok(all.then_some(()))
        })?;
    }
    files.into_iter().try_for_each(|file| whole(file).map(drop))?;
    Bundle::stop_all(bundles)
}

/// Commands of each version are answered by the bundle of the other: a program is replaced before its processes are.
fn answer_each_other(topology: &Topology) -> Result<()> {
    for (host, is_now) in topology.hosts().iter().zip([true, false]) {
        for words in [["status", DEVICE], ["why", DEVICE], ["metrics", DEVICE]] {
            let said = process::run(host.command(of(is_now)?).args(words))?;
            ensure!(!said.trim().is_empty(), "{words:?} on {}: nothing", host.name());
        }
    }
    Ok(())
}
