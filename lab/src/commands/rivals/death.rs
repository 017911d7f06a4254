//! A link dies under way, by its cable and as a black hole: once under TCP, once under datagrams alone, whose losses
//! then are not those of full queues.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::bench::Bench;
use super::figures::{Datagrams, Death};
use tabane_kit::clock::Moment;
use tabane_kit::workload::Stream;
use tabane_kit::workload::sequence::{Pace, Sequence};
use tabane_kit::workload::transfer::{Carrier, Outcome, Source, Transfer};

/// Connections, or flows of datagrams, at once: who binds flows to links has some on the one that dies, as a rule.
const FLOWS: usize = 4;
/// Each flow of datagrams: 2,000 a second in all, 4 Mbit/s on the wire.
const PACE: Pace = Pace { per_second: 500, bytes: 200 };
/// The file that each connection sends again and again: small, so that the last copy ends soon.
const FILE_BYTES: u64 = 512 << 10;
/// Time to reach full speed.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time to be whole again after a death: LACP takes two seconds to make up an aggregate.
const RECOVERY: Duration = Duration::from_millis(2500);
/// No datagrams are sent longer than this.
const LIMIT: Duration = Duration::from_secs(60);
/// Datagrams per second, of all flows together.
pub(super) const OFFERED_PER_SECOND: f64 = 2000.0;
/// What is lost so long before a death was on its way to it.
const ON_ITS_WAY_NS: u64 = 50_000_000;

/// A time in which the link was dead.
#[derive(Clone, Copy, Debug)]
struct Outage {
    began: Moment,
    ended: Moment,
}

/// What a pulled cable costs, and what a black hole.
pub(super) fn of_a_link(bench: &Bench<'_>) -> Result<[Death; 2]> {
    let mut deaths = bench.under_connections().context("four connections and a dying link")?;
    if bench.case.contender.carries_datagrams() {
        let lost = bench.under_datagrams().context("datagrams and a dying link")?;
        for (death, datagrams) in deaths.iter_mut().zip(lost) {
            death.datagrams = Some(datagrams);
        }
    }
    Ok(deaths)
}

impl Bench<'_> {
    fn under_connections(&self) -> Result<[Death; 2]> {
        let carrier =
            if self.case.contender.stream() == Stream::Mptcp { Carrier::Mptcp } else { Carrier::Tcp };
        let start = |number: usize| {
            let source = Source::random(FILE_BYTES, self.seed + number as u64)?;
            Transfer::over(carrier, self.client(), self.server(), self.at(number), source)
        };
        let transfers = (0..FLOWS).map(start).collect::<Result<Vec<_>>>()?;
        let outages = self.outages()?;
        transfers.iter().for_each(Transfer::end);
        let outcomes = transfers.into_iter().map(Transfer::finish).collect::<Result<Vec<_>>>()?;
        let broken = outcomes.iter().filter(|outcome| outcome.lost.is_some()).count() as u64;
        Ok(outages.map(|Outage { began, ended }| {
            let gap = |flow: &Outcome| flow.gaps.longest_within(began.before_ns, ended.after_ns).length;
            let longest = outcomes.iter().map(gap).max().unwrap_or_default();
            Death { stall_ms: longest.as_secs_f64() * 1e3, broken, datagrams: None }
        }))
    }

    fn under_datagrams(&self) -> Result<[Datagrams; 2]> {
        let start = |number| Sequence::start(self.client(), self.server(), self.at(number), PACE, LIMIT);
        let started = Instant::now();
        let flows = (0..FLOWS).map(start).collect::<Result<Vec<_>>>()?;
        let outages = self.outages()?;
        let seconds = started.elapsed().as_secs_f64();
        let outcomes = flows.into_iter().map(Sequence::finish).collect::<Result<Vec<_>>>()?;
        let sent: u64 = outcomes.iter().map(|outcome| outcome.sent).sum();
        Ok(outages.map(|Outage { began, ended }| {
            let time = began.before_ns.saturating_sub(ON_ITS_WAY_NS)..ended.after_ns;
            let lost = outcomes.iter().flat_map(|outcome| &outcome.lost_at_ns).filter(|at| time.contains(at));
            Datagrams { lost: lost.count() as u64, sent_per_second: sent as f64 / seconds }
        }))
    }

    /// Pulls the cable of the first host, plugs it in, turns the switch into a black hole, and revives it.
    fn outages(&self) -> Result<[Outage; 2]> {
        let (topology, victim) = (self.topology, self.case.victim());
        thread::sleep(WARM_UP);
        let began = topology.pull_cable(0, victim)?;
        thread::sleep(self.timing.cable);
        let cable = Outage { began, ended: topology.plug_cable(0, victim)? };
        thread::sleep(RECOVERY);
        let began = topology.kill_switch(victim)?;
        thread::sleep(self.timing.black_hole);
        let black_hole = Outage { began, ended: topology.revive_switch(victim)? };
        thread::sleep(WARM_UP);
        Ok([cable, black_hole])
    }
}
