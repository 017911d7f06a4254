//! What links carry whose delay varies: a table over all kinds of variation, as a bulk flow and a ping beside it see them.

use core::fmt;
use core::time::Duration;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tabane_proto::Event;
use tabane_sim::flow::{Flow, Pace, Sizes};
use tabane_sim::router::RouterSettings;
use tabane_sim::topology::{Coalesce, Link, Topology};
use tabane_sim::world::World;

const MEGABIT: u64 = 1_000_000;
/// What every link's way takes at least.
const WAY: Duration = Duration::from_millis(10);
/// Before the flow begins.
const QUIET: Duration = Duration::from_secs(3);
/// Until the flow has found out what the links carry, and how long it is watched.
const BEGINS: Duration = Duration::from_secs(4);
const WATCHED: Duration = Duration::from_secs(6);

/// Two routers: Mbit/s, and milliseconds of queue.
const ROUTERS: [[(u64, u64); 2]; 6] = [
    [(5, 200), (5, 200)],
    [(20, 150), (20, 150)],
    [(50, 100), (50, 100)],
    [(500, 10), (500, 10)],
    [(50, 100), (20, 100)],
    [(500, 10), (200, 10)],
];

/// How links vary.
#[derive(Clone, Copy, Debug)]
enum Variation {
    /// A datagram is held up for so many milliseconds at most; that changes from value to value in so many.
    Jitter(u64, u64),
    /// The same of 10 ms, and so many datagrams of a thousand are lost.
    Lossy(u32),
    /// NICs gather what comes in so many milliseconds.
    Gathered(u64),
}

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
    BothWays,
    Four,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    routers: [(u64, u64); 2],
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
    /// Cells that routers dropped, in a thousand.
    dropped: f64,
    downs: usize,
}

impl Case {
    fn links(&self) -> [Link; 2] {
        self.routers.map(|(rate, span)| {
            let router = RouterSettings::tail(rate * MEGABIT, Duration::from_millis(span));
            let link = Link { delay: WAY, router: Some(router), ..Link::GIGABIT };
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
            }
        })
    }

    fn varies_by(&self) -> Duration {
        match self.variation {
            Variation::Jitter(millis, _) | Variation::Gathered(millis) => Duration::from_millis(millis),
            Variation::Lossy(_) => Duration::from_millis(10),
        }
    }

    /// What a seed gives.
    ///
    /// # Errors
    /// What did not hold.
    fn run(&self, seed: u64) -> Result<Figures, String> {
        let mut world = World::new(seed, &Topology::new(2, &self.links()).with_repair(), None);
        world.settle(Duration::from_secs(2)).map_err(|violation| violation.to_string())?;
        world.run_for(QUIET).map_err(|violation| violation.to_string())?;
        let sum = self.routers.iter().map(|(rate, _)| rate * MEGABIT).sum::<u64>();
        let bulk = Flow::bulk(0, 1);
        // What the links carry in a round trip and 30 ms, so that no link idles for want of it.
        let trip = 2 * (WAY + self.varies_by()) + Duration::from_millis(30);
        let bytes = sum / 8 * u64::try_from(trip.as_millis()).unwrap_or(0) / 1_000;
        let flows = match self.traffic {
            Traffic::One => vec![(0, 1)],
            Traffic::BothWays => vec![(0, 1), (1, 0)],
            Traffic::Four => vec![(0, 1); 4],
        };
        let share = if matches!(self.traffic, Traffic::Four) { 4 } else { 1 };
        let frames = u16::try_from(bytes / share / bulk.sizes.average() as u64 + 2).unwrap_or(u16::MAX);
        let start = |(from, to)| Flow { from, to: Some(to), pace: Pace::Window { frames }, ..bulk };
        let flows: Vec<_> = flows.into_iter().map(|way| world.start(start(way))).collect();
        let pace = Pace::Asking { timeout: Duration::from_secs(1) };
        let pings = world.start(Flow { sizes: Sizes::Fixed(98), pace, ..bulk });
        let go = |world: &mut World<'_>, span| world.run_for(span).map_err(|violation| violation.to_string());
        go(&mut world, BEGINS)?;
        let sent = |world: &World<'_>| world.counted().next().map_or(0, |counters| counters[2].1);
        let (since, before) = (world.now(), (world.losses().router, sent(&world)));
        go(&mut world, WATCHED)?;
        let got: Vec<f64> = flows.iter().map(|flow| world.goodput(*flow, since) / sum as f64).collect();
        let share = match self.traffic {
            Traffic::Four => got.iter().sum(),
            _ => got.iter().copied().fold(f64::MAX, f64::min),
        };
        let mut trips: Vec<f64> =
            world.round_trips(pings, since).iter().map(|trip| trip.as_secs_f64() * 1e3).collect();
        trips.sort_by(f64::total_cmp);
        let part = |hundredths: usize| trips.get(trips.len() * hundredths / 100).copied().unwrap_or(f64::NAN);
        let dropped =
            (world.losses().router - before.0) as f64 * 1e3 / (sent(&world) - before.1).max(1) as f64;
        let downs = world.log().iter().filter(|entry| matches!(entry.event, Event::LinkDown { .. })).count();
        Ok(Figures { share, ping: [part(50), part(95)], dropped, downs })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, queue), (other, _)] = self.routers;
        write!(out, "{one} + {other}, {queue} ms | ")?;
        match self.variation {
            Variation::Jitter(0, _) => write!(out, "none")?,
            Variation::Jitter(most, 0) => write!(out, "{most} ms")?,
            Variation::Jitter(most, changes) => write!(out, "{most} ms in {changes} ms")?,
            Variation::Lossy(parts) => write!(out, "10 ms, loss {} %", parts / 10)?,
            Variation::Gathered(millis) => write!(out, "gathered {millis} ms")?,
        }
        let traffic = match self.traffic {
            Traffic::One => "one",
            Traffic::BothWays => "both ways",
            Traffic::Four => "four",
        };
        write!(out, " | {traffic}")
    }
}

