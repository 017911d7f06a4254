//! Lays one link: NICs, switch, addresses and rates.

use nix::net::if_::if_nametoindex;
use tabane_io::netlink::{self, DeviceSettings, NetlinkError};

use super::{Topology, Wiring, address, nic, port_name, router};
use crate::emulator::Emulator;
use crate::rate::Bitrate;
use crate::usual::*;

/// Bucket of the token bucket filters: GSO packets are up to 64 KB, and some of them must fit.
const BURST_BYTES: u64 = 256 << 10;
/// Bucket where frames go one by one: two of the largest Ethernet frames.
const FRAME_BURST_BYTES: u64 = 4 << 10;
/// The largest frame, without preamble and checksum.
const FRAME_BYTES: u64 = 1_514;
/// Times between two interrupts of a NIC that moderates them, in frames: Intel's e1000e interrupts 4,000 to 20,000 times a second
/// (InterruptThrottleRate in the kernel's documentation of that driver), and 81,000 frames come in that time at 1 Gbit/s. So 20
/// frames are possible; at 5 Mbit/s they last 48 ms, longer than a bundle bears a link's silence, and no NIC waits so long.
const MODERATED_FRAMES: [u64; 2] = [4, 10];
/// Bucket of a router, in milliseconds: timers that fire for each frame cost more processors than all else on a small machine.
const ROUTER_BURST_MILLISECONDS: u64 = 2;
/// Below this rate a superframe takes more than half a millisecond, and no NIC sends one as a burst.
const WHOLE_SUPERFRAMES_MIN: Bitrate = Bitrate::gbit(1);
/// Smallest queue of a shaped port: four send buffers of a link.
const QUEUE_BYTES_MIN: u64 = 1 << 20;
/// Time that a shaped port may queue at rates where that is more than [`QUEUE_BYTES_MIN`].
const QUEUE_MILLISECONDS: u64 = 8;

const BRIDGE: &str = "br0";

/// How long a link may take to come up; the kernel batches carrier events for up to a second.
const UP_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Rate of each direction; `None`: as fast as the machine.
    pub rate: Option<Bitrate>,
    pub mtu: u32,
    /// Most bytes sent at once; the kernel cuts superframes that are longer.
    pub burst_bytes: u64,
    /// What the switch's ports do in place of that rate: a router's queue, of which the hosts' NICs see nothing.
    pub router: Option<RouterPlan>,
}

/// The queue of a router that drops its tail, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterPlan {
    /// Rate, Ethernet headers counted.
    pub rate: Bitrate,
    pub queue_bytes: u64,
    pub translates: bool,
}

impl RouterPlan {
    pub(super) fn burst_bytes(&self) -> u64 {
        self.rate.bytes_in(ROUTER_BURST_MILLISECONDS).max(FRAME_BURST_BYTES)
    }

    /// Its queue at so many bits per second, as `tc` takes it.
    pub(super) fn tbf(&self, bits: u64) -> String {
        format!("tbf rate {bits}bit burst {}b limit {}b", self.burst_bytes(), self.queue_bytes)
    }
}

impl LinkPlan {
    /// A link of MTU 1500 shaped to `rate`.
    pub const fn shaped(rate: Bitrate) -> LinkPlan {
        LinkPlan { rate: Some(rate), mtu: 1500, burst_bytes: BURST_BYTES, router: None }
    }

    /// A link of MTU 1500 that is as fast as the machine.
    pub const fn unshaped() -> LinkPlan {
        LinkPlan { rate: None, mtu: 1500, burst_bytes: BURST_BYTES, router: None }
    }

    /// A link of MTU 1500 shaped to `rate` as a NIC of that rate sends: frame by frame, where a superframe would be
    /// a burst of milliseconds.
    pub fn paced(rate: Bitrate) -> LinkPlan {
        let burst_bytes = if rate < WHOLE_SUPERFRAMES_MIN { FRAME_BURST_BYTES } else { BURST_BYTES };
        LinkPlan { burst_bytes, ..LinkPlan::shaped(rate) }
    }

    fn shape(&self, namespace: &Namespace, device: &str) -> Result<()> {
        let Some(rate) = self.rate else { return Ok(()) };
        shape(namespace, device, rate, self.burst_bytes, queue_bytes(rate))
    }

    fn shape_port(&self, switch: &Namespace, device: &str) -> Result<()> {
        let Some(router) = self.router else { return self.shape(switch, device) };
        let tbf = router.tbf(router.rate.bits_per_second());
        switch.tc(&format!("qdisc add dev {device} root {tbf}"))
    }

    /// Makes the switch's port `device` send at this link's rate, several frames at once. The kernel's netem hands over whole what it
    /// is given.
    pub(super) fn moderate_port(&self, switch: &Namespace, device: &str) -> Result<()> {
        let rate = self.rate.context("a link without a rate")?;
        let frame_ns = FRAME_BYTES * 8 * 1_000_000_000 / rate.bits_per_second();
        let [least, most] = MODERATED_FRAMES.map(|frames| frames * frame_ns / 1_000);
        let (bits, limit) = (rate.bits_per_second(), queue_bytes(rate) / FRAME_BYTES);
        switch.tc(&format!(
            "qdisc replace dev {device} root netem rate {bits}bit slot {least}us {most}us limit {limit}"
        ))
    }

