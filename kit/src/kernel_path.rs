//! Devices with the kernel path and no daemon: a TAP in each of two hosts, the programs at it and at the NICs, and nobody who
//! reads the device. What the programs do not carry is lost; hosts know each other's addresses beforehand.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tabane_io::netlink::{self, DeviceSettings, Nic};
use tabane_io::{Offload, Tap, TapQueue, TapSpec};
use tabane_kernel::{
    Address, Counts, KernelPath, Link, OVERHEAD, Order, Pace, PathState, Plan, Policy, Reorder,
    ReorderCounts, Traffic,
};

use crate::bundle::{DEVICE, address, address_v6};
use crate::machine::processors;
use crate::netns::Namespace;
use crate::rate::Bitrate;
use crate::tool;
use crate::topology::{Topology, Wiring};

/// UDP port of frames on links.
const PORT: u16 = 4790;
/// Longest wait for a NIC's link-local address.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How devices are joined.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// How links are chosen.
    pub policy: Policy,
    /// How frames are put in order at the other end; `None`: not at all.
    pub order: Option<Order>,
}

impl From<Policy> for Manner {
    fn from(policy: Policy) -> Manner {
        Manner { policy, ..Manner::default() }
    }
}

/// A host's device, with programs at it and at its NICs.
#[derive(Debug)]
pub struct Device {
    path: KernelPath,
    reorder: Option<Reorder>,
    mac: [u8; 6],
    nics: Vec<(Nic, Ipv6Addr)>,
    _tap: (Tap, Vec<TapQueue>),
}

/// Joins two hosts by all their links; the addresses of the devices are those of a bundle's.
pub fn join(topology: &Topology, manner: impl Into<Manner>) -> Result<[Device; 2]> {
    let manner = &manner.into();
    let mut devices = [open(topology, 0, manner)?, open(topology, 1, manner)?];
    for own in 0..2 {
        let (mac, nics) = (devices[1 - own].mac, devices[1 - own].nics.clone());
        // Programs are put at NICs of the namespace in which one is.
        topology.host(own).enter(|| devices[own].meet(mac, &nics, topology, manner))??;
        introduce(topology.host(own), own, 1 - own, mac)?;
    }
    Ok(devices)
}

impl Device {
    /// What crossed a link.
    pub fn traffic(&self, link: usize) -> Traffic {
        self.path.traffic(0, link)
    }

    /// What the programs did not carry.
    pub fn counts(&self) -> Counts {
        self.path.counts()
    }

    /// What the reorder qdisc did.
    pub fn reorder_counts(&self) -> Option<ReorderCounts> {
        self.reorder.as_ref().map(Reorder::counts)
    }

    /// The programs' maps, to change what they know.
    pub fn path(&mut self) -> &mut KernelPath {
        &mut self.path
    }

    /// Makes the other host, which has these addresses, the only peer.
    fn meet(
        &mut self,
        mac: [u8; 6],
        nics: &[(Nic, Ipv6Addr)],
        topology: &Topology,
        manner: &Manner,
    ) -> Result<()> {
        self.path.set_own(self.mac)?;
        self.path.set_policy(0, manner.policy)?;
        self.path.set_peer(0, Some((Some(mac), true)))?;
        for (link, (own, other)) in self.nics.iter().zip(nics).enumerate() {
            let rate = topology.plan().links[link].rate.map(Bitrate::bits_per_second);
            let known = Link { ifindex: own.0.index, mtu: own.0.mtu, weight: 1, is_up: true };
            self.path.set_link(link, Some(known))?;
            let (local, remote) = (at(own)?, at(other)?);
            let pace = Pace { rate, delay: Duration::ZERO };
            let known = PathState { local, remote, remote_port: PORT, is_up: true, pace };
            self.path.set_path(0, link, Some(known))?;
        }
        Ok(())
    }
}

/// Where a NIC can be reached.
fn at((nic, ip): &(Nic, Ipv6Addr)) -> Result<Address> {
    Ok(Address { mac: nic.mac.with_context(|| format!("{} has no address", nic.name))?, ip: *ip })
}

/// Opens the device of a host, as large as the links allow, with the programs.
fn open(topology: &Topology, number: usize, manner: &Manner) -> Result<Device> {
    let (host, names) = (topology.host(number), topology.nics());
    for nic in names.iter().filter(|_| topology.plan().wiring == Wiring::Emulator) {
        // Emulated wires, and the virtio headers by which they take superframes, know none inside of other packets.
        let off = ["-K", nic, "tx-udp_tnl-segmentation", "off", "tx-udp_tnl-csum-segmentation", "off"];
        tool::run(host.command("ethtool").args(off))?;
    }
    // `Reorder::spread`, for what is made here: each flow has a processor behind the qdisc.
    host.set("net/core/rps_default_mask", &format!("{:x}", (1_u64 << processors()?.len().min(32)) - 1))?;
    host.enter(|| {
        let nics = names.iter().map(|name| ready(name)).collect::<Result<Vec<_>>>()?;
        let spec = TapSpec { name: DEVICE.to_string(), queues: 1, offload: Offload::ALL };
        let tap = Tap::open(&spec)?;
        let least = nics.iter().map(|(nic, _)| nic.mtu).min().context("no link")?;
        let settings =
            DeviceSettings { up: Some(true), mtu: Some(least - OVERHEAD), ..DeviceSettings::default() };
        let device = tap.0.index();
        netlink::set_device(device, &settings)?;
        let mac = netlink::nic(DEVICE)?.mac.context("the device has no address")?;
        let reorder = manner.order.map(|order| -> Result<Reorder> {
            let mut reorder = Reorder::attach(DEVICE, 1, None)?;
            reorder.set_order(0, &order)?;
            Ok(reorder)
        });
        let reorder = reorder.transpose()?;
        let path = KernelPath::attach(&Plan { device, port: PORT, peers: 1 }, reorder.as_ref())?;
        Ok(Device { path, reorder, mac, nics, _tap: tap })
    })?
}

/// A NIC with its link-local address, as soon as it has one.
fn ready(name: &str) -> Result<(Nic, Ipv6Addr)> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let nic = netlink::nic(name)?;
        if let Some(ip) = nic.link_local {
            return Ok((nic, ip));
        }
        ensure!(Instant::now() < deadline, "{name} has no link-local address");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Gives the device of host `own` its addresses, and tells it where those of host `other` live.
fn introduce(host: &Namespace, own: usize, other: usize, mac: [u8; 6]) -> Result<()> {
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    for (address, prefix) in [(address as fn(usize) -> _, 24), (address_v6, 64)] {
        host.ip(&format!("address add {}/{prefix} dev {DEVICE} nodad", address(own)))?;
        host.ip(&format!("neighbour replace {} lladdr {mac} dev {DEVICE} nud permanent", address(other)))?;
    }
    Ok(())
}
