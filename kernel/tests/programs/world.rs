//! Made-up links, and what a peer sends over them: the send program's own choice of links (`choose.c`), and what arrives of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Error, Result, bail, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tabane_kernel::layout::{NO_LINK, PATH_UP, TIME_SHIFT};
use tabane_netns::process::run;

pub(crate) const MS: u64 = 1_000_000;
/// Bytes of a segment.
const SEGMENT: u32 = 1_448;
/// Segments of the longest superframe.
const SEGMENTS_MAX: u32 = 44;
/// How many nanoseconds later a frame may arrive for each that it does not wait; `LATER` of `programs/choose.h`.
const LATER: u64 = 32;

/// A world ends when a frame is later than this.
const LATE_MAX: u64 = 240 * MS;

static CHOICE: Model = Model::new("choose");

/// A frame that comes. Its place in the output is its place among arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) link: u32,
    pub(crate) lane: u32,
    /// Its number, continued beyond 16 bits.
    pub(crate) number: u64,
    pub(crate) segments: u32,
    pub(crate) bytes: u32,
}

/// A superframe that the device is given.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    lane: u32,
    segments: u32,
    /// Frames that the NIC makes of it.
    pieces: u32,
}

impl Sent {
    fn bytes(&self) -> u64 {
        u64::from(self.segments * SEGMENT)
    }
}

/// A link; times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    delay: u64,
    /// Time that it takes for a byte, and what the program is told of it.
    byte: u64,
    told: u64,
    free: u64,
    /// When it begins to swallow all that it is given, which nobody is told.
    pub(crate) dies: u64,
    /// While nothing may leave by it.
    down: Range<u64>,
}

/// When superframes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// A little less than the links that are up carry.
    Steady,
    /// Everything at once.
    AtOnce,
}

pub(crate) struct World {
    pub(crate) random: StdRng,
    pub(crate) links: Vec<Line>,
    lanes: u32,
    loss: f64,
    /// The part of superframes that a NIC segments.
    segmented: f64,
}

impl World {
    pub(crate) fn new(seed: u64, loss: f64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(1..=4);
        // In every third world the rates that the program is told are wrong.
        let is_wrong = random.random_range(0..3) == 0;
        // Four links of 200 Mbit/s: the qdisc holds, and tells apart, what they carry in `LATE_MAX`.
        let fastest = random.random_range(40..80);
        let links = (0..count).map(|_| Line::new(&mut random, fastest, is_wrong)).collect();
        let segmented = [0.0, 0.5, 1.0][random.random_range(0..3)];
        Self { lanes: random.random_range(1..4), random, links, loss, segmented }
    }

