//! P0.budget: round robin beside load balancing while the receiving side has less and less of a processor.
//!
//! The paper's NICs of 1 Gbit/s outran its processors, and round robin was slower then. Here the receiving host's bundle and the
//! program that receives share a control group, whose part of a processor is the budget.

use anyhow::{Context, Result};

use super::outcome::{Outcome, spread, times};
use super::setting::Setting;
use super::streams::Streams;
use crate::cgroup::Cgroup;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::workload::probe::Probe;

const POLICIES: [&str; 2] = ["rr", "tlb"];
/// Percent of a processor.
const BUDGETS: [u32; 4] = [100, 50, 25, 10];
/// The cells: senders and NICs of 1 Gbit/s.
const CELLS: [(usize, usize); 2] = [(3, 3), (4, 2)];
/// Slower is more than one run differs from the next.
const SLOWER: f64 = 0.95;
/// Length of a run.
const SECONDS: usize = 5;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut because = Vec::new();
    let mut is_slower = false;
    for (senders, nics) in CELLS {
        let topology = Setting::hosts(nics, Bitrate::gbit(1))?;
        let mut rows = Vec::new();
        for budget in BUDGETS {
            let _step = progress::step(&format!("{senders} senders, {nics} NICs, {budget} % of a processor"));
            let mut seen = POLICIES.map(|_| Samples::new("Mbit/s", Vec::new()));
            for (policy, seen) in POLICIES.iter().zip(&mut seen) {
                let group = Cgroup::with_processor(budget)?;
                let bundles = setting.bundles(&topology, policy)?;
                let there = bundle::address(1);
                let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
                group.add(bundles[1].pid().context("the receiving bundle has ended")?)?;
                group.add(probe.pid())?;
                let streams = Streams { senders, seconds: SECONDS, interval: 1 };
                streams.run(&probe, there)?.mbit().values().iter().for_each(|mbit| seen.push(*mbit));
                probe.stop()?;
                Bundle::stop_all(bundles)?;
            }
            let [rr, tlb] = &seen;
            let ratio = times(rr, tlb);
            let cells = [rr, tlb, &ratio].map(|own| Some(own.median()));
            rows.push((format!("{budget} %"), cells.to_vec()));
            is_slower |= ratio.median() < SLOWER;
            because.push(format!("{senders}-{nics} at {budget} %: {}", spread(&ratio, 2)));
        }
        let title = format!(
            "{senders} senders, {nics} NICs of 1 Gbit/s: Mbit/s, and round robin beside load balancing"
        );
        outcome.grid(&title, &["rr", "tlb", "times"], rows);
    }
    outcome.finding(
        "(4) with a slow enough processor, round robin is slower than load balancing",
        is_slower,
        format!("times as fast, senders-NICs: {}", because.join(", ")),
    );
    Ok(outcome)
}
