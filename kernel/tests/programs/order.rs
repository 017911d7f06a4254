//! The reorder qdisc without a kernel: its own source, compiled as a program (`reorder.c`), behind the links of made-up worlds. Each
//! frame leaves once, lanes in order, nothing waits for as long as two hold times, and what is given up was lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tabane_kernel::ReorderCounts;

use crate::world::Model;
use crate::world::{Arrival, MS, World};

const SUPERFRAMES: u64 = 3_000;
/// As `programs/layout.h` has it.
const ORDERED: u32 = 1 << 31;
const HELD_MAX: u32 = 64 << 20;

static QDISC: Model = Model::new("reorder");

impl Arrival {
    /// What the receive program writes into `skb->cb`.
    fn words(&self) -> [u32; 3] {
        let number = u32::try_from(self.number & 0xffff).unwrap_or(0);
        [ORDERED | self.link << 20 | self.lane << 16 | number, 0, self.segments]
    }
}

/// How frames are put in order; see `Order`.
#[derive(Clone, Copy, Debug)]
struct Manner {
    hold: u64,
    held_max: u32,
    links: u32,
    /// How often the kernel dequeues with each frame at most; `None`: until nothing leaves.
    calls: Option<u32>,
}

/// What the qdisc did with arrivals.
struct Done {
    /// Those that left with each arrival, and at the end: when, and which.
    left: Vec<Vec<(u64, usize)>>,
    counts: BTreeMap<&'static str, u64>,
}

/// Has the qdisc put arrivals in order; from the arrival `anew` on, the peer has another session.
fn put_in_order(arrivals: &[Arrival], manner: Manner, anew: Option<usize>) -> Result<Done> {
    let order = |session: u32| {
        format!("order {} {} {} {} {session}\n", manner.hold, MS, manner.held_max, manner.links)
    };
    let mut input = manner.calls.map_or(String::new(), |calls| format!("leave {calls}\n"));
    input.push_str(&order(0));
    for (id, arrival) in arrivals.iter().enumerate() {
        if anew == Some(id) {
            input.push_str(&order(1));
        }
        let [tag, peer, segments] = arrival.words();
        writeln!(input, "frame {} {id} {} {tag} {peer} {segments}", arrival.at, arrival.bytes)?;
    }
    input.push_str("end\n");
    read(&QDISC.run(input)?)
}

fn read(output: &str) -> Result<Done> {
    let mut done = Done { left: vec![Vec::new()], counts: BTreeMap::new() };
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["."] => done.left.push(Vec::new()),
            ["left", at, id] => done.left.last_mut().context("no arrival")?.push((at.parse()?, id.parse()?)),
            ["past", count] => {
                done.counts.insert("past", count.parse()?);
            }
            [which, count] => {
                let name = ReorderCounts::NAMES.get(which.parse::<usize>()?).context("a counter too many")?;
                done.counts.insert(name, count.parse()?);
            }
            _ => bail!("the qdisc dropped a frame: {line}"),
        }
    }
    Ok(done)
}

/// What holds whatever comes: each frame leaves once and in time, and a lane holds no more than it may.
fn check(arrivals: &[Arrival], manner: Manner, done: &Done) {
    let mut left = vec![0; arrivals.len()];
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    // Each line of input has one of output: the order, a frame, the end. Before the first there was none.
    for (line, leaves) in done.left.iter().enumerate() {
        if let Some(arrival) = line.checked_sub(1).and_then(|id| arrivals.get(id)) {
            *held.entry(arrival.lane).or_default() += u64::from(arrival.bytes);
        }
        for (at, id) in leaves {
            left[*id] += 1;
            let arrival = &arrivals[*id];
            let waited = at - arrival.at;
            assert!(waited < 2 * manner.hold, "{arrival:?} waited for {waited} ns");
            *held.get_mut(&arrival.lane).expect("it came before it left") -= u64::from(arrival.bytes);
        }
        let most = held.values().max().copied().unwrap_or(0);
        assert!(most <= manner.held_max.into(), "{most} bytes held");
    }
    assert!(left.iter().all(|times| *times == 1), "a frame did not leave once");
}

/// Frames that left behind a later one of their lane.
fn overtaken(arrivals: &[Arrival], done: &Done) -> usize {
    let mut latest: BTreeMap<u32, u64> = BTreeMap::new();
    let mut overtaken = 0;
    for (_, id) in done.left.iter().flatten() {
        let arrival = &arrivals[*id];
        let latest = latest.entry(arrival.lane).or_default();
        overtaken += usize::from(arrival.number < *latest);
        *latest = arrival.number.max(*latest);
    }
    overtaken
}