/// All rows that have `word` in their names, over so many seeds, in their order.
///
/// # Errors
/// What did not hold.
pub(crate) fn table(word: &str, seeds: u64) -> Result<(), String> {
    let mut cases = Vec::new();
    for traffic in [Traffic::One, Traffic::BothWays, Traffic::Four] {
        for routers in ROUTERS {
            cases.extend(VARIATIONS.map(|variation| Case { routers, variation, traffic }));
        }
    }
    cases.retain(|case| case.to_string().contains(word));
    println!(
        "| Mbit/s, queue | varies | flows | part of both: median, least | ping: p50, p95 ms | dropped | down |"
    );
    println!("|---|---|---|---|---|---|---|");
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![None; cases.len()]));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(place) else { return };
            let figures: Result<Vec<_>, _> = (1..=seeds).map(|seed| case.run(seed)).collect();
            let mut rows = rows.lock().expect("no thread panics");
            rows[place] = Some(figures.map(|figures| row(case, &figures)));
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, Into::into)).for_each(|_| drop(scope.spawn(work)));
    });
    for row in rows.into_inner().expect("no thread panics").into_iter().flatten() {
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
    let (dropped, downs) = (middle(|one| one.dropped), figures.iter().map(|one| one.downs).sum::<usize>());
    format!("| {case} | {share:.2}, {least:.2} | {p50:.0}, {p95:.0} | {dropped:.1} | {downs} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_vary_are_used_up_and_their_queues_stay_short() {
        let jitter = Variation::Jitter(10, 0);
        for (routers, variation, more) in [
            ([(20, 150), (20, 150)], jitter, 30.0),
            ([(50, 100), (20, 100)], Variation::Jitter(10, 20), 30.0),
            ([(500, 10), (200, 10)], jitter, 30.0),
            ([(50, 100), (50, 100)], Variation::Gathered(24), 60.0),
        ] {
            let case = Case { routers, variation, traffic: Traffic::One };
            let figures = case.run(7).expect("nothing fails");
            assert!(figures.share >= 0.9, "{case}: {figures:?}");
            assert!(figures.ping[0] <= 20.0 + more, "{case}: {figures:?}");
        }
    }
}
