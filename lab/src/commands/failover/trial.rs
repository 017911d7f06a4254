//! One trial: a bundle, two flows, a link that fails and heals a few times, and once more in quiet.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::fault::Fault;
use super::figures::{Figures, Tcp, frames_trimmed, noticed_ms, socket_overruns};
use super::matrix::Trial;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::clock::{Moment, monotonic_ns, wait_for};
use tabane_kit::counters::queue_drops;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::Status;
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::workload::sequence::{Pace, Sequence};
use tabane_kit::workload::transfer::{Source, Transfer};

/// Rate of each link.
const LINK_RATE: Bitrate = Bitrate::gbit(1);
/// The datagrams: 16 Mbit/s.
const PACE: Pace = Pace { per_second: 10_000, bytes: 200 };
/// The file that TCP sends again and again: small, so that the last copy ends soon on a sick link, too.
const FILE_BYTES: u64 = 1 << 20;
/// Time for TCP to reach its speed.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time for the consequences of a fault that has ended.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a bundle may take to be whole again; links that flap are held down for a while.
const WHOLE_WITHIN: Duration = Duration::from_secs(5);
/// How long daemons in quiet may take to notice a fault.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);
/// No datagrams are sent longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `trial`, with the fault so often.
///
/// # Errors
/// A daemon does not start or does not end well, or a tool fails.
pub(super) fn run(trial: &Trial, daemon: &Path, rounds: Option<u32>, seed: u64) -> Result<Figures> {
    let plan = Plan {
        wiring: trial.fault.wiring(),
        addressed: false,
        seed,
        ..Plan::two_hosts(vec![LinkPlan::shaped(LINK_RATE); trial.links.into()])
    };
    let topology = Topology::build(plan)?;
    let options = bundle::Options { arguments: trial.mode.arguments(), ..bundle::Options::new(daemon) };
    let bundles = Bundle::start_all(&topology, &options)?;
    let rounds = rounds.unwrap_or(trial.fault.rounds());
    let links = trial.links.into();
    let bench = Bench { fault: trial.fault, rounds, links, topology: &topology, bundles: &bundles };
    let mut figures = Figures::default();
    bench.under_load(&mut figures, seed)?;
    if trial.fault.is_sudden() && figures.unrecovered == 0 {
        bench.in_quiet(&mut figures)?;
    }
    figures.add_false_alarms(&bench.statuses()?);
    for bundle in bundles {
        bundle.stop()?.success("a daemon told to stop")?;
    }
    Ok(figures)
}

struct Bench<'a> {
    fault: Fault,
    rounds: u32,
    links: usize,
    topology: &'a Topology,
    bundles: &'a [Bundle<'a>],
}

impl Bench<'_> {
    /// Breaks and mends the link with both flows under way.
    fn under_load(&self, figures: &mut Figures, seed: u64) -> Result<()> {
        let (client, server) = (self.topology.host(0), self.topology.host(1));
        let at = SocketAddr::new(bundle::address(1), 0);
        let start = Tcp::now(client)?;
        let transfer = Transfer::start(client, server, at, Source::random(FILE_BYTES, seed)?)?;
        let sequence = Sequence::start(client, server, at, PACE, LIMIT)?;
        thread::sleep(WARM_UP);
        let (before_fault, overruns) = (Tcp::now(client)?, socket_overruns(server)?);
        let trimmed = frames_trimmed(&self.bundles[0])?;
        let device_drops = queue_drops(client, bundle::DEVICE)?;
        let mut first_fault = None;
        for _ in 0..self.rounds {
            let began = self.round(figures)?;
            first_fault.get_or_insert(began);
            if figures.unrecovered > 0 {
                break;
            }
        }
        let first_fault = first_fault.context("a fault has at least one round")?;
        let udp = sequence.finish()?;
        let tcp = transfer.finish()?;
        let ends = self.statuses()?;
        figures.add_tcp(&tcp, [start, before_fault, Tcp::now(client)?], first_fault);
        figures.frames_trimmed = frames_trimmed(&self.bundles[0])? - trimmed;
        figures.device_drops = queue_drops(client, bundle::DEVICE)? - device_drops;
        figures.add_udp(&udp, socket_overruns(server)? - overruns, first_fault);
        figures.add_reports(&ends, first_fault);
        figures.add_overruns(self.topology)?;
        Ok(())
    }

    /// One fault from its beginning to the recovery; when it began.
    fn round(&self, figures: &mut Figures) -> Result<Moment> {
        let began = self.fault.begin(self.topology, LINK_RATE)?;
        self.fault.last(self.topology)?;
        let seen = self.statuses()?;
        let ended = self.fault.end(self.topology)?;
        figures.add_detection(&seen, began, ended);
        let since = Instant::now();
        if self.is_whole_again()? {
            figures.recovered_ms.push(since.elapsed().as_secs_f64() * 1e3);
        } else {
            figures.unrecovered += 1;
        }
        figures.add_fault(began, ended, monotonic_ns()?);
        thread::sleep(SETTLE);
        Ok(began)
    }

    /// Breaks and mends the link as often again, with nothing under way but heartbeats.
    fn in_quiet(&self, figures: &mut Figures) -> Result<()> {
        for round in 1..=self.rounds {
            let began = self.fault.begin(self.topology, LINK_RATE)?;
            let noticed = wait_for("notice", NOTICED_WITHIN, || noticed_ms(self.bundles, began));
            let ended = self.fault.end(self.topology)?;
            match noticed {
                Ok(noticed_ms) => figures.detected_idle_ms.push(noticed_ms),
                Err(_) => figures.unnoticed_idle += 1,
            }
            // A link that has failed so often is held down for long; after the last fault nothing waits for it.
            let is_whole = round == self.rounds || self.is_whole_again()?;
            figures.add_fault(began, ended, monotonic_ns()?);
            if !is_whole {
                figures.unrecovered += 1;
                break;
            }
        }
        Ok(())
    }

    /// Waits until every link is up both ways; `false`: it takes too long.
    fn is_whole_again(&self) -> Result<bool> {
        let end = Instant::now() + WHOLE_WITHIN;
        while Instant::now() < end {
            if self.statuses()?.iter().all(|end| end.is_ready(1, self.links)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn statuses(&self) -> Result<Vec<Status>> {
        self.bundles.iter().map(Bundle::status).collect()
    }
}