    /// Whether a router that translates addresses takes the place of the bridge.
    fn translates(&self) -> bool {
        self.router.is_some_and(|router| router.translates)
    }
}

fn shape(namespace: &Namespace, device: &str, rate: Bitrate, burst: u64, queue: u64) -> Result<()> {
    let bits = rate.bits_per_second();
    namespace.tc(&format!("qdisc add dev {device} root tbf rate {bits}bit burst {burst}b limit {queue}b"))
}

pub(super) fn lay(topology: &Topology, link: usize) -> Result<()> {
    if topology.plan.wiring == Wiring::Cable {
        lay_cable(topology, link, 0, (&topology.hosts[1], &nic(link)))?;
        return (0..2).try_for_each(|host| finish_nic(topology, link, host));
    }
    let switch = &topology.switches[link];
    switch.set("net/ipv6/conf/default/disable_ipv6", "1")?;
    let translates = topology.plan.links[link].translates();
    if topology.plan.wiring == Wiring::Switch && !translates {
        switch.enter(|| netlink::add_bridge(BRIDGE))??;
    }
    (0..topology.hosts.len()).try_for_each(|host| lay_to_port(topology, link, host))?;
    if translates { router::translate(switch, link) } else { Ok(()) }
}

/// Lays the cable of `host` on `link`, from a new NIC to a new port of the switch, or of what stands in its place.
pub(super) fn lay_to_port(topology: &Topology, link: usize, host: usize) -> Result<()> {
    let (switch, plan, port) = (&topology.switches[link], topology.plan.links[link], port_name(host));
    lay_cable(topology, link, host, (switch, &port))?;
    let is_switch = topology.plan.wiring == Wiring::Switch;
    switch.enter(|| -> Result<()> {
        let index = if_nametoindex(port.as_str())?;
        if is_switch && !plan.translates() {
            netlink::plug(index, if_nametoindex(BRIDGE)?)?;
        }
        Ok(set_up(index, plan.mtu, None)?)
    })??;
    if is_switch {
        plan.shape_port(switch, &port)?;
    }
    finish_nic(topology, link, host)
}

/// Waits until `link` carries frames: NICs get carrier, and ports begin to forward, some time after they are set up.
pub(super) fn wait_until_up(topology: &Topology, link: usize) -> Result<()> {
    for host in &topology.hosts {
        let nic = nic(link);
        wait_for(&format!("carrier at {nic} of {}", host.name()), UP_WITHIN, || {
            Ok(host.enter(|| netlink::nic(&nic))??.operational.then_some(()))
        })?;
    }
    let has_bridge = topology.plan.wiring == Wiring::Switch && !topology.plan.links[link].translates();
    let Some(switch) = topology.switches.get(link).filter(|_| has_bridge) else { return Ok(()) };
    wait_for(&format!("forwarding ports of {}", switch.name()), UP_WITHIN, || {
        let ports = switch.ip("-details link show type bridge_slave")?;
        let forwarding = ports.matches("bridge_slave state forwarding").count();
        Ok((forwarding == topology.hosts.len()).then_some(()))
    })
}

/// Joins the two ports in each of `places`. Each wire has random numbers of its own, which follow from `seed`.
pub(super) fn emulate(places: &[Namespace], seed: u64) -> Result<Vec<Emulator>> {
    let wires = places.iter().zip(0_u64..).map(|(place, number)| {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(2 * number);
        let started = Emulator::start(place, [&port_name(0), &port_name(1)], seed);
        started.with_context(|| format!("the emulated wire in {}", place.name()))
    });
    wires.collect()
}

fn lay_cable(topology: &Topology, link: usize, host: usize, (far, device): (&Namespace, &str)) -> Result<()> {
    Ok(topology.hosts[host].enter(|| netlink::add_cable(&nic(link), device, far))??)
}

fn finish_nic(topology: &Topology, link: usize, host: usize) -> Result<()> {
    let (namespace, plan, nic) = (&topology.hosts[host], topology.plan.links[link], nic(link));
    let mac = [2, 0, 0, 1, u8::try_from(link + 1)?, u8::try_from(host + 1)?];
    namespace.enter(|| -> Result<()> {
        let index = if_nametoindex(nic.as_str())?;
        set_up(index, plan.mtu, Some(mac))?;
        if topology.plan.addressed {
            netlink::add_address(index, address(link, host).into(), 24)?;
        }
        Ok(())
    })??;
    plan.shape(namespace, &nic)
}

fn set_up(index: u32, mtu: u32, mac: Option<[u8; 6]>) -> Result<(), NetlinkError> {
    netlink::set_device(index, &DeviceSettings { mtu: Some(mtu), up: Some(true), mac, tx_queue_len: None })
}

fn queue_bytes(rate: Bitrate) -> u64 {
    QUEUE_BYTES_MIN.max(rate.bytes_in(QUEUE_MILLISECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_a_port_holds_several_send_buffers_at_any_rate() {
        assert_eq!(queue_bytes(Bitrate::mbit(100)), 1 << 20);
        assert_eq!(queue_bytes(Bitrate::gbit(10)), 10_000_000);
    }
}
