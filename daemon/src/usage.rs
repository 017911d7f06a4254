//! What processors and threads did: read twice, the difference tells of the time between.

use procfs::process::{Process, Task};
use procfs::{CpuTime, CurrentSI, KernelStats};

/// Time of processors and threads since they began.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Each processor, in ticks.
    pub(crate) processors: Vec<Ticks>,
    /// The threads of a process.
    pub(crate) threads: Vec<Thread>,
}

/// What a processor did, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Programs and the kernel on their behalf.
    pub(crate) worked: u64,
    /// Interrupts, softirq above all: what receives.
    pub(crate) interrupted: u64,
    /// A hypervisor gave it to others.
    pub(crate) stolen: u64,
    /// Nothing.
    pub(crate) idle: u64,
}

/// A thread, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) id: i32,
    pub(crate) name: String,
    /// How long it ran.
    pub(crate) ran: u64,
    /// How long it was ready to run while others had the processor.
    pub(crate) waited: u64,
    /// Where it ran last.
    pub(crate) processor: usize,
}

impl Usage {
    /// What all processors, and the threads of process `pid` if there is one, did so far. What cannot be read is left out.
    pub(crate) fn now(pid: Option<u32>) -> Self {
        let processors = KernelStats::current().map(|stats| stats.cpu_time.iter().map(Ticks::of).collect());
        let process = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(|pid| Process::new(pid).ok());
        let tasks = process.and_then(|process| process.tasks().ok());
        let threads = tasks.into_iter().flatten().filter_map(|task| Thread::of(&task.ok()?));
        Self { processors: processors.unwrap_or_default(), threads: threads.collect() }
    }

    /// What was done since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let processors = self.processors.iter().zip(&earlier.processors).map(|(now, then)| now.since(then));
        let threads = self.threads.iter().filter_map(|now| {
            let then = earlier.threads.iter().find(|then| then.id == now.id)?;
            let (ran, waited) = (now.ran.saturating_sub(then.ran), now.waited.saturating_sub(then.waited));
            Some(Thread { ran, waited, ..now.clone() })
        });
        Self { processors: processors.collect(), threads: threads.collect() }
    }
}

impl Ticks {
    fn of(time: &CpuTime) -> Self {
        Self {
            worked: time.user + time.nice + time.system,
            interrupted: time.irq.unwrap_or(0) + time.softirq.unwrap_or(0),
            stolen: time.steal.unwrap_or(0),
            idle: time.idle + time.iowait.unwrap_or(0),
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            worked: self.worked.saturating_sub(earlier.worked),
            interrupted: self.interrupted.saturating_sub(earlier.interrupted),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            idle: self.idle.saturating_sub(earlier.idle),
        }
    }

    /// All of its time.
    pub(crate) fn all(&self) -> u64 {
        self.worked + self.interrupted + self.stolen + self.idle
    }

    /// The part of its time in which it was not idle, in percent.
    pub(crate) fn busy_percent(&self) -> u64 {
        (self.all() - self.idle) * 100 / self.all().max(1)
    }
}

impl Thread {
    fn of(task: &Task) -> Option<Self> {
        let (stat, schedule) = (task.stat().ok()?, task.schedstat().ok()?);
        Some(Self {
            id: task.tid,
            name: stat.comm,
            ran: schedule.sum_exec_runtime,
            waited: schedule.run_delay,
            processor: stat.processor.and_then(|number| usize::try_from(number).ok()).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_threads_and_its_machine_processors() {
        let before = Usage::now(Some(std::process::id()));
        let until = std::time::Instant::now() + std::time::Duration::from_millis(30);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        let used = Usage::now(Some(std::process::id())).since(&before);
        assert!(!used.processors.is_empty());
        assert!(used.threads.iter().map(|thread| thread.ran).sum::<u64>() > 1_000_000, "{used:?}");
    }

    #[test]
    fn shares_are_of_all_time() {
        let ticks = Ticks { worked: 30, interrupted: 10, stolen: 10, idle: 50 };
        assert_eq!((ticks.all(), ticks.busy_percent(), Ticks::default().busy_percent()), (100, 50, 0));
    }
}
