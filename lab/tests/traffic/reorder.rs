//! The reorder qdisc, on Debian's newest kernel in a guest: striped frames come in order, nothing of it is left behind, and what a
//! crash leaves is replaced.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use tabane_io::netlink::nic_names;
use tabane_kernel::Reorder;
use tabane_kit::guest::{Guest, HERE};
use tabane_kit::prerequisites::{BUSYBOX, ETHTOOL, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::{bundle, tool};

use crate::experiments::{lab, median};
use crate::{Case, Need};

/// Where `make vm-setup-backports` puts the guest.
pub(crate) const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/vm-backports");
/// Time for the guest to boot on emulated processors, to measure and to end.
const GUEST_WITHIN: Duration = Duration::from_secs(900);
/// Least speed over both of them as a multiple of one.
const RATIO_MIN: f64 = 1.5;

/// What this program does when its first word is one of these: crash and start anew in the guest; hold a qdisc until it is killed.
const CRASH: &str = "reorder-crash";
const HOLD: &str = "reorder-hold";
/// The device whose frames are put in order.
const DEVICE: &str = "ordered";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("kernel_path_in_order_over_links_of_unequal_delay", Need::NewGuest, in_order),
        Case::new("kernel_path_replaces_the_qdisc_that_a_crash_has_left", Need::NewGuest, crash),
    ]
}

/// Checks that there is a guest whose kernel has qdiscs that are programs, and what boots it.
pub(crate) fn require_guest(tool: impl Fn(Tool) -> Result<()>) -> Result<()> {
    [QEMU, MODPROBE, BUSYBOX, ETHTOOL, IPERF3].into_iter().try_for_each(tool)?;
    tabane_kernel::available()?;
    Guest::find(Path::new(GUEST)).map(drop)
}

fn in_order() -> Result<()> {
    let who = r#"contestants = ["best-link", "kernel-stripe", "kernel-order"]"#;
    let words = ["kernel", "--quick", "--case", "1/5ms", "--vm", GUEST, "--set", who];
    let (_, report) = lab(&words, GUEST_WITHIN)?;
    ensure!(report["verdicts"][0]["ok"] == true, "a run failed: {report}");
    let figure = |who: &str, which: &str| median(&report, &format!("1/5ms.guest.{who}.{which}"));
    ensure!(figure("kernel-order", "flow1.ratio")? > RATIO_MIN, "{report}");
    ensure!(figure("kernel-stripe", "resent")? > 0.0, "without the qdisc nothing overtook: {report}");
    ensure!(figure("kernel-order", "held")? > 0.0, "with it nothing waited: {report}");
    ensure!(figure("kernel-order", "resent")? == 0.0, "{report}");
    Ok(())
}

fn crash() -> Result<()> {
    let guest = Guest::find(Path::new(GUEST))?;
    let seen: Vec<String> = guest.run(&[CRASH.into()], &[], &bundle::program(None)?, GUEST_WITHIN)?;
    ensure!(
        seen == ["held: 2, a qdisc", "killed: 2, a qdisc", "anew: 2, a qdisc", "ended: 0, none"],
        "{seen:?}"
    );
    Ok(())
}

/// What this program does in the guest, when it is there.
pub(crate) fn in_guest() -> Option<Result<()>> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CRASH, here, figures] if here == format!("--{HERE}") => Some(crash_here(Path::new(figures))),
        [HOLD] => Some(hold()),
        _ => None,
    }
}

/// Halves of the qdisc's pair, and whether it has its qdisc.
fn look(when: &str) -> Result<String> {
    let halves = nic_names()?.into_iter().filter(|name| name.starts_with(&format!("{DEVICE}."))).count();
    let qdiscs = tool::run(Command::new("tc").args(["qdisc", "show"]))?;
    let qdisc = if qdiscs.contains("qdisc tabane") { "a qdisc" } else { "none" };
    Ok(format!("{when}: {halves}, {qdisc}"))
}

fn crash_here(figures: &Path) -> Result<()> {
    tool::run(Command::new("ip").args(["link", "add", DEVICE, "type", "veth", "peer", "name", "other"]))?;
    let mut holder = Command::new(env::current_exe()?)
        .arg(HOLD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("who holds the qdisc")?;
    let mut said = String::new();
    BufReader::new(holder.stdout.take().context("no output")?).read_line(&mut said)?;
    ensure!(said == "held\n", "{said}");
    let mut seen = vec![look("held")?];
    holder.kill()?;
    holder.wait()?;
    seen.push(look("killed")?);
    let anew = Reorder::attach(DEVICE, 1)?;
    seen.push(look("anew")?);
    drop(anew);
    seen.push(look("ended")?);
    fs::write(figures, serde_json::to_string(&seen)?)?;
    Ok(())
}

/// Holds the qdisc until it is killed, or until nobody holds its input.
fn hold() -> Result<()> {
    let _held = Reorder::attach(DEVICE, 1)?;
    println!("held");
    std::io::stdin().read_line(&mut String::new())?;
    bail!("nobody killed it")
}
