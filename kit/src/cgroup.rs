//! A control group (version 2) in which programs have less memory than the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context, Result};

/// Where groups are made.
const ROOT: &str = "/sys/fs/cgroup";

/// A group that lives as long as its value, and as its programs.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// A group whose programs have `bytes` of memory together, with what they cache of files.
    ///
    /// # Errors
    /// The kernel has no such groups, or this process may not make them.
    pub fn with_memory(bytes: u64) -> Result<Cgroup> {
        let write =
            |path: &Path, text: &str| fs::write(path, text).with_context(|| path.display().to_string());
        write(&Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
        let path = Path::new(ROOT).join(format!("tabane-lab-{}", process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        let group = Cgroup { path };
        write(&group.path.join("memory.max"), &bytes.to_string())?;
        Ok(group)
    }

    /// `inner`, to be started in the group: by a shell that enters it and becomes the program.
    #[must_use]
    pub fn command(&self, inner: &Command) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(self.path.join("cgroup.procs"));
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("{} stays: {error}", self.path.display());
        }
    }
}
