//! Frames of one flow over several links by the kernel path. On Debian's newest kernel, in a guest, a qdisc puts them in order, by itself and
//! in bundles: nothing of it is left behind, and what a crash leaves is replaced. This machine's kernel may have no such qdisc:
//! bundles say so, and leave the order to TCP where they are told to. And a VLAN of the kernel's own driver, which Debian's has.

use std::env;
use std::process::Command;

use tabane_io::netlink::{nic as nic_of, nic_names};
use tabane_kernel::{Error, Reorder};
use tabane_kit::guest::HERE;

use crate::traffic::data_path::{PROGRAMS, carried, in_cells, kernel};
use crate::traffic::experiments::{lab, median};
use crate::traffic::kernels::{self, KERNEL};
use crate::traffic::macsec::{self, MACSEC};
use crate::traffic::stage::*;

pub(crate) const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/vm-backports");
const GUEST_WITHIN: Duration = Duration::from_secs(900);
const RATIO_MIN: f64 = 1.5;

/// Segments that two bundles may send again while they find out how fast the links are.
const RESENT_MAX: f64 = 100.0;
const LINK: Bitrate = SLOW;
const FILE: u64 = 16 << 20;

/// Least mean length of frames on a VLAN, in bytes: more than segments of the MTU of 1,500 have.
const FRAME_MIN: f64 = 1_600.0;

/// Instructions that the kernel may go through to verify a program: so many take an emulated processor half a second.
const VERIFIED_MAX: u32 = 20_000;

/// What this program does in the guest when its first word is this: kill, replace and end bundles.
const BUNDLES: &str = "reorder-bundles";

pub(crate) const NEW_GUEST: &[Need] = &[Daemon, Need::Guest("vm-backports")];
pub(crate) const MINUTES: &[Need] = &[That(require_minutes)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::nightly("kernel_path_in_order_over_links_of_unequal_delay", NEW_GUEST, || twice(in_order)),
        Case::nightly("bundles_put_frames_in_order_by_a_qdisc_that_comes_and_goes", NEW_GUEST, || {
            twice(bundles)
        }),
        Case::nightly("vlan_on_the_device_carries_whole_superframes", [NEW_GUEST, MINUTES].concat(), vlan),
        // Exercises: up --reorder
        Case::new("kernel_path_leaves_the_order_to_tcp_when_asked", PROGRAMS, by_tcp),
    ]
}

fn require_minutes() -> Result<()> {
    ensure!(env::var_os("TABANE_GUESTS").is_some(), "TABANE_GUESTS is not set: `make guests-test`");
    Ok(())
}

/// Two attempts: emulated processors stand still at times, and TCP sends again what it believes to be lost.
fn twice(attempt: impl Fn() -> Result<()>) -> Result<()> {
    attempt().or_else(|first| attempt().with_context(|| format!("and in the first attempt: {first:#}")))
}

fn in_order() -> Result<()> {
    let who = r#"contestants = ["best-link", "daemon-order"]"#;
    let words = ["kernel", "--quick", "--case", "1/5ms", "--vm", GUEST, "--set", who];
    let (_, report) = lab(&words, GUEST_WITHIN)?;
    ensure!(report["verdicts"][0]["ok"] == true, "a run failed: {report}");
    let figure = |who: &str, which: &str| median(&report, &format!("1/5ms.guest.{who}.{which}"));
    ensure!(figure("daemon-order", "flow1.ratio")? > RATIO_MIN, "{report}");
    ensure!(figure("daemon-order", "held")? > 0.0, "nothing waited: {report}");
    ensure!(figure("daemon-order", "resent")? < RESENT_MAX, "{report}");
    Ok(())
}

fn bundles() -> Result<()> {
    let guest = Guest::find(Path::new(GUEST))?;
    let seen: Vec<String> = guest.run(&[BUNDLES.into()], &[], &bundle::program(None)?, GUEST_WITHIN)?;
    ensure!(seen == ["up: 2", "killed: 2", "again: 2", "replaced: 2", "ended: 0", "verified"], "{seen:?}");
    Ok(())
}

/// Whole bytes, or the run fails, and superframes: without them no frame would be longer than the MTU allows. The command's
/// verdicts on speed and lost segments are for a machine that does nothing else.
fn vlan() -> Result<()> {
    let (_, report) = lab(&["vlan", "--quick", "--vm", GUEST], GUEST_WITHIN)?;
    ensure!(
        report["verdicts"].as_array().is_some_and(|all| all.len() == 4),
        "not all was measured: {report}"
    );
    ensure!(report["verdicts"][0]["ok"] == true, "a run failed: {report}");
    ensure!(median(&report, "guest.vlan.frame_bytes")? > FRAME_MIN, "{report}");
    Ok(())
}

