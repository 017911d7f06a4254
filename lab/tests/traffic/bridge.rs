//! A host behind the device: its namespace hangs on a bridge of the second host, whose port is the bundle.
//!
//! ```text
//!  h1.tb0 ══ links ══ h2.tb0 ── bridge ── veth ── guest
//! ```

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use tabane_kit::bundle::{DEVICE, address};
use tabane_kit::netns::Namespace;

use crate::traffic::datagrams::{FRAGMENTED, WHOLE, exchange};
use crate::traffic::neighbours::mac;
use crate::traffic::stage::{FAST, options, plan, send_file, with_bundles};
use crate::traffic::{Case, Need};

const GUEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3));

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("bridge_behind_the_device", Need::Daemon, bridge)]
}

fn bridge() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, _| {
        let (first, second) = (topology.host(0), topology.host(1));
        let guest = behind(second)?;
        send_file(first, &guest, GUEST, 4 << 20)?;
        send_file(&guest, first, address(0), 4 << 20)?;
        exchange(first, &guest, GUEST, &WHOLE, 100)?;
        exchange(&guest, first, address(0), &FRAGMENTED, 100)?;
        let entry = first.ip(&format!("neighbour show {GUEST} dev {DEVICE}"))?;
        let expected = mac(&guest, "eth0")?;
        ensure!(entry.contains(&expected), "the guest resolved to `{entry}` instead of {expected}");
        Ok(())
    })
}

/// A namespace on a bridge with the device of `host`.
fn behind(host: &Namespace) -> Result<Namespace> {
    let guest = Namespace::create("guest")?;
    guest.ip(&format!("link add eth0 type veth peer name guest netns {}", host.name()))?;
    guest.ip("link set eth0 up")?;
    guest.ip(&format!("address add {GUEST}/24 dev eth0"))?;
    host.ip("link add br0 type bridge stp_state 0 forward_delay 0")?;
    for port in ["guest", DEVICE] {
        host.ip(&format!("link set {port} master br0 up"))?;
    }
    host.ip("link set br0 up")?;
    Ok(guest)
}
