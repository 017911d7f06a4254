//! One run in the simulator: the bundle's own code on made-up links, in made-up time, the same for a seed each time.
//!
//! There is no TCP in it: a `tcp` flow is a source of superframes that always has one more and does not slow down, a
//! `file` is done when as many bytes have arrived. The best link alone is a bundle over that link.

use tabane_probe::stats::{quantile, sorted};
use tabane_proto::security::Rekey;
use tabane_proto::{Event, Instant, PolicyOptions};
use tabane_sim::cable::Place;
use tabane_sim::fault::Fault;
use tabane_sim::flow::{Flow as Traffic, Pace, Sizes};
use tabane_sim::frame::{Heading, SHORTEST};
use tabane_sim::router::RouterSettings;
use tabane_sim::topology::{Coalesce, Link as Cables, NodeSettings, Topology};
use tabane_sim::traffic::FlowNumber;
use tabane_sim::world::World;

use super::contestant::{Contestant, With};
use super::course::{self, Step};
use super::figure::{Figure, Measure};
use super::plan::{FaultKind, Flow, FlowKind, Quality, Scenario};
use crate::prelude::*;

const SETTLED_WITHIN: Duration = Duration::from_secs(5);
const DRAINED_WITHIN: Duration = Duration::from_secs(1);
const FILE_OVERTIME: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_millis(500);
/// A superframe of TCP over IPv4: Ethernet, IP and TCP headers, and payload.
const TCP_HEADERS: usize = 54;
const SUPERFRAME: usize = 65_160;
const UDP_HEADERS: usize = 42;
/// The round trip of a bare flow without a queue, at least: its end's processors take some time.
const RIVAL_TRIP_LEAST: Duration = Duration::from_micros(500);
/// What its segments carry, as a part of their bytes.
const RIVAL_PAYLOAD: f64 = 1_448.0 / 1_500.0;
/// Headers of IPv6 and UDP: the rest of a link's MTU is a cell.
const CELL_HEADERS: u16 = 48;

pub(super) fn run(scenario: &Scenario, contestant: Contestant, seed: u64) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for (turn, scenario) in scenario.turns() {
        let of_turn = play(&scenario, contestant, seed)?.into_iter();
        measures.extend(of_turn.map(|measure| measure.in_turn(turn)));
    }
    Ok(measures)
}

fn play(scenario: &Scenario, contestant: Contestant, seed: u64) -> Result<Vec<Measure>> {
    let links = match contestant {
        Contestant::BestLink => vec![scenario.best_link()],
        _ => (0..scenario.links.len()).collect(),
    };
    let cables: Vec<Cables> =
        links.iter().map(|link| cables(scenario, *link, scenario.links[*link].quality())).collect();
    let topology = Topology::new(scenario.hosts, &cables).with(|node| configure(node, scenario, contestant));
    let mut world = World::new(seed, &topology, None);
    world.settle(SETTLED_WITHIN)?;
    world.run_for(scenario.quiet)?;
    let start = world.now();
    let flows = scenario.flows.iter().map(|flow| begin(&mut world, flow, scenario.hosts)).collect();
    let (entries, none) = (scenario.flows.len(), Vec::new());
    let mut run =
        Run { scenario, contestant, links, world, start, flows, done: vec![None; entries], rivals: none };
    run.begin_rivals();
    run.play()
}

struct Run<'a> {
    scenario: &'a Scenario,
    contestant: Contestant,
    /// The scenario's number of each link of the world.
    links: Vec<usize>,
    world: World<'a>,
    start: Instant,
    flows: Vec<Vec<FlowNumber>>,
    done: Vec<Option<Instant>>,
    rivals: Vec<Rival>,
}

/// A bare flow, which competes at a router.
struct Rival {
    entry: usize,
    place: Place,
    warm: u64,
}

