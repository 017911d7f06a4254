//! A control group in which programs have less memory, or less of a processor, than the machine.
//!
//! Version 2; for processors also version 1, where a machine has that controller there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";
/// Where version 1 has the controller of processors.
const PROCESSORS: &str = "/sys/fs/cgroup/cpu";
/// Over so many microseconds a group has its part of a processor: short, so that its programs are held up briefly and often.
const PERIOD_US: u32 = 10_000;

/// A group that lives as long as its value, and as its programs.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// A group whose programs have `bytes` of memory together, with what they cache of files.
    pub fn with_memory(bytes: u64) -> Result<Cgroup> {
        write(&Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
        let group = Cgroup::below(ROOT)?;
        write(&group.path.join("memory.max"), &bytes.to_string())?;
        Ok(group)
    }

    /// A group whose programs have `percent` of one processor together, 10 at least.
    pub fn with_processor(percent: u32) -> Result<Cgroup> {
        let quota = PERIOD_US * percent / 100;
        if Path::new(PROCESSORS).join("cpu.cfs_quota_us").exists() {
            let group = Cgroup::below(PROCESSORS)?;
            write(&group.path.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
            write(&group.path.join("cpu.cfs_quota_us"), &quota.to_string())?;
            return Ok(group);
        }
        write(&Path::new(ROOT).join("cgroup.subtree_control"), "+cpu")?;
        let group = Cgroup::below(ROOT)?;
        write(&group.path.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
        Ok(group)
    }

    fn below(root: &str) -> Result<Cgroup> {
        // Sandboxes share the groups of the machine, and each has a process 1.
        let sandbox = fs::read_link("/proc/self/ns/pid").context("/proc/self/ns/pid")?;
        let path = Path::new(root).join(format!("tabane-papers-{}-{}", sandbox.display(), process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Cgroup { path })
    }

    pub fn add(&self, pid: u32) -> Result<()> {
        write(&self.path.join("cgroup.procs"), &pid.to_string())
    }

    /// `inner`, to be started in the group: by a shell that enters it and becomes the program.
    pub fn command(&self, inner: &Command) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(self.path.join("cgroup.procs"));
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("{} stays: {error}", self.path.display());
        }
    }
}
