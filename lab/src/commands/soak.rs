//! Left alone among faults: connections of TCP, QUIC and UDP through a bundle, while links, NICs and daemons fail at
//! random for as long as it is told to.
//!
//! 1. [`agenda`]: which faults, when, and for how long; all of it follows from the seed.
//! 2. [`fault`]: how each begins and ends.
//! 3. [`connections`]: what has to live on, every byte of it checked.
//! 4. [`vitals`]: memory and file descriptors of the daemons, so that what leaks is seen.
//! 5. [`summary`]: nothing lost, nothing damaged, nothing grown.
//!
//! One link is always sound. The daemon of the first host is halted but never killed: its memory tells of the whole run.

mod agenda;
mod connections;
mod fault;
mod summary;
mod vitals;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::RangedU64ValueParser;

use agenda::{Agenda, Event};
use connections::Connections;
use tabane_kit::bundle::{self, Bundle, Common};
use tabane_kit::clock::wait_for;
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;
use tabane_kit::status::{PathStatus, PeerStatus, Questions};
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring};
use vitals::Vitals;

/// Rate of each link: low, for both ends share the CPUs of this machine.
const RATE: Bitrate = Bitrate::mbit(50);
/// Time for the connections to reach their speed before the first fault, and to recover from the last.
const SETTLE: Duration = Duration::from_secs(2);
/// How often memory and descriptors are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the bundle may take to be whole again: a link that flaps is held down for 32 s at most.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);
/// Parts of the run that are told of while they are done.
const CHAPTERS: usize = 20;

/// Random faults of links, NICs and daemons under connections of TCP, QUIC and UDP: 15 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How long faults happen
    #[arg(long, value_name = "MINUTES", default_value = "15", value_parser = minutes)]
    minutes: Duration,
    /// How many faults
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100_000))]
    faults: u32,
    /// Hosts: 2 joined by emulated wires, or 3 by switches, whose frames are neither lost nor damaged at random
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<u8>::new().range(2..=3))]
    hosts: u8,
    /// Only faults of links and NICs: no daemon is killed or halted
    #[arg(long)]
    spare_daemons: bool,
    /// Links of each host
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<u8>::new().range(2..=4))]
    links: u8,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| (0.1..=1440.0).contains(minutes));
    let minutes = minutes.ok_or("0.1 to 1440 minutes are possible")?;
    Ok(Duration::from_secs_f64(minutes * 60.0))
}

/// Runs the soak.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let mut report = Report::new("soak", common.seed);
    let (hosts, links) = (usize::from(options.hosts), usize::from(options.links));
    let wiring = if hosts == 2 { Wiring::Emulator } else { Wiring::Switch };
    let plan = Plan {
        hosts,
        wiring,
        addressed: false,
        seed: common.seed,
        ..Plan::two_hosts(vec![LinkPlan::shaped(RATE); links])
    };
    let agenda = Agenda::draw(&plan, options.minutes, options.faults, options.spare_daemons, common.seed);
    let topology = {
        let _step = progress::step(&format!("joining {hosts} hosts by {links} links at {RATE}"));
        Topology::build(plan)?
    };
    let mut bundles = {
        let _step = progress::step("starting a bundle on each host");
        Bundle::start_all(&topology, &bundle::Options::new(&daemon))?
    };
    let mut soak =
        Soak { topology: &topology, bundles: &mut bundles, vitals: vec![Vitals::default(); hosts] };
    let end = soak.run(&agenda, common.seed)?;
    let vitals = soak.vitals;
    summary::write(&mut report, &agenda, &end, &vitals);
    Bundle::stop_all(bundles)?;
    report.finish(common.json.as_deref())
}

struct Soak<'a, 'b> {
    topology: &'a Topology,
    bundles: &'b mut [Bundle<'a>],
    /// Of each host.
    vitals: Vec<Vitals>,
}

/// What was found in the end.
struct End {
    /// What took longest to make happen, and how long: all that comes after it happens late.
    slowest: Option<(Event, Duration)>,
    connections: Vec<connections::Fate>,
    /// From the end of the connections until every host used every link again; what each says if they never did. A
    /// bundle without load is asked, for a machine that is too busy takes sound links for dead.
    whole_after: Result<Duration, Vec<String>>,
}

