//! What fails, how it begins and how it ends.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use nix::sys::signal::Signal;
use serde::Serialize;

use tabane_kit::bundle::{Bundle, DEVICE};
use tabane_kit::emulator::{Direction, Impairment};
use tabane_kit::topology::{Topology, Wiring, nic};
use tabane_proto::PolicyKind;

/// Share of the frames that a lossy link loses.
const LOST: f64 = 0.05;
/// Share of the frames that a corrupting link changes.
const CORRUPTED: f64 = 0.01;
/// Delay that a slow link adds.
const DELAY: Duration = Duration::from_millis(20);
/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The switch of a link swallows everything, carrier stays.
    SwitchDead,
    /// A link swallows what one side sends.
    OneWay,
    /// A link loses frames.
    Loss,
    /// A link flips bits.
    Corruption,
    /// A link adds delay.
    Delay,
    /// A cable is pulled at one host.
    Cable,
    /// A NIC is set down.
    NicDown,
    /// A NIC vanishes and comes back under another index.
    NicGone,
    /// A link is taken out of the bundle and in again.
    LinkOut,
    /// A daemon is killed and started again.
    Killed,
    /// A daemon does not get to run.
    Halted,
    /// The policy is switched; that lasts.
    Policy,
}

/// A fault at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The host at which it happens, or whose frames are concerned.
    pub(super) host: usize,
    /// The link, of a fault that has one.
    pub(super) link: usize,
    /// The new policy's place in [`PolicyKind::ALL`].
    pub(super) policy: usize,
}

impl Kind {
    /// Name for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Kind::SwitchDead => "switch dead",
            Kind::OneWay => "one way dead",
            Kind::Loss => "5 % loss",
            Kind::Corruption => "1 % corrupted",
            Kind::Delay => "+20 ms delay",
            Kind::Cable => "cable pulled",
            Kind::NicDown => "NIC down",
            Kind::NicGone => "NIC deleted",
            Kind::LinkOut => "link removed",
            Kind::Killed => "daemon killed",
            Kind::Halted => "daemon halted",
            Kind::Policy => "policy switched",
        }
    }

    /// Whether it makes one link unsound.
    pub(super) const fn is_of_link(self) -> bool {
        !self.is_of_process() && !matches!(self, Kind::Policy)
    }

    /// Whether the daemon of its host does not run while it lasts.
    pub(super) const fn is_of_process(self) -> bool {
        matches!(self, Kind::Killed | Kind::Halted)
    }

    /// Whether it wants the daemon to run, and to have been running: the daemon is asked to change something, or lacks
    /// a NIC that is up, without which it would not start.
    pub(super) const fn wants_daemon(self) -> bool {
        matches!(self, Kind::Policy | Kind::LinkOut | Kind::NicDown | Kind::NicGone)
    }

    /// Whether hosts joined in this way can have it.
    pub(super) fn is_possible(self, wiring: Wiring) -> bool {
        let needs_emulator = matches!(self, Kind::OneWay | Kind::Loss | Kind::Corruption | Kind::Delay);
        wiring == Wiring::Emulator || !needs_emulator
    }

    fn impairment(self) -> Impairment {
        match self {
            Kind::Loss => Impairment::loss(LOST),
            Kind::Corruption => Impairment::corruption(CORRUPTED),
            Kind::Delay => Impairment::delay(DELAY),
            _ => Impairment::black_hole(),
        }
    }
}

impl Fault {
    /// Begins it.
    pub(super) fn begin(self, topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
        let (host, link) = (self.host, self.link);
        match self.kind {
            Kind::SwitchDead => topology.kill_switch(link).map(drop),
            Kind::OneWay => {
                let direction = Direction::BOTH[host];
                topology.impair(link, direction, self.kind.impairment()).map(drop)
            }
            Kind::Loss | Kind::Corruption | Kind::Delay => {
                topology.impair_both(link, self.kind.impairment()).map(drop)
            }
            Kind::Cable => topology.pull_cable(host, link).map(drop),
            Kind::NicDown => topology.set_nic(host, link, false),
            Kind::NicGone => topology.delete_nic(host, link),
            Kind::LinkOut => bundles[host].ask(&["link", "remove", DEVICE, &nic(link)]).map(drop),
            Kind::Killed => bundles[host].kill(),
            Kind::Halted => bundles[host].signal(Signal::SIGSTOP),
            Kind::Policy => {
                bundles[host].ask(&["policy", DEVICE, PolicyKind::ALL[self.policy].name()]).map(drop)
            }
        }
    }

    /// Ends it.
    pub(super) fn end(self, topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
        let (host, link) = (self.host, self.link);
        match self.kind {
            Kind::SwitchDead => topology.revive_switch(link).map(drop),
            Kind::OneWay | Kind::Loss | Kind::Corruption | Kind::Delay => {
                topology.impair_both(link, Impairment::default()).map(drop)
            }
            Kind::Cable => topology.plug_cable(host, link).map(drop),
            Kind::NicDown => topology.set_nic(host, link, true),
            Kind::NicGone => topology.make_nic(host, link),
            Kind::LinkOut => bundles[host].ask(&["link", "add", DEVICE, &nic(link)]).map(drop),
            Kind::Killed => bundles[host].start_again(),
            Kind::Halted => bundles[host].signal(Signal::SIGCONT),
            Kind::Policy => Ok(()),
        }
    }
}
