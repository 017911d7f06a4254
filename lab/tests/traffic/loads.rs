//! What NICs can carry and what others carry over them: a speed that changes is followed, and flows go where there is room.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tabane_io::ethtool;
use tabane_kit::bundle::{Bundle, DEVICE, address};
use tabane_kit::netns::{Namespace, joined};
use tabane_kit::topology::{self, Plan, Topology, nic};

use crate::traffic::stage::{
    FAST, cells_sent, options, options_with, plan, send_file, with_bundles, with_links,
};
use crate::traffic::{Case, Need};

/// A NIC whose speed can be set.
const TAP: &str = "tap7";
/// Datagrams of others, and how many leave at once each millisecond: 150 Mbit/s, of the 200 of a link.
const BYTES: usize = 1_250;
const AT_ONCE: u32 = 15;
const PACE: Duration = Duration::from_millis(1);
/// A port on which nobody listens.
const DISCARD: u16 = 9;
/// Others have sent for so long when flows begin: the load is asked for each second.
const KNOWN_AFTER: Duration = Duration::from_millis(3_500);
/// Files one after the other, each a flow.
const FILES: u64 = 3;
const FILE: u64 = 2 << 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::alone("the_speed_of_a_nic_is_followed", Need::Daemon, speed),
        Case::alone("tlb_leaves_a_nic_to_others_who_send_over_it", Need::Daemon, others_send),
    ]
}

/// A TAP says what was set last. The bundle is in its sandbox by then.
fn speed() -> Result<()> {
    with_bundles(plan(&[FAST]), &options()?, |topology, bundles| {
        let host = topology.host(0);
        host.ip(&format!("tuntap add dev {TAP} mode tap"))?;
        host.ip(&format!("address add 192.0.2.1/24 dev {TAP}"))?;
        bundles[0].ask(&["link", "add", DEVICE, &format!("{TAP},local=192.0.2.1")])?;
        for (mbits, bits) in [(100, 100_000_000), (2_500, 2_500_000_000)] {
            host.enter(|| ethtool::set_speed(TAP, mbits))??;
            bundles[0].wait_until(&format!("a speed of {mbits} Mbit/s"), |status| {
                status.links.get(1).is_some_and(|link| link.speed_bps == Some(bits))
            })?;
        }
        Ok(())
    })
}

/// Flows would take turns; they all avoid the link of which others have taken three quarters.
fn others_send() -> Result<()> {
    let plan = Plan { addressed: true, ..plan(&[FAST; 2]) };
    let topology = Topology::build(plan)?;
    with_links(&topology, &links(), &options_with(&["--policy", "tlb"])?, |topology, bundles| {
        let others = Others::send(topology.host(0), topology::address(0, 1).into())?;
        sleep(KNOWN_AFTER);
        let before = cells_sent(&bundles[0])?;
        for _ in 0..FILES {
            send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        }
        let [first, second] = carried(&bundles[0], &before)?;
        others.end()?;
        ensure!(first * 20 < second, "{first} cells beside others, {second} on the other link");
        Ok(())
    })
}

/// Veth NICs say 10 Gbit/s, so the rate is stated.
fn links() -> Vec<String> {
    [0, 1].map(|link| format!("{},rate={}", nic(link), FAST)).into()
}

/// Cells that were sent since `before`, by link.
fn carried(bundle: &Bundle<'_>, before: &[u64]) -> Result<[u64; 2]> {
    let after = cells_sent(bundle)?;
    Ok([0, 1].map(|link| after[link] - before[link]))
}

/// Datagrams past the bundle, until they are ended.
struct Others {
    ends: Arc<AtomicBool>,
    sending: std::thread::JoinHandle<Result<()>>,
}

impl Others {
    fn send(from: &Namespace, to: IpAddr) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let sending = from.spawn("others", move || {
            let socket = UdpSocket::bind("0.0.0.0:0").context("others")?;
            let mut due = Instant::now();
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..AT_ONCE {
                    // Nobody listens, and the kernel says so by an error of the next call.
                    let _ = socket.send_to(&[0; BYTES], SocketAddr::new(to, DISCARD));
                }
                due += PACE;
                sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(())
        })?;
        Ok(Self { ends, sending })
    }

    fn end(self) -> Result<()> {
        self.ends.store(true, Ordering::Relaxed);
        joined(self.sending)
    }
}