impl Soak<'_, '_> {
    /// From whole to whole again.
    fn run(&mut self, agenda: &Agenda, seed: u64) -> Result<End> {
        let connections = Connections::start(self.topology, agenda.span() + WHOLE_WITHIN + 2 * SETTLE, seed)?;
        self.look_until(Instant::now() + SETTLE)?;
        self.look(Vitals::look_whole)?;
        let slowest = self.suffer(agenda)?;
        self.look_until(Instant::now() + SETTLE)?;
        let _step = progress::step("letting all connections end, and the bundle become whole again");
        let connections = connections.finish();
        let whole_after = self.whole_again();
        // A daemon that has just been asked for its status has a descriptor more for that.
        self.look_until(Instant::now() + SETTLE)?;
        self.look(Vitals::look_whole)?;
        Ok(End { slowest, connections, whole_after })
    }

    /// Lets all faults happen; returns what took longest, and how long.
    fn suffer(&mut self, agenda: &Agenda) -> Result<Option<(Event, Duration)>> {
        let began = Instant::now();
        let mut slowest = None;
        let events = agenda.events();
        for (chapter, events) in events.chunks(events.len().div_ceil(CHAPTERS)).enumerate() {
            let minutes = began.elapsed().as_secs_f64() / 60.0;
            let part =
                format!("faults, part {} of {CHAPTERS}, {minutes:.1} minutes after the first", chapter + 1);
            let length = events.last().map_or(Duration::ZERO, |(at, _)| *at);
            let _step = progress::step_within(&part, length + progress::STEP_MAX);
            for (at, event) in events {
                self.look_until(began + *at)?;
                let since = Instant::now();
                self.happen(*event).with_context(|| format!("{event:?}"))?;
                let took = since.elapsed();
                if slowest.is_none_or(|(_, longest)| took > longest) {
                    slowest = Some((*event, took));
                }
            }
        }
        Ok(slowest)
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        for bundle in self.bundles.iter_mut().filter(|bundle| bundle.pid().is_some()) {
            bundle.still_running()?;
        }
        match event {
            Event::Begin(fault) => fault.begin(self.topology, self.bundles),
            Event::End(fault) => fault.end(self.topology, self.bundles),
        }
    }

    /// Looks at the daemons now and then until `end`.
    fn look_until(&mut self, end: Instant) -> Result<()> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
            if left >= LOOK_EVERY {
                self.look(Vitals::look)?;
            }
        }
    }

    fn look(&mut self, how: impl Fn(&mut Vitals, u32) -> Result<()>) -> Result<()> {
        for (bundle, vitals) in self.bundles.iter().zip(&mut self.vitals) {
            if let Some(pid) = bundle.pid() {
                how(vitals, pid)?;
            }
        }
        Ok(())
    }

    /// Waits until every host uses every link; how long that took, or what each host says instead.
    fn whole_again(&self) -> Result<Duration, Vec<String>> {
        let (since, peers, links) = (Instant::now(), self.bundles.len() - 1, self.topology.nics().len());
        let is_whole =
            |bundle: &Bundle<'_>| bundle.status().is_ok_and(|status| status.is_ready(peers, links));
        let whole = || Ok(self.bundles.iter().all(is_whole).then(|| since.elapsed()));
        wait_for("whole bundle", WHOLE_WITHIN, whole).map_err(|_| self.bundles.iter().map(state).collect())
    }
}

/// What a bundle says of its links.
fn state(bundle: &Bundle<'_>) -> String {
    let status = match bundle.status() {
        Ok(status) => status,
        Err(silence) => return format!("{silence:#}"),
    };
    let of_path = |path: &PathStatus| format!("{} {}", path.nic, path.state());
    let of_peer = |peer: &PeerStatus| {
        format!("{}: {}", peer.node, peer.paths.iter().map(of_path).collect::<Vec<_>>().join("; "))
    };
    let peers: Vec<String> = status.peers.iter().map(of_peer).collect();
    let last = status.events.last().map_or(String::new(), |event| format!("{} {}", event.what, event.detail));
    format!("{} with {}; the last event was {last}", status.node, peers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_may_be_parts_of_one() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        assert!(minutes("0").is_err() && minutes("NaN").is_err() && minutes("x").is_err());
    }
}
