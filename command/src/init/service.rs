//! The service manager: systemd, where it runs and knows the unit.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// The unit of a bundle.
fn unit(name: &str) -> String {
    format!("tabane@{name}.service")
}

/// Whether systemd runs here and has the unit.
pub(super) fn is_there() -> bool {
    Path::new("/run/systemd/system").is_dir() && succeeds(&["cat", "tabane@.service"])
}

/// Starts the bundle's service, now and with the machine; waits until the bundle is up.
pub(super) fn start(name: &str) -> anyhow::Result<()> {
    let unit = unit(name);
    let status = Command::new("systemctl").args(["enable", "--now", "--quiet", &unit]).status();
    let started = status.context("systemctl")?.success();
    ensure!(started, "{unit} does not start; `journalctl -u {unit}` says why");
    Ok(())
}

/// Ends the bundle's service and does not start it again; whether there was one.
pub(super) fn stop(name: &str) -> anyhow::Result<bool> {
    if !is_there() {
        return Ok(false);
    }
    let unit = unit(name);
    let known = succeeds(&["is-enabled", &unit]) || succeeds(&["is-active", &unit]);
    if known {
        let status = Command::new("systemctl").args(["disable", "--now", "--quiet", &unit]).status();
        ensure!(
            status.context("systemctl")?.success(),
            "{unit} does not end; `systemctl status {unit}` says why"
        );
    }
    Ok(known)
}

fn succeeds(arguments: &[&str]) -> bool {
    let run = Command::new("systemctl").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}
