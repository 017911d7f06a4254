//! How daemons wait: each receive engine under one ping-pong, and when nothing moves.
//!
//! Part of [`super`], and of the bench. The engines take turns over the same daemons.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tabane_engine::receive::Method;

use super::{choose, daemons_seconds};
use crate::figures::{Quantity, Sheet, number, quantities};
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
/// Until what came before is over.
const SETTLE: Duration = Duration::from_millis(200);

quantities! {
    /// What is measured.
    Figure {
        P50: "p50_us", "p50, µs", "µs";
        P99: "p99_us", "p99, µs", "µs";
        /// Of one processor, per daemon.
        Busy: "busy_percent", "CPU per daemon, %", "%";
        Idle: "idle_percent", "idle, %", "%";
    }
}

/// One engine's samples.
#[derive(Debug)]
pub struct Row {
    engine: Method,
    figures: Sheet<Figure>,
}

/// A row per engine, still empty.
#[must_use]
pub fn rows() -> Vec<Row> {
    Method::ALL.map(|engine| Row { engine, figures: Sheet::default() }).into()
}

/// Takes a sample of each.
pub fn take(topology: &Topology, bundles: &[Bundle<'_>], rows: &mut [Row]) -> Result<()> {
    let at = SocketAddr::new(bundle::address(1), 0);
    for row in rows {
        choose(row.engine, bundles)?;
        thread::sleep(SETTLE);
        let mut trips = None;
        let busy = share_of(bundles, || {
            trips = Some(ping_pong::play(topology.host(0), topology.host(1), at, Stream::Tcp, PLAY)?);
            Ok(())
        })?;
        row.figures.push(Figure::Busy, busy);
        if let Some(trips) = trips {
            row.figures.push(Figure::P50, trips.p50_us);
            row.figures.push(Figure::P99, trips.p99_us);
        }
        thread::sleep(SETTLE);
        let idle = share_of(bundles, || {
            thread::sleep(QUIET);
            Ok(())
        })?;
        row.figures.push(Figure::Idle, idle);
    }
    Ok(())
}

/// What a daemon takes of a processor while `work` is done, in percent.
fn share_of(bundles: &[Bundle<'_>], work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (start, before) = (Instant::now(), daemons_seconds(bundles)?);
    work()?;
    let used = daemons_seconds(bundles)? - before;
    Ok(100.0 * used / start.elapsed().as_secs_f64() / bundles.len() as f64)
}

/// Writes the rows into `report`; `veth_us`: bare veth's median round trip in the same run.
pub fn write(report: &mut Report, rows: &[Row], veth_us: f64) {
    let heads = Figure::ALL.iter().map(|figure| figure.label());
    let mut table =
        Table::new(&["receive engine"].into_iter().chain(heads).chain(["p50 of veth"]).collect::<Vec<_>>());
    for Row { engine, figures } in rows {
        let median_us = figures.median(Figure::P50);
        let ratio = median_us / veth_us;
        if *engine == Method::Adaptive {
            let idle = figures.median(Figure::Idle);
            report.verdict(Verdict::at_most("receive.adaptive.p50_of_veth", ratio, OF_VETH_MAX));
            report.verdict(Verdict::at_most("receive.adaptive.idle_percent", idle, IDLE_MAX));
        }
        let cells = Figure::ALL.iter().map(|figure| number(figures.median(*figure)));
        let name = engine.name().to_owned();
        table.row([name].into_iter().chain(cells).chain([number(ratio)]).collect());
        figures.keep(report, &format!("receive.{}", engine.name()));
    }
    report.show(table);
}
