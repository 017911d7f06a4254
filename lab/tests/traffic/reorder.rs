//! The reorder qdisc, on Debian's newest kernel in a guest: striped frames come in order, and nothing of it is left behind.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::guest::Guest;
use tabane_kit::prerequisites::{BUSYBOX, ETHTOOL, MODPROBE, QEMU, Tool};

use crate::experiments::{lab, median};
use crate::{Case, Need};

/// Where `make vm-setup-backports` puts the guest.
const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/vm-backports");
/// Time for the guest to boot on emulated processors, to measure and to end.
const GUEST_WITHIN: Duration = Duration::from_secs(900);
/// Links that are slow, so that emulated processors on a busy machine fill them.
const LINKS: &str =
    r#"link = [{ rate = "10 Mbit/s", delay = "10 ms" }, { rate = "10 Mbit/s", delay = "50 ms" }]"#;
/// Least speed over both of them as a multiple of one.
const RATIO_MIN: f64 = 1.5;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("kernel_path_in_order_over_links_of_unequal_delay", Need::NewGuest, in_order)]
}

/// Checks that there is a guest whose kernel has qdiscs that are programs, and what boots it.
pub(crate) fn require_guest(tool: impl Fn(Tool) -> Result<()>) -> Result<()> {
    [QEMU, MODPROBE, BUSYBOX, ETHTOOL].into_iter().try_for_each(tool)?;
    tabane_kernel::available()?;
    Guest::find(Path::new(GUEST)).map(drop)
}

fn in_order() -> Result<()> {
    let who = r#"contestants = ["best-link", "kernel-stripe", "kernel-order"]"#;
    let short = ["--set", LINKS, "--set", who];
    let (_, report) =
        lab(&[&["kernel", "--quick", "--case", "1/5ms", "--vm", GUEST], &short[..]].concat(), GUEST_WITHIN)?;
    ensure!(report["verdicts"][0]["ok"] == true, "a run failed: {report}");
    let figure = |who: &str, which: &str| median(&report, &format!("1/5ms.guest.{who}.{which}"));
    ensure!(figure("kernel-order", "flow1.ratio")? > RATIO_MIN, "{report}");
    ensure!(figure("kernel-stripe", "resent")? > 0.0, "without the qdisc nothing overtook: {report}");
    ensure!(figure("kernel-order", "resent")? == 0.0, "{report}");
    Ok(())
}
