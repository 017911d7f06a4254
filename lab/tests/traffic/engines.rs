//! Workers: a file and a ping-pong through a bundle under each receive engine; engines that change while it runs; a quiet bundle
//! sleeps. Several of them: each carries flows, a link dies under all, and another process takes them over. And frames of which some
//! pieces, or all, are copied before the device takes them.

use std::thread;

use tabane_engine::receive::Method;
use tabane_lab::commands::engines::choose;

use crate::traffic::stage::*;

/// How long a ping-pong lasts, and how long is watched what a quiet bundle costs.
const PLAY: Duration = Duration::from_millis(300);
const QUIET: Duration = Duration::from_secs(1);
/// How long a daemon may look meanwhile: both hosts have something to say now and then, a router's solicitation for one.
const LOOKED_US_MAX: u64 = 5_000;
/// How often it may wake up: over each of two links it sends and hears a heartbeat each 10 ms, which is 400, and half as
/// often for timers and commands.
const SLEEPS_MAX: u64 = 600;

pub(crate) fn cases() -> Vec<Case> {
    let others = [
        // Exercises: receive
        Case::alone("receive_engines_change_while_the_bundle_runs", DAEMON, change),
        // Exercises: up --workers --link --address
        Case::new("many_workers_carry_lose_a_link_and_are_replaced", DAEMON, workers),
    ];
    let copies = [("gather", false), ("copy", true), ("3", true), ("auto", false)].map(|(which, always)| {
        // Exercises: up --fragments
        Case::new(format!("a_file_arrives_with_fragments_{which}"), DAEMON, move || copied(which, always))
    });
    others.into_iter().chain(copies).collect()
}

/// What the second daemon does under traffic and in the quiet behind it, so that no engine passes for another.
fn waits_as_it_should(engine: Method, topology: &Topology, bundle: &Bundle<'_>) -> Result<()> {
    let counted = || {
        let status = bundle.status()?;
        anyhow::Ok(
            ["spins", "caught", "sleeps", "preempted"].map(|name| status.counter(&format!("receive_{name}"))),
        )
    };
    let since = |before: [u64; 4], after: [u64; 4]| std::array::from_fn(|each| after[each] - before[each]);
    let before = counted()?;
    carry_both(topology)?;
    let between = counted()?;
    thread::sleep(QUIET / 10);
    let (busy, quiet): ([u64; 4], [u64; 4]) = (since(before, between), since(between, counted()?));
    let ([spins, caught, sleeps, _], [.., naps, _]) = (busy, quiet);
    // Where others take the processor for long, looking ends for a while.
    let preempted = before[3] + busy[3] > 0;
    let as_it_should = match engine {
        Method::Interrupt => spins == 0 && sleeps > 0 && naps < SLEEPS_MAX,
        Method::Timer => spins == 0 && naps > SLEEPS_MAX,
        Method::Busy => caught > 0 && sleeps == 0 && naps == 0,
        Method::Adaptive => (caught > 0 || preempted) && sleeps > 0 && naps < SLEEPS_MAX,
    };
    ensure!(as_it_should, "{engine:?}: looks, catches, sleeps, crowds {busy:?}, and in quiet {quiet:?}");
    Ok(())
}

fn carry_both(topology: &Topology) -> Result<()> {
    round_trips(topology, PLAY)?;
    send_both_ways(topology, FILE)
}

/// After the traffic nothing is looked for, and a daemon wakes up for heartbeats only.
fn quiet(bundles: &[Bundle<'_>]) -> Result<()> {
    let counted = |bundle: &Bundle<'_>| -> Result<[u64; 2]> {
        let status = bundle.status()?;
        Ok(["receive_spun_us", "receive_sleeps"].map(|name| status.counter(name)))
    };
    let before = bundles.iter().map(counted).collect::<Result<Vec<_>>>()?;
    thread::sleep(QUIET);
    for (bundle, before) in bundles.iter().zip(before) {
        let after = counted(bundle)?;
        let [looked, sleeps] = [0, 1].map(|which| after[which] - before[which]);
        ensure!(looked < LOOKED_US_MAX, "a quiet daemon looks for {looked} us");
        ensure!(sleeps < SLEEPS_MAX, "a quiet daemon wakes up {sleeps} times");
    }
    Ok(())
}

