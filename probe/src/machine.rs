//! The properties of a machine that readers of its figures have to know.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::Error;
use crate::clock::{COST_ALLOWED_NS, Clock};

/// The machine and the process at the time of the measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    kernel: String,
    /// Processors that the process may run on, such as `0-3,6`: a wake-up across processors costs time.
    cpus: String,
    /// The cost of reading the clock, in nanoseconds.
    clock_ns: f64,
}

impl Machine {
    pub(crate) fn now(clock: Clock) -> Machine {
        let allowed = sched_getaffinity(None).map(|set| ranges(&members(&set))).unwrap_or_default();
        Machine {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus: allowed,
            clock_ns: clock.cost_ns(),
        }
    }

    pub(crate) fn line(&self) -> String {
        let Machine { kernel, cpus, clock_ns } = self;
        format!("Linux {kernel}, processors {cpus}, {clock_ns:.0} ns per timestamp\n")
    }

    pub(crate) fn warning(&self) -> String {
        let cost = self.clock_ns;
        if cost < COST_ALLOWED_NS {
            return String::new();
        }
        format!(
            "a timestamp costs {cost:.0} ns, more than {COST_ALLOWED_NS:.0}: every time here contains one\n"
        )
    }
}

fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|before, next| before + 1 == *next);
    let range = |run: &[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(range).collect::<Vec<_>>().join(",")
}

const STAT: &str = "/proc/stat";

/// Parts of the time of all processors, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Shares {
    /// Programs, nice ones among them.
    pub(crate) user: f64,
    /// The kernel on behalf of programs.
    pub(crate) system: f64,
    pub(crate) irq: f64,
    /// Work that interrupts defer: most of a network's work.
    pub(crate) softirq: f64,
    /// Time in which a hypervisor ran others.
    pub(crate) steal: f64,
    /// Idle, or waiting for a disk.
    pub(crate) idle: f64,
}

impl Shares {
    pub(crate) fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// Ticks since the machine started: user, nice, system, idle, iowait, irq, softirq, steal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks([u64; 8]);

impl Ticks {
    pub(crate) fn now() -> Result<Ticks, Error> {
        let text = fs::read_to_string(STAT).map_err(Error::doing(STAT))?;
        parse(&text).ok_or_else(|| Error::Confused(format!("{STAT} has no line `cpu` of 8 numbers")))
    }

    /// The load since `earlier`; `None` without a tick in between.
    pub(crate) fn since(self, earlier: Ticks) -> Option<Shares> {
        let spent: Vec<u64> =
            self.0.iter().zip(earlier.0).map(|(now, then)| now.saturating_sub(then)).collect();
        let all: u64 = spent.iter().sum();
        let share = |kinds: &[usize]| kinds.iter().map(|kind| spent[*kind]).sum::<u64>() as f64 / all as f64;
        (all > 0).then(|| Shares {
            user: share(&[0, 1]),
            system: share(&[2]),
            idle: share(&[3, 4]),
            irq: share(&[5]),
            softirq: share(&[6]),
            steal: share(&[7]),
        })
    }
}

/// The line of all processors together; guest time, which follows, is part of user time already.
fn parse(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    numbers.first_chunk().copied().map(Ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn slow_timestamps_are_reported() {
        let machine = |clock_ns| Machine { kernel: "6".into(), cpus: "0".into(), clock_ns };
        assert_eq!(machine(25.0).warning(), "");
        assert!(machine(900.0).warning().starts_with("a timestamp costs 900 ns, more than 50:"));
    }

    #[test]
    fn ticks_become_shares() {
        let ticks = |line: &str| parse(&format!("{line}\ncpu0 9\n")).unwrap();
        let earlier = ticks("cpu  10 0 10 100 0 0 0 0 7 7");
        let shares = ticks("cpu  20 10 30 140 10 1 8 1 9 9").since(earlier).unwrap();
        let expected = Shares { user: 0.2, system: 0.2, irq: 0.01, softirq: 0.08, steal: 0.01, idle: 0.5 };
        assert_eq!(shares, expected);
        assert!((shares.busy() - 0.49).abs() < 1e-12);
        assert!(earlier.since(earlier).is_none() && parse("cpu 1 2\n").is_none() && parse("").is_none());
    }
}
