//! Makes a trace in Mahimahi's format that looks like a radio link: its rate falls and comes back within a second, and fades in
//! between.
//!
//! The rule, for each millisecond of a period of six parts: the rate is high for one part, falls for two along half a cosine of its
//! logarithm, is low for one, and rises for two. It is multiplied by e to the power of n, where n is 0.95 of what it was a millisecond
//! before and a random number of -0.15 to 0.15 more, which is the sum of three; and it stays within its bounds. A line is written
//! whenever another 12,000 bits have passed, and one at the end.

use std::f64::consts::PI;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tabane::config::units::parse_bitrate;

/// Bits of the packet that a line stands for.
const PACKET_BITS: f64 = 12_000.0;
/// How much of the fading stays for a millisecond, and the most that a random number adds to it.
const STAYS: f64 = 0.95;
const FADES: f64 = 0.15;

/// A made-up trace of a radio link in Mahimahi's format, for `trace` in scenarios; the same for the same options
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Seed of the fading
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lowest rate
    #[arg(long, value_name = "RATE", default_value = "5 Mbit/s", value_parser = parse_bitrate)]
    low: u64,
    /// Highest rate
    #[arg(long, value_name = "RATE", default_value = "50 Mbit/s", value_parser = parse_bitrate)]
    high: u64,
    /// Milliseconds until it begins anew: the rate falls and rises in a third of that
    #[arg(long, value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(6..=600_000))]
    period: u64,
}

/// Prints the trace.
///
/// # Errors
/// It cannot be written.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    out.write_all(text(options).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn text(options: &Options) -> String {
    let [low, high] = [options.low, options.high].map(|rate| rate as f64);
    let (mut random, mut fading, mut bits) = (options.seed, 0.0, 0.0);
    let mut times = Vec::new();
    for time in 1..=options.period {
        let height = height(time as f64 / options.period as f64 * 6.0);
        let part = (0..3).map(|_| draw(&mut random)).sum::<f64>() / 3.0;
        fading = STAYS * fading + FADES * (2.0 * part - 1.0);
        let rate = (low * (high / low).powf(height) * f64::exp(fading)).clamp(low, high.max(low));
        bits += rate / 1e3;
        while bits >= PACKET_BITS {
            bits -= PACKET_BITS;
            times.push(time);
        }
    }
    if times.last() != Some(&options.period) {
        times.push(options.period);
    }
    times.iter().map(|time| format!("{time}\n")).collect()
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

    fn usual() -> Options {
        Options { seed: 1, low: 5_000_000, high: 50_000_000, period: 3_000 }
    }

    #[test]
    fn the_trace_of_the_scenarios_is_made_by_the_rule() {
        assert!(text(&usual()) == include_str!("../../traces/radio.trace"), "make it anew: tabane-lab trace");
    }

    #[test]
    fn the_rate_falls_and_comes_back_within_a_second() {
        let text = text(&usual());
        let times: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(times.is_sorted() && times.last() == Some(&3_000));
        let mbps = |from: u64| {
            let count = times.iter().filter(|time| (from..from + 200).contains(time)).count();
            count as f64 * PACKET_BITS / 200e3
        };
        assert!(mbps(200) > 35.0 && mbps(1_600) < 10.0 && mbps(2_800) > 30.0);
        assert!(text != super::text(&Options { seed: 2, ..usual() }));
    }
}
