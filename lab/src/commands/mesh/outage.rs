//! The phases: all switches, one of them dead, all again; and what became of the connections and of the links.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::LINKS;
use super::pairs::Pairs;
use tabane_kit::bundle::Bundle;
use tabane_kit::clock::{milliseconds_between, monotonic_ns, wait_for};
use tabane_kit::counters;
use tabane_kit::progress;
use tabane_kit::status::{Event, LINK_DOWN, Status};
use tabane_kit::topology::{Moment, Topology};
use tabane_kit::workload::transfer::Outcome;

/// The link whose switch dies.
const VICTIM: usize = 1;
/// Time for TCP to reach its speed, and to find its new one after a change.
const SETTLE: Duration = Duration::from_secs(3);
/// How long the bundle may take to use the switch again.
pub(super) const WHOLE_WITHIN: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Debug)]
pub(super) struct Outage {
    /// In the order of time.
    pub(super) phases: [Phase; 3],
    /// Connections that were lost.
    pub(super) lost: Vec<String>,
    /// Connections whose content arrived wrong.
    pub(super) damaged: usize,
    /// From the black hole to the first event of the host that was the last to have one; `None`: a host had none.
    pub(super) noticed_ms: Option<f64>,
    /// From the revival until every host had been seen to use every link to every other.
    pub(super) whole_after_ms: Option<f64>,
    /// What was said when a link that worked was taken for dead, of each time.
    pub(super) false_alarms: Vec<String>,
    /// TCP segments that all hosts sent again.
    pub(super) retransmits: u64,
}

/// A span of time with so many switches alive.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) links: usize,
    /// Payload of each connection, in Mbit/s.
    pub(super) mbits: Vec<f64>,
}

/// Runs the phases, each measured for `span`.
pub(super) fn run(topology: &Topology, bundles: &[Bundle<'_>], span: Duration, seed: u64) -> Result<Outage> {
    let (began_ns, before) = (monotonic_ns()?, retransmits(topology)?);
    let pairs = {
        let _step = progress::step("connecting all hosts with each other");
        Pairs::start(topology, seed)?
    };
    let phase = |name, links| {
        let _step = progress::step(&format!("{name}: {} s", (SETTLE + span).as_secs()));
        thread::sleep(SETTLE);
        Phase { name, links, mbits: pairs.measure(span) }
    };
    let whole = phase("all switches", LINKS);
    let killed = topology.kill_switch(VICTIM)?;
    let dead = phase("one switch dead", LINKS - 1);
    let revived = topology.revive_switch(VICTIM)?;
    let whole_after_ms = whole_again(bundles);
    let again = phase("all switches again", LINKS);

    let _step = progress::step("letting all connections end");
    let outcomes = pairs.finish();
    let ends = bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>()?;
    Ok(Outage {
        phases: [whole, dead, again],
        damaged: outcomes.iter().flatten().filter(|outcome| !outcome.sha256_ok).count(),
        lost: outcomes.into_iter().filter_map(lost).collect(),
        noticed_ms: noticed(&ends, killed),
        whole_after_ms,
        false_alarms: false_alarms(&ends, began_ns, killed, revived),
        retransmits: retransmits(topology)? - before,
    })
}

/// Why a connection was lost, if it was.
fn lost(outcome: Result<Outcome>) -> Option<String> {
    match outcome {
        Ok(outcome) => outcome.lost,
        Err(error) => Some(format!("never connected: {error:#}")),
    }
}

/// Waits until every host uses every link; how long that took.
fn whole_again(bundles: &[Bundle<'_>]) -> Option<f64> {
    let _step = progress::step("waiting for the bundle to be whole again");
    let since = Instant::now();
    let is_whole = || {
        for bundle in bundles {
            if !bundle.status()?.is_ready(bundles.len() - 1, LINKS) {
                return Ok(None);
            }
        }
        Ok(Some(since.elapsed().as_secs_f64() * 1e3))
    };
    wait_for("whole bundle", WHOLE_WITHIN, is_whole).ok()
}

/// From the black hole to the last of all hosts' first events.
fn noticed(ends: &[Status], killed: Moment) -> Option<f64> {
    let firsts = ends.iter().map(|end| end.first_event(LINK_DOWN, VICTIM, killed.before_ns));
    let last_ns = firsts.map(|event| event.map(|event| event.at_ns)).collect::<Option<Vec<_>>>()?;
    last_ns.into_iter().max().map(|at_ns| milliseconds_between(killed.after_ns, at_ns))
}

/// Links taken for dead since `began_ns` that were not.
fn false_alarms(ends: &[Status], began_ns: u64, killed: Moment, revived: Moment) -> Vec<String> {
    let dead = killed.before_ns..=revived.after_ns;
    let is_false = |event: &&Event| {
        event.what == LINK_DOWN
            && event.at_ns >= began_ns
            && !(event.link == Some(VICTIM) && dead.contains(&event.at_ns))
    };
    let events = ends.iter().flat_map(|end| &end.events).filter(is_false);
    events.map(|event| event.detail.clone()).collect()
}

fn retransmits(topology: &Topology) -> Result<u64> {
    topology.hosts().iter().map(|host| counters::protocol(host, "Tcp", "RetransSegs")).sum()
}