impl Run<'_> {
    fn play(mut self) -> Result<Vec<Measure>> {
        let mut death = None;
        for step in course::of(self.scenario) {
            self.advance(self.start + step.at)?;
            if let Some(link) = self.links.iter().position(|link| *link == step.link) {
                self.change(&step, u8::try_from(link)?);
                death = death.or(step.is_death.then_some((link, self.world.now())));
            }
        }
        self.advance(self.start + self.scenario.duration)?;
        let mut measures: Vec<Measure> = self.carried().flat_map(|entry| self.of_time(entry)).collect();
        measures.extend(self.of_rivals());
        self.finish_files()?;
        self.flows.iter().flatten().for_each(|flow| self.world.stop(*flow));
        self.world.run_for(DRAINED_WITHIN)?;
        measures.extend((0..self.flows.len()).flat_map(|entry| self.of_end(entry)));
        // Alone, nothing but the simulator's stand-in for a bare link would notice.
        if let Some((link, since)) = death.filter(|_| self.contestant != Contestant::BestLink) {
            measures.extend(self.noticed(link, since));
        }
        Ok(measures)
    }

    fn advance(&mut self, until: Instant) -> Result<()> {
        let warm = self.start + self.scenario.warm_up();
        if self.world.now() < warm && warm < until {
            self.advance(warm)?;
            for rival in &mut self.rivals {
                rival.warm = self.world.competed(rival.place);
            }
        }
        while self.world.now() < until {
            let next = if self.has_unfinished() { until.min(self.world.now() + LOOK_EVERY) } else { until };
            self.world.run_until(next)?;
            self.look_at_files();
        }
        Ok(())
    }

    fn carried(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.flows.len()).filter(|entry| self.scenario.flows[*entry].bare.is_none())
    }

    fn begin_rivals(&mut self) {
        for (entry, flow) in self.scenario.flows.iter().enumerate() {
            let Some(bare) = flow.bare.map(usize::from) else { continue };
            let nic = (0_u8..).zip(&self.links).find(|(_, link)| **link == bare).map(|(nic, _)| nic);
            let Some(place) = nic.map(|nic| Place { node: flow.to, nic }) else { continue };
            let round_trip = (2 * self.scenario.links[bare].delay).max(RIVAL_TRIP_LEAST);
            self.world.compete(place, round_trip);
            self.rivals.push(Rival { entry, place, warm: 0 });
        }
    }

    fn of_rivals(&mut self) -> Vec<Measure> {
        let seconds = (self.scenario.duration - self.scenario.warm_up()).as_secs_f64();
        let Self { world, rivals, .. } = self;
        let speed = |rival: &Rival| {
            let bytes = world.competed(rival.place) - rival.warm;
            Measure::of_flow(rival.entry, Figure::Mbps, bytes as f64 * RIVAL_PAYLOAD * 8e-6 / seconds)
        };
        rivals.iter().map(speed).collect()
    }

    fn has_unfinished(&self) -> bool {
        let entries = self.scenario.flows.iter().zip(&self.done);
        entries.into_iter().any(|(flow, done)| matches!(flow.kind, FlowKind::File) && done.is_none())
    }

    fn look_at_files(&mut self) {
        for (entry, flow) in self.scenario.flows.iter().enumerate() {
            if flow.kind != FlowKind::File {
                continue;
            }
            let bytes = flow.file_bytes() as f64;
            let has_come = |flow: &FlowNumber| payload(self.world.result(*flow).delivered_bytes) >= bytes;
            if self.done[entry].is_none() && self.flows[entry].iter().all(has_come) {
                self.done[entry] = Some(self.world.now());
                self.flows[entry].iter().for_each(|flow| self.world.stop(*flow));
            }
        }
    }

    fn finish_files(&mut self) -> Result<()> {
        let limit = self.world.now() + FILE_OVERTIME;
        while self.has_unfinished() {
            ensure!(self.world.now() < limit, "a file has not arrived {FILE_OVERTIME:?} after the end");
            self.advance(self.world.now() + LOOK_EVERY)?;
        }
        Ok(())
    }

    fn change(&mut self, step: &Step, link: u8) {
        let Step { before, after, .. } = step;
        if before.quality != after.quality {
            self.world.set_link(link, &cables(self.scenario, step.link, after.quality));
        }
        let hole = [before, after].map(|condition| condition.black_hole);
        self.toggle(hole, Fault::BlackHole(link, None));
        for host in 0..self.scenario.hosts {
            let has = |kind| [before, after].map(|condition| condition.hosts.contains(&(kind, host)));
            let (mute, pulled) = (has(FaultKind::OneWay), has(FaultKind::Cable));
            self.toggle(mute, Fault::Mute(link, Some(host)));
            self.toggle(pulled, Fault::NoCarrier(link, Some(host)));
        }
    }

    fn toggle(&mut self, [before, after]: [bool; 2], fault: Fault) {
        match (before, after) {
            (false, true) => drop(self.world.begin(fault)),
            (true, false) => drop(self.world.end(fault)),
            _ => {}
        }
    }

    fn of_time(&self, entry: usize) -> Vec<Measure> {
        let since = self.start + self.scenario.warm_up();
        let flows = || self.flows[entry].iter().copied();
        let measure = |figure, value| Measure::of_flow(entry, figure, value);
        let speed = |share: f64| {
            let bits: f64 = flows().map(|flow| self.world.goodput(flow, since)).sum();
            measure(Figure::Mbps, bits * share / 1e6)
        };
        let stall = || {
            let longest = flows().map(|flow| self.world.longest_pause(flow, since)).max().unwrap_or_default();
            measure(Figure::StallMs, milliseconds(longest))
        };
        let flow = &self.scenario.flows[entry];
        match flow.kind {
            FlowKind::Tcp | FlowKind::Quic => vec![speed(payload(1)), stall()],
            FlowKind::Udp => {
                let bytes = usize::from(flow.payload());
                vec![speed(bytes as f64 / udp_frame(bytes) as f64), stall()]
            }
            FlowKind::PingPong => {
                let trips = flows().map(|flow| {
                    let trips = self.world.round_trips(flow, self.start).into_iter().map(milliseconds);
                    sorted(&trips.collect::<Vec<f64>>())
                });
                let trips: Vec<Vec<f64>> = trips.collect();
                let worst = |at| trips.iter().map(|trips| quantile(trips, at)).fold(f64::NAN, f64::max);
                vec![measure(Figure::RttMs, worst(0.5)), measure(Figure::RttP99Ms, worst(0.99))]
            }
            // The last byte of a file tells of it; applications are not simulated.
            _ => Vec::new(),
        }
    }

    /// What is known when all has arrived that will.
    fn of_end(&self, entry: usize) -> Vec<Measure> {
        let measure = |figure, value| Measure::of_flow(entry, figure, value);
        let flow = &self.scenario.flows[entry];
        match flow.kind {
            FlowKind::Udp => {
                let results: Vec<_> =
                    self.flows[entry].iter().map(|flow| self.world.result_since(*flow, self.start)).collect();
                let [taken, lost] = [
                    results.iter().map(|result| result.taken).sum::<u64>() as f64,
                    results.iter().map(|result| result.lost()).sum::<u64>() as f64,
                ];
                let planned = f64::from(flow.per_second())
                    * self.scenario.duration.as_secs_f64()
                    * results.len() as f64;
                vec![
                    measure(Figure::LostPercent, lost / taken * 100.0),
                    measure(Figure::OfferedPercent, (taken / planned * 100.0).min(100.0)),
                ]
            }
            FlowKind::File => {
                let seconds = |done: Instant| done.since(self.start).as_secs_f64();
                self.done[entry].map(|done| measure(Figure::Seconds, seconds(done))).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn noticed(&self, victim: usize, since: Instant) -> Option<Measure> {
        let is_notice = |event| matches!(event, Event::LinkDown { link, .. } if usize::from(link) == victim);
        let mut entries = self.world.log().iter().filter(|entry| entry.at >= since);
        let notice = entries.find(|entry| is_notice(entry.event))?;
        Some(Measure::of_run(Figure::NoticedMs, milliseconds(notice.at.since(since))))
    }
}

fn cables(scenario: &Scenario, link: usize, quality: Quality) -> Cables {
    let plan = &scenario.links[link];
    let coalesce = plan.coalescing.map(|each| Coalesce { frames: each.frames, delay: each.wait });
    Cables {
        rate: quality.rate,
        delay: quality.delay,
        jitter: quality.jitter,
        loss: quality.loss.per_million,
        coalesce: coalesce.unwrap_or(Coalesce::NONE),
        cell_max: plan.mtu - CELL_HEADERS,
        router: plan.router.as_ref().map(|router| RouterSettings {
            queue: router.queue_bytes(),
            ..RouterSettings::tail(quality.router.unwrap_or(router.rate()), router.queue)
        }),
        ..Cables::GIGABIT
    }
}

fn configure(node: &mut NodeSettings, scenario: &Scenario, contestant: Contestant) {
    let options = scenario.bundle;
    node.policy = contestant.policy().unwrap_or_default();
    let primary = options.primary.filter(|_| contestant != Contestant::BestLink);
    node.policy_options =
        PolicyOptions { primary, preempt: options.preempt, hash: options.hash, turn: options.turn };
    node.repair = options.repair && !contestant.has(With::NoRepair);
    node.sealed = options.sealed.then(Rekey::default);
}

fn begin(world: &mut World<'_>, flow: &Flow, hosts: u8) -> Vec<FlowNumber> {
    let pairs = flow.pairs(hosts).into_iter().filter(|_| flow.bare.is_none());
    pairs.map(|(from, to)| world.start(traffic(flow, from, to))).collect()
}

fn traffic(flow: &Flow, from: u8, to: u8) -> Traffic {
    let bulk = Traffic { sizes: Sizes::Fixed(SUPERFRAME), ..Traffic::bulk(from, to) };
    match flow.kind {
        FlowKind::Udp => {
            let every = Duration::from_secs(1) / flow.per_second();
            let length = udp_frame(flow.payload().into());
            Traffic { heading: Heading::Ipv4, ..Traffic::steady(from, to, length, every) }
        }
        FlowKind::PingPong => {
            Traffic { sizes: Sizes::Fixed(SHORTEST), pace: Pace::Asking { timeout: TIMEOUT }, ..bulk }
        }
        _ => bulk,
    }
}

fn udp_frame(bytes: usize) -> usize {
    (bytes + UDP_HEADERS).max(SHORTEST)
}

fn payload(bytes: u64) -> f64 {
    bytes as f64 * (SUPERFRAME - TCP_HEADERS) as f64 / SUPERFRAME as f64
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
