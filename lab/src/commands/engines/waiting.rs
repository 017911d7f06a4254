//! How daemons wait: each receive engine under one ping-pong, and when nothing moves.
//!
//! Part of [`super`], and of the bench. The engines take turns over the same daemons.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tabane_engine::receive::Method;

use super::{SETTLE, choose, share_during};
use crate::number;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::report::{Report, Table, Verdict};
use tabane_kit::topology::Topology;
use tabane_kit::workload::{Stream, ping_pong};

/// Most of the median round trip, as a multiple of bare veth's in the same run: a prototype that spun reached 30 µs beside 56.
const OF_VETH_MAX: f64 = 0.54;
/// What a daemon with nothing to do may take of a processor, in percent: heartbeats wake it, and machines differ (docs/limits.md).
const IDLE_MAX: f64 = 1.7;
/// How long the ping-pong lasts, and the quiet after it.
const PLAY: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(2);

/// What is measured: name in files, name for people, unit. Time is that of one processor, per daemon.
const FIGURES: [(&str, &str, &str); 4] = [
    ("p50_us", "p50, µs", "µs"),
    ("p99_us", "p99, µs", "µs"),
    ("busy_percent", "CPU per daemon, %", "%"),
    ("idle_percent", "idle, %", "%"),
];

/// Takes a sample of each.
pub fn take(topology: &Topology, bundles: &[Bundle<'_>], report: &mut Report) -> Result<()> {
    let (at, daemons) = (SocketAddr::new(bundle::address(1), 0), bundles.len() as f64);
    for engine in Method::ALL {
        choose(engine, bundles)?;
        thread::sleep(SETTLE);
        let play = || ping_pong::play(topology.host(0), topology.host(1), at, Stream::Tcp, PLAY);
        let (trips, busy) = share_during(bundles, play)?;
        thread::sleep(SETTLE);
        let ((), idle) = share_during(bundles, || {
            thread::sleep(QUIET);
            Ok(())
        })?;
        for ((figure, _, unit), value) in
            FIGURES.iter().zip([trips.p50_us, trips.p99_us, busy / daemons, idle / daemons])
        {
            report.push(key(engine, figure), unit, value);
        }
    }
    Ok(())
}

fn key(engine: Method, figure: &str) -> String {
    format!("receive.{}.{figure}", engine.name())
}

/// Judges and shows the engines; `veth`: the key of bare veth's round trip in the same run.
pub fn write(report: &mut Report, veth: &str) {
    let heads = FIGURES.map(|(_, label, _)| label);
    let mut table =
        Table::new(&["receive engine"].into_iter().chain(heads).chain(["p50 of veth"]).collect::<Vec<_>>());
    let of_veth = |report: &Report, engine| report.ratio(&key(engine, "p50_us"), veth);
    for engine in Method::ALL {
        let medians = FIGURES.map(|(figure, ..)| number(report.median(&key(engine, figure))));
        let ratio = number(of_veth(report, engine));
        table.row([engine.name().to_owned()].into_iter().chain(medians).chain([ratio]).collect());
    }
    let idle = report.median(&key(Method::Adaptive, "idle_percent"));
    let ratio = of_veth(report, Method::Adaptive);
    report.verdict(Verdict::at_most("receive.adaptive.p50_of_veth", ratio, OF_VETH_MAX));
    report.verdict(Verdict::at_most("receive.adaptive.idle_percent", idle, IDLE_MAX));
    report.show(table);
}
