//! P3.size: messages of 1 KB to 64 KB through a memory-slot NIC, with its bug and without, over one connection.
//!
//! The NIC is simulated. Beside it, measured: gigabit Ethernet, a veth shaped to that rate, and a window of memory. Each message
//! waits until the one before was answered, as the paper's rate of 7 MB/s over gigabit Ethernet says that its did; as a contrast
//! a stream through the window, whose messages wait for none.

use super::memory;
use super::swept::{self, Swept, exchange, is_about};
use crate::device::exchange::{WITH_BUG, WITHOUT_BUG};
use crate::prelude::*;

/// Published MB/s: with the bug, without, and over gigabit Ethernet.
type Figures = [Option<f64>; 3];
const PUBLISHED: [(usize, Figures); 7] = [
    (1, [Some(3.58), None, Some(7.16)]),
    (2, [None; 3]),
    (4, [None; 3]),
    (8, [None, Some(84.0), None]),
    (16, [Some(8.0), Some(141.0), None]),
    (32, [Some(8.0), None, None]),
    (64, [Some(8.01), Some(270.0), Some(43.74)]),
];
/// Figures to which the machine was fitted: KB, and whether it has the bug.
const FITTED: [(usize, bool); 2] = [(64, true), (8, false)];
const MTU: usize = 65_536;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (size, [published_with, published_without, _]) in PUBLISHED {
        let cases = [
            (true, WITH_BUG, "with the bug", published_with, &mut with),
            (false, WITHOUT_BUG, "without", published_without, &mut without),
        ];
        for (bug, machines, name, published, medians) in cases {
            let own = exchange(&machines, size << 10, MTU, 1, setting.rounds);
            let fitted = if FITTED.contains(&(size, bug)) { " (fitted)" } else { "" };
            medians.push(own.median());
            outcome.simulated(format!("{size} KB {name}{fitted}"), published, own);
        }
    }
    outcome.finding(
        "with the bug longer messages than 16 KB gain next to nothing: about 8 MB/s",
        with[4..].iter().all(|own| is_about(*own, 8.0)),
        format!("{:.2}, {:.2} and {:.2} MB/s at 16, 32 and 64 KB", with[4], with[5], with[6]),
    );
    outcome.finding(
        "without it a message of 64 KB goes at about 270 MB/s, and one of 16 KB at about 141",
        is_about(without[6], 270.0) && is_about(without[4], 141.0),
        format!("{:.0} and {:.0} MB/s", without[6], without[4]),
    );
    let small = with[0];
    outcome.finding(
        "with the bug a message of 1 KB goes at about 3.6 MB/s",
        is_about(small, 3.58),
        format!("{small:.2} MB/s"),
    );
    measure(setting, &mut outcome)?;
    Ok(outcome)
}

fn measure(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let sizes = PUBLISHED.map(|(size, _)| (size << 10).to_string()).join(",");
    let flags = ["--answered", "--protocols", "tcp", "--sizes", &sizes];
    let swept = swept::sweep_ethernet(setting, 1_500, &flags)?;
    for ((size, [.., published]), own) in PUBLISHED.iter().zip(swept) {
        let published = published.map(|value| ("Ethernet", value));
        outcome.compared(format!("{size} KB over 1 Gbit/s"), published.as_slice(), own.megabytes());
    }
    let swept = memory::sweep(setting, &flags)?;
    for ((size, [_, without, _]), own) in PUBLISHED.iter().zip(swept) {
        let predicted = without.map(|value| ("predicted", value));
        outcome.compared(format!("{size} KB over mem"), predicted.as_slice(), own.megabytes());
    }
    let streams = memory::sweep(setting, &flags[1..])?;
    for ((size, _), own) in PUBLISHED.iter().zip(streams) {
        outcome.own(format!("{size} KB over mem, a stream"), own.megabytes());
    }
    Ok(())
}

// P3.mtu: messages of 8 KB in packets of 1 KB to 64 KB, through a memory-slot NIC with its bug and without.
//
// The NIC is simulated. Beside it, measured: segments that fit the MTU, one by one, over a veth of 1 Gbit/s and over a window of
// memory, each message when the one before was answered.

const MESSAGE: usize = 8_192;
/// KB (2^10 bytes) of a packet, and what is published without the bug, in MB/s.
const PUBLISHED_MTUS: [(usize, Option<f64>); 7] =
    [(1, Some(33.0)), (2, None), (4, Some(69.0)), (8, None), (16, None), (32, None), (64, Some(84.0))];
/// What the probe calls the measured ones of [`PUBLISHED`], from the first on; over Ethernet, whose MTU ends at 9,000, the first
/// four.
const MTUS: [&str; 7] = ["1024", "2048", "4096", "8192", "16384", "32768", "device"];
const OVER_ETHERNET: usize = 4;

pub(super) fn run_mtus(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (mtu, published) in PUBLISHED_MTUS {
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

fn over_memory(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let swept = memory::sweep(setting, &flags(&MTUS).each_ref().map(String::as_str))?;
    let megabytes: Vec<_> = swept.iter().map(Swept::megabytes).collect();
    let [short, long] = [0, MTUS.len() - 1].map(|place| &megabytes[place]);
    outcome.finding(
        "measured over mem, packets of 1 KB go at less than half of the rate of 64 KB",
        short.median() / long.median() < 0.5,
        format!("{} and {} MB/s", spread(short, 1), spread(long, 1)),
    );
    for (((_, predicted), mtu), own) in PUBLISHED_MTUS.iter().zip(MTUS).zip(megabytes) {
        let predicted = predicted.map(|value| ("predicted", value));
        let mtu = if mtu == "device" { memory::MTU.to_string() } else { mtu.to_string() };
        outcome.compared(format!("MTU {mtu} over mem"), predicted.as_slice(), own);
    }
    Ok(())
}
