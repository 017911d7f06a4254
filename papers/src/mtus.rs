//! P3.mtu: messages of 8 KB in packets of 1 KB to 64 KB, through a memory-slot NIC with its bug and without.
//!
//! The NIC is simulated. Beside it, measured: segments that fit the MTU, one by one, over a veth of 1 Gbit/s and over a window of
//! memory, each message when the one before was answered.

use crate::device::exchange::{WITH_BUG, WITHOUT_BUG};
use anyhow::Result;

use super::memory::{self, Speed};
use super::outcome::{Outcome, spread};
use super::setting::Setting;
use super::simulated::{exchange, is_about};
use super::swept;
use super::swept::Swept;

/// Bytes of a message.
const MESSAGE: usize = 8_192;
/// KB (2^10 bytes) of a packet, and what is published without the bug, in MB/s.
const PUBLISHED: [(usize, Option<f64>); 7] =
    [(1, Some(33.0)), (2, None), (4, Some(69.0)), (8, None), (16, None), (32, None), (64, Some(84.0))];
/// What the probe calls the measured ones of [`PUBLISHED`], from the first on; over Ethernet, whose MTU ends at 9,000, the first
/// four.
const MTUS: [&str; 7] = ["1024", "2048", "4096", "8192", "16384", "32768", "device"];
const OVER_ETHERNET: usize = 4;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (mtu, published) in PUBLISHED {
        let own = [WITH_BUG, WITHOUT_BUG]
            .map(|machines| exchange(&machines, MESSAGE, mtu << 10, 1, setting.rounds));
        let [slow, fast] = own;
        with.push(slow.median());
        without.push(fast.median());
        // 64 KB is what the simulated machine was fitted to.
        let fitted = if mtu == 64 { " (fitted)" } else { "" };
        outcome.simulated(format!("packets of {mtu} KB, with the bug"), None, slow);
        outcome.simulated(format!("packets of {mtu} KB, without{fitted}"), published, fast);
    }
    let loss = |rates: &[f64]| 100.0 * (1.0 - rates[0] / rates[rates.len() - 1]);
    outcome.finding(
        "with the bug short packets cost little beside it, without it much",
        loss(&with) < loss(&without) / 2.0,
        format!("packets of 1 KB lose {:.0} % with it and {:.0} % without", loss(&with), loss(&without)),
    );
    outcome.finding(
        "without the bug, packets of 4 KB go at about 69 MB/s and packets of 1 KB at about 33",
        is_about(without[2], 69.0) && is_about(without[0], 33.0),
        format!("{:.0} and {:.0} MB/s", without[2], without[0]),
    );
    over_ethernet(setting, &mut outcome)?;
    over_memory(setting, &mut outcome)?;
    Ok(outcome)
}

fn flags(mtus: &[&str]) -> [String; 7] {
    ["--answered", "--protocols", "tcp", "--sizes", &MESSAGE.to_string(), "--mtus", &mtus.join(",")]
        .map(str::to_string)
}

fn over_ethernet(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let mtus = &MTUS[..OVER_ETHERNET];
    for (mtu, own) in
        mtus.iter().zip(swept::sweep_ethernet(setting, 9_000, &flags(mtus).each_ref().map(String::as_str))?)
    {
        outcome.own(format!("MTU {mtu} over 1 Gbit/s"), own.megabytes());
    }
    Ok(())
}

/// With the bug, the paper has a figure alone.
fn over_memory(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    for speed in Speed::wanted(setting) {
        let swept = memory::sweep(setting, *speed, &flags(&MTUS).each_ref().map(String::as_str))?;
        let megabytes: Vec<_> = swept.iter().map(Swept::megabytes).collect();
        let [short, long] = [0, MTUS.len() - 1].map(|place| &megabytes[place]);
        let part = short.median() / long.median();
        let (sentence, holds) = match speed {
            Speed::Own => {
                ("measured over mem, packets of 1 KB go at less than half of the rate of 64 KB", part < 0.5)
            }
            Speed::Throttled => {
                ("measured with the bug's rates, they go at more than half of it", part > 0.5)
            }
        };
        outcome.finding(sentence, holds, format!("{} and {} MB/s", spread(short, 1), spread(long, 1)));
        for (((_, predicted), mtu), own) in PUBLISHED.iter().zip(MTUS).zip(megabytes) {
            let predicted = predicted.filter(|_| *speed == Speed::Own).map(|value| ("predicted", value));
            let mtu = if mtu == "device" { memory::MTU.to_string() } else { mtu.to_string() };
            outcome.compared(format!("MTU {mtu} {}", speed.words()), predicted.as_slice(), own);
        }
    }
    Ok(())
}
