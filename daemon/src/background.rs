//! `tabane upgrade --background`: a process of its own takes the bundle over, and this one ends when it has.
//!
//! A service manager that is told to reload waits for the command to end, and follows the process that is left.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::control::{self, Request};

/// Time for all of it.
const WITHIN: Duration = Duration::from_secs(30);
/// Pause between two looks at who has the bundle.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Has another process of this program take the bundle `name` over.
///
/// # Errors
/// It does not, and has said why.
pub(crate) fn upgrade(name: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(program);
    command.args(["upgrade", name]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let mut successor = command.spawn().context("cannot start the process that takes over")?;
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(status) = successor.try_wait()? {
            bail!("the process that was to take {name} over ended: {status}");
        }
        // Nobody answers while the bundle passes from one to the other.
        let answer = control::ask(name, &Request::Status).unwrap_or_default();
        if answer["pid"] == successor.id() {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
    successor.kill()?;
    successor.wait()?;
    bail!("{name} was not taken over within {} s", WITHIN.as_secs())
}
