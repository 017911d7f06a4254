//! P0.skew: one sender starts 10 s before three others, over two links of 100 Mbit/s.
//!
//! `tabane-lab skew` plots it over a minute; here the first period after the latecomers' start counts.

use anyhow::Result;

use super::outcome::Outcome;
use super::setting::Setting;
use crate::skew;
use tabane_kit::report::Samples;

/// The paper's figure 10: in the whole period.
const PUBLISHED: f64 = 100.0;
/// Until the end of that period.
const SECONDS: u64 = 20;
/// From here on a share of the seconds is the rule, in percent.
const RULE: f64 = 90.0;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let [mut by_load, mut by_history] = [(); 2].map(|()| Samples::new("%", Vec::new()));
    for round in 0..setting.rounds {
        for (policy, own) in [("tlb", &mut by_load), ("tlb-history", &mut by_history)] {
            own.push(100.0 * skew::three_share_one(&setting.daemon, policy, SECONDS, round as u64)?);
        }
    }
    outcome.finding(
        "who has sent for long looks heavy, so that three latecomers share the other link",
        by_load.median() >= RULE,
        format!(
            "in {:.0} % of the period under tlb, in {:.0} % under tlb-history",
            by_load.median(),
            by_history.median()
        ),
    );
    outcome.row("tlb: three share a link", PUBLISHED, by_load);
    outcome.own("tlb-history: three share a link", by_history);
    Ok(outcome)
}