    /// What arrives of so many superframes, the first of which leave at `from` and have the number `first`; and the longest
    /// that one was under way.
    pub(crate) fn send(&mut self, superframes: u64, from: u64, first: u64) -> Result<(Vec<Arrival>, u64)> {
        let sent = self.make(superframes, from, Pace::Steady);
        let chosen = self.choose(&sent, first)?;
        let (mut arrivals, mut longest) = (Vec::new(), 0);
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for (sent, link) in sent.iter().zip(chosen) {
            let Some(link) = link else { continue };
            let next = next.entry(sent.lane).or_insert(first);
            self.carry(sent, link, *next, &mut arrivals, &mut longest);
            *next += u64::from(sent.segments);
            if longest > LATE_MAX {
                break;
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        Ok((arrivals, longest))
    }

    /// By how much later, in nanoseconds, the last link is free than links that share everything by their speeds; and by how much it
    /// may be.
    pub(crate) fn imbalance(&mut self, superframes: u64) -> Result<[f64; 2]> {
        let sent = self.make(superframes, 0, Pace::AtOnce);
        for line in &mut self.links {
            (line.told, line.down) = (line.byte, 0..0);
        }
        let chosen = self.choose(&sent, 0)?;
        let mut busy = vec![0; self.links.len()];
        for (sent, link) in sent.iter().zip(chosen) {
            let link = link.context("a frame without a link")?;
            busy[link] += sent.bytes() * self.links[link].byte;
        }
        let last = busy.into_iter().max().context("no link")?;
        let speed: f64 = self.links.iter().map(|line| 1.0 / line.byte as f64).sum();
        let shared = sent.iter().map(Sent::bytes).sum::<u64>() as f64 / speed;
        let slowest = self.links.iter().map(|line| line.byte).max().context("no link")?;
        let allowed = 2 * slowest * u64::from(SEGMENTS_MAX * SEGMENT) + self.skew() / LATER;
        Ok([last as f64 - shared, allowed as f64])
    }

    /// How much later a frame arrives by the farthest link than by the nearest.
    fn skew(&self) -> u64 {
        let delays = self.links.iter().map(|line| line.delay);
        delays.clone().max().unwrap_or(0) - delays.min().unwrap_or(0)
    }

    /// What links that are up carry in a millisecond, in bytes; where none is, what all would.
    fn speed(&self, at: u64) -> u64 {
        let sum = |lines: &mut dyn Iterator<Item = &Line>| lines.map(|line| MS / line.byte).sum::<u64>();
        let up = sum(&mut self.links.iter().filter(|line| line.is_up(at)));
        if up > 0 { up } else { sum(&mut self.links.iter()) }
    }

    /// Superframes of which the first leave at `from`.
    fn make(&mut self, superframes: u64, from: u64, pace: Pace) -> Vec<Sent> {
        let mut at = from;
        let make = |_| {
            let segments = self.random.random_range(1..=SEGMENTS_MAX);
            let pieces = if self.random.random_bool(self.segmented) { segments } else { 1 };
            let sent = Sent { at, lane: 1 + self.random.random_range(0..self.lanes), segments, pieces };
            if pace == Pace::Steady {
                at += sent.bytes() * MS / self.speed(at) * self.random.random_range(50..160) / 100;
            }
            sent
        };
        (0..superframes).map(make).collect()
    }

    /// The links that the send program chooses; `None`: cells. No frame goes where nothing may leave, or waits while another link is
    /// free, and numbers follow each other.
    fn choose(&self, sent: &[Sent], first: u64) -> Result<Vec<Option<usize>>> {
        let output = CHOICE.run(self.questions(sent, first)?)?;
        let mut answers = output.lines();
        let mut free = vec![0; self.links.len()];
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        let mut chosen = Vec::new();
        for sent in sent {
            let (link, number) = answers.next().and_then(|line| line.split_once(' ')).context("no answer")?;
            let (link, number): (usize, u64) = (link.parse()?, number.parse()?);
            let up = |link: &usize| self.links[*link].is_up(sent.at);
            if link == usize::from(NO_LINK) {
                assert!(!(0..self.links.len()).any(|link| up(&link)), "{sent:?} has no link, and one is up");
                chosen.push(None);
                continue;
            }
            assert!(up(&link), "{sent:?} by link {link}, which is down");
            let next = next.entry(sent.lane).or_insert(first);
            assert_eq!(number, *next & 0xffff, "{sent:?}");
            *next += u64::from(sent.segments);
            let start = |link: usize| sent.at.max(free[link]);
            let allowance = |link: usize| (sent.bytes() * self.links[link].told + self.skew()) / LATER;
            for other in (0..self.links.len()).filter(up) {
                assert!(
                    start(link) <= start(other) + allowance(other),
                    "{sent:?} waits for {link}, not {other}"
                );
            }
            free[link] = start(link) + sent.bytes() * self.links[link].told;
            chosen.push(Some(link));
        }
        Ok(chosen)
    }

    /// What the send program is told, and the frames that it is given.
    fn questions(&self, sent: &[Sent], first: u64) -> Result<String> {
        let nearest = self.links.iter().map(|line| line.delay).min().unwrap_or(0);
        let mut input = String::new();
        let mut told = vec![None; self.links.len()];
        for lane in 1..=self.lanes {
            writeln!(input, "lane {lane} {first}")?;
        }
        for sent in sent {
            for (link, line) in self.links.iter().enumerate() {
                let flags = if line.is_up(sent.at) { PATH_UP } else { 0 };
                if told[link].replace(flags) != Some(flags) {
                    let (byte, delay) = (line.told << TIME_SHIFT, line.delay - nearest);
                    writeln!(input, "link {link} {flags} {byte} {delay}")?;
                }
            }
            writeln!(input, "frame {} {} {} {}", sent.at, sent.bytes(), sent.lane, sent.segments)?;
        }
        Ok(input)
    }

    /// A link carries a superframe, whole or in pieces, or loses some.
    fn carry(
        &mut self,
        sent: &Sent,
        link: usize,
        number: u64,
        arrivals: &mut Vec<Arrival>,
        longest: &mut u64,
    ) {
        let line = &mut self.links[link];
        let segments = sent.segments / sent.pieces;
        let link = u32::try_from(link).expect("few links");
        for _ in 0..sent.pieces {
            let bytes = segments * SEGMENT;
            line.free = sent.at.max(line.free) + line.byte * u64::from(bytes);
            let arrival =
                Arrival { at: line.free + line.delay, link, lane: sent.lane, number, segments, bytes };
            *longest = (*longest).max(arrival.at - sent.at);
            if line.free < line.dies && !self.random.random_bool(self.loss) {
                arrivals.push(arrival);
            }
        }
    }
}

impl Line {
    /// A link that is up to ten times slower than `fastest`.
    fn new(random: &mut StdRng, fastest: u64, is_wrong: bool) -> Self {
        let byte = random.random_range(fastest..=10 * fastest);
        let told = if is_wrong { byte * random.random_range(80..=125) / 100 } else { byte };
        let from = random.random_range(0..2_000 * MS);
        let down = if random.random_bool(0.3) { from..from + 300 * MS } else { 0..0 };
        Self { delay: random.random_range(0..20 * MS), byte, told, free: 0, dies: u64::MAX, down }
    }

    fn is_up(&self, at: u64) -> bool {
        !self.down.contains(&at)
    }
}

// Programs of the kernel as programs of this machine, and the worlds in which they run: a seed each.

/// Worlds of a test.
const SEEDS: Range<u64> = 0..30;
/// The variable that names one of them, or a range of seeds of which a tenth is taken: a world costs more here than one of `sim`.
const VARIABLE: &str = "TABANE_SEEDS";

/// A source file of this folder, compiled once.
pub(crate) struct Model {
    name: &'static str,
    compiled: OnceLock<std::result::Result<(), String>>,
}

impl Model {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, compiled: OnceLock::new() }
    }

