//! The receive engines at every load: what each costs, and how late it is, from ten datagrams a second to a million.
//!
//! Two hosts, one unshaped cable, sealed cells; the engines take turns over the same daemons (`tabane receive`). Nothing is
//! pinned: sender, echo, both daemons and the kernel share the machine's processors as they come.
//! Beside the loads there is one ping-pong, and quiet; the bench has these, too.

use tabane_kit::workload::echoes;

use crate::prelude::*;

/// Lets `bundles` wait by `engine`.
pub fn choose(engine: Method, bundles: &[Bundle<'_>]) -> Result<()> {
    bundles.iter().try_for_each(|bundle| bundle.ask(&["receive", DEVICE, engine.name()]).map(drop))
}

/// Does `work`; returns also what part of a processor the daemons of `bundles` took meanwhile, in percent.
pub fn share_during<T>(bundles: &[Bundle<'_>], work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let (done, used) = used_during(&Bundle::pids(bundles), work)?;
    Ok((done, 100.0 * used.processes_seconds / used.wall_seconds))
}

/// The receive engines at loads from 10/s to 1,000,000/s: round trips and CPU
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// One round of one second at three loads: does it work, not how fast
    #[arg(long)]
    quick: bool,
}

const BARE: Duration = Duration::from_secs(1);
/// After a change of engine: what came before is over.
const SETTLE: Duration = Duration::from_millis(200);
/// Loads, in datagrams per second, with seconds of each and samples of it; and when it has to be quick.
const LOADS: (&[u64], u32, u32) = (&[10, 100, 1_000, 10_000, 100_000, 1_000_000], 2, 3);
const LOADS_QUICK: (&[u64], u32, u32) = (&[10, 1_000, 100_000], 1, 1);
/// Beyond so many datagrams a second the figures say how long the queues of an overloaded machine are, and are not judged.
const JUDGED_MAX: u64 = 10_000;

/// What is measured: name in files, name for people, unit. Time is that of one processor, by both daemons together.
const FIGURES: [(&str, &str, &str); 4] = [
    ("p50_us", "round trip p50, µs", "µs"),
    ("p99_us", "round trip p99, µs", "µs"),
    ("cpu_percent", "CPU of both daemons, %", "%"),
    ("returned_per_s", "came back, 1/s", "1/s"),
];

/// What adaptive may need of a figure, as a multiple of the better of interrupt and busy; `None`: it is not judged. Where it is more than
/// 1.1, docs/limits.md says why.
fn of_better_max(load: u64, figure: &str) -> Option<f64> {
    match (load, figure) {
        (100, "cpu_percent") => Some(1.6),
        (1_000, "cpu_percent") => Some(1.5),
        (10_000, "p50_us") => Some(2.2),
        (..=JUDGED_MAX, "p50_us" | "cpu_percent") => Some(1.1),
        _ => None,
    }
}

/// Measures all engines at all loads.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let (loads, seconds, rounds) = if options.quick { LOADS_QUICK } else { LOADS };
    let cable = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
    let topology = Topology::build(cable)?;
    let bundles = Bundle::start_all(&topology, &bundle::Options::new(&common.daemon()?))?;
    let mut report = Report::new("engines", common.seed);
    for round in 1..=rounds {
        let step = progress::step(&format!("round {round} of {rounds}: ping-pong and quiet"));
        let (client, server) = (topology.host(0), topology.host(1));
        let trips = ping_pong::play(client, server, (address(0, 1), 0).into(), Stream::Tcp, BARE)?;
        report.push("veth.p50_us", "µs", trips.p50_us);
        take_waiting(&topology, &bundles, &mut report)?;
        drop(step);
        for (load, engine) in loads.iter().flat_map(|load| Method::ALL.map(|engine| (*load, engine))) {
            let what = format!("round {round} of {rounds}: {load}/s, {}", engine.name());
            let _step = progress::step(&what);
            sample(&topology, &bundles, (load, engine), seconds, &mut report)?;
        }
    }
    report.cover_part(options.quick);
    write_waiting(&mut report, "veth.p50_us");
    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("pinning", "none");
    write(&mut report, loads);
    report.show(format!(
        "  medians of {rounds} rounds of {seconds} s, 64 B of UDP, link unshaped, nothing pinned"
    ));
    report.finish(common.json.as_deref())
}

