//! P3.conns: 1 to 16 connections at messages of 1 KB and of 64 KB, through a memory-slot NIC and over gigabit Ethernet.
//!
//! The NIC is simulated. Beside it, streams: over Ethernet, a veth shaped to 1 Gbit/s, and over a window of memory.

use anyhow::Result;
use tabane_sim::device::dimmnet::{WITH_BUG, WITHOUT_BUG};

use super::memory::{self, Speed};
use super::outcome::Outcome;
use super::setting::Setting;
use super::simulated::{exchange, is_about};
use super::swept;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Verdict;

const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];
/// KB (2^10 bytes) of a message, and published MB/s for each of [`COUNTS`]: with the bug, and over gigabit Ethernet.
const PUBLISHED: [(usize, [f64; 5], [f64; 5]); 2] = [
    (1, [3.58, 3.03, 2.60, 2.46, 2.36], [7.16, 6.91, 5.90, 4.15, 2.57]),
    (64, [8.01, 4.53, 3.60, 3.49, 3.37], [43.74, 27.67, 21.18, 19.42, 10.53]),
];
/// Predicted there for 64 KB without the bug, however many.
const FLAT: f64 = 270.0;
const MTU: usize = 65_536;
/// What sixteen connections over a window of memory keep of the speed of one, at least, in percent.
const KEPT_MIN: f64 = 90.0;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut by_size = Vec::new();
    for (size, published, _) in PUBLISHED {
        let mut with = Vec::new();
        for (count, published) in COUNTS.into_iter().zip(published) {
            let own = exchange(&WITH_BUG, size << 10, MTU, count, setting.rounds);
            with.push(own.median());
            let fitted = if (size, count) == (64, 1) { " (fitted)" } else { "" };
            outcome.simulated(format!("{size} KB x {count}, with the bug{fitted}"), Some(published), own);
        }
        by_size.push(with);
    }
    let mut without = Vec::new();
    for count in COUNTS {
        let own = exchange(&WITHOUT_BUG, 64 << 10, MTU, count, setting.rounds);
        without.push(own.median());
        outcome.simulated(format!("64 KB x {count}, without"), Some(FLAT), own);
    }
    outcome.finding(
        "with the bug more connections are slower together",
        by_size.iter().all(|rates| kept(rates) < 100.0),
        format!(
            "sixteen have {:.0} % of one at 1 KB and {:.0} % at 64 KB; here their work overlaps, and nothing grows with them",
            kept(&by_size[0]),
            kept(&by_size[1])
        ),
    );
    outcome.finding(
        "without it 64 KB stays at about 270 MB/s, however many connections there are",
        without.iter().all(|own| is_about(*own, FLAT)),
        format!("{:.0} MB/s of one, {:.0} of two, {:.0} of sixteen", without[0], without[1], without[4]),
    );
    let ethernet = over_ethernet(setting, &mut outcome)?;
    outcome.finding(
        "gigabit Ethernet is slower with more connections, too",
        ethernet.iter().all(|rates| kept(rates) < 100.0),
        format!(
            "measured: sixteen have {:.0} % of one at 1 KB and {:.0} % at 64 KB",
            kept(&ethernet[0]),
            kept(&ethernet[1])
        ),
    );
    for speed in Speed::wanted(setting) {
        over_memory(setting, *speed, &mut outcome)?;
    }
    Ok(outcome)
}

/// What sixteen have of one, in percent.
fn kept(rates: &[f64]) -> f64 {
    100.0 * rates[COUNTS.len() - 1] / rates[0]
}

fn over_memory(setting: &Setting, speed: Speed, outcome: &mut Outcome) -> Result<()> {
    for (size, with_bug, _) in PUBLISHED {
        let swept = memory::sweep(setting, speed, &flags(size).each_ref().map(String::as_str))?;
        let medians: Vec<f64> = swept.iter().map(|own| own.megabytes().median()).collect();
        for ((count, with_bug), own) in COUNTS.into_iter().zip(with_bug).zip(swept) {
            let published = match speed {
                Speed::Own => (size == 64).then_some(("predicted", FLAT)),
                Speed::Throttled => Some(("", with_bug)),
            };
            let what = format!("{size} KB x {count} {}, streams", speed.words());
            outcome.compared(what, published.as_slice(), own.megabytes());
        }
        if speed == Speed::Own {
            let id = format!("P3.conns.kept_percent_at_{size}_KB");
            outcome.verdicts.push(Verdict::at_least(&id, kept(&medians), KEPT_MIN));
        }
    }
    Ok(())
}

/// What the probe measures at messages of so many KB.
fn flags(size: usize) -> [String; 6] {
    let counts = COUNTS.map(|count| count.to_string()).join(",");
    let [protocols, tcp, sizes, connections] =
        ["--protocols", "tcp", "--sizes", "--connections"].map(str::to_string);
    [protocols, tcp, sizes, (size << 10).to_string(), connections, counts]
}

/// Medians over Ethernet, for each size.
fn over_ethernet(setting: &Setting, outcome: &mut Outcome) -> Result<Vec<Vec<f64>>> {
    let topology = Setting::hosts(1, Bitrate::gbit(1))?;
    let mut medians = Vec::new();
    for (size, _, published) in PUBLISHED {
        let swept = swept::sweep(setting, &topology, &flags(size).each_ref().map(String::as_str))?;
        medians.push(swept.iter().map(|own| own.megabytes().median()).collect());
        for ((count, published), own) in COUNTS.into_iter().zip(published).zip(swept) {
            let what = format!("{size} KB x {count} over 1 Gbit/s, streams");
            outcome.compared(what, &[("Ethernet", published)], own.megabytes());
        }
    }
    Ok(medians)
}
