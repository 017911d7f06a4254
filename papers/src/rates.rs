//! P2.rates: beyond the paper: the order that has to be restored, and the time until a dead link is noticed, as links get faster.
//!
//! Simulated, processors take no time, and NICs of up to 100 Gbit/s gather what arrives for a time before they interrupt, which P2
//! names as the main cause of reordering. Measured at the rates that this machine has.

use tabane_proto::{Event, PolicyKind, Turn};
use tabane_sim::fault::Fault;
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Coalesce, Link, Topology as Simulated};
use tabane_sim::world::World;

use crate::prelude::*;

const RATES: [Bitrate; 4] = [Bitrate::gbit(1), Bitrate::gbit(10), Bitrate::gbit(25), Bitrate::gbit(100)];
/// Who deals the cells: RI2N's round robin packet by packet, and the default here; and how long a NIC gathers what arrives, in
/// microseconds (ethtool's rx-usecs).
const WAYS: [(PolicyKind, u64); 4] = [
    (PolicyKind::RoundRobin, 0),
    (PolicyKind::RoundRobin, 50),
    (PolicyKind::Adaptive, 0),
    (PolicyKind::Adaptive, 50),
];
const SETTLED_WITHIN: Duration = Duration::from_secs(1);
/// Flows run so long before anything counts, then so long until a link dies, and so long afterwards. Rates and windows are found by
/// the end of the first time.
const WARM_UP: Duration = Duration::from_millis(100);
const COUNTED: Duration = Duration::from_millis(5);
const AFTERWARDS: Duration = Duration::from_millis(5);
const DRAINED_WITHIN: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_micros(1);
const NOTICED_WITHIN: Duration = Duration::from_secs(1);
/// About as soon: no more than twice as late.
const TWICE: f64 = 2.0;
const DEAD: u8 = 0;
/// Rates that are measured, and the machine's own.
const MEASURED: [Option<Bitrate>; 3] = [Some(Bitrate::mbit(100)), Some(Bitrate::gbit(1)), None];
const FLOW_SECONDS: u32 = 3;
const DIES_AFTER: Duration = Duration::from_millis(1_500);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// 10^9 bits per second that arrive.
    gbit: f64,
    /// Share of the cells that waited for an earlier one, in percent.
    early: f64,
    depth: f64,
    /// Until the dead link was noticed, in milliseconds.
    noticed: f64,
    lost: f64,
}

type Figure = (&'static str, fn(&Seen) -> f64);

const FIGURES: [Figure; 5] = [
    ("Gbit/s that arrive", |seen| seen.gbit),
    ("% of the cells that wait for an earlier one", |seen| seen.early),
    ("most cells that wait at once", |seen| seen.depth),
    ("ms until a dead link is noticed", |seen| seen.noticed),
    ("superframes lost with it", |seen| seen.lost),
];
const DRAWN: [usize; 2] = [2, 3];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut all = Vec::new();
    for rate in RATES {
        let _step = progress::step(&format!("simulated: two links of {rate}"));
        all.push(WAYS.iter().map(|way| simulated(rate, *way)).collect::<Result<Vec<_>>>()?);
    }
    let columns = WAYS.map(words);
    let columns = columns.each_ref().map(String::as_str);
    for (what, figure) in FIGURES {
        let row = |(rate, seen): (&Bitrate, &Vec<Seen>)| {
            (format!("two links of {rate}"), seen.iter().map(|seen| Some(figure(seen))).collect())
        };
        let rows = RATES.iter().zip(&all).map(row).collect();
        outcome.grid(&format!("simulated: {what}"), &columns, rows);
    }
    judge(&mut outcome, &all);
    let panels = DRAWN.map(|figure| panel(&FIGURES[figure], &all));
    let title = "Reordering, and how soon a dead link is noticed, over the links' rate, simulated";
    outcome.pictures.push(Picture::new("P2-rates", title, 2, &panels));
    MEASURED.iter().try_for_each(|rate| measure(setting, *rate, &mut outcome))?;
    Ok(outcome)
}

fn panel((what, figure): &Figure, all: &[Vec<Seen>]) -> Panel {
    let line = |(place, way): (usize, &(PolicyKind, u64))| {
        let points = RATES.iter().zip(all).map(|(rate, seen)| (rate.mbps() / 1e3, figure(&seen[place])));
        Line::own(words(*way), place, points.collect())
    };
    let lines = WAYS.iter().enumerate().map(line).collect();
    Panel { title: (*what).to_string(), x: "Gbit/s of each of two links", y: what, lines }
}

fn words((policy, wait): (PolicyKind, u64)) -> String {
    format!("{policy}, {wait} µs")
}