    /// What it prints when it is given this input.
    pub(crate) fn run(&self, input: String) -> Result<String> {
        self.compiled
            .get_or_init(|| self.compile().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(Error::msg)?;
        let mut program = Command::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name));
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = program.stdin.take().context("no input")?;
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = program.wait_with_output()?;
        writer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        ensure!(output.status.success(), "{}: {}", self.name, output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    fn compile(&self) -> Result<()> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (tests, programs) = (here.join("tests/programs"), here.join("programs"));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-fno-strict-aliasing", "-I"])
            .arg(&tests)
            .arg("-I")
            .arg(programs);
        cc.arg(tests.join(self.name).with_extension("c"));
        // Other processes run the program meanwhile: it takes its place at once.
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name);
        let new = program.with_extension(std::process::id().to_string());
        run(cc.arg("-o").arg(&new))?;
        Ok(std::fs::rename(new, program)?)
    }
}

/// Runs a test in each world; of one that fails, what replays it is part of the complaint.
pub(crate) fn over_seeds(name: &str, test: fn(u64) -> Result<()>) -> Result<()> {
    for seed in seeds()? {
        let failed = match catch_unwind(|| test(seed).map_err(|error| error.to_string())) {
            Ok(done) => done.err(),
            Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
        };
        if let Some(why) = failed {
            let replay = format!("{VARIABLE}={seed} cargo test -p tabane-kernel --test programs {name}");
            bail!("seed {seed}: {why}\nreplay: {replay}");
        }
    }
    Ok(())
}

/// Those that the variable names, `17` or a tenth of `0..5000`; else the usual ones.
fn seeds() -> Result<Range<u64>> {
    let Ok(named) = std::env::var(VARIABLE) else { return Ok(SEEDS) };
    let (from, to) = named.split_once("..").map_or((named.as_str(), None), |(from, to)| (from, Some(to)));
    let from = from.parse::<u64>()?;
    let to = to.map_or(Ok(from + 1), str::parse)?;
    Ok(from..from + (to - from).div_ceil(10))
}
