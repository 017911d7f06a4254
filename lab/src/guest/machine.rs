//! The virtual machine of a guest: QEMU at work, for a bounded time, ended by its process id.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Guest;
use super::errand::Errand;
use crate::process::Process;
use crate::progress;

/// Memory of the guest: programs and what they write stand in it.
const MEMORY: &str = "2048M";
/// Name of the file with QEMU's process id.
const PID_FILE: &str = "pid";
/// Pause between two looks at the guest.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// Boots `guest`, has a shell do `script` there, and waits until it is down, showing its steps meanwhile; returns the
/// last words of its console.
pub(super) fn run(guest: &Guest, script: &str, errand: &Errand, limit: Duration) -> Result<String> {
    let mut process = Process::start(command(guest, script, errand))?;
    let _qemu = Qemu { pid_file: errand.file(PID_FILE) };
    let deadline = Instant::now() + limit;
    let mut shown = format!("booting Linux {} in the guest", guest.version);
    let mut step = progress::step(&shown);
    while process.is_running()? {
        if Instant::now() >= deadline {
            bail!("the guest has not ended within {limit:?}: {}", errand.last_words());
        }
        if let Some(says) = errand.step().filter(|says| *says != shown) {
            drop(step);
            step = progress::step(&says);
            shown = says;
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
    drop(step);
    Ok(process.stop()?.last_words())
}

/// QEMU, which is a child of virtme-run; dropping it ends it.
struct Qemu {
    /// Where QEMU wrote its process id; it takes the file away when it ends by itself.
    pid_file: PathBuf,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let Ok(pid) = fs::read_to_string(&self.pid_file) else { return };
        let ended = pid.trim().parse().map(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL));
        if !matches!(ended, Ok(Ok(()) | Err(Errno::ESRCH))) {
            eprintln!("QEMU (pid {}) could not be ended: {ended:?}", pid.trim());
        }
    }
}

fn command(guest: &Guest, script: &str, errand: &Errand) -> Command {
    let processors = available_parallelism().map_or(1, Into::into);
    let mut command = Command::new(&guest.virtme);
    command.arg("--kimg").arg(guest.image());
    command.args([
        "--mods",
        "auto",
        "--disable-kvm",
        "--disable-microvm",
        "--force-9p",
        "--show-boot-console",
    ]);
    command.args(["--memory", MEMORY, "--cpus", &processors.to_string()]);
    command.arg("--rwdir").arg(errand.directory());
    command.args(["--cwd", "/", "--script-sh", script]);
    command.args(["--qemu-opts", "-pidfile"]).arg(errand.file(PID_FILE));
    command
}