fn simulated(rate: Bitrate, (policy, wait): (PolicyKind, u64)) -> Result<Seen> {
    let gathering = Coalesce { frames: u16::MAX, delay: Duration::from_micros(wait) };
    let coalesce = if wait == 0 { Coalesce::NONE } else { gathering };
    let link = Link { rate: rate.bits_per_second(), coalesce, ..Link::GIGABIT };
    let topology = Simulated::new(2, &[link; 2]).with_repair().with(|node| {
        node.policy = policy;
        node.policy_options.turn = Turn::Cells(1);
    });
    let mut world = World::new(1, &topology, None);
    world.settle(SETTLED_WITHIN)?;
    let flow = world.start(Flow::bulk(0, 1));
    world.run_for(WARM_UP)?;
    let (since, before) = (world.now(), cells(&world));
    let mut depth = 0;
    while world.now().since(since) < COUNTED {
        world.run_for(LOOK_EVERY)?;
        depth = depth.max(world.bundle(1).peers().map(|(peer, _)| peer.reorder_cells).sum());
    }
    let [early, received] = [0, 1].map(|which| (cells(&world)[which] - before[which]) as f64);
    let gbit = world.goodput(flow, since) / 1e9;
    let died = world.begin(Fault::BlackHole(DEAD, None));
    let noticed = loop {
        let is_notice = |event| matches!(event, Event::LinkDown { link: DEAD, .. });
        if let Some(entry) = world.log().iter().find(|entry| entry.at >= died && is_notice(entry.event)) {
            break entry.at.since(died);
        }
        ensure!(world.now().since(died) < NOTICED_WITHIN, "a dead link that nobody notices");
        world.run_for(LOOK_EVERY)?;
    };
    world.run_for(AFTERWARDS)?;
    world.stop(flow);
    world.run_for(DRAINED_WITHIN)?;
    Ok(Seen {
        gbit,
        early: 100.0 * early / received,
        depth: depth as f64,
        noticed: noticed.as_secs_f64() * 1e3,
        lost: world.result_since(flow, since).lost() as f64,
    })
}

fn cells(world: &World<'_>) -> [u64; 2] {
    let counters = world.bundle(1).counters();
    [counters.cells_early, counters.cells_received]
}

fn judge(outcome: &mut Outcome, all: &[Vec<Seen>]) {
    let depths = |way: usize| all.iter().map(|seen| seen[way].depth).collect::<Vec<_>>();
    let list =
        |figures: &[f64]| figures.iter().map(|figure| format!("{figure:.0}")).collect::<Vec<_>>().join(", ");
    let [ri2n, adaptive] = [1, 3].map(depths);
    outcome.finding(
        "simulated: with NICs that moderate, the order costs RI2N's round robin more memory the faster the links are",
        ri2n.is_sorted_by(|one, next| one < next),
        format!("up to {} cells wait at once, under adaptive {}", list(&ri2n), list(&adaptive)),
    );
    let noticed = all.iter().flatten().map(|seen| seen.noticed);
    let (soonest, latest) =
        (noticed.clone().fold(f64::INFINITY, f64::min), noticed.fold(f64::NEG_INFINITY, f64::max));
    outcome.finding(
        "simulated: a dead link is noticed about as soon at 100 Gbit/s as at 1 Gbit/s",
        latest <= TWICE * soonest,
        format!("{soonest:.1} to {latest:.1} ms"),
    );
    let lost =
        all.iter().map(|seen| seen.iter().map(|seen| seen.lost).fold(0.0, f64::max)).collect::<Vec<_>>();
    outcome.finding(
        "simulated: what a dead link has swallowed is sent again, at any rate",
        lost.iter().all(|lost| *lost < 1.0),
        format!("up to {} superframes are lost for good", list(&lost)),
    );
}

fn measure(setting: &Setting, rate: Option<Bitrate>, outcome: &mut Outcome) -> Result<()> {
    let (name, link) = match rate {
        Some(rate) => (format!("two links of {rate}"), LinkPlan::paced(rate)),
        None => ("two links as fast as the machine".to_string(), LinkPlan::unshaped()),
    };
    let mut seen = [("Mbit/s", Vec::new()), ("%", Vec::new()), ("ms", Vec::new())]
        .map(|(unit, none)| Samples::new(unit, none));
    for round in 1..=setting.rounds {
        let _step = progress::step(&format!("{name}, round {round}"));
        let topology = Topology::build(Plan::two_hosts(vec![link; 2]))?;
        let bundles = setting.bundles(&topology, "adaptive")?;
        let _server = Server::start(topology.host(1), Stream::Tcp)?;
        let running = iperf::Flow::tcp(bundle::address(1), FLOW_SECONDS).start(topology.host(0))?;
        thread::sleep(DIES_AFTER);
        let early = bundles[1].status()?;
        let died = topology.kill_switch(DEAD.into())?;
        let notice = wait_for("a dead link that is noticed", NOTICED_WITHIN, || {
            let ends = bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>()?;
            let events =
                ends.iter().filter_map(|end| end.first_event(LINK_DOWN, DEAD.into(), died.before_ns));
            Ok(events.map(|event| event.at_ns).min())
        })?;
        let shares = ["cells_early", "cells_received"].map(|name| early.counter(name) as f64);
        let ended = running.finish()?;
        let before = ended.intervals_gbps.len() / 3;
        let mbit = ended.intervals_gbps[..before].iter().sum::<f64>() * 1e3 / before as f64;
        seen[0].push(mbit);
        seen[1].push(100.0 * shares[0] / shares[1]);
        seen[2].push(milliseconds_between(died.after_ns, notice));
        Bundle::stop_all(bundles)?;
    }
    let [mbit, early, noticed] = seen;
    outcome.own(format!("{name}: sent before a link dies"), mbit);
    outcome.own(format!("{name}: cells that waited for an earlier one"), early);
    outcome.own(format!("{name}: until a dead link was noticed"), noticed);
    Ok(())
}