/// Gaps in the lanes of what came, if each is given up once: numbers that nobody has when the next frame of their lane has its turn.
fn gaps(arrivals: &[Arrival]) -> u64 {
    let mut lanes: BTreeMap<u32, Vec<&Arrival>> = BTreeMap::new();
    arrivals.iter().for_each(|arrival| lanes.entry(arrival.lane).or_default().push(arrival));
    let mut gaps = 0;
    for lane in lanes.values_mut() {
        lane.sort_by_key(|arrival| arrival.number);
        let (mut next, mut current) = (0, None);
        for arrival in lane {
            if current.replace(arrival.number) != Some(arrival.number) {
                gaps += u64::from(arrival.number > next);
                next = next.max(arrival.number);
            }
            next += u64::from(arrival.segments);
        }
    }
    gaps
}

/// How the frames of a world are put in order, when one is under way for at most `longest`.
fn manner(world: &World, longest: u64) -> Manner {
    Manner { hold: longest + MS, held_max: HELD_MAX, links: (1 << world.links.len()) - 1, calls: None }
}

fn given_up(done: &Done) -> u64 {
    done.counts.iter().filter(|(name, _)| name.starts_with("gap_")).map(|(_, count)| count).sum()
}

/// What the links of the send program's choice carry comes in order.
pub(crate) fn in_order(seed: u64) -> Result<()> {
    let mut world = World::new(seed, 0.0);
    let (arrivals, longest) = world.send(SUPERFRAMES, 0, 0)?;
    let manner = manner(&world, longest);
    let done = put_in_order(&arrivals, manner, None)?;
    check(&arrivals, manner, &done);
    let wrong = (overtaken(&arrivals, &done), given_up(&done), done.counts["reorder_late"]);
    assert_eq!(wrong, (0, 0, 0), "{:?}", world.links);
    check_prompt(&arrivals, &done);
    Ok(())
}

/// Where nothing is lost, a frame leaves as soon as all in front of it have come.
fn check_prompt(arrivals: &[Arrival], done: &Done) {
    let mut lanes: BTreeMap<u32, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
    for (id, arrival) in arrivals.iter().enumerate() {
        lanes.entry(arrival.lane).or_default().entry(arrival.number).or_default().push(id);
    }
    let left: BTreeMap<usize, u64> = done.left.iter().flatten().map(|(at, id)| (*id, *at)).collect();
    for superframes in lanes.values() {
        let mut complete = 0;
        for pieces in superframes.values() {
            for id in pieces {
                assert_eq!(left[id], complete.max(arrivals[*id].at), "{:?}", arrivals[*id]);
            }
            complete = pieces.iter().map(|id| arrivals[*id].at).fold(complete, u64::max);
        }
    }
}

/// Most frames whose turn it is pass the qdisc by where they come in order, and others where they do not.
pub(crate) fn passes_by() -> Result<()> {
    let (mut past, mut through) = (0, 0);
    for seed in 0..8 {
        let (arrivals, longest) = World::new(seed, 0.0).send(SUPERFRAMES, 0, 0)?;
        let mut lane: Vec<Arrival> = arrivals.iter().filter(|arrival| arrival.lane == 1).cloned().collect();
        let manner = manner(&World::new(seed, 0.0), longest);
        let done = put_in_order(&lane, manner, None)?;
        past += done.counts["past"];
        through += done.counts["reorder_held"];
        lane.sort_by_key(|arrival| arrival.number);
        for (at, arrival) in (0..).step_by(1_000).zip(&mut lane) {
            arrival.at = at;
        }
        // The first one meets a qdisc that has not begun.
        let done = put_in_order(&lane, manner, None)?;
        assert_eq!(done.counts["past"], lane.len() as u64 - 1, "{:?}", done.counts);
    }
    assert!(past > 0 && through > 0, "{past} past the qdisc, {through} held");
    Ok(())
}

/// Nothing overtakes what the qdisc hands on, however slowly that leaves.
pub(crate) fn in_order_while_others_leave(seed: u64) -> Result<()> {
    let mut world = World::new(seed, 0.0);
    let (arrivals, longest) = world.send(SUPERFRAMES, 0, 0)?;
    let calls = Some(world.random.random_range(3..7));
    let manner = Manner { calls, ..manner(&world, longest) };
    let done = put_in_order(&arrivals, manner, None)?;
    assert_eq!(done.left.iter().flatten().count(), arrivals.len());
    assert_eq!((overtaken(&arrivals, &done), given_up(&done), done.counts["reorder_late"]), (0, 0, 0));
    Ok(())
}

