//! The flows of a scenario over a real path, while they run and when they have ended.

use std::panic::resume_unwind;
use std::thread::{Scope, ScopedJoinHandle};

use tabane_kit::workload::app::{self, App};
use tabane_kit::workload::ping_pong::RoundTrips;
use tabane_kit::workload::transfer::{Carrier, Gaps};

use super::figure::Figure;
use super::plan::{Flow, FlowKind, Scenario};
use crate::prelude::*;

/// What a stream sends again and again: small, so that the last copy ends soon.
const COPY_BYTES: u64 = 1 << 20;

const IN_FLIGHT_NS: u64 = 50_000_000;
/// Time before the first fault in which stalls are the machine's own.
const CALM_NS: u64 = 500_000_000;

pub(super) enum Running<'s> {
    /// A stream, or of a file when it began.
    Transfer(Transfer, Option<u64>),
    Datagrams(Sequence),
    Trips(ScopedJoinHandle<'s, Result<RoundTrips>>),
    App(Box<(app::Load, app::Server)>),
}

/// What became of a flow; what flows of its kind have not is `None`.
#[derive(Default)]
pub(super) struct Finished {
    gaps: Option<Gaps>,
    is_broken: bool,
    /// From the start of a file to its last byte.
    seconds: Option<f64>,
    datagrams: Option<sequence::Outcome>,
    trips: Option<RoundTrips>,
    app: Option<app::Outcome>,
}

/// How far the flows of an entry were at one moment.
pub(super) struct Mark {
    pub(super) at_ns: u64,
    /// Bytes that had arrived of each, as far as it is a stream.
    bytes: Vec<u64>,
}

impl<'s> Running<'s> {
    pub(super) fn start(
        scope: &'s Scope<'s, '_>,
        flow: &Flow,
        stream: Stream,
        [from, to]: [&'s Namespace; 2],
        at: SocketAddr,
        duration: Duration,
        seed: u64,
    ) -> Result<Running<'s>> {
        let carrier = Carrier::Stream(stream);
        let send = |carrier, bytes| Transfer::over(carrier, from, to, at, Source::random(bytes, seed));
        Ok(match flow.kind {
            FlowKind::Tcp => Running::Transfer(send(carrier, COPY_BYTES)?, None),
            FlowKind::Quic => Running::Transfer(send(Carrier::Quic, COPY_BYTES)?, None),
            FlowKind::File => {
                let source = Source::random(flow.file_bytes(), seed);
                let start_ns = monotonic_ns()?;
                let transfer = Transfer::over(carrier, from, to, at, source)?;
                transfer.end();
                Running::Transfer(transfer, Some(start_ns))
            }
            FlowKind::Udp => {
                let pace = Pace { per_second: flow.per_second(), bytes: flow.payload().into() };
                Running::Datagrams(Sequence::start(from, to, at, pace, duration)?)
            }
            FlowKind::WebLarge
            | FlowKind::WebSmall
            | FlowKind::Database
            | FlowKind::Store
            | FlowKind::Nfs => {
                let app = flow.kind.app().context("an application")?;
                let server = app.serve(to, seed)?;
                let seconds = u32::try_from(duration.as_secs())?.max(1);
                Running::App(Box::new((server.load(app, from, at.ip(), seconds)?, server)))
            }
            FlowKind::PingPong => {
                Running::Trips(scope.spawn(move || ping_pong::play(from, to, at, stream, duration)))
            }
        })
    }

    /// Lets it end, without waiting for that.
    pub(super) fn end(&self) {
        if let Running::Transfer(transfer, None) = self {
            transfer.end();
        }
    }

    pub(super) fn finish(self) -> Result<Finished> {
        Ok(match self {
            Running::Transfer(transfer, start_ns) => Finished::of(transfer.finish()?, start_ns)?,
            Running::Datagrams(sequence) => {
                let outcome = sequence.outcome()?;
                ensure!(outcome.damaged == 0, "other datagrams arrived than were sent: {outcome:?}");
                let gaps = Some(outcome.gaps.clone());
                Finished { gaps, datagrams: Some(outcome), ..Finished::default() }
            }
            Running::Trips(trips) => {
                let trips = trips.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                Finished { trips: Some(trips), ..Finished::default() }
            }
            Running::App(app) => Finished { app: Some(app.0.finish()?), ..Finished::default() },
        })
    }
}

impl Finished {
    /// A transfer, of a file that began then. It may break; what arrives over it is what was sent.
    fn of(outcome: transfer::Outcome, start_ns: Option<u64>) -> Result<Finished> {
        let is_broken = outcome.lost.is_some();
        ensure!(outcome.is_whole || is_broken, "another file arrived than was sent: {outcome:?}");
        let seconds = start_ns.map(|start_ns| outcome.gaps.until_last(start_ns).as_secs_f64());
        Ok(Finished { gaps: Some(outcome.gaps), is_broken, seconds, ..Finished::default() })
    }
}

impl Mark {
    pub(super) fn now(flows: &[Running<'_>]) -> Result<Mark> {
        let arrived = |flow: &Running<'_>| match flow {
            Running::Transfer(transfer, _) => transfer.arrived(),
            Running::Datagrams(_) | Running::Trips(_) | Running::App(_) => 0,
        };
        Ok(Mark { at_ns: monotonic_ns()?, bytes: flows.iter().map(arrived).collect() })
    }

    pub(super) fn bytes_since(&self, earlier: &Mark) -> u64 {
        self.bytes.iter().sum::<u64>() - earlier.bytes.iter().sum::<u64>()
    }
}

pub(super) struct Around<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) fault_ns: Option<u64>,
    pub(super) socket_overruns: u64,
}

