//! Many addresses behind a bundle, as behind a bridge: learning them costs no link, and what one worker has
//! learned keeps the others from flooding.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use tabane_io::{PacketSocket, netlink};

use crate::traffic::frames::build::{EXPERIMENT, ethernet, from, to, udp4_ports};
use crate::traffic::stage::*;

/// Addresses that are new in each second of the storm, and how many have to arrive.
const PER_SECOND: u64 = 40_000;
const ADDRESSES: u64 = 100_000;
const ARRIVE_WITHIN: Duration = Duration::from_secs(30);
const TIMED: Duration = Duration::from_secs(4);
/// Storms, of which all but one cost no link: who else uses the CPUs can stall any.
const STORMS: usize = 3;
const FLOWS: u8 = 32;
const FRAMES: u64 = 25;
/// Frames that hosts' kernels send to groups by themselves meanwhile.
const OWN_MAX: u64 = 100;

type Mac = [u8; 6];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::alone("100_000_addresses_cost_no_link", DAEMON, storm),
        Case::new("a_flow_whose_answers_take_another_worker_is_not_flooded", DAEMON, one_way),
    ]
}

fn storm() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let mut failures = Vec::new();
        for number in 0..STORMS {
            let downs = play_in_storm(topology, bundles, number)?;
            if !downs.is_empty() {
                failures.push(format!("{downs:?}"));
            }
            ensure!(failures.len() < 2, "links that went down: {}", failures.join("; "));
        }
        Ok(())
    })
}

fn play_in_storm(topology: &Topology, bundles: &[Bundle<'_>], number: usize) -> Result<Vec<String>> {
    let (first, second) = (topology.host(0), topology.host(1));
    let other = second.enter(|| netlink::nic(DEVICE))??.mac.context("a MAC address")?;
    let delivered = || counted(&bundles[1], "frames_delivered");
    let (begun, before) = (monotonic_ns()?, delivered()?);
    let storm = storm_of(first, other, u8::try_from(number)?)?;
    round_trips(topology, TIMED)?;
    wait_for("frames of 100,000 addresses", ARRIVE_WITHIN, || {
        Ok((delivered()? - before >= ADDRESSES).then_some(()))
    })?;
    let sent = storm.end()?;
    ensure!(sent >= ADDRESSES, "{sent} addresses were tried");
    let mut downs = Vec::new();
    for bundle in bundles {
        let events = bundle.status()?.events.into_iter();
        downs.extend(
            events.filter(|event| event.what == LINK_DOWN && event.at_ns >= begun).map(|event| event.detail),
        );
    }
    Ok(downs)
}

/// Sends frames, each of another address, until it is told to end, and says how many.
fn storm_of(host: &Namespace, other: Mac, number: u8) -> Result<Running<u64>> {
    let socket = host.enter(|| PacketSocket::open(DEVICE))??;
    Running::start(host, "storm", move |end| {
        let (begun, mut sent) = (Instant::now(), 0_u64);
        while !end.load(Relaxed) && begun.elapsed() < 2 * ARRIVE_WITHIN {
            let due = u64::try_from(begun.elapsed().as_millis())? * PER_SECOND / 1_000;
            for address in sent..due {
                let [.., a, b, c] = address.to_be_bytes();
                // What finds no room in the device's queue is lost as on any wire.
                let frame = to(other, ethernet(EXPERIMENT, &[0; 46]));
                let _ = socket.send(&from([2, 0xff, number, a, b, c], frame));
            }
            sent = due;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(sent)
    })
}

/// A host behind the second node says one word, which reaches one worker of the first. All flows to that host, which
/// take both workers, go to the second node alone.
fn one_way() -> Result<()> {
    const GUEST: Mac = [2, 0xfe, 0, 0, 0, 1];
    const OWN: Mac = [2, 0xfe, 0, 0, 0, 2];
    let options = options_with(&["--workers", "2"])?;
    let plan = Plan { hosts: 3, ..plan(&[FAST; 2]) };
    with_bundles(plan, &options, |topology, bundles| {
        let delivered = |node: usize| counted(&bundles[node], "frames_delivered");
        let [first, second] = [0, 1].map(|host| topology.host(host).enter(|| PacketSocket::open(DEVICE)));
        let (first, second) = (first??, second??);
        let heard = delivered(0)?;
        second.send(&to(OWN, from(GUEST, ethernet(EXPERIMENT, &[0; 46]))))?;
        wait_for("the word of the guest", ARRIVE_WITHIN, || Ok((delivered(0)? > heard).then_some(())))?;
        let before = [delivered(1)?, delivered(2)?];
        let frames = FRAMES * u64::from(FLOWS);
        for flow in (0..FRAMES).flat_map(|_| 0..FLOWS) {
            let ports = [0x8000, 0x2300].map(|base| base | u16::from(flow));
            first.send(&to(GUEST, from(OWN, udp4_ports(ports, &[0; 18]))))?;
            thread::sleep(Duration::from_micros(500));
        }
        wait_for("the flows", ARRIVE_WITHIN, || Ok((delivered(1)? - before[0] >= frames).then_some(())))?;
        let stray = delivered(2)? - before[1];
        ensure!(stray < OWN_MAX, "{stray} of {frames} frames reached a node that they are not for");
        let flooded = bundles[0].status()?.counter("frames_flooded");
        ensure!(flooded < OWN_MAX, "{flooded} frames were flooded");
        Ok(())
    })
}
