//! Changes of a running bundle under full load: another policy, a link that leaves and joins. One TCP connection fills
//! the links beside a flow of numbered datagrams; nothing of either may be lost.

use tabane_kit::counters::lost_segments;

use crate::traffic::faults::carry;
use crate::traffic::live::drain_and_resume;
use crate::traffic::stage::*;

pub(crate) const LINKS: usize = 3;
pub(crate) const CHANGED: usize = 1;
/// What each carries: so little that a busy machine fills them.
pub(crate) const RATE: Bitrate = Bitrate::mbit(50);
/// Duration of the connection, in which the change is done so often.
const SECONDS: u32 = 10;
const ROUNDS: usize = 2;
/// Least part of the links' sum that the connection gets: two of three links, less what a start and the datagrams take.
const SHARE_MIN: f64 = 0.5;
/// Segments that TCP may send again by mistake, without a report of it; a superframe that is lost costs 45.
const LOST_MAX: u64 = 10;
/// Datagrams beside the connection, far below what the links carry, and how many are sent at least: half of the pace.
const PACE: Pace = Pace { per_second: 2_000, bytes: 200 };
const SENT_MIN: u64 = (PACE.per_second * SECONDS / 2) as u64;

pub(crate) fn cases() -> Vec<Case> {
    // Exercises: link remove, link add, link drain, link resume
    vec![Case::new(
        "another_policy_and_links_that_drain_leave_and_join_under_load_lose_nothing",
        IPERF,
        under_load,
    )]
}

fn under_load() -> Result<()> {
    with_bundles(plan(&[RATE; LINKS]), &options()?, |topology, bundles| {
        load(topology, bundles, |topology, bundles| {
            switch_policy(topology, bundles).context("another policy")?;
            drain_and_resume(topology, bundles).context("a drained link")?;
            leaves_and_joins(topology, bundles, &nic(CHANGED), LINKS).context("a link that leaves")
        })
    })
}

fn switch_policy(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    for policy in ["rr", "adaptive"] {
        carry(topology, CHANGED)?;
        for bundle in &mut *bundles {
            bundle.ask(&["policy", DEVICE, policy])?;
            bundle.wait_until(policy, |status| status.policy == policy)?;
        }
    }
    Ok(())
}

/// One of so many links, the second, is taken out and in again, and carries each time.
pub(crate) fn leaves_and_joins(
    topology: &Topology,
    bundles: &mut [Bundle<'_>],
    link: &str,
    links: usize,
) -> Result<()> {
    carry(topology, CHANGED)?;
    bundles[0].ask(&["link", "remove", DEVICE, link])?;
    ready(bundles, links - 1)?;
    carry(topology, 0)?;
    bundles[0].ask(&["link", "add", DEVICE, link])?;
    ready(bundles, links)?;
    carry(topology, CHANGED)
}

/// Frames that the sender's queue has shortened, and those that it has dropped.
fn told(sender: &Bundle<'_>) -> Result<[u64; 2]> {
    let status = sender.status()?;
    let dropped = status.counter("drop_queue_late") + status.counter("drop_queue_full");
    Ok([status.counter("frames_trimmed"), dropped])
}

/// Runs both flows while the change is done again and again. What the bundle's own queue takes from a flow, to tell it of
/// congestion, is not counted: without a change that happens now and then, too.
pub(crate) fn load(
    topology: &Topology,
    bundles: &mut [Bundle<'_>],
    change: impl Fn(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    let (before, lost_before) = (told(&bundles[0])?, lost_segments(topology.host(0))?);
    let datagrams = datagrams(topology, PACE, 4 * Duration::from_secs(SECONDS.into()))?;
    let flow = Flow::tcp(address(1), SECONDS).start(topology.host(0))?;
    let changed = (0..ROUNDS).try_for_each(|_| change(topology, &mut *bundles));
    let (tcp, datagrams) = (flow.finish(), datagrams.finish()?);
    changed.context("the change")?;
    let tcp = tcp?;
    let after = told(&bundles[0])?;
    let lost = lost_segments(topology.host(0))?.saturating_sub(lost_before);
    let [shortened, dropped] = [after[0] - before[0], after[1] - before[1]];
    let said = || format!("{lost} of {tcp:?}, {shortened} shortened, {dropped} dropped, {datagrams:?}");

    let share = tcp.gbps * 1e9 / (LINKS as u64 * RATE.bits_per_second()) as f64;
    ensure!(share >= SHARE_MIN, "{share:.2} of what the links carry: {}", said());
    ensure!(lost <= shortened + dropped + LOST_MAX, "segments were lost: {}", said());
    ensure!(datagrams.sent >= SENT_MIN, "the datagrams were held up: {}", said());
    ensure!(datagrams.lost_at_ns.len() as u64 <= dropped, "datagrams were lost: {}", said());
    let wrong = datagrams.doubled + datagrams.overtaken + datagrams.damaged;
    ensure!(wrong == 0, "datagrams came wrong: {}", said());
    let (again, missing) = (tcp.retransmits, datagrams.lost_at_ns.len());
    println!(
        "{again} segments sent again, {lost} of them lost, {missing} of {} datagrams lost, {:.2} Gbit/s",
        datagrams.sent, tcp.gbps
    );
    Ok(())
}