fn sample(
    topology: &Topology,
    bundles: &[Bundle<'_>],
    (load, engine): (u64, Method),
    seconds: u32,
    report: &mut Report,
) -> Result<()> {
    choose(engine, bundles)?;
    thread::sleep(SETTLE);
    let at = SocketAddr::new(bundle::address(1), 0);
    let (duration, hosts) = (Duration::from_secs(seconds.into()), [0, 1].map(|host| topology.host(host)));
    let (outcome, cpu) = share_during(bundles, || echoes::offer(hosts[0], hosts[1], at, load, duration))?;
    let values = [outcome.trips.p50_us, outcome.trips.p99_us, cpu, outcome.returned_per_second];
    for ((figure, _, unit), value) in FIGURES.iter().zip(values) {
        report.push(key(load, engine, figure), unit, value);
    }
    Ok(())
}

fn key(load: u64, engine: Method, figure: &str) -> String {
    format!("{load}.{}.{figure}", engine.name())
}

fn write(report: &mut Report, loads: &[u64]) {
    let names = Method::ALL.map(Method::name);
    let mut table = Table::new(["load, figure"].into_iter().chain(names).chain(["adaptive of the better"]));
    for (load, (figure, label, _)) in loads.iter().flat_map(|load| FIGURES.map(|figure| (*load, figure))) {
        let median = |engine: Method| report.median(&key(load, engine, figure));
        let better = median(Method::Interrupt).min(median(Method::Busy));
        let ratio = median(Method::Adaptive) / better;
        let mut row = vec![format!("{load}/s  {label}")];
        row.extend(Method::ALL.map(|engine| format!("{:.1}", median(engine))));
        if let Some(most) = of_better_max(load, figure) {
            row.push(format!("{ratio:.2}"));
            report.verdict(Verdict::at_most(&format!("{load}.{figure}"), ratio, most));
        }
        table.row(row);
    }
    report.show(table);
}

// How daemons wait: each receive engine under one ping-pong, and when nothing moves.
//
// Part of [`super`], and of the bench. The engines take turns over the same daemons.

/// Most of the median round trip, as a multiple of bare veth's in the same run: a prototype that spun reached 30 µs beside 56.
const OF_VETH_MAX: f64 = 0.54;
/// What a daemon with nothing to do may take of a processor, in percent: heartbeats wake it, and machines differ (docs/limits.md).
const IDLE_MAX: f64 = 1.7;
const PLAY: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(2);

/// What is measured: name in files, name for people, unit. Time is that of one processor, per daemon.
const WAITING: [(&str, &str, &str); 4] = [
    ("p50_us", "p50, µs", "µs"),
    ("p99_us", "p99, µs", "µs"),
    ("busy_percent", "CPU per daemon, %", "%"),
    ("idle_percent", "idle, %", "%"),
];

/// Takes a sample of each.
pub fn take_waiting(topology: &Topology, bundles: &[Bundle<'_>], report: &mut Report) -> Result<()> {
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
            WAITING.iter().zip([trips.p50_us, trips.p99_us, busy / daemons, idle / daemons])
        {
            report.push(waiting_key(engine, figure), unit, value);
        }
    }
    Ok(())
}

fn waiting_key(engine: Method, figure: &str) -> String {
    format!("receive.{}.{figure}", engine.name())
}

/// Judges and shows the engines; `veth`: the key of bare veth's round trip in the same run.
pub fn write_waiting(report: &mut Report, veth: &str) {
    let heads = WAITING.map(|(_, label, _)| label);
    let mut table = Table::new(["receive engine"].into_iter().chain(heads).chain(["p50 of veth"]));
    let of_veth = |report: &Report, engine| report.ratio(&waiting_key(engine, "p50_us"), veth);
    for engine in Method::ALL {
        let medians = WAITING.map(|(figure, ..)| number(report.median(&waiting_key(engine, figure))));
        let ratio = number(of_veth(report, engine));
        table.row([engine.name().to_owned()].into_iter().chain(medians).chain([ratio]).collect());
    }
    let idle = report.median(&waiting_key(Method::Adaptive, "idle_percent"));
    let ratio = of_veth(report, Method::Adaptive);
    report.verdict(Verdict::at_most("receive.adaptive.p50_of_veth", ratio, OF_VETH_MAX));
    report.verdict(Verdict::at_most("receive.adaptive.idle_percent", idle, IDLE_MAX));
    report.show(table);
}