fn copied(which: &str, always: bool) -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options_with(&["--fragments", which])?, |topology, bundles| {
        send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        let status = bundles[1].status()?;
        ensure!(status.fragments.starts_with(which), "{} in place of {which}", status.fragments);
        let joined = status.counter("frames_copied");
        ensure!(which == "auto" || (joined > 0) == always, "{joined} frames joined");
        Ok(())
    })
}

fn change() -> Result<()> {
    with_bundles(plan(&[FAST]), &options()?, |topology, bundles| {
        for engine in Method::ALL {
            choose(engine, bundles)?;
            for bundle in &mut *bundles {
                bundle.wait_until(engine.name(), |status| status.receive == engine.name())?;
            }
            waits_as_it_should(engine, topology, &bundles[1])?;
            if engine == Method::Adaptive {
                quiet(bundles)?;
            }
        }
        let events = bundles[0].status()?.events;
        let changes = events.iter().filter(|event| event.what == "receive").count();
        // From adaptive to the first, and so on around.
        ensure!(changes == Method::ALL.len(), "{changes} changes in {events:?}");
        Ok(())
    })
}

const WORKERS: usize = 4;
/// Connections at once, and bytes of each. That a worker of four gets none of so many flows comes once in 100,000 times.
const FLOWS: usize = 48;
const SHORT_FILE: u64 = 64 << 10;
/// Bytes that a worker with at least one of them writes: acknowledgements, where no content comes.
const WORK_MIN: u64 = 500;

fn workers() -> Result<()> {
    let options = options_with(&["--workers", &WORKERS.to_string()])?;
    with_bundles(plan(&[SLOW; LINKS]), &options, |topology, bundles| {
        all_take_part(topology, bundles)?;
        let flows = start(topology)?;
        for (what, killed) in [(LINK_DOWN, true), (LINK_UP, false)] {
            let since =
                if killed { topology.kill_switch(VICTIM)? } else { topology.revive_switch(VICTIM)? };
            told(bundles, what, VICTIM, since.before_ns)?;
        }
        finish(flows)?;
        for upgraded in 0..bundles.len() {
            let flows = start(topology)?;
            bundles[upgraded].upgrade()?;
            ready(bundles, LINKS)?;
            finish(flows)?;
        }
        all_take_part(topology, bundles)
    })
}

/// Files over many connections at once; each worker of both daemons has to work for them.
fn all_take_part(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    ready(bundles, LINKS)?;
    let before = bundles.iter().map(written).collect::<Result<Vec<_>>>()?;
    let queues = topology.host(0).ip(&format!("-details link show {DEVICE}"))?;
    ensure!(queues.contains(&format!(" numqueues {WORKERS} ")), "{queues}");
    finish(start(topology)?)?;
    for (bundle, before) in bundles.iter().zip(before) {
        let after = written(bundle)?;
        ensure!(after.len() == WORKERS, "{} workers", after.len());
        let worked: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        ensure!(worked.iter().all(|bytes| *bytes > WORK_MIN), "a worker did next to nothing: {worked:?}");
    }
    Ok(())
}

fn written(bundle: &Bundle<'_>) -> Result<Vec<u64>> {
    let pid = bundle.pid().context("a running daemon")?;
    let mut workers = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let name = fs::read_to_string(task.join("comm"))?;
        if name.starts_with("worker ") {
            let counts = fs::read_to_string(task.join("io"))?;
            let bytes = counts.lines().find_map(|line| line.strip_prefix("wchar: ")).context("wchar")?;
            workers.push((name, bytes.parse()?));
        }
    }
    workers.sort();
    Ok(workers.into_iter().map(|(_, bytes)| bytes).collect())
}

fn start(topology: &Topology) -> Result<Vec<Transfer>> {
    let to = SocketAddr::new(address(1), 0);
    let flow = |seed| {
        Transfer::start(topology.host(0), topology.host(1), to, Source::random(SHORT_FILE, seed as u64))
    };
    (0..FLOWS).map(flow).collect()
}

fn finish(flows: Vec<Transfer>) -> Result<()> {
    flows.iter().for_each(Transfer::end);
    flows.into_iter().try_for_each(|flow| whole(flow).map(drop))
}
