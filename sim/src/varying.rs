//! What links carry whose delay varies: a table over all kinds of variation, as a bulk flow and a ping beside it see them.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tabane_proto::{Event, FAR, Instant};
use tabane_sim::fault::{Fault, FaultPeriod};
use tabane_sim::flow::{Flow, Pace, Sizes};
use tabane_sim::many;
use tabane_sim::router::RouterSettings;
use tabane_sim::topology::{Coalesce, Link, Topology};
use tabane_sim::world::World;

const MEGABIT: u64 = 1_000_000;
/// Before the flow begins.
const QUIET: Duration = Duration::from_secs(3);
/// Until the flow has found out what the links carry, and how long it is watched.
const BEGINS: Duration = Duration::from_secs(4);
const WATCHED: Duration = Duration::from_secs(6);
/// Until flows have moved to a link that is far away.
const BEGINS_FAR: Duration = Duration::from_secs(20);

/// A router: Mbit/s, milliseconds of queue, and what the way takes at least, in milliseconds.
type Router = (u64, u64, u64);

const ROUTERS: [[Router; 2]; 6] = [
    [(5, 200, 10), (5, 200, 10)],
    [(20, 150, 10), (20, 150, 10)],
    [(50, 100, 10), (50, 100, 10)],
    [(500, 10, 10), (500, 10, 10)],
    [(50, 100, 10), (20, 100, 10)],
    [(500, 10, 10), (200, 10, 10)],
];
/// One beside one that is further away.
const APART: [[Router; 2]; 7] = [
    [(50, 100, 15), (20, 100, 40)],
    [(50, 100, 15), (20, 100, 80)],
    [(50, 100, 15), (20, 100, 120)],
    [(50, 100, 15), (20, 100, 200)],
    [(50, 100, 15), (20, 100, 300)],
    [(50, 100, 15), (20, 100, 600)],
    [(50, 100, 15), (200, 100, 300)],
];

/// By how many milliseconds a link's delay varies both ways around its mean, and how many datagrams of a thousand it loses.
type Own = (u64, u32);
/// Pairs of uplinks that mqvpn publishes (`scripts/ci_benchmarks`): 1,000 packets of queue, and the mean of what a way takes. Here each
/// link keeps its order.
const PAIRS: [([Router; 2], [Own; 2]); 13] = [
    ([(50, 240, 10), (50, 240, 10)], [(0, 0), (0, 0)]),
    ([(100, 120, 5), (50, 240, 20)], [(0, 0), (0, 0)]),
    ([(50, 240, 10), (50, 240, 10)], [(5, 0), (5, 0)]),
    ([(50, 240, 10), (50, 240, 10)], [(0, 0), (8, 0)]),
    ([(50, 240, 10), (50, 240, 10)], [(0, 0), (0, 10)]),
    ([(100, 120, 5), (50, 240, 20)], [(0, 0), (5, 5)]),
    ([(50, 240, 30), (30, 400, 50)], [(10, 5), (15, 10)]),
    ([(80, 150, 5), (30, 400, 40)], [(2, 0), (12, 5)]),
    ([(50, 240, 15), (100, 120, 25)], [(3, 2), (8, 5)]),
    ([(50, 240, 15), (80, 150, 40)], [(3, 2), (12, 8)]),
    ([(50, 240, 15), (20, 600, 300)], [(3, 2), (5, 2)]),
    ([(80, 150, 3), (100, 120, 25)], [(1, 0), (8, 5)]),
    ([(100, 120, 25), (80, 150, 35)], [(8, 5), (10, 8)]),
];

/// How links vary.
#[derive(Clone, Copy, Debug)]
enum Variation {
    /// Each in its own way.
    Own([Own; 2]),
    /// A datagram is held up for so many milliseconds at most; that changes from value to value in so many.
    Jitter(u64, u64),
    /// The same of 10 ms, and so many datagrams of a thousand are lost.
    Lossy(u32),
    /// NICs gather what comes in so many milliseconds.
    Gathered(u64),
    /// The second link's routers carry so many kbit/s for so many milliseconds, each so many.
    Slow { kbits: u32, lasts: u64, each: u64 },
}

/// A router that stands still: what waits there comes afterwards.
const HELD: u32 = 1;
/// The second link is held or slow at times, beside one that is steady.
const PRESENCE: [([Router; 2], Variation); 6] = [
    ([(50, 100, 10), (20, 100, 20)], Variation::Slow { kbits: HELD, lasts: 120, each: 3_000 }),
    ([(50, 100, 10), (20, 100, 20)], Variation::Slow { kbits: HELD, lasts: 300, each: 3_000 }),
    ([(50, 100, 10), (20, 100, 20)], Variation::Slow { kbits: HELD, lasts: 3_000, each: 9_000 }),
    ([(12, 100, 20), (130, 100, 20)], Variation::Slow { kbits: 2_000, lasts: 9_000, each: 18_000 }),
    ([(12, 100, 20), (130, 100, 20)], Variation::Slow { kbits: 1_000, lasts: 9_000, each: 18_000 }),
    ([(12, 100, 20), (130, 100, 20)], Variation::Slow { kbits: 64, lasts: 9_000, each: 18_000 }),
];
/// How long those are watched.
const WATCHED_PRESENCE: Duration = Duration::from_secs(18);