/// A world in which frames are lost, in every fourth by a link that dies; and what the qdisc did.
fn lossy(seed: u64) -> Result<(Vec<Arrival>, Manner, Done)> {
    let mut world = World::new(seed, [0.001, 0.02][usize::from(seed.is_multiple_of(2))]);
    if seed.is_multiple_of(4) {
        world.links[0].dies = 200 * MS;
    }
    let (arrivals, longest) = world.send(SUPERFRAMES, 0, 0)?;
    let manner = manner(&world, longest);
    let done = put_in_order(&arrivals, manner, None)?;
    Ok((arrivals, manner, done))
}

/// What is lost is given up once, and nothing else.
pub(crate) fn given_up_once(seed: u64) -> Result<()> {
    let (arrivals, manner, done) = lossy(seed)?;
    check(&arrivals, manner, &done);
    assert_eq!((overtaken(&arrivals, &done), done.counts["reorder_late"]), (0, 0));
    assert_eq!(given_up(&done), gaps(&arrivals), "{:?}", done.counts);
    Ok(())
}

/// Because all links have delivered a later one, and because time was over.
pub(crate) fn given_up_for_both_reasons() -> Result<()> {
    let mut sums = [0; 2];
    for seed in 0..8 {
        let (_, _, done) = lossy(seed)?;
        sums[0] += done.counts["gap_passed"];
        sums[1] += done.counts["gap_timeout"];
    }
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
    Ok(())
}

pub(crate) fn begins_anew(seed: u64) -> Result<()> {
    let mut world = World::new(seed, 0.0);
    let (mut arrivals, longest) = world.send(200, 0, 0)?;
    let old = arrivals.len();
    let quiet = arrivals.last().map_or(0, |last| last.at) + longest;
    let (further, longer) = world.send(200, quiet, 0)?;
    arrivals.extend(further);
    let manner = manner(&world, longest.max(longer));
    let done = put_in_order(&arrivals, manner, Some(old))?;
    // The second order is a line of input more.
    let mut left = done.left.clone();
    left.remove(old + 1);
    let done = Done { left, ..done };
    check(&arrivals, manner, &done);
    assert_eq!(done.counts["reorder_late"], 0);
    Ok(())
}

/// Who attaches late goes on from where the peer is, and is in order as soon as what was under way has come.
pub(crate) fn begins_in_the_middle(seed: u64) -> Result<()> {
    let mut world = World::new(seed, 0.0);
    let first = world.random.random_range(0..1 << 16);
    let (arrivals, longest) = world.send(500, 0, first)?;
    let manner = manner(&world, longest);
    let done = put_in_order(&arrivals, manner, None)?;
    check(&arrivals, manner, &done);
    let settled = arrivals.first().map_or(0, |first| first.at) + 2 * manner.hold;
    let left = done
        .left
        .iter()
        .map(|leaves| leaves.iter().copied().filter(|(_, id)| arrivals[*id].at > settled).collect());
    let done = Done { left: left.collect(), ..done };
    assert_eq!(overtaken(&arrivals, &done), 0);
    Ok(())
}

/// A hostile peer harms its own lanes alone, and holds no more than it may.
pub(crate) fn hostile_numbers(seed: u64) -> Result<()> {
    let mut random = StdRng::seed_from_u64(seed);
    let manner =
        Manner { hold: 5 * MS, held_max: random.random_range(10_000..200_000), links: 0b111, calls: None };
    let mut at = 0;
    let any = |_| {
        at += random.random_range(0..MS / 4);
        let bits = [random.random_range(1..17), random.random_range(1..17)];
        let (number, segments) = (random.random_range(0..1 << bits[0]), random.random_range(0..1 << bits[1]));
        let (link, lane) = (random.random_range(0..16), random.random_range(3..7));
        Arrival { at, link, lane, number, segments, bytes: random.random_range(60..9_000) }
    };
    let arrivals: Vec<Arrival> = (0..SUPERFRAMES).map(any).collect();
    let done = put_in_order(&arrivals, manner, None)?;
    check(&arrivals, manner, &done);
    Ok(())
}

/// Links of unequal speeds share what there is by them, and none is idle while another has much to do.
pub(crate) fn adds_links_up(seed: u64) -> Result<()> {
    let [late, allowed] = World::new(seed, 0.0).imbalance(SUPERFRAMES)?;
    assert!(late <= allowed, "the last link is free {late} ns late, and {allowed} at most were expected");
    Ok(())
}
