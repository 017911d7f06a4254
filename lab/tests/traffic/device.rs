//! The device under traffic: taken down for a moment, and deleted; how fast it says that it is; and its carrier, which follows its
//! only peer: off at once when that ends, and soon when it is killed, once each time, however many workers hear of it.

use crate::traffic::faults::carry;
use crate::traffic::stage::*;

/// Frames that a device refuses before it is taken up again: as many are sent.
const REFUSED: u32 = 3;

/// The carrier goes within this time after a farewell, with time for a busy machine; the daemon takes a few milliseconds.
const OFF_AFTER_FAREWELL: Duration = Duration::from_millis(200);
/// After a death: 3 s, and what it takes to be sure.
const OFF_AFTER_DEATH: Duration = Duration::from_millis(3_500);
/// Farewells in a row: workers do not hear of each in an unlucky order.
const FAREWELLS: usize = 3;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a_device_that_is_down_for_a_moment_goes_on", DAEMON, down),
        Case::new("a_device_deleted_under_traffic_ends_the_bundle", DAEMON, deleted),
        Case::light("a_peer_that_ends_or_dies_takes_the_carrier_along_once", DAEMON, || {
            ["1", "4"].into_iter().try_for_each(carrier)
        }),
        Case::new("an_upgrade_of_either_end_leaves_the_carrier_alone", DAEMON, carrier_stays),
    ]
}

fn down() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        is_fast(topology.host(0))?;
        let meanwhile = || {
            for end in [1, 0] {
                carry(topology, 0)?;
                let refused = bundles[end].status()?.counter("device_refused");
                topology.host(end).ip(&format!("link set {DEVICE} down"))?;
                // What TCP has under way may be less, and it waits for longer each time that it sends again.
                let came = answered(topology.host(1 - end), address(end), REFUSED)?;
                ensure!(came == 0, "a device that is down answers {came} times");
                bundles[end].wait_until("frames for a device that is down", |status| {
                    status.counter("device_refused") >= refused + u64::from(REFUSED)
                })?;
                topology.host(end).ip(&format!("link set {DEVICE} up"))?;
                (0..LINKS).try_for_each(|link| carry(topology, link))?;
            }
            Ok(())
        };
        under_a_file(topology, 4 << 20, meanwhile).map(drop)
    })
}

/// A device is as fast as its links together: a veth says that it has 10,000 Mbit/s.
fn is_fast(host: &Namespace) -> Result<()> {
    let path = format!("/sys/class/net/{DEVICE}/speed");
    let shown = process::run(host.command("cat").arg(&path))?;
    ensure!(shown.trim() == "20000", "{path}: {shown}");
    Ok(())
}

/// While datagrams come, to one worker or several; its peer goes on, and who follows the events is told.
fn deleted() -> Result<()> {
    const PACE: Pace = Pace { per_second: 5_000, bytes: 1_000 };
    const TIMED: Duration = Duration::from_secs(3);
    let directory = tempfile::tempdir()?;
    for workers in ["1", "2"] {
        let topology = Topology::build(plan(&[FAST; LINKS]))?;
        let mut bundles = Bundle::start_all(&topology, &options_with(&["--workers", workers])?)?;
        let flow = datagrams(&topology, PACE, TIMED)?;
        carry(&topology, 0)?;
        let lines = directory.path().join(workers);
        let mut follower = topology.host(1).command("sh");
        let line = "exec \"$0\" events tb0 --follow >\"$1\"";
        follower.args(["-c", line]).arg(program(None)?).arg(&lines);
        let follower = Process::start(follower)?;
        let told = || fs::read_to_string(&lines).unwrap_or_default();
        wait_for("a follower", OFF_AFTER_DEATH, || Ok((!told().is_empty()).then_some(())))?;
        topology.host(1).ip(&format!("link delete {DEVICE}"))?;
        let Some(bundle) = bundles.pop() else { unreachable!("two bundles were started") };
        let ending = bundle.end()?;
        let words = "tabane: device tb0 was deleted, so the bundle ends; `tabane up` makes it again";
        ensure!(ending.status.code() == Some(1) && ending.last_words().ends_with(words), "{ending:?}");
        follower.wait(OFF_AFTER_DEATH)?.success("a follower whose bundle has ended")?;
        ensure!(told().contains("device-gone  device tb0 was deleted"), "{}", told());
        let outcome = flow.finish()?;
        ensure!(!outcome.lost_at_ns.is_empty(), "datagrams to a device that was deleted: {outcome:?}");
        if workers == "2" {
            bundles[0].wait_until("no peer", |status| status.peers.is_empty())?;
        }
        Bundle::stop_all(bundles)?;
    }
    Ok(())
}

fn changes(host: &Namespace) -> Result<u64> {
    let told: Value = serde_json::from_str(&host.ip(&format!("-json -s -s link show {DEVICE}"))?)?;
    told[0]["stats64"]["tx"]["carrier_changes"]
        .as_u64()
        .with_context(|| format!("changes of carrier: {told}"))
}

/// Waits until the carrier is off, which has to be the only change since it was changed so often.
fn off(host: &Namespace, before: u64, within: Duration) -> Result<()> {
    wait_for("no carrier", within, || {
        Ok(host.ip(&format!("link show {DEVICE}"))?.contains("NO-CARRIER").then_some(()))
    })?;
    let changed = changes(host)? - before;
    ensure!(changed == 1, "the carrier changed {changed} times");
    Ok(())
}

fn carrier(workers: &str) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let mut bundles = Bundle::start_all(&topology, &options_with(&["--workers", workers])?)?;
    let host = topology.host(0);
    let before = changes(host)?;
    bundles[1].kill()?;
    off(host, before, OFF_AFTER_DEATH)?;
    for _ in 0..FAREWELLS {
        bundles[1].start_again()?;
        ready(&mut bundles, LINKS)?;
        let before = changes(host)?;
        bundles[1].stop_for_now()?.success("a daemon told to stop")?;
        off(host, before, OFF_AFTER_FAREWELL)?;
    }
    bundles.swap_remove(0).stop()?.success("a daemon told to stop").map(drop)
}

/// Both ends are replaced in turn; the farewell of one that was replaced is heard as any.
fn carrier_stays() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let mut bundles = Bundle::start_all(&topology, &options_with(&["--workers", "2"])?)?;
    let before = [changes(topology.host(0))?, changes(topology.host(1))?];
    for round in 0..4 {
        bundles[round % 2].upgrade()?;
        ready(&mut bundles, LINKS)?;
        let after = [changes(topology.host(0))?, changes(topology.host(1))?];
        ensure!(after == before, "the carrier changed: {before:?} and {after:?} after upgrade {round}");
    }
    bundles[1].stop_for_now()?.success("a daemon told to stop")?;
    off(topology.host(0), before[0], OFF_AFTER_FAREWELL)?;
    bundles.swap_remove(0).stop()?.success("a daemon told to stop").map(drop)
}
