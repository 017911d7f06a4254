//! P0.matrix: several senders over several NICs, under round robin and under transmit load balancing.

use anyhow::Result;

use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// The policies, in the order of the published figures.
const POLICIES: [&str; 2] = ["rr", "tlb"];

/// A cell of the paper's table.
struct Cell {
    rate: Bitrate,
    senders: u8,
    nics: usize,
    /// For each policy: throughput in Mbit/s, and share of the CPU in percent.
    published: [(f64, f64); 2],
}

const fn cell(rate: Bitrate, senders: u8, nics: usize, rr: (f64, f64), tlb: (f64, f64)) -> Cell {
    Cell { rate, senders, nics, published: [rr, tlb] }
}

const FAST: Bitrate = Bitrate::mbit(100);
const GIGABIT: Bitrate = Bitrate::gbit(1);
const CELLS: [Cell; 6] = [
    cell(FAST, 2, 4, (377.0, 75.3), (188.0, 11.6)),
    cell(FAST, 3, 3, (282.0, 34.0), (283.0, 21.9)),
    cell(FAST, 4, 2, (188.0, 12.8), (188.0, 11.6)),
    cell(GIGABIT, 2, 4, (561.0, 99.2), (745.0, 31.1)),
    cell(GIGABIT, 3, 3, (425.0, 99.9), (724.0, 27.8)),
    cell(GIGABIT, 4, 2, (656.0, 96.5), (764.0, 31.5)),
];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    // How many times as fast round robin is, cell by cell.
    let mut ratios = Vec::new();
    for cell in &CELLS {
        let [rr, tlb] = measure(setting, cell)?;
        ratios.push(rr.mbit.median() / tlb.mbit.median());
        for ((policy, published), own) in POLICIES.iter().zip(cell.published).zip([rr, tlb]) {
            let what = format!("{}, {} senders, {} NICs, {policy}", cell.rate, cell.senders, cell.nics);
            outcome.row(format!("{what}: throughput"), published.0, own.mbit);
            outcome.row(format!("{what}: CPU"), published.1, own.busy);
        }
    }
    let times =
        |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
    let is_level = |ratio: f64| (0.9..=1.1).contains(&ratio);
    outcome.finding(
        "at 100 Mbit/s round robin lets two senders use four NICs, and gains nothing when there are as many senders as NICs",
        ratios[0] >= 1.8 && is_level(ratios[1]) && is_level(ratios[2]),
        format!("round robin is {} times as fast", times(&ratios[..3])),
    );
    outcome.finding(
        "at 1 Gbit/s round robin is slower than load balancing, for what comes out of order costs the CPU",
        ratios[3..].iter().all(|ratio| *ratio < 1.0),
        format!("round robin is {} times as fast", times(&ratios[3..])),
    );
    Ok(outcome)
}

/// What one policy does in a cell.
struct Own {
    mbit: Samples,
    busy: Samples,
}

fn measure(setting: &Setting, cell: &Cell) -> Result<[Own; 2]> {
    let mut own = [(); 2]
        .map(|()| Own { mbit: Samples::new("Mbit/s", Vec::new()), busy: Samples::new("%", Vec::new()) });
    let topology = Setting::hosts(cell.nics, cell.rate)?;
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    let flow = Flow { connections: cell.senders, ..Flow::tcp(bundle::address(1), setting.seconds) };
    for _ in 0..setting.rounds {
        for (policy, own) in POLICIES.iter().zip(&mut own) {
            let bundles = setting.bundles(&topology, policy)?;
            let loaded = Setting::load(&topology, flow)?;
            own.mbit.push(loaded.mbit());
            own.busy.push(loaded.busy_percent);
            Bundle::stop_all(bundles)?;
        }
    }
    Ok(own)
}