/// Without a qdisc flows that the policy spreads travel in cells; or their order is TCP's.
fn by_tcp() -> Result<()> {
    if Reorder::attach(DEVICE, 1, None).is_err_and(|error| matches!(error, Error::NoQdiscs)) {
        with_bundles(plan(&[LINK; 2]), &kernel("adaptive", &[])?, |topology, bundles| {
            bundles.iter_mut().try_for_each(|bundle| in_cells(bundle, "does not put frames in order"))?;
            send_both_ways(topology, 1 << 20)
        })?;
    }
    ["adaptive", "rr"].into_iter().try_for_each(spread_by)
}

/// Frames of one connection take both links under a policy, and nobody puts them in order but TCP.
fn spread_by(policy: &str) -> Result<()> {
    with_bundles(plan(&[LINK; 2]), &kernel(policy, &["--reorder", "tcp"])?, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        let before = carried(&bundles[0])?;
        send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        for (after, before) in carried(&bundles[0])?.iter().zip(before) {
            let bytes = after[0] - before[0];
            ensure!(bytes > FILE / 4, "{bytes} bytes by programs over one of the links");
        }
        Ok(())
    })
}

/// What this program does in the guest, when it is there.
pub(crate) fn in_guest() -> Option<Result<()>> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [KERNEL, ref carried @ .., here, figures] if here == format!("--{HERE}") => {
            Some(kernels::here(carried, Path::new(figures)))
        }
        [BUNDLES, here, figures] if here == format!("--{HERE}") => Some(bundles_here(Path::new(figures))),
        [MACSEC, here, figures] if here == format!("--{HERE}") => Some(macsec::here(Path::new(figures))),
        _ => None,
    }
}

/// Halves of pairs on a host of bundles, which have no addresses, and as many qdiscs as pairs.
fn halves(topology: &Topology, when: &str) -> Result<String> {
    let host = topology.host(1);
    let halves = host.enter(|| -> Result<Vec<_>> {
        let names = nic_names()?.into_iter().filter(|name| name.starts_with(&format!("{DEVICE}.")));
        names.map(|name| Ok(nic_of(&name)?)).collect()
    })??;
    ensure!(halves.iter().all(|half| half.link_local.is_none()), "{when}: an address, {halves:?}");
    let qdiscs = process::run(host.command("tc").args(["qdisc", "show"]))?;
    ensure!(qdiscs.contains("qdisc tabane") != halves.is_empty(), "{when}: {halves:?}, {qdiscs}");
    Ok(format!("{when}: {}", halves.len()))
}

fn bundles_here(figures: &Path) -> Result<()> {
    let topology = Topology::build(plan(&[LINK; 2]))?;
    let mut bundles = Bundle::start_all(&topology, &kernel("adaptive", &[])?)?;
    Bundle::wait_for_programs(&mut bundles)?;
    let mut seen = vec![halves(&topology, "up")?];
    bundles[1].kill()?;
    seen.push(halves(&topology, "killed")?);
    bundles[1].start_again()?;
    let carry = |bundles: &mut Vec<Bundle<'_>>, when: &str| -> Result<String> {
        ready(bundles, 2)?;
        Bundle::wait_for_programs(bundles)?;
        send_both_ways(&topology, 1 << 20)?;
        halves(&topology, when)
    };
    seen.push(carry(&mut bundles, "again")?);
    bundles[1].upgrade()?;
    seen.push(carry(&mut bundles, "replaced")?);
    Bundle::stop_all(bundles)?;
    seen.push(halves(&topology, "ended")?);
    seen.push(topology.host(1).enter(verified)??);
    fs::write(figures, serde_json::to_string(&seen)?)?;
    Ok(())
}

fn verified() -> Result<String> {
    process::run(
        Command::new("ip").args(["link", "add", "ordered", "type", "veth", "peer", "name", "other"]),
    )?;
    drop(Reorder::attach("ordered", 1, None)?);
    let verified = tabane_kernel::verified();
    ensure!(verified > 0 && verified < VERIFIED_MAX, "a program takes {verified} instructions to verify");
    Ok("verified".to_owned())
}
