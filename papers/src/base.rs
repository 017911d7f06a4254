//! P0.base: one sender over one NIC (figure 7).

use anyhow::Result;

use super::outcome::{Outcome, spread};
use super::setting::Setting;
use super::streams::Streams;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::topology::address;

/// Rate, and the published throughput in Mbit/s and share of the CPU in percent.
const PUBLISHED: [(Bitrate, f64, f64); 2] =
    [(Bitrate::mbit(100), 94.0, 4.6), (Bitrate::gbit(1), 784.0, 29.9)];
/// Percent of a link's rate from which TCP fills it: headers and preambles take the rest.
const FILLED: f64 = 90.0;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut filled = Vec::new();
    for (rate, mbit, cpu) in PUBLISHED {
        let topology = Setting::hosts(1, rate)?;
        let seen = Streams::periods(1, setting.rounds).between(setting, &topology, address(0, 1).into())?;
        let percent = seen.mbit().values().iter().map(|mbit| 100.0 * mbit / rate.mbps()).collect();
        filled.push(Samples::new("%", percent));
        outcome.row(format!("{rate}: throughput"), mbit, seen.mbit());
        outcome.row(format!("{rate}: CPU"), cpu, Samples::new("%", vec![seen.busy]));
        outcome.own(format!("{rate}: CPU, softirq"), Samples::new("%", vec![seen.softirq]));
    }
    let [slow, fast] = [&filled[0], &filled[1]];
    outcome.finding(
        "4.5: one sender fills a NIC of 100 Mbit/s",
        slow.median() >= FILLED,
        format!("{} % of the rate", spread(slow, 0)),
    );
    outcome.finding(
        "4.5: one sender does not fill a NIC of 1 Gbit/s, for other hardware than the CPU is slower",
        fast.median() < FILLED,
        format!("{} % of the rate", spread(fast, 0)),
    );
    Ok(outcome)
}