const VARIATIONS: [Variation; 9] = [
    Variation::Jitter(0, 0),
    Variation::Jitter(3, 0),
    Variation::Jitter(10, 0),
    Variation::Jitter(10, 20),
    Variation::Jitter(10, 200),
    Variation::Lossy(10),
    Variation::Lossy(30),
    Variation::Gathered(2),
    Variation::Gathered(24),
];

/// Who sends.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    One,
    /// One whose window is what the links carry in so many milliseconds.
    Short(u64),
    BothWays,
    Four,
    /// One connection with CUBIC, which begins with the bundle.
    Tcp,
}

/// That does not suffice for a link that is further away.
const SHORT: Traffic = Traffic::Short(150);

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    routers: [Router; 2],
    variation: Variation,
    traffic: Traffic,
}

/// What one seed gives.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Part of the routers' rates; of two directions, the smaller one.
    share: f64,
    /// Round trip of a small frame in milliseconds: median, and the longest but 5 %.
    ping: [f64; 2],
    /// The longest time in which nothing of the flow came, in milliseconds.
    pause: f64,
    /// Cells that routers dropped, and that were sent again, in a thousand.
    dropped: f64,
    again: f64,
    downs: usize,
}

impl Case {
    fn links(&self) -> [Link; 2] {
        let mut own = match self.variation {
            Variation::Own(own) => own,
            _ => [(0, 0); 2],
        }
        .into_iter();
        self.routers.map(|(rate, span, way)| {
            let (varies, lost) = own.next().unwrap_or_default();
            let router = RouterSettings::tail(rate * MEGABIT, Duration::from_millis(span));
            let link = Link { delay: Duration::from_millis(way), router: Some(router), ..Link::GIGABIT };
            match self.variation {
                Variation::Jitter(most, changes) => Link {
                    jitter: Duration::from_millis(most),
                    changes: Duration::from_millis(changes),
                    ..link
                },
                Variation::Lossy(parts) => {
                    Link { jitter: Duration::from_millis(10), loss: parts * 1_000, ..link }
                }
                Variation::Gathered(millis) => Link {
                    coalesce: Coalesce { frames: u16::MAX, delay: Duration::from_millis(millis) },
                    ..link
                },
                Variation::Own(_) => Link {
                    delay: Duration::from_millis(way - varies),
                    jitter: Duration::from_millis(2 * varies),
                    loss: lost * 1_000,
                    ..link
                },
                Variation::Slow { .. } => link,
            }
        })
    }

    fn varies_by(&self) -> Duration {
        match self.variation {
            Variation::Jitter(millis, _) | Variation::Gathered(millis) => Duration::from_millis(millis),
            Variation::Lossy(_) => Duration::from_millis(10),
            Variation::Own(own) => {
                Duration::from_millis(own.map(|(varies, _)| varies).into_iter().max().unwrap_or(0))
            }
            Variation::Slow { .. } => Duration::ZERO,
        }
    }

    /// For how long it is watched, and what its links carry in the mean, in bits per second.
    fn watched(&self) -> (Duration, f64) {
        let [one, other] = self.routers.map(|(rate, ..)| (rate * MEGABIT) as f64);
        match self.variation {
            Variation::Slow { kbits, lasts, each } => {
                let part = lasts as f64 / each as f64;
                (WATCHED_PRESENCE, one + other * (1.0 - part) + f64::from(kbits) * 1e3 * part)
            }
            _ => (WATCHED, one + other),
        }
    }

    /// What goes wrong from `now` on.
    fn faults(&self, now: Instant) -> Vec<FaultPeriod> {
        let Variation::Slow { kbits, lasts, each } = self.variation else { return Vec::new() };
        let [lasts, each] = [lasts, each].map(Duration::from_millis);
        let first = now.since(Instant::default()) + (each - lasts) / 2;
        let times = u32::try_from(WATCHED_PRESENCE.as_millis() / each.as_millis()).unwrap_or(0);
        let period = |time| {
            let begins = first + each * time;
            FaultPeriod { fault: Fault::Rate(1, kbits), begins, ends: Some(begins + lasts) }
        };
        (0..times).map(period).collect()
    }

