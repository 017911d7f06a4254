//! Bundles of several workers: each carries flows, a link dies under all of them, and another process takes them over.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::{Bundle, DEVICE, address};
use tabane_kit::status::{LINK_DOWN, LINK_UP};
use tabane_kit::topology::Topology;
use tabane_kit::workload::transfer::{Source, Transfer};

use crate::traffic::stage::{SLOW, options_with, plan, ready, told, whole, with_bundles};
use crate::traffic::{Case, Need};

const LINKS: usize = 2;
const VICTIM: usize = 1;
const WORKERS: usize = 4;
/// Connections at once, and bytes of each. That a worker of four gets none of so many flows comes once in 100,000 times.
const FLOWS: usize = 48;
const FILE: u64 = 64 << 10;
/// Bytes that a worker with at least one of them writes: acknowledgements, where no content comes.
const WORK_MIN: u64 = 500;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("many_workers_carry_lose_a_link_and_are_replaced", Need::Daemon, workers)]
}

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

/// Bytes that each worker has written to the device, as the kernel counts them.
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
    let flow =
        |seed| Transfer::start(topology.host(0), topology.host(1), to, Source::random(FILE, seed as u64));
    (0..FLOWS).map(flow).collect()
}

fn finish(flows: Vec<Transfer>) -> Result<()> {
    flows.iter().for_each(Transfer::end);
    flows.into_iter().try_for_each(|flow| whole(flow).map(drop))
}