/// What the flows of an entry have to show, of the time between the two marks as far as that matters.
pub(super) fn figures(
    flow: &Flow,
    finished: &[Finished],
    [warm, end]: [&Mark; 2],
    around: &Around<'_>,
) -> Vec<(Figure, f64)> {
    let mut figures = Vec::new();
    let broken = finished.iter().filter(|flow| flow.is_broken).count();
    let mbps = |bytes: u64, ns: u64| bytes as f64 * 8e3 / ns as f64;
    let speed = |bytes: u64, ns: u64| (Figure::Mbps, mbps(bytes, ns));
    if let Some(fault_ns) =
        around.fault_ns.filter(|_| flow.kind != FlowKind::PingPong && flow.kind.app().is_none())
    {
        let until_ns = fault_ns.saturating_sub(IN_FLIGHT_NS);
        figures.push((Figure::CalmMs, longest_gap(finished, until_ns.saturating_sub(CALM_NS), until_ns)));
    }
    match flow.kind {
        FlowKind::Tcp | FlowKind::Quic => {
            let length_ns = end.at_ns - warm.at_ns;
            let each = end.bytes.iter().zip(&warm.bytes).map(|(end, warm)| mbps(end - warm, length_ns));
            let each: Vec<f64> = each.collect();
            figures.push((Figure::Mbps, each.iter().sum()));
            if each.len() > 1 {
                figures.push((Figure::SlowestMbps, each.iter().copied().fold(f64::INFINITY, f64::min)));
                figures.push((Figure::FastestMbps, each.iter().copied().fold(0.0, f64::max)));
            }
            figures.push((Figure::StallMs, longest_stall(finished, warm.at_ns, end.at_ns)));
            figures.push((Figure::Broken, broken as f64));
        }
        FlowKind::File => {
            let seconds = finished.iter().filter_map(|flow| flow.seconds).fold(0.0, f64::max);
            figures.extend((broken == 0).then_some((Figure::Seconds, seconds)));
            figures.push((Figure::Broken, broken as f64));
        }
        FlowKind::Udp => {
            let [sent, received] = finished
                .iter()
                .filter_map(|flow| flow.datagrams.as_ref())
                .fold([0, 0], |sum, outcome| [sum[0] + outcome.sent, sum[1] + outcome.received]);
            let duration = around.scenario.duration;
            let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            let planned = f64::from(flow.per_second()) * duration.as_secs_f64() * finished.len() as f64;
            // A datagram may be in a queue for some milliseconds before a fault.
            let since_ns = around.fault_ns.unwrap_or(warm.at_ns).max(warm.at_ns).saturating_sub(IN_FLIGHT_NS);
            let outcomes = || finished.iter().filter_map(|flow| flow.datagrams.as_ref());
            let gone = outcomes().flat_map(|outcome| &outcome.lost_at_ns).filter(|at_ns| **at_ns >= since_ns);
            let gone = (gone.count() as u64).saturating_sub(around.socket_overruns);
            figures.push((Figure::Lost, gone as f64));
            let overtaken: u64 = outcomes().map(|outcome| outcome.overtaken).sum();
            figures.push((Figure::Overtaken, overtaken as f64));
            figures.push(speed(received * u64::from(flow.payload()), duration_ns));
            figures.push((Figure::StallMs, longest_stall(finished, warm.at_ns, end.at_ns)));
            figures.push((Figure::LostPercent, (1.0 - received as f64 / sent as f64) * 100.0));
            figures.push((Figure::OfferedPercent, (sent as f64 / planned * 100.0).min(100.0)));
        }
        FlowKind::WebLarge | FlowKind::WebSmall | FlowKind::Database | FlowKind::Store | FlowKind::Nfs => {
            let outcomes = || finished.iter().filter_map(|flow| flow.app);
            let is_of_bytes = flow.kind.app().is_some_and(App::is_of_bytes);
            let speed = if is_of_bytes { Figure::Mbps } else { Figure::PerSecond };
            figures.push((speed, outcomes().map(|outcome| outcome.speed).sum()));
            figures.push((Figure::Failed, outcomes().map(|outcome| outcome.failed as f64).sum()));
        }
        FlowKind::PingPong => {
            let worst = |of: fn(&RoundTrips) -> f64| {
                finished.iter().filter_map(|flow| flow.trips.as_ref()).map(of).fold(0.0, f64::max) / 1e3
            };
            figures.push((Figure::RttMs, worst(|trips| trips.p50_us)));
            figures.push((Figure::RttP99Ms, worst(|trips| trips.p99_us)));
        }
    }
    figures
}

/// The longest time in which one of the flows got nothing, of which a part lies between the two moments, in
/// milliseconds; also when nothing came any more.
fn longest_stall(finished: &[Finished], from_ns: u64, to_ns: u64) -> f64 {
    let silence = gaps(finished).map(|gaps| {
        let last_ns = from_ns.saturating_add(u64::try_from(gaps.until_last(from_ns).as_nanos()).unwrap_or(0));
        to_ns.saturating_sub(last_ns) as f64 / 1e6
    });
    silence.fold(longest_gap(finished, from_ns, to_ns), f64::max)
}

/// The same, between two arrivals.
fn longest_gap(finished: &[Finished], from_ns: u64, to_ns: u64) -> f64 {
    let lengths = gaps(finished).map(|gaps| gaps.longest_within(from_ns, to_ns).length);
    lengths.max().unwrap_or_default().as_secs_f64() * 1e3
}

fn gaps(finished: &[Finished]) -> impl Iterator<Item = &Gaps> {
    finished.iter().filter_map(|flow| flow.gaps.as_ref())
}
