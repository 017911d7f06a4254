//! Left alone among faults: connections of TCP, QUIC and UDP through a bundle, while links, NICs and daemons fail at
//! random for as long as it is told to.
//!
//! 1. [`agenda`]: which faults, when, and for how long, all of which follows from the seed; and how each begins and ends.
//! 2. [`Connections`]: what has to live on, every byte of it checked.
//! 3. Memory and file descriptors of the daemons, so that what leaks is seen.
//! 4. What is wanted: nothing lost, nothing damaged, nothing grown.
//!
//! One link is always sound. The daemon of the first host is halted but never killed: its memory tells of the whole run.

mod agenda;

use tabane_kit::status::PeerStatus;
use tabane_kit::strip;
use tabane_kit::workload::SILENCE_MAX;
use tabane_kit::workload::transfer::Carrier;

use crate::prelude::*;
use agenda::{Agenda, Event};

/// Rate of each link: low, for both ends share the CPUs of this machine.
const RATE: Bitrate = Bitrate::mbit(50);
/// Links of each host.
const LINKS: usize = 3;
/// Time for the connections to reach their speed before the first fault, and to recover from the last.
const SETTLE: Duration = Duration::from_secs(2);
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
    let hosts = usize::from(options.hosts);
    let wiring = if hosts == 2 { Wiring::Emulator } else { Wiring::Switch };
    let plan = Plan {
        hosts,
        wiring,
        addressed: false,
        seed: common.seed,
        ..Plan::two_hosts(vec![LinkPlan::shaped(RATE); LINKS])
    };
    let agenda = Agenda::draw(&plan, options.minutes, options.faults, common.seed);
    let topology = {
        let _step = progress::step(&format!("joining {hosts} hosts by {LINKS} links at {RATE}"));
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
    write(&mut report, &agenda, &end, &vitals);
    Bundle::stop_all(bundles)?;
    report.finish(common.json.as_deref())
}

struct Soak<'a, 'b> {
    topology: &'a Topology,
    bundles: &'b mut [Bundle<'a>],
    /// Of each host.
    vitals: Vec<Vitals>,
}

