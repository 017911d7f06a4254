//! The reorder qdisc without a kernel: its own source, compiled as a program (`reorder.c`), over made-up links and seeds. Each
//! frame leaves once, lanes in order, and nothing waits for as long as two hold times.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tabane_kernel::ReorderCounts;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Worlds of a test, and superframes of each.
const SEEDS: u64 = 60;
const SUPERFRAMES: u64 = 3_000;
const MS: u64 = 1_000_000;
/// Bytes of a segment.
const SEGMENT: u32 = 1_448;
/// As `programs/layout.h` has it.
const ORDERED: u32 = 1 << 31;
const HELD_MAX: u32 = 64 << 20;

/// A frame that comes. Its place in the output is its place among arrivals.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    link: u32,
    lane: u32,
    /// Its number, continued beyond 16 bits.
    number: u64,
    segments: u32,
    bytes: u32,
}

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
}

/// What the qdisc did with arrivals.
struct Done {
    /// Those that left with each arrival, and at the end: when, and which.
    left: Vec<Vec<(u64, usize)>>,
    counts: BTreeMap<&'static str, u64>,
}

/// The qdisc as a program, compiled once.
fn compiled() -> Result<&'static Path> {
    static PROGRAM: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile().map_err(|error| error.to_string()));
    Ok(program.as_deref().map_err(String::as_str)?)
}

fn compile() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reorder");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-I"]).arg(here.join("programs"));
    let done = cc.arg(here.join("tests/programs/reorder.c")).arg("-o").arg(&program).output()?;
    if done.status.success() { Ok(program) } else { Err(String::from_utf8_lossy(&done.stderr).into()) }
}

/// Has the qdisc put arrivals in order; from the arrival `anew` on, the peer has another session.
fn put_in_order(arrivals: &[Arrival], manner: Manner, anew: Option<usize>) -> Result<Done> {
    let order = |session: u32| {
        format!("order {} {} {} {} {session}\n", manner.hold, MS, manner.held_max, manner.links)
    };
    let mut input = order(0);
    for (id, arrival) in arrivals.iter().enumerate() {
        if anew == Some(id) {
            input.push_str(&order(1));
        }
        let [tag, peer, segments] = arrival.words();
        writeln!(input, "frame {} {id} {} {tag} {peer} {segments}", arrival.at, arrival.bytes)?;
    }
    input.push_str("end\n");
    let mut qdisc = Command::new(compiled()?).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = qdisc.stdin.take().ok_or("no input")?;
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
    let output = qdisc.wait_with_output()?;
    writer.join().map_err(|_| "the writer failed")??;
    assert!(output.status.success(), "the qdisc counts frames that it does not have");
    read(&String::from_utf8(output.stdout)?)
}

fn read(output: &str) -> Result<Done> {
    let mut done = Done { left: vec![Vec::new()], counts: BTreeMap::new() };
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["."] => done.left.push(Vec::new()),
            ["left", at, id] => done.left.last_mut().ok_or("no arrival")?.push((at.parse()?, id.parse()?)),
            [which, count] => {
                let name = ReorderCounts::NAMES.get(which.parse::<usize>()?).ok_or("a counter too many")?;
                done.counts.insert(name, count.parse()?);
            }
            _ => return Err(format!("the qdisc dropped a frame: {line}").into()),
        }
    }
    Ok(done)
}

/// What holds whatever comes: each frame leaves once and in time, and a lane holds no more than it may.
fn check(arrivals: &[Arrival], manner: Manner, done: &Done, seed: u64) {
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
            assert!(waited < 2 * manner.hold, "seed {seed}: {arrival:?} waited for {waited} ns");
            *held.get_mut(&arrival.lane).expect("it came before it left") -= u64::from(arrival.bytes);
        }
        let most = held.values().max().copied().unwrap_or(0);
        assert!(most <= manner.held_max.into(), "seed {seed}: {most} bytes held");
    }
    assert!(left.iter().all(|times| *times == 1), "seed {seed}: a frame did not leave once");
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

/// Made-up links, and what a peer sends over them.
struct World {
    random: StdRng,
    /// Delay of each link, the time that it takes for a byte, when it is free, and when it dies, in nanoseconds.
    links: Vec<[u64; 4]>,
    lanes: u32,
    loss: f64,
    /// The part of superframes that a NIC segments.
    segmented: f64,
}

impl World {
    fn new(seed: u64, loss: f64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(1..=4);
        let link =
            |random: &mut StdRng| [random.random_range(0..20 * MS), random.random_range(8..800), 0, u64::MAX];
        let links = (0..count).map(|_| link(&mut random)).collect();
        let segmented = [0.0, 0.5, 1.0][random.random_range(0..3)];
        Self { lanes: random.random_range(1..4), random, links, loss, segmented }
    }

