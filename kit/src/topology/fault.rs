//! Breaks links and mends them: a switch that swallows everything, a cable that is pulled, a wire with flaws.

use nix::net::if_::if_nametoindex;
use tabane_io::netlink::set_port;

use super::{Topology, Wiring, link, nic, port_name};
use crate::emulator::{Direction, Emulator, Impairment};
use crate::usual::*;

/// Segments of a superframe that a NIC takes by default (GSO_MAX_SEGS of the kernel).
const SEGMENTS_MAX: u32 = 65_535;

impl Topology {
    /// Turns the switch of `link` into a black hole: nothing comes out of it any more, carrier stays up on every NIC.
    pub fn kill_switch(&self, link: usize) -> Result<Moment> {
        self.set_switch(link, false)
    }

    pub fn revive_switch(&self, link: usize) -> Result<Moment> {
        self.set_switch(link, true)
    }

    pub fn pull_cable(&self, host: usize, link: usize) -> Result<Moment> {
        self.set_cable(host, link, "down")
    }

    pub fn plug_cable(&self, host: usize, link: usize) -> Result<Moment> {
        self.set_cable(host, link, "up")
    }

    pub fn set_nic(&self, host: usize, link: usize, is_up: bool) -> Result<()> {
        let state = if is_up { "up" } else { "down" };
        self.hosts[host].ip(&format!("link set {} {state}", nic(link))).map(drop)
    }

    /// Takes the NIC of `host` on `link` out of the machine, as it were.
    pub fn delete_nic(&self, host: usize, link: usize) -> Result<()> {
        self.has_switches()?;
        self.hosts[host].ip(&format!("link delete {}", nic(link))).map(drop)
    }

    /// Ends [`Topology::delete_nic`]: the NIC has its name, address and rate again, and another index.
    pub fn make_nic(&self, host: usize, link: usize) -> Result<()> {
        self.has_switches()?;
        link::lay_to_port(self, link, host)?;
        match self.emulators.get(link) {
            Some(wire) => wire.plug(&self.switches[link], host, &port_name(host)),
            None => Ok(()),
        }
    }

    /// Makes one direction of an emulated `link` do `impairment`; [`Direction::Forward`] is from the first host.
    ///
    /// Where that acts on single frames, the sender's NIC has its kernel cut superframes from then on.
    pub fn impair(&self, link: usize, direction: Direction, impairment: Impairment) -> Result<Moment> {
        let wire = self.emulator(link)?;
        self.cut_superframes(link, direction, impairment.needs_single_frames())?;
        wire.set(direction, impairment)
    }

    /// [`Topology::impair`] for both directions at one moment.
    pub fn impair_both(&self, link: usize, impairment: Impairment) -> Result<Moment> {
        let wire = self.emulator(link)?;
        for direction in Direction::BOTH {
            self.cut_superframes(link, direction, impairment.needs_single_frames())?;
        }
        wire.set_both(impairment)
    }

    pub fn emulator(&self, link: usize) -> Result<&Emulator> {
        self.emulators.get(link).with_context(|| format!("link {link} is not emulated"))
    }

    /// Has the kernel of the sending host cut superframes, or not. `io/tests/kernel_packet.rs` shows that it does.
    fn cut_superframes(&self, link: usize, direction: Direction, cut: bool) -> Result<()> {
        let segments = if cut { 1 } else { SEGMENTS_MAX };
        let host = &self.hosts[direction as usize];
        host.ip(&format!("link set {} gso_max_segs {segments}", nic(link))).map(drop)
    }

    fn set_switch(&self, link: usize, passes: bool) -> Result<Moment> {
        self.has_switches()?;
        if let Some(wire) = self.emulators.get(link) {
            return wire.set_black_hole(!passes);
        }
        let ports: Vec<String> = (0..self.hosts.len()).map(port_name).collect();
        self.switches[link].enter(|| set_ports(&ports, passes))?
    }

    fn set_cable(&self, host: usize, link: usize, state: &str) -> Result<Moment> {
        self.has_switches()?;
        let before_ns = monotonic_ns()?;
        self.switches[link].ip(&format!("link set {} {state}", port_name(host)))?;
        Ok(Moment { before_ns, after_ns: monotonic_ns()? })
    }

    fn has_switches(&self) -> Result<()> {
        ensure!(self.plan.wiring != Wiring::Cable, "cables without a switch cannot be broken");
        Ok(())
    }
}

// Switch ports that pass frames or swallow them, set by messages to the kernel that take effect within microseconds.
//
// A port that swallows takes nothing in and lets nothing out, and says so to nobody: carrier stays. What it
// had queued still goes out, at most the port's queue; it is empty as a rule, since hosts send no faster than it.
// Replacing the port's queue by one that drops all was tried first: the kernel waits several milliseconds between
// one port and the next, in which half of the switch lives on.

/// Has `ports`, of the namespace in which the calling thread is, pass frames or swallow them.
fn set_ports(ports: &[String], passes: bool) -> Result<Moment> {
    let index = |port: &String| if_nametoindex(port.as_str()).with_context(|| port.clone());
    let indices: Vec<u32> = ports.iter().map(index).collect::<Result<_>>()?;
    let before_ns = monotonic_ns()?;
    indices.into_iter().try_for_each(|index| set_port(index, passes))?;
    Ok(Moment { before_ns, after_ns: monotonic_ns()? })
}
