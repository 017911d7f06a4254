//! bonnie++: one file written, rewritten and read, block by block.
//!
//! It has a file of twice the memory that it may use, so that what it reads is not cached. Its own figures of the CPU are its
//! process's; those here are the machine's, taken whenever it says that a phase is done.

use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::bail;
use tempfile::NamedTempFile;

use crate::cgroup::Cgroup;
use crate::prelude::*;

const PHASES: [&str; 3] = ["Writing intelligently...", "Rewriting...", "Reading intelligently..."];
/// Fields of its last line in which their speeds are (bon_csv2html(1)).
const FIELDS: [usize; 3] = [11, 13, 17];
/// Version of the format of that line.
const FORMAT: &str = "1.98,";
const END_WITHIN: Duration = Duration::from_secs(300);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// Speed in 10^6 bytes per second.
    pub mb_per_second: f64,
    /// Share of all CPUs of this machine that were busy, in percent.
    pub busy_percent: f64,
    /// The part of it that bonnie++ and the client's other processes had, as far as it is a process's.
    pub client_percent: f64,
    /// The part that the server's processes had.
    pub server_percent: f64,
}

/// Processes that work for either side; bonnie++ itself is of the client.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    pub client: Vec<u32>,
    pub server: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub write: Phase,
    /// Each block is read, changed and written.
    pub rewrite: Phase,
    pub read: Phase,
}

pub fn run(directory: &Path, megabytes: u64, sides: &Sides) -> Result<Figures> {
    let words = NamedTempFile::new().context("a file for the words of bonnie++")?;
    let line = "exec \"$@\" 2>\"$0\"";
    let mut command = process::words("sh", "-c");
    command.arg(line).arg(words.path()).args(["bonnie++", "-d"]).arg(directory);
    // The file's size, in blocks of 8 KB, and as few seeks as it does; it takes what is 0 for no limit.
    command.args(["-s", &format!("{}:8k:1:1", 2 * megabytes), "-r", "0", "-n", "0", "-f", "-u", "root"]);
    let group = Cgroup::with_memory(megabytes << 20)?;
    let mut process = Process::start(group.command(&command))?;
    let mut sides = sides.clone();
    sides.client.push(process.pid());
    let shares = watch(&mut process, words.path(), &sides)?;
    let speeds = speeds(&process.stop()?.success("bonnie++")?)?;
    let phase = |at: usize| {
        let [busy_percent, client_percent, server_percent] = shares[at];
        Phase { mb_per_second: speeds[at], busy_percent, client_percent, server_percent }
    };
    Ok(Figures { write: phase(0), rewrite: phase(1), read: phase(2) })
}

/// Waits for the end, and tells how busy machine, client and server were in each phase, in percent of all CPUs.
fn watch(process: &mut Process, words: &Path, sides: &Sides) -> Result<[[f64; 3]; 3]> {
    let deadline = Instant::now() + END_WITHIN;
    let mut phases = Vec::new();
    let mut last = Reading::now(sides)?;
    while process.is_running()? {
        if Instant::now() >= deadline {
            bail!("bonnie++ has not ended within {END_WITHIN:?}");
        }
        // When the last phase is done, bonnie++ still writes its figures; a process that has ended cannot be read.
        if phases.len() < done(&fs::read_to_string(words)?)
            && let Ok(now) = Reading::now(sides)
        {
            phases.push(now.since(&last));
            last = now;
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
    let said = fs::read_to_string(words)?;
    phases.try_into().map_err(|_| anyhow::anyhow!("bonnie++ ended before its time: {}", said.trim()))
}

struct Reading {
    at: Instant,
    client: Usage,
    server: Usage,
}

impl Reading {
    fn now(sides: &Sides) -> Result<Reading> {
        Ok(Reading {
            at: Instant::now(),
            client: Usage::now(&sides.client)?,
            server: Usage::now(&sides.server)?,
        })
    }

    fn since(&self, earlier: &Reading) -> [f64; 3] {
        let cores = available_parallelism().map_or(1, usize::from) as f64;
        let seconds = (self.at - earlier.at).as_secs_f64() * cores;
        let (client, server) = (self.client.since(earlier.client), self.server.since(earlier.server));
        [client.machine_seconds, client.processes_seconds, server.processes_seconds]
            .map(|used| 100.0 * used / seconds)
    }
}

fn done(words: &str) -> usize {
    PHASES.iter().filter(|phase| words.contains(&format!("{phase}done"))).count()
}

/// Reads the speeds, which are in 2^10 bytes per second.
fn speeds(output: &str) -> Result<[f64; 3]> {
    let line = output.lines().find(|line| line.starts_with(FORMAT)).context("bonnie++ gives no figures")?;
    let fields: Vec<&str> = line.split(',').collect();
    let mut speeds = [0.0; 3];
    for (speed, at) in speeds.iter_mut().zip(FIELDS) {
        let field = fields.get(at).copied().unwrap_or_default();
        ensure!(!field.contains('+'), "bonnie++ takes a phase for too short: {line}");
        *speed =
            field.parse::<f64>().with_context(|| format!("figure {at} of bonnie++: {line}"))? * 1024.0 / 1e6;
    }
    Ok(speeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "1.98,2.00a,x,1,1,128M,,1,1,,,4719,17,2845,7,,,5173,10,+++++,+++,,,,,,,,,,,,,,,,,,,2191ms";

    #[test]
    fn speeds_are_those_of_blocks() {
        let [write, rewrite, read] = speeds(&format!("Version  2.00a\n{LINE}\n")).unwrap();
        for (got, kilobytes) in [(write, 4719.0), (rewrite, 2845.0), (read, 5173.0)] {
            assert!((got - kilobytes * 1.024e-3).abs() < 1e-9, "{got}");
        }
        assert!(speeds(&LINE.replace("4719", "+++++")).is_err() && speeds("").is_err());
    }

    #[test]
    fn a_phase_is_done_when_it_says_so() {
        assert_eq!(done("Using uid:0, gid:0.\nWriting intelligently...done\nRewriting..."), 1);
        assert_eq!(done("Writing intelligently...done\nRewriting...done\nReading intelligently...done\n"), 3);
    }
}