    /// What arrives of so many superframes, the first of which leave at `from` and have the number `first`; and the longest
    /// that one was under way.
    fn send(&mut self, superframes: u64, from: u64, first: u64) -> (Vec<Arrival>, u64) {
        // Bytes in a millisecond.
        let speed: u64 = self.links.iter().map(|link| MS / link[1]).sum();
        let (mut now, mut longest) = (from, 0);
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        let mut arrivals = Vec::new();
        for _ in 0..superframes {
            let segments = self.random.random_range(1..=44);
            let lane = 1 + self.random.random_range(0..self.lanes);
            let next = next.entry(lane).or_insert(first);
            let finish = |link: &[u64; 4]| link[2].max(now) + link[1] * u64::from(segments * SEGMENT);
            let chosen = (0..self.links.len()).min_by_key(|link| finish(&self.links[*link])).expect("a link");
            let pieces = if self.random.random_bool(self.segmented) { segments } else { 1 };
            let [delay, byte, free, dies] = &mut self.links[chosen];
            for _ in 0..pieces {
                let bytes = segments / pieces * SEGMENT;
                *free = now.max(*free) + *byte * u64::from(bytes);
                let link = u32::try_from(chosen).expect("few links");
                let arrival = Arrival {
                    at: *free + *delay,
                    link,
                    lane,
                    number: *next,
                    segments: segments / pieces,
                    bytes,
                };
                longest = longest.max(arrival.at - now);
                if *free < *dies && !self.random.random_bool(self.loss) {
                    arrivals.push(arrival);
                }
            }
            *next += u64::from(segments);
            // A little less than the links carry.
            now += u64::from(segments * SEGMENT) * MS / speed * self.random.random_range(50..160) / 100;
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        (arrivals, longest)
    }

    /// How the frames are put in order, when one is under way for at most `longest`.
    fn manner(&self, longest: u64) -> Manner {
        Manner { hold: longest + MS, held_max: HELD_MAX, links: (1 << self.links.len()) - 1 }
    }
}

pub(crate) fn in_order_over_seeds() -> Result<()> {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, 0.0);
        let (arrivals, longest) = world.send(SUPERFRAMES, 0, 0);
        let done = put_in_order(&arrivals, world.manner(longest), None)?;
        check(&arrivals, world.manner(longest), &done, seed);
        assert_eq!(overtaken(&arrivals, &done), 0, "seed {seed}");
        let gaps =
            done.counts.iter().filter(|(name, _)| name.starts_with("gap_") || **name == "reorder_late");
        assert!(gaps.clone().all(|(_, count)| *count == 0), "seed {seed}: {:?}", gaps.collect::<Vec<_>>());
    }
    Ok(())
}

pub(crate) fn what_is_lost_is_given_up() -> Result<()> {
    let mut given_up = [0; 2];
    for seed in 0..SEEDS {
        let mut world = World::new(seed, [0.001, 0.02][usize::from(seed % 2 == 0)]);
        if seed % 4 == 0 {
            world.links[0][3] = 200 * MS;
        }
        let (arrivals, longest) = world.send(SUPERFRAMES, 0, 0);
        let manner = world.manner(longest);
        let done = put_in_order(&arrivals, manner, None)?;
        check(&arrivals, manner, &done, seed);
        assert_eq!((overtaken(&arrivals, &done), done.counts["reorder_late"]), (0, 0), "seed {seed}");
        given_up[0] += done.counts["gap_passed"];
        given_up[1] += done.counts["gap_timeout"];
    }
    assert!(given_up.iter().all(|gaps| *gaps > 0), "by all links and by time: {given_up:?}");
    Ok(())
}

pub(crate) fn begins_anew() -> Result<()> {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, 0.0);
        let (mut arrivals, longest) = world.send(200, 0, 0);
        let old = arrivals.len();
        let quiet = arrivals.last().map_or(0, |last| last.at) + longest;
        let (further, longer) = world.send(200, quiet, 0);
        arrivals.extend(further);
        let manner = world.manner(longest.max(longer));
        let done = put_in_order(&arrivals, manner, Some(old))?;
        // The second order is a line of input more.
        let mut left = done.left.clone();
        left.remove(old + 1);
        let done = Done { left, ..done };
        check(&arrivals, manner, &done, seed);
        assert_eq!(done.counts["reorder_late"], 0, "seed {seed}");
    }
    Ok(())
}

/// Who attaches late goes on from where the peer is, and is in order as soon as what was under way has come.
pub(crate) fn begins_in_the_middle() -> Result<()> {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, 0.0);
        let first = world.random.random_range(0..1 << 16);
        let (arrivals, longest) = world.send(500, 0, first);
        let manner = world.manner(longest);
        let done = put_in_order(&arrivals, manner, None)?;
        check(&arrivals, manner, &done, seed);
        let settled = arrivals[0].at + 2 * manner.hold;
        let left = done
            .left
            .iter()
            .map(|leaves| leaves.iter().copied().filter(|(_, id)| arrivals[*id].at > settled).collect());
        let done = Done { left: left.collect(), ..done };
        assert_eq!(overtaken(&arrivals, &done), 0, "seed {seed}");
    }
    Ok(())
}

/// A hostile peer harms its own lanes alone, and holds no more than it may.
pub(crate) fn hostile_numbers_are_bounded() -> Result<()> {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let manner = Manner { hold: 5 * MS, held_max: random.random_range(10_000..200_000), links: 0b111 };
        let mut at = 0;
        let any = |_| {
            at += random.random_range(0..MS / 4);
            let bits = [random.random_range(1..17), random.random_range(1..17)];
            let (number, segments) =
                (random.random_range(0..1 << bits[0]), random.random_range(0..1 << bits[1]));
            let (link, lane) = (random.random_range(0..16), random.random_range(1..4));
            Arrival { at, link, lane, number, segments, bytes: random.random_range(60..9_000) }
        };
        let arrivals: Vec<Arrival> = (0..SUPERFRAMES).map(any).collect();
        let done = put_in_order(&arrivals, manner, None)?;
        check(&arrivals, manner, &done, seed);
    }
    Ok(())
}