    /// What a seed gives.
    fn run(&self, seed: u64) -> Result<Figures, String> {
        let mut world = World::new(seed, &Topology::new(2, &self.links()).with_repair(), None);
        world.settle(Duration::from_secs(2)).map_err(|violation| violation.to_string())?;
        let is_tcp = matches!(self.traffic, Traffic::Tcp);
        if !is_tcp {
            world.run_for(QUIET).map_err(|violation| violation.to_string())?;
        }
        let sum = self.routers.iter().map(|(rate, ..)| rate * MEGABIT).sum::<u64>();
        let bulk = Flow::bulk(0, 1);
        // What the links carry in a round trip and 30 ms, so that no link idles for want of it; a link that is too far away to share a flow
        // needs none.
        let [near, other] = self.routers.map(|(.., way)| Duration::from_millis(way));
        // What is far takes whole flows, where there are several.
        let is_far = other > near + FAR;
        let is_shared = !is_far || matches!(self.traffic, Traffic::Four);
        let way = if is_shared { near.max(other) } else { near };
        let trip = match self.traffic {
            Traffic::Short(millis) => Duration::from_millis(millis),
            _ => 2 * (way + self.varies_by()) + Duration::from_millis(30),
        };
        let bytes = sum / 8 * u64::try_from(trip.as_millis()).unwrap_or(0) / 1_000;
        let flows = match self.traffic {
            Traffic::One | Traffic::Short(_) | Traffic::Tcp => vec![(0, 1)],
            Traffic::BothWays => vec![(0, 1), (1, 0)],
            Traffic::Four => vec![(0, 1); 4],
        };
        let share = if matches!(self.traffic, Traffic::Four) { 4 } else { 1 };
        let frames = u16::try_from(bytes / share / bulk.sizes.average() as u64 + 2).unwrap_or(u16::MAX);
        let pace = if is_tcp { Pace::Cubic } else { Pace::Window { frames } };
        let start = |(from, to)| Flow { from, to: Some(to), pace, ..bulk };
        let flows: Vec<_> = flows.into_iter().map(|way| world.start(start(way))).collect();
        let pace = Pace::Asking { timeout: Duration::from_secs(1) };
        let pings = world.start(Flow { sizes: Sizes::Fixed(98), pace, ..bulk });
        let go = |world: &mut World<'_>, span| world.run_for(span).map_err(|violation| violation.to_string());
        go(&mut world, if is_far && is_shared { BEGINS_FAR } else { BEGINS })?;
        let sent = |world: &World<'_>, name| {
            let counters = world.counted().next().unwrap_or_default();
            counters.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
        };
        let counts = |world: &World<'_>| {
            [world.losses().router, sent(world, "cells_repaired"), sent(world, "cells_sent")]
        };
        let (since, before) = (world.now(), counts(&world));
        self.faults(since).iter().for_each(|period| world.schedule(period));
        let (watched, carries) = self.watched();
        go(&mut world, watched)?;
        let got: Vec<f64> = flows.iter().map(|flow| world.goodput(*flow, since) / carries).collect();
        let pause = flows.iter().map(|flow| world.longest_pause(*flow, since)).max().unwrap_or_default();
        let share = match self.traffic {
            Traffic::Four => got.iter().sum(),
            _ => got.iter().copied().fold(f64::MAX, f64::min),
        };
        let mut trips: Vec<f64> =
            world.round_trips(pings, since).iter().map(|trip| trip.as_secs_f64() * 1e3).collect();
        trips.sort_by(f64::total_cmp);
        let part = |hundredths: usize| trips.get(trips.len() * hundredths / 100).copied().unwrap_or(f64::NAN);
        let after = counts(&world);
        let [dropped, again, sent] = [0, 1, 2].map(|place| (after[place] - before[place]) as f64);
        let [dropped, again] = [dropped, again].map(|cells| cells * 1e3 / sent.max(1.0));
        let downs = world.log().iter().filter(|entry| matches!(entry.event, Event::LinkDown { .. })).count();
        let pause = pause.as_secs_f64() * 1e3;
        Ok(Figures { share, ping: [part(50), part(95)], pause, dropped, again, downs })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, queue, near), (other, _, far)] = self.routers;
        write!(out, "{one} + {other}, {queue} ms")?;
        if far != near {
            write!(out, ", {near} and {far} ms away")?;
        }
        write!(out, " | ")?;
        match self.variation {
            Variation::Jitter(0, _) => write!(out, "none")?,
            Variation::Jitter(most, 0) => write!(out, "{most} ms")?,
            Variation::Jitter(most, changes) => write!(out, "{most} ms in {changes} ms")?,
            Variation::Lossy(parts) => write!(out, "10 ms, loss {} %", parts / 10)?,
            Variation::Gathered(millis) => write!(out, "gathered {millis} ms")?,
            Variation::Own([one, other]) => {
                let lost = |parts: u32| f64::from(parts) / 10.0;
                write!(out, "{} and {} ms, loss {} and {} %", one.0, other.0, lost(one.1), lost(other.1))?;
            }
            Variation::Slow { kbits: HELD, lasts, each } => write!(out, "held {lasts} of {each} ms")?,
            Variation::Slow { kbits, lasts, each } => write!(out, "{kbits} kbit/s, {lasts} of {each} ms")?,
        }
        let traffic = match self.traffic {
            Traffic::One => "one",
            Traffic::Short(millis) => return write!(out, " | one, window of {millis} ms"),
            Traffic::BothWays => "both ways",
            Traffic::Four => "four",
            Traffic::Tcp => "one connection from the first moment on",
        };
        write!(out, " | {traffic}")
    }
}

