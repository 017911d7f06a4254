//! Rates that follow a trace in Mahimahi's format: each line is a millisecond at which a packet of 1,500 bytes may leave, and after
//! the last one it begins anew.
//!
//! Source: Mahimahi (Netravali et al., USENIX ATC 2015), `mm-link(1)`. The rate changes in steps of [`STEP`], each with the mean of
//! what the trace lets pass in it: kernels change a token bucket, and the simulator a router.

use std::f64::consts::PI;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use tabane_config::problem::quoted;

use crate::prelude::*;

pub(super) const TRACE_ALLOWED: &str = "a file with a whole number of milliseconds in each line, none below the one before, the last one at least 1; or `made-up:SEED`";
const MADE_UP: &str = "made-up:";
pub(super) const STEP: Duration = Duration::from_millis(20);
/// The largest file that is read, and bits of a packet.
const BYTES_MAX: u64 = 16 << 20;
const PACKET_BITS: u64 = 1_500 * 8;
/// A rate of nothing; a link that carries nothing at all is a fault.
const RATE_LEAST: u64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Trace {
    pub(super) name: String,
    /// When packets may leave, in order, in milliseconds; none until it is read.
    #[serde(skip)]
    times: Arc<[u64]>,
}

impl Trace {
    pub(super) fn named(name: &str, directory: &Path) -> Result<Trace, String> {
        let Some(seed) = name.strip_prefix(MADE_UP) else {
            return Trace::read(&directory.join(name).display().to_string());
        };
        let seed = seed.parse().map_err(|_| format!("{} is no seed", quoted(seed)))?;
        Ok(Trace { name: name.to_owned(), times: made_up(seed).into() })
    }

    fn read(path: &str) -> Result<Trace, String> {
        let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", quoted(path));
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(format!("{} is larger than 16 MiB", quoted(path)));
        }
        Trace::parse(path, &text)
    }

    fn parse(path: &str, text: &str) -> Result<Trace, String> {
        let mut times: Vec<u64> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let time = line.trim().parse().ok().filter(|time| times.last().is_none_or(|last| last <= time));
            let wrong = || format!("line {number} of {} is {}", quoted(path), quoted(line));
            times.push(time.ok_or_else(wrong)?);
        }
        match times.last() {
            None | Some(0) => Err(format!("{} has no packet after its beginning", quoted(path))),
            Some(_) => Ok(Trace { name: path.to_owned(), times: times.into() }),
        }
    }

    /// Bits per second over the whole of it.
    pub(super) fn mean(&self) -> u64 {
        (self.times.len() as u64 * PACKET_BITS * 1_000 / self.period()).max(RATE_LEAST)
    }

    /// Bits per second in the step that begins so long after the start.
    pub(super) fn rate(&self, at: Duration) -> u64 {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let packets = self.until(millis(at + STEP)) - self.until(millis(at));
        (packets * PACKET_BITS * 1_000 / millis(STEP)).max(RATE_LEAST)
    }

    fn period(&self) -> u64 {
        self.times.last().copied().unwrap_or(1)
    }

    /// Packets that may leave until then, that millisecond included.
    fn until(&self, millis: u64) -> u64 {
        let (periods, rest) = (millis / self.period(), millis % self.period());
        let within = self.times.partition_point(|time| *time <= rest);
        periods * self.times.len() as u64 + within as u64
    }
}

// A trace that looks like that of a radio link: its rate falls and comes back within a second, and fades in between.
//
// The rule, for each millisecond of a period of six parts: the rate is high for one part, falls for two along half a cosine of its
// logarithm, is low for one, and rises for two. It is multiplied by e to the power of n, where n is 0.95 of what it was a millisecond
// before and a random number of -0.15 to 0.15 more, which is the sum of three; and it stays within its bounds. A packet leaves
// whenever another 12,000 bits have passed, and one at the end.

/// How much of the fading stays for a millisecond, and the most that a random number adds to it.
const STAYS: f64 = 0.95;
const FADES: f64 = 0.15;

