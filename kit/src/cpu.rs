//! CPU time: of the whole machine and of single processes, for "CPU seconds per GB" (10^9 bytes of payload).

use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};
use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};

use crate::clock::monotonic_ns;

/// CPU time used since the machine or the processes started.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Seconds that have passed.
    pub wall_seconds: f64,
    /// Seconds in which the machine's CPUs were busy; time stolen by a hypervisor is not in it.
    pub machine_seconds: f64,
    /// Seconds that the named processes ran.
    pub processes_seconds: f64,
}

impl Usage {
    /// The state now, with the time of all processes `pids` together.
    pub fn now(pids: &[u32]) -> Result<Usage> {
        let machine = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let busy = machine_ticks(&machine).context("/proc/stat: no line `cpu`")?;
        let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.context("the kernel names no CLK_TCK")?;
        Ok(Usage {
            wall_seconds: monotonic_ns()? as f64 / 1e9,
            machine_seconds: busy as f64 / ticks_per_second as f64,
            processes_seconds: pids.iter().copied().map(exact_seconds).sum::<Result<f64>>()?,
        })
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            wall_seconds: self.wall_seconds - earlier.wall_seconds,
            machine_seconds: self.machine_seconds - earlier.machine_seconds,
            processes_seconds: self.processes_seconds - earlier.processes_seconds,
        }
    }
}

/// Does `work`, which goes before all else that wants a processor, with all programs that it starts.
pub fn first<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    const HIGHEST: i32 = -20;
    let before = getpriority_process(None)?;
    setpriority_process(None, HIGHEST).context("a priority above others")?;
    let done = work();
    setpriority_process(None, before)?;
    done
}

/// Does `work`; returns also what was used meanwhile, with the time of all processes `pids` together.
pub fn used_during<T>(pids: &[u32], work: impl FnOnce() -> Result<T>) -> Result<(T, Usage)> {
    let before = Usage::now(pids)?;
    let done = work()?;
    Ok((done, Usage::now(pids)?.since(before)))
}

/// Does `work`; returns also which share of this machine's processors was busy meanwhile, 0 to 1.
pub fn busy_during<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let (done, used) = used_during(&[], work)?;
    Ok((done, used.machine_seconds / used.wall_seconds / available_parallelism()?.get() as f64))
}

/// Seconds that the threads of process `pid` have run, to the nanosecond (`/proc/PID/task/TID/schedstat`): ticks are too coarse for
/// what is nearly idle. A thread that ends takes its time with it.
pub fn exact_seconds(pid: u32) -> Result<f64> {
    let directory = format!("/proc/{pid}/task");
    let mut nanoseconds = 0;
    for thread in fs::read_dir(&directory).context(directory)? {
        let path = thread?.path().join("schedstat");
        let line = match fs::read_to_string(&path) {
            // It has ended since it was listed.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH)) => {
                continue;
            }
            read => read.with_context(|| path.display().to_string())?,
        };
        let ran = line.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
        nanoseconds += ran.with_context(|| format!("{}: {line}", path.display()))?;
    }
    Ok(nanoseconds as f64 / 1e9)
}

/// user, nice, system, irq and softirq of the line `cpu`; guest time is part of user time already.
fn machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(fields.get(..3)?.iter().chain(fields.get(5..7)?).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idle_wait_and_steal() {
        assert_eq!(machine_ticks("cpu  1 2 4 1000 2000 8 16 4000 9 9\ncpu0 1\n"), Some(31));
    }

    #[test]
    fn time_of_this_process_grows() {
        let pid = [std::process::id()];
        let before = Usage::now(&pid).unwrap();
        let used = Usage::now(&pid).unwrap().since(before);
        assert!(used.machine_seconds >= 0.0 && used.processes_seconds >= 0.0);
        assert!(exact_seconds(pid[0]).unwrap() > 0.0);
    }

    #[test]
    fn who_sleeps_is_not_busy_all_the_time_and_errors_are_handed_on() {
        let (three, busy) = busy_during(|| Ok(3)).unwrap();
        assert_eq!(three, 3);
        assert!(busy >= 0.0);
        assert!(busy_during(|| -> Result<()> { anyhow::bail!("no") }).is_err());
    }

    #[test]
    fn threads_may_end_while_they_are_counted() {
        for _ in 0..200 {
            let ending = [(); 8].map(|()| std::thread::spawn(|| ()));
            assert!(exact_seconds(std::process::id()).unwrap() > 0.0);
            ending.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}