/// All rows that have `word` in their names, over so many seeds, in their order.
pub(crate) fn table(word: &str, seeds: u64) -> Result<(), String> {
    let mut cases = Vec::new();
    for traffic in [Traffic::One, Traffic::BothWays, Traffic::Four, SHORT, Traffic::Tcp] {
        let varying = ROUTERS.iter().filter(|_| !matches!(traffic, Traffic::Short(_)));
        for routers in varying.copied() {
            cases.extend(VARIATIONS.map(|variation| Case { routers, variation, traffic }));
        }
        if matches!(traffic, Traffic::Tcp) {
            continue;
        }
        cases.extend(PRESENCE.map(|(routers, variation)| Case { routers, variation, traffic }));
        cases.extend(APART.map(|routers| Case { routers, variation: Variation::Jitter(0, 0), traffic }));
    }
    for traffic in [Traffic::Four, Traffic::One] {
        cases.extend(PAIRS.map(|(routers, own)| Case { routers, variation: Variation::Own(own), traffic }));
    }
    cases.retain(|case| case.to_string().contains(word));
    println!(
        "| Mbit/s, queue | varies | flows | part of both: median, least | ping: p50, p95 ms | pause ms | dropped, again of 1,000 | down |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let rows = Mutex::new(BTreeMap::new());
    many::each(cases.iter().enumerate(), many::processors(), |(place, case)| {
        let figures: Result<Vec<_>, _> = (1..=seeds).map(|seed| case.run(seed)).collect();
        rows.lock().expect("no thread panics").insert(place, figures.map(|figures| row(case, &figures)));
    });
    for row in rows.into_inner().expect("no thread panics").into_values() {
        println!("{}", row?);
    }
    Ok(())
}

fn row(case: &Case, figures: &[Figures]) -> String {
    let middle = |of: fn(&Figures) -> f64| {
        let mut all: Vec<f64> = figures.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let least = figures.iter().map(|one| one.share).fold(f64::MAX, f64::min);
    let (share, p50, p95) = (middle(|one| one.share), middle(|one| one.ping[0]), middle(|one| one.ping[1]));
    let (dropped, again, pause) =
        (middle(|one| one.dropped), middle(|one| one.again), middle(|one| one.pause));
    let downs = figures.iter().map(|one| one.downs).sum::<usize>();
    format!(
        "| {case} | {share:.2}, {least:.2} | {p50:.0}, {p95:.0} | {pause:.0} | {dropped:.1}, {again:.1} | {downs} |"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_vary_are_used_up_and_their_queues_stay_short() {
        let jitter = Variation::Jitter(10, 0);
        for (routers, variation, traffic, more) in [
            ([(20, 150, 10), (20, 150, 10)], jitter, Traffic::One, 30.0),
            ([(50, 100, 10), (20, 100, 10)], Variation::Jitter(10, 20), Traffic::One, 30.0),
            ([(500, 10, 10), (200, 10, 10)], jitter, Traffic::One, 30.0),
            ([(50, 100, 10), (50, 100, 10)], Variation::Gathered(24), Traffic::One, 60.0),
            (APART[1], Variation::Jitter(0, 0), Traffic::One, 30.0),
            ([(500, 10, 10), (200, 10, 10)], jitter, Traffic::Tcp, 30.0),
            ([(50, 100, 10), (20, 100, 10)], jitter, Traffic::Tcp, 30.0),
        ] {
            let case = Case { routers, variation, traffic };
            let figures = case.run(7).expect("nothing fails");
            assert!(figures.share >= 0.9, "{case}: {figures:?}");
            assert!(figures.ping[0] <= 20.0 + more, "{case}: {figures:?}");
        }
    }

    #[test]
    fn a_link_that_is_far_away_never_harms() {
        for routers in APART {
            let case = Case { routers, variation: Variation::Jitter(0, 0), traffic: SHORT };
            let figures = case.run(7).expect("nothing fails");
            let [near, sum] = [routers[0].0, routers[0].0 + routers[1].0].map(|rate| rate as f64);
            assert!(figures.share * sum >= 0.97 * near, "{case}: {figures:?}");
            assert!(figures.dropped < 1.0, "{case}: {figures:?}");
        }
    }
}
