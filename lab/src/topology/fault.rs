//! Breaks links and mends them: a switch that swallows everything, a cable that is pulled.

use anyhow::{Result, ensure};

use super::port::{self, State};
use super::{Topology, Wiring};
use crate::clock::monotonic_ns;

/// When a change took effect, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Right before the command was given.
    pub before_ns: u64,
    /// Right after the kernel had acknowledged it: it was in effect by then.
    pub after_ns: u64,
}

impl Topology {
    /// Turns the switch of `link` into a black hole: nothing comes out of it any more, carrier stays up on every NIC.
    ///
    /// # Errors
    /// A topology without switches, or a kernel that refuses.
    pub fn kill_switch(&self, link: usize) -> Result<Moment> {
        self.set_switch(link, State::Disabled)
    }

    /// Ends [`Topology::kill_switch`].
    ///
    /// # Errors
    /// As [`Topology::kill_switch`].
    pub fn revive_switch(&self, link: usize) -> Result<Moment> {
        self.set_switch(link, State::Forwarding)
    }

    /// Pulls the cable of `host` on `link`: both ends lose carrier.
    ///
    /// # Errors
    /// A topology without switches, or what `ip` complains about.
    pub fn pull_cable(&self, host: usize, link: usize) -> Result<Moment> {
        self.set_cable(host, link, "down")
    }

    /// Ends [`Topology::pull_cable`].
    ///
    /// # Errors
    /// As [`Topology::pull_cable`].
    pub fn plug_cable(&self, host: usize, link: usize) -> Result<Moment> {
        self.set_cable(host, link, "up")
    }

    fn set_switch(&self, link: usize, state: State) -> Result<Moment> {
        self.has_switches()?;
        let ports: Vec<String> = (0..self.hosts.len()).map(port::name).collect();
        self.switches[link].enter(|| port::set(&ports, state))?
    }

    fn set_cable(&self, host: usize, link: usize, state: &str) -> Result<Moment> {
        self.has_switches()?;
        let before_ns = monotonic_ns()?;
        self.switches[link].ip(&format!("link set {} {state}", port::name(host)))?;
        Ok(Moment { before_ns, after_ns: monotonic_ns()? })
    }

    fn has_switches(&self) -> Result<()> {
        ensure!(self.plan.wiring == Wiring::Switch, "links without a switch cannot be broken");
        Ok(())
    }
}
