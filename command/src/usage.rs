//! What processors and threads did: read twice, the difference tells of the time between. Layout of the files: proc(5).

use std::fs;
use std::path::Path;

/// Time of processors and threads since they began.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Each processor, in ticks.
    pub(crate) processors: Vec<Ticks>,
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
    pub(crate) idle: u64,
}

/// A thread, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) ran: u64,
    /// How long it was ready to run while others had the processor.
    pub(crate) waited: u64,
    /// Where it ran last.
    pub(crate) processor: usize,
}

impl Usage {
    /// What all processors, and the threads of process `pid` if there is one, did so far. What cannot be read is left out.
    pub(crate) fn now(pid: Option<u32>) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let tasks = pid.and_then(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
        let threads = tasks.into_iter().flatten().filter_map(|task| Thread::read(&task.ok()?.path()));
        Self { processors: stat.lines().filter_map(Ticks::read).collect(), threads: threads.collect() }
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
    /// From a line of `/proc/stat` that tells of one processor: `cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`.
    fn read(line: &str) -> Option<Self> {
        let (name, times) = line.split_once(' ')?;
        name.strip_prefix("cpu")?.parse::<usize>().ok()?;
        let times: Vec<u64> = times.split_whitespace().map_while(|time| time.parse().ok()).collect();
        let [user, nice, system, idle, waiting, hard, soft, stolen] = *times.first_chunk()?;
        Some(Self { worked: user + nice + system, interrupted: hard + soft, stolen, idle: idle + waiting })
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            worked: self.worked.saturating_sub(earlier.worked),
            interrupted: self.interrupted.saturating_sub(earlier.interrupted),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            idle: self.idle.saturating_sub(earlier.idle),
        }
    }

    pub(crate) fn all(&self) -> u64 {
        self.worked + self.interrupted + self.stolen + self.idle
    }

    /// The part of its time in which it was not idle, in percent.
    pub(crate) fn busy_percent(&self) -> u64 {
        (self.all() - self.idle) * 100 / self.all().max(1)
    }
}

impl Thread {
    /// From the folder of the thread in `/proc`.
    fn read(folder: &Path) -> Option<Self> {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let (head, fields) = stat.rsplit_once(')')?;
        let (id, name) = head.split_once(" (")?;
        let schedule = fs::read_to_string(folder.join("schedstat")).ok()?;
        let mut times = schedule.split_whitespace().map_while(|time| time.parse().ok());
        Some(Self {
            id: id.parse().ok()?,
            name: name.to_owned(),
            ran: times.next()?,
            waited: times.next()?,
            // The 39th field; the first after the name is the third.
            processor: fields.split_whitespace().nth(39 - 3)?.parse().ok()?,
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
        let here =
            used.threads.iter().find(|thread| thread.id == rustix::thread::gettid().as_raw_nonzero().get());
        assert!(here.is_some_and(|thread| thread.processor < used.processors.len()), "{used:?}");
    }

    #[test]
    fn a_processor_is_told_from_their_sum() {
        let ticks = Ticks { worked: 6, interrupted: 13, stolen: 8, idle: 9 };
        assert_eq!(Ticks::read("cpu12 1 2 3 4 5 6 7 8 9 10"), Some(ticks));
        assert_eq!(["cpu  1 2 3 4 5 6 7 8 9 10", "intr 1 2", "cpu1 1 2"].map(Ticks::read), [None; 3]);
    }

    #[test]
    fn shares_are_of_all_time() {
        let ticks = Ticks { worked: 30, interrupted: 10, stolen: 10, idle: 50 };
        assert_eq!((ticks.all(), ticks.busy_percent(), Ticks::default().busy_percent()), (100, 50, 0));
    }
}
