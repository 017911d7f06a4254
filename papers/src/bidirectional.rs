//! P2.bidir: both directions at once over two links (figure 3). One host sends as fast as it can, the other returns all that
//! comes, and what comes back at the first is counted.

use std::net::SocketAddr;

use anyhow::Result;

use super::outcome::{Outcome, spread};
use super::plot::{Line, Panel, Picture};
use super::setting::Setting;
use crate::workload::returned;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::rate::Bitrate;
use tabane_kit::report::{Samples, Verdict};
use tabane_kit::topology::address;

/// Published, in 10^6 bytes per second.
pub(super) const SINGLE: f64 = 117.0;
pub(super) const BONDING: f64 = 159.0;
pub(super) const RI2N: f64 = 214.0;
/// What two links carry in both directions at once, at least, in rates of a single one.
const RATIO_MIN: f64 = 1.95;
/// Seconds of a run for each round: three are the paper's.
const SECONDS_OF_ROUND: usize = 40;
/// Where connections end.
pub(super) const PORT: u16 = 7_510;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let seconds = SECONDS_OF_ROUND * setting.rounds;
    let topology = Setting::hosts(2, Bitrate::gbit(1))?;
    let returned = |at| returned::stream(topology.host(0), topology.host(1), at, seconds);
    let single = returned(SocketAddr::new(address(0, 1).into(), PORT))?;
    let bundles = setting.bundles(&topology, "adaptive")?;
    let both = returned(SocketAddr::new(bundle::address(1), PORT))?;
    Bundle::stop_all(bundles)?;
    outcome.pictures.push(figure(&single, &both));
    let [single, both] = [single, both].map(|values| Samples::new("MB/s", values));
    let ratio = beside(&both, &single);
    outcome.row("single link, what comes back each second", SINGLE, single);
    outcome.compared("two links, what comes back each second", &[("bonding", BONDING), ("RI2N", RI2N)], both);
    outcome.finding(
        "3.1: a bundle of two links that restores the order carries nearly twice as much in both directions at once",
        ratio.median() >= RI2N / SINGLE,
        format!(
            "{} times a single link, second by second; published: RI2N {:.2}, bonding {:.2}",
            spread(&ratio, 2),
            RI2N / SINGLE,
            BONDING / SINGLE
        ),
    );
    outcome.verdicts.push(Verdict::at_least("P2.bidir.ratio", ratio.median(), RATIO_MIN));
    Ok(outcome)
}

/// How many times as much each second brings as a single link does in the median.
pub(super) fn beside(own: &Samples, single: &Samples) -> Samples {
    Samples::new("times", own.values().iter().map(|own| own / single.median()).collect())
}

/// The paper's figure 3.
fn figure(single: &[f64], both: &[f64]) -> Picture {
    let points =
        |values: &[f64]| (1..).zip(values).map(|(second, value)| (f64::from(second), *value)).collect();
    let whole = (1.0, single.len().max(both.len()) as f64);
    let lines = vec![
        Line::own("one link", 0, points(single)),
        Line::published("single", 0, SINGLE, whole),
        Line::own("bundle", 1, points(both)),
        Line::published("RI2N", 1, RI2N, whole),
        Line::published("bonding", 2, BONDING, whole),
    ];
    let title = "Both directions at once; dashed: published".to_string();
    Picture::new(
        "P2-figure-3",
        "P2, figure 3: what comes back over time",
        1,
        &[Panel { title, x: "s", y: "MB/s", lines }],
    )
}