/// Lowest and highest rate, in bits per second, and milliseconds until it begins anew.
const LOW: f64 = 5e6;
const HIGH: f64 = 50e6;
const PERIOD: u64 = 3_000;

fn made_up(seed: u64) -> Vec<u64> {
    let (mut random, mut fading, mut bits) = (seed, 0.0, 0.0);
    let mut times = Vec::new();
    for time in 1..=PERIOD {
        let height = height(time as f64 / PERIOD as f64 * 6.0);
        let part = (0..3).map(|_| draw(&mut random)).sum::<f64>() / 3.0;
        fading = STAYS * fading + FADES * (2.0 * part - 1.0);
        let rate = (LOW * (HIGH / LOW).powf(height) * f64::exp(fading)).clamp(LOW, HIGH);
        bits += rate / 1e3;
        while bits >= PACKET_BITS as f64 {
            bits -= PACKET_BITS as f64;
            times.push(time);
        }
    }
    if times.last() != Some(&PERIOD) {
        times.push(PERIOD);
    }
    times
}

/// How high the rate is in a period of 6: 0 to 1.
fn height(at: f64) -> f64 {
    let falls = |part: f64| (1.0 + (PI * part).cos()) / 2.0;
    match at {
        at if at < 1.0 => 1.0,
        at if at < 3.0 => falls((at - 1.0) / 2.0),
        at if at < 4.0 => 0.0,
        at => 1.0 - falls((at - 4.0) / 2.0),
    }
}

/// A random number of 0 to 1. Source: SplitMix64 (Steele, Lea, Flood 2014).
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_the_mean_of_what_passes_in_it_and_the_end_is_followed_by_the_beginning() {
        // 20 packets in the first 20 ms, none in the next, 5 in the last 10.
        let times = (1..=20).chain((46..=50).step_by(1));
        let text: String = times.map(|time| format!("{time}\n")).collect();
        let trace = Trace::parse("t", &text).unwrap();
        assert_eq!((trace.times.len(), trace.period()), (25, 50));
        assert_eq!(trace.mean(), 25 * 12_000 * 20);
        let at = |millis| trace.rate(Duration::from_millis(millis));
        assert_eq!(at(0), 12_000_000, "a packet each millisecond");
        assert_eq!(at(20), RATE_LEAST);
        assert_eq!(at(40), 15 * 12_000 * 50, "5 packets, and 10 of the next round");
        let all: u64 = (0..50).map(|step| trace.rate(STEP * step)).sum();
        let lost = 10 * RATE_LEAST;
        assert!(all.abs_diff(trace.mean() * 50) <= lost, "a second has its mean: {all}");
    }

    #[test]
    fn what_is_no_trace_says_so_with_its_line() {
        let why = |text: &str| Trace::parse("t", text).unwrap_err();
        assert_eq!(why("1\n2\nx\n"), "line 3 of `t` is `x`");
        assert_eq!(why("5\n4\n"), "line 2 of `t` is `4`");
        assert_eq!(why(""), "`t` has no packet after its beginning");
        assert_eq!(why("0\n0\n"), "`t` has no packet after its beginning");
        let named = |name| Trace::named(name, Path::new("/nonexistent"));
        assert!(named("trace").unwrap_err().starts_with("`/nonexistent/trace` cannot be read: "));
        assert_eq!(named("made-up:x").unwrap_err(), "`x` is no seed");
        assert_eq!(named("made-up:1").unwrap().period(), 3_000);
    }

    #[test]
    fn the_rate_falls_and_comes_back_within_a_second() {
        let times = made_up(1);
        assert!(times.is_sorted() && times.last() == Some(&3_000));
        let mbps = |from: u64| {
            let count = times.iter().filter(|time| (from..from + 200).contains(time)).count();
            count as f64 * PACKET_BITS as f64 / 200e3
        };
        assert!(mbps(200) > 35.0 && mbps(1_600) < 10.0 && mbps(2_800) > 30.0);
        assert_ne!(times, made_up(2));
    }
}
