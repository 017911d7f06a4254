//! P1.sweep over rings that this machine has: messages through two bundles over AF_XDP, whose sent frames come back in each
//! way in turn. By TCP, for of long datagrams sent without a limit no whole one passes the device's short queue.
//!
//! Each host's programs have a processor of their own: where all may run on any, what short messages carry differs by a factor
//! of two to four from second to second, and no way can be told from another (`docs/lessons.md`). What still differs takes
//! many rounds, of which each way begins as many.
//!
//! A veth has done with a frame when the call that sends it returns, so `lazy` does not stall here. What it stalls is simulated
//! ([`super::reclaim`]).

use tabane_engine::reclaim::Method;
use tabane_kit::prerequisites::require_xdp;
use tabane_kit::status::by_interrupt;

use super::swept::{Swept, add_round};
use crate::prelude::*;

/// What adaptive reclaim keeps of each of the others, at least, in percent.
const ADAPTIVE_KEEPS_MIN: f64 = 95.0;

const REMARK: &str = "over AF_XDP: each host's programs on a processor of their own, three times as many rounds, in which each way \
                      has its turn; gains are those within a round";

struct Way {
    method: Method,
    swept: Vec<Swept>,
    by_interrupt: Samples,
}

/// Adds messages of these `sizes`; gives what goes by interrupt, or nothing where there is no AF_XDP.
pub(super) fn measure(
    setting: &Setting,
    outcome: &mut Outcome,
    sizes: &[usize],
) -> Result<Option<Vec<Samples>>> {
    let topology =
        Topology::build(Plan { pinning: Pinning::Apart, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
    if let Err(lack) = require_xdp() {
        progress::failed("messages over AF_XDP", &lack.into());
        return Ok(None);
    }
    let mut ways = Method::ALL.map(|method| Way {
        method,
        swept: Vec::new(),
        by_interrupt: Samples::new("%", Vec::new()),
    });
    for first in (0..ways.len()).cycle().take(ways.len() * setting.rounds) {
        let (later, sooner) = ways.split_at_mut(first);
        sooner.iter_mut().chain(later).try_for_each(|way| way.add_round(setting, &topology, sizes))?;
    }
    outcome.remarks.push(REMARK.into());
    for Way { method, swept, by_interrupt } in &ways {
        let name = method.name();
        for (size, own) in sizes.iter().zip(swept) {
            outcome.own(format!("{size} B over AF_XDP, {name}"), own.kpps.clone());
            outcome.own(format!("{size} B over AF_XDP, {name}: CPU"), own.cpu.clone());
        }
        outcome.own(format!("frames that came back by interrupt, {name}"), by_interrupt.clone());
    }
    judge(outcome, &ways, sizes);
    let [interrupt, ..] = ways;
    Ok(Some(interrupt.swept.into_iter().map(|own| own.kpps).collect()))
}

/// Compares within each round. Where the ways are alike, all of the rounds are on one side of the bound with a chance of one in
/// 2^rounds.
fn judge(outcome: &mut Outcome, [interrupt, lazy, adaptive]: &[Way; 3], sizes: &[usize]) {
    let mut slower = 0;
    let mut kept = [Vec::new(), Vec::new()];
    for (place, size) in sizes.iter().enumerate() {
        let mut sizes_kept = [interrupt, lazy].map(|way| adaptive.of(way, place));
        let gains = sizes_kept[0].iter().map(|kept| kept - 100.0).collect();
        outcome
            .own(format!("{size} B over AF_XDP: gain of adaptive over interrupt"), Samples::new("%", gains));
        let all_below = |kept: &Vec<f64>| kept.iter().all(|kept| *kept < ADAPTIVE_KEEPS_MIN);
        slower += usize::from(sizes_kept.iter().any(all_below));
        for (all, one) in kept.iter_mut().zip(&mut sizes_kept) {
            all.append(one);
        }
    }
    let least = kept.map(|kept| Samples::new("%", kept).median()).into_iter().fold(f64::INFINITY, f64::min);
    let id = "P1.rings.adaptive_of_others_percent";
    outcome.verdicts.push(Verdict::at_least(id, least, ADAPTIVE_KEEPS_MIN));
    outcome.verdicts.push(Verdict::equals("P1.rings.sizes_slower_in_all_rounds", slower, 0));
}

impl Way {
    /// What this way carries of what the other does, in percent: for each round, at the size of that place.
    fn of(&self, other: &Way, place: usize) -> Vec<f64> {
        let pairs = self.swept[place].kpps.values().iter().zip(other.swept[place].kpps.values());
        pairs.map(|(own, other)| 100.0 * own / other).collect()
    }

    fn add_round(&mut self, setting: &Setting, topology: &Topology, sizes: &[usize]) -> Result<()> {
        let link = format!("ether:{},engine=xdp,completion={}", nic(0), self.method.name());
        let options =
            bundle::Options { protection: Protection::None, ..bundle::Options::new(&setting.daemon) };
        let bundles = Bundle::start_over(topology, &[link], &options)?;
        let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let flags = ["--protocols", "tcp", "--sizes", &sizes.join(",")];
        add_round(&mut self.swept, setting, topology, bundle::address(1), &flags)?;
        let status = bundles[0].status()?;
        let counted = status.links.first().and_then(|link| link.completion.as_ref());
        self.by_interrupt.push(100.0 * by_interrupt(counted.context("no completions in the status")?));
        Bundle::stop_all(bundles)
    }
}
