//! The properties of a machine that readers of its figures have to know.

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::clock::{COST_ALLOWED_NS, Clock};

/// The machine and the process at the time of the measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Release of the kernel.
    kernel: String,
    /// Processors that the process may run on, such as `0-3,6`: a wake-up across processors costs time.
    cpus: String,
    /// The cost of reading the clock, in nanoseconds.
    clock_ns: f64,
}

impl Machine {
    /// This machine now.
    pub(crate) fn now(clock: Clock) -> Machine {
        let allowed = sched_getaffinity(None).map(|set| ranges(&members(&set))).unwrap_or_default();
        Machine {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus: allowed,
            clock_ns: clock.cost_ns(),
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Machine { kernel, cpus, clock_ns } = self;
        format!("Linux {kernel}, processors {cpus}, {clock_ns:.0} ns per timestamp\n")
    }

    /// A warning when timestamps cost so much that they change the measured times.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.clock_ns >= COST_ALLOWED_NS).then(|| {
            let cost = self.clock_ns;
            format!(
                "a timestamp costs {cost:.0} ns, more than {COST_ALLOWED_NS:.0}: every time here contains one"
            )
        })
    }
}

fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Ascending numbers as ranges.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|before, next| before + 1 == *next);
    let range = |run: &[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(range).collect::<Vec<_>>().join(",")
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
        assert_eq!(machine(25.0).warning(), None);
        assert!(machine(900.0).warning().unwrap().starts_with("a timestamp costs 900 ns, more than 50:"));
    }
}
