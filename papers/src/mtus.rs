//! P3.mtu: messages of 8 KB in packets of 1 KB to 64 KB, through a memory-slot NIC with its bug and without.
//!
//! The NIC is simulated. Beside it, streams in segments that fit the MTU: over a veth of MTU 9000, shaped to 1 Gbit/s, and over a
//! window of memory.

use anyhow::Result;
use tabane_sim::device::dimmnet::{WITH_BUG, WITHOUT_BUG};

use super::memory::{self, Speed};
use super::outcome::Outcome;
use super::setting::Setting;
use super::simulated::{exchange, is_about};
use super::swept;
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

/// Bytes of a message.
const MESSAGE: usize = 8_192;
/// KB (2^10 bytes) of a packet, and what is published without the bug, in MB/s.
const PUBLISHED: [(usize, Option<f64>); 5] =
    [(1, Some(33.0)), (2, None), (4, Some(69.0)), (16, None), (64, Some(84.0))];
/// MTUs that are measured over Ethernet.
const MEASURED: [&str; 3] = ["1024", "4096", "device"];
/// KB of those that are measured over memory, and what the probe calls them.
const OVER_MEMORY: [(usize, &str); 4] = [(1, "1024"), (4, "4096"), (16, "16384"), (64, "device")];

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

fn over_ethernet(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let link = LinkPlan { mtu: 9_000, ..LinkPlan::shaped(Bitrate::gbit(1)) };
    let topology = Topology::build(Plan::two_hosts(vec![link]))?;
    let (size, mtus) = (MESSAGE.to_string(), MEASURED.join(","));
    let flags = ["--protocols", "tcp", "--sizes", &size, "--mtus", &mtus];
    for (mtu, own) in MEASURED.iter().zip(swept::sweep(setting, &topology, &flags)?) {
        let mtu = if *mtu == "device" { "9000" } else { mtu };
        outcome.own(format!("MTU {mtu} over 1 Gbit/s, a stream"), own.megabytes());
    }
    Ok(())
}

/// With the bug, the paper has no figures.
fn over_memory(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let (size, mtus) = (MESSAGE.to_string(), OVER_MEMORY.map(|(_, mtu)| mtu).join(","));
    let flags = ["--protocols", "tcp", "--sizes", &size, "--mtus", &mtus];
    for speed in Speed::wanted(setting) {
        let swept = memory::sweep(setting, *speed, &flags)?;
        for ((kilobytes, mtu), own) in OVER_MEMORY.iter().zip(swept) {
            let predicted =
                PUBLISHED.iter().find(|(size, _)| size == kilobytes).and_then(|(_, value)| *value);
            let predicted = predicted.filter(|_| *speed == Speed::Own).map(|value| ("predicted", value));
            let mtu = if *mtu == "device" { memory::MTU.to_string() } else { (*mtu).to_string() };
            let what = format!("MTU {mtu} {}, a stream", speed.words());
            outcome.compared(what, predicted.as_slice(), own.megabytes());
        }
    }
    Ok(())
}