struct End {
    /// What took longest to make happen, and how long: all that comes after it happens late.
    slowest: Option<(Event, Duration)>,
    connections: Vec<Fate>,
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

/// Most that the memory of the first host's daemon may grow after it has warmed up.
const GROWTH_MAX: f64 = 1.05;

fn write(report: &mut Report, agenda: &Agenda, end: &End, vitals: &[Vitals]) {
    let counts = agenda.counts();
    report.field("seconds", agenda.span().as_secs_f64());
    report.field("faults", json!(counts));
    report.field("timetable", json!(agenda.timetable()));
    report.field("connections", json!(end.connections));
    report.field("whole_after_s", whole_after_s(end));
    report.field("slowest_event_s", end.slowest.map(|(_, took)| took.as_secs_f64()));
    report.show(connections(&end.connections));
    report
        .show("  stall: longest time in which nothing arrived, in seconds; missing: share of the datagrams");
    for Fate { name, lost, .. } in &end.connections {
        if let Some(lost) = lost {
            report.show(format!("  lost: {name}: {lost}"));
        }
    }
    if let Some((event, took)) = end.slowest {
        report.show(format!("  what took longest to make happen: {event}, {:.2} s", took.as_secs_f64()));
    }
    for state in end.whole_after.as_ref().err().into_iter().flatten() {
        report.show(format!("  not whole again: {state}"));
    }
    let mut faults = Table::new(["fault", "times"]);
    for (kind, count) in &counts {
        faults.row(vec![kind.label().to_string(), count.to_string()]);
    }
    report.show(format!("\n{faults}"));
    report.show("  resident memory of the daemons over the run; only the first one has never been killed");
    for (host, vitals) in vitals.iter().enumerate() {
        let memory = Samples::new("MiB", vitals.memory.clone());
        report.show(format!("  h{}  {} {:.1} MiB at most", host + 1, vitals.figure(), memory.max()));
        report.samples(format!("h{}.memory", host + 1), memory);
        report
            .samples(format!("h{}.descriptors", host + 1), Samples::new("open", vitals.descriptors.clone()));
    }
    judge(report, counts.values().sum(), end, vitals);
}

fn whole_after_s(end: &End) -> Option<f64> {
    end.whole_after.as_ref().ok().map(Duration::as_secs_f64)
}

fn judge(report: &mut Report, faults: usize, end: &End, vitals: &[Vitals]) {
    let lost = end.connections.iter().filter(|fate| fate.lost.is_some()).count();
    let damaged: u64 = end.connections.iter().map(|fate| fate.damaged).sum();
    report.verdict(Verdict::at_least("faults", faults as f64, 1.0));
    report.verdict(Verdict::equals("connections_lost", lost, 0));
    report.verdict(Verdict::equals("files_and_datagrams_damaged", damaged, 0));
    let (whole_after_s, most) = (whole_after_s(end).unwrap_or(f64::NAN), WHOLE_WITHIN.as_secs_f64());
    report.verdict(Verdict::at_most("whole_again_after_s", whole_after_s, most));
    report.verdict(Verdict::at_most("h1.memory_growth", vitals[0].growth(), GROWTH_MAX));
    for (host, vitals) in vitals.iter().enumerate() {
        if let [before, after] = vitals.descriptors_whole[..] {
            report.verdict(Verdict::equals(&format!("h{}.descriptors", host + 1), after, before));
        }
    }
}

fn connections(fates: &[Fate]) -> Table {
    let mut table = Table::new(["connection", "MB", "stall", "after", "missing", "damaged", "lost"]);
    for fate in fates {
        table.row(vec![
            fate.name.clone(),
            format!("{:.1}", fate.bytes as f64 / 1e6),
            format!("{:.2}", fate.stall_s),
            format!("{:.1}", fate.stall_at_s),
            fate.lost_share.map_or(String::new(), |share| format!("{:.2} %", share * 100.0)),
            fate.damaged.to_string(),
            if fate.lost.is_some() { "LOST" } else { "no" }.to_string(),
        ]);
    }
    table
}

const COLUMNS: usize = 60;

#[derive(Clone, Debug, Default)]
struct Vitals {
    /// Resident memory in MiB.
    memory: Vec<f64>,
    descriptors: Vec<f64>,
    /// The same at the moments in which the bundle is whole.
    descriptors_whole: Vec<u64>,
}

impl Vitals {
    fn look(&mut self, pid: u32) -> Result<()> {
        self.memory.push(process::resident_mib(pid)?);
        self.descriptors.push(descriptors(pid)? as f64);
        Ok(())
    }

    /// The same, at a moment in which the bundle is whole.
    fn look_whole(&mut self, pid: u32) -> Result<()> {
        self.descriptors_whole.push(descriptors(pid)?);
        self.look(pid)
    }

    /// Most memory in the last third as a multiple of the most in the third before: the first is for warming up.
    fn growth(&self) -> f64 {
        let third = self.memory.len() / 3;
        let most = |memory: &[f64]| memory.iter().copied().fold(0.0, f64::max);
        let (early, late) = self.memory[third..].split_at(third);
        most(late) / most(early)
    }

    /// A bar of memory per part of the run, the full one the most.
    fn figure(&self) -> String {
        let most = self.memory.iter().copied().fold(0.0, f64::max);
        let parts = self.memory.chunks(self.memory.len().div_ceil(COLUMNS).max(1));
        parts.map(|part| strip::bar(part.iter().sum::<f64>() / part.len() as f64, most)).collect()
    }
}

fn descriptors(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&path).context(path)?.count() as u64)
}

// What has to live on: connections between the hosts, both ways, every byte of which is checked.

/// The file that each connection carries again and again: small, so that the last copy ends soon.
const FILE_BYTES: u64 = 1 << 20;
/// The datagrams: 1.6 Mbit/s.
const PACE: Pace = Pace { per_second: 1_000, bytes: 200 };

struct Connections {
    transfers: Vec<(String, Transfer)>,
    datagrams: (String, Sequence),
    began_ns: u64,
}

#[derive(Debug, Default, Serialize)]
struct Fate {
    name: String,
    bytes: u64,
    /// Files or datagrams that arrived with another content.
    damaged: u64,
    stall_s: f64,
    /// When that was, since the first connection began.
    stall_at_s: f64,
    /// Share of the datagrams that did not arrive; of other connections none can be lost.
    lost_share: Option<f64>,
    lost: Option<String>,
}

