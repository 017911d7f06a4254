//! P0.base: one sender over one NIC.

use anyhow::Result;

use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::topology::address;
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// Rate, and the published throughput in Mbit/s and share of the CPU in percent.
const PUBLISHED: [(Bitrate, f64, f64); 2] =
    [(Bitrate::mbit(100), 94.0, 4.6), (Bitrate::gbit(1), 784.0, 29.9)];
/// Share of a link's rate from which TCP fills it: headers and preambles take the rest.
const FILLED: f64 = 0.9;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut filled = Vec::new();
    for (rate, mbit, cpu) in PUBLISHED {
        let topology = Setting::hosts(1, rate)?;
        let _server = Server::start(topology.host(1), Stream::Tcp)?;
        let (mut got, mut busy) = (Samples::new("Mbit/s", Vec::new()), Samples::new("%", Vec::new()));
        for _ in 0..setting.rounds {
            let loaded = Setting::load(&topology, Flow::tcp(address(0, 1).into(), setting.seconds))?;
            got.push(loaded.mbit());
            busy.push(loaded.busy_percent);
        }
        filled.push(got.median() / rate.mbps());
        outcome.row(format!("{rate}: throughput"), mbit, got);
        outcome.row(format!("{rate}: CPU"), cpu, busy);
    }
    outcome.finding(
        "one sender fills a NIC of 100 Mbit/s, but not one of 1 Gbit/s",
        filled[0] >= FILLED && filled[1] < FILLED,
        format!("{:.0} % and {:.0} % of the rate", 100.0 * filled[0], 100.0 * filled[1]),
    );
    Ok(outcome)
}
