//! The clocks: how the kernel reads them, and whether the wall clock jumps.
//!
//! Jumps of the wall clock do no harm to a bundle, whose timers use CLOCK_MONOTONIC, but they make its event log hard to read.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::report::{Area, Finding};

/// A step of the wall clock that is none yet: clocks are slewed.
const STEP: Duration = Duration::from_millis(50);
/// Clock sources that take a system call and a microsecond or more for each reading.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "refined-jiffies", "jiffies", "pit"];

/// Both clocks at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    wall: i128,
    steady: i128,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { wall: nanos(ClockId::Realtime), steady: nanos(ClockId::Monotonic) }
    }
}

fn nanos(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Where the kernel reads the time; `None`: it does not say.
    source: Option<String>,
    /// By how much more the wall clock went than the steady one, in nanoseconds.
    stepped: i128,
}

impl Facts {
    pub(super) fn between(before: &Moment, after: &Moment) -> Self {
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        Self {
            source: source.ok().map(|source| source.trim().to_owned()),
            stepped: (after.wall - before.wall) - (after.steady - before.steady),
        }
    }
}

pub(super) fn judge(facts: &Facts) -> Area {
    let source = facts.source.as_deref().unwrap_or("not known");
    let mut area = Area::new("clock", format!("source {source}, no jumps"));
    area.find(SLOW.contains(&source).then(|| {
        let what = format!("the kernel reads the time from {source}, which takes a microsecond or more each time");
        let costs = "up to a third of a worker's processor";
        let mend = "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource (if it is listed beside, in available_clocksource)";
        Finding::new("slow-clock", what, costs, mend)
    }));
    let step = Duration::from_nanos(u64::try_from(facts.stepped.unsigned_abs()).unwrap_or(u64::MAX));
    area.find((step > STEP).then(|| {
        let what = format!("the wall clock jumped by {} ms while it was watched", step.as_millis());
        let costs = "nothing but the order of times in the event log";
        let mend = "timedatectl set-ntp true (and no second program that sets the clock)";
        Finding::new("clock-jump", what, costs, mend)
    }));
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(source: &str, stepped: i128) -> Vec<&'static str> {
        let facts = Facts { source: Some(source.to_owned()), stepped };
        judge(&facts).findings.iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn slow_sources_and_jumps_either_way_are_found() {
        assert_eq!(checks("tsc", 40_000_000), [] as [&str; 0]);
        assert_eq!(checks("hpet", 0), ["slow-clock"]);
        assert_eq!(checks("tsc", 60_000_000), ["clock-jump"]);
        assert_eq!(checks("tsc", -3_600_000_000_000), ["clock-jump"]);
    }

    #[test]
    fn two_moments_of_a_sound_clock_agree() {
        let before = Moment::now();
        assert!(
            judge(&Facts::between(&before, &Moment::now()))
                .findings
                .iter()
                .all(|found| found.check != "clock-jump")
        );
    }
}