impl Connections {
    /// TCP both ways, QUIC and datagrams between the first two hosts, and TCP to and from any third; datagrams for no
    /// longer than `limit`.
    fn start(topology: &Topology, limit: Duration, seed: u64) -> Result<Connections> {
        let hosts = topology.hosts();
        let mut wanted =
            vec![(Carrier::Tcp, 0, 1), (Carrier::Tcp, 1, 0), (Carrier::Quic, 0, 1), (Carrier::Quic, 1, 0)];
        wanted
            .extend((2..hosts.len()).flat_map(|third| [(Carrier::Tcp, 0, third), (Carrier::Tcp, third, 1)]));
        let name = |kind: &str, from: usize, to: usize| {
            format!("{kind} {} to {}", hosts[from].name(), hosts[to].name())
        };
        let transfers = wanted.into_iter().zip(seed..).map(|((carrier, from, to), seed)| {
            let (source, at) = (Source::random(FILE_BYTES, seed), SocketAddr::new(bundle::address(to), 0));
            let kind = if carrier == Carrier::Tcp { "TCP" } else { "QUIC" };
            Ok((name(kind, from, to), Transfer::over(carrier, &hosts[from], &hosts[to], at, source)?))
        });
        let began_ns = monotonic_ns()?;
        let transfers = transfers.collect::<Result<_>>()?;
        let at = SocketAddr::new(bundle::address(1), 0);
        let datagrams = (name("UDP", 0, 1), Sequence::start(&hosts[0], &hosts[1], at, PACE, limit)?);
        Ok(Connections { transfers, datagrams, began_ns })
    }

    fn finish(self) -> Vec<Fate> {
        for (_, transfer) in &self.transfers {
            transfer.end();
        }
        let (name, datagrams) = self.datagrams;
        let datagrams = of_datagrams(name, datagrams.finish(), self.began_ns);
        let transfers = self
            .transfers
            .into_iter()
            .map(|(name, transfer)| of_transfer(name, transfer.finish(), self.began_ns));
        transfers.chain([datagrams]).collect()
    }
}

fn of_transfer(name: String, outcome: Result<transfer::Outcome>, began_ns: u64) -> Fate {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Fate::never(name, &error),
    };
    let torn = (!outcome.is_whole && outcome.damaged == 0).then(|| "it did not arrive whole".to_string());
    let stall = outcome.gaps.longest();
    Fate {
        name,
        bytes: outcome.bytes,
        damaged: outcome.damaged,
        stall_s: stall.length.as_secs_f64(),
        stall_at_s: milliseconds_between(began_ns, stall.at_ns) / 1e3,
        lost_share: None,
        lost: outcome.lost.or(torn),
    }
}

fn of_datagrams(name: String, outcome: Result<sequence::Outcome>, began_ns: u64) -> Fate {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Fate::never(name, &error),
    };
    let stall = outcome.gaps.longest();
    let is_silent = stall.length >= SILENCE_MAX || outcome.received == 0;
    Fate {
        name,
        bytes: outcome.received * PACE.bytes as u64,
        damaged: outcome.damaged,
        stall_s: stall.length.as_secs_f64(),
        stall_at_s: milliseconds_between(began_ns, stall.at_ns) / 1e3,
        lost_share: Some(outcome.lost_at_ns.len() as f64 / outcome.sent.max(1) as f64),
        lost: is_silent.then(|| format!("nothing came for {:?}", stall.length)),
    }
}

impl Fate {
    /// Of a connection that never was, or whose ends broke.
    fn never(name: String, error: &anyhow::Error) -> Fate {
        Fate { name, lost: Some(format!("{error:#}")), ..Fate::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_may_be_parts_of_one() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        assert!(minutes("0").is_err() && minutes("NaN").is_err() && minutes("x").is_err());
    }

    #[test]
    fn growth_leaves_the_first_third_out() {
        let vitals = |memory: &[f64]| Vitals { memory: memory.to_vec(), ..Vitals::default() };
        assert!((vitals(&[1.0, 5.0, 10.0, 10.0, 10.0, 12.0]).growth() - 1.2).abs() < 1e-9);
        assert!(vitals(&[]).growth().is_nan());
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let mut vitals = Vitals::default();
        vitals.look_whole(std::process::id()).unwrap();
        assert!(vitals.memory[0] > 0.1 && vitals.descriptors_whole[0] >= 3);
        assert_eq!(vitals.figure(), "█");
    }
}
