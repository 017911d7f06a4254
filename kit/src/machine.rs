//! Where and when something was measured: part of every report.

use std::io::{Read, Write};
use std::thread::available_parallelism;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use rustix::system::{sysinfo, uname};
use serde::{Deserialize, Serialize};

use crate::usual::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Runnable programs, mean of the last minute before the run: above 1, others compete for the CPUs.
    pub load_before: Option<f64>,
    pub kernel: String,
    /// Commit of the source tree, with `+` when files differ from it; `None` outside a checkout.
    pub commit: Option<String>,
    /// When the run started, UTC, as in RFC 3339.
    pub date: Option<String>,
}

impl Machine {
    /// Looks around; what cannot be found out is left empty.
    pub fn look() -> Machine {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let (system, load) = (sysinfo(), fs::read_to_string("/proc/loadavg").unwrap_or_default());
        Machine {
            cpu: value_of(&processors, "model name").to_string(),
            cores: available_parallelism().map_or(1, Into::into),
            memory_bytes: system.totalram * u64::from(system.mem_unit),
            load_before: load.split_whitespace().next().and_then(|load| load.parse().ok()),
            kernel: uname().release().to_string_lossy().into_owned(),
            commit: commit(),
            date: said(process::words("date", "--utc +%Y-%m-%dT%H:%M:%SZ")),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self.load_before.unwrap_or(f64::NAN);
        write!(out, "{} x {}, kernel {}, load before {load}", self.cores, self.cpu, self.kernel)
    }
}

/// How long this machine takes for a fixed piece of work on one processor, of its kernel and of a program, as networks make it, and
/// without one: by that, a guest's emulated processor is compared with the machine's own.
pub fn work() -> io::Result<Duration> {
    const ROUNDS: u32 = 50_000;
    let (mut from, mut to) = io::pipe()?;
    let mut packet = [0; 1_500];
    let began = Instant::now();
    for _ in 0..ROUNDS {
        to.write_all(&packet)?;
        from.read_exact(&mut packet)?;
    }
    Ok(began.elapsed())
}

/// The numbers of the processors on which this process may run.
pub fn processors() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false)).collect())
}

fn commit() -> Option<String> {
    let hash = said(process::words("git", "rev-parse --short=12 HEAD"))?;
    let changed = said(process::words("git", "status --porcelain --untracked-files=no"));
    Some(if changed.is_some() { hash + "+" } else { hash })
}

/// What `command` prints, when it succeeds and prints something.
fn said(mut command: Command) -> Option<String> {
    let words = process::run(&mut command).ok()?;
    Some(words.trim().to_string()).filter(|words| !words.is_empty())
}

fn value_of<'a>(table: &'a str, key: &str) -> &'a str {
    let mut lines = table.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == key).map_or("", |(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_key() {
        let table = "processor\t: 0\nmodel name\t: A: fast one\nmodel name\t: other\n";
        assert_eq!(value_of(table, "model name"), "A: fast one");
        assert_eq!(value_of(table, "absent"), "");
    }
}
