//! How daemons wait: each receive engine under one ping-pong, and when nothing moves.
//!
//! Part of [`super`], and of the bench. The engines take turns over the same daemons.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tabane_engine::receive::Method;

use super::{choose, daemons_seconds};
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::report::{Report, Samples, Table, Verdict};
use tabane_kit::topology::Topology;
use tabane_kit::workload::{Stream, ping_pong};

/// The median round trip that a prototype's spinning receive reached, in microseconds, and that of bare veth beside it.
const PROTOTYPE_US: f64 = 30.0;
const PROTOTYPE_VETH_US: f64 = 56.0;
/// What a daemon with nothing to do may take of a processor, in percent.
const IDLE_MAX: f64 = 1.0;
/// How long the ping-pong lasts, and the quiet after it.
const PLAY: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(2);
/// Until what came before is over.
const SETTLE: Duration = Duration::from_millis(200);

/// One engine's samples.
#[derive(Debug)]
pub struct Row {
    engine: Method,
    p50: Samples,
    p99: Samples,
    /// Of one processor, per daemon.
    busy: Samples,
    idle: Samples,
}

/// A row per engine, still empty.
#[must_use]
pub fn rows() -> Vec<Row> {
    let empty = |unit| Samples::new(unit, Vec::new());
    let row =
        |engine| Row { engine, p50: empty("µs"), p99: empty("µs"), busy: empty("%"), idle: empty("%") };
    Method::ALL.map(row).into()
}

/// Takes a sample of each.
///
/// # Errors
/// A daemon fails, or the connection between the hosts.
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
        row.busy.push(busy);
        if let Some(trips) = trips {
            row.p50.push(trips.p50_us);
            row.p99.push(trips.p99_us);
        }
        thread::sleep(SETTLE);
        row.idle.push(share_of(bundles, || {
            thread::sleep(QUIET);
            Ok(())
        })?);
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
    let head = ["receive engine", "p50, µs", "p99, µs", "p50 of veth", "CPU per daemon, %", "idle, %"];
    let mut table = Table::new(&head);
    for Row { engine, p50, p99, busy, idle } in rows {
        let name = engine.name();
        let (median_us, ratio) = (p50.median(), p50.median() / veth_us);
        if *engine == Method::Adaptive {
            let of_veth = PROTOTYPE_US / PROTOTYPE_VETH_US;
            report.verdict(Verdict::at_most("receive.adaptive.p50_us", median_us, PROTOTYPE_US));
            report.verdict(Verdict::at_most("receive.adaptive.p50_of_veth", ratio, of_veth));
            report.verdict(Verdict::at_most("receive.adaptive.idle_percent", idle.median(), IDLE_MAX));
        }
        let tail_us = p99.median();
        let numbers = [median_us, tail_us].map(|us| format!("{us:.1}"));
        let shares = [busy, idle].map(|share| format!("{:.2}", share.median()));
        let row = [&[name.to_owned()], &numbers[..], &[format!("{ratio:.2}")], &shares[..]].concat();
        table.row(row);
        for (key, samples) in
            [("p50_us", p50), ("p99_us", p99), ("busy_percent", busy), ("idle_percent", idle)]
        {
            report.samples(format!("receive.{name}.{key}"), samples.clone());
        }
    }
    report.show(table);
}
