//! What happens to one link, and how it is undone.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use tabane_kit::clock::Moment;
use tabane_kit::emulator::{Direction, Impairment};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{Topology, Wiring};

/// The link that fails.
pub(super) const VICTIM: usize = 1;
/// Half a period of flapping at 1 Hz.
const HALF_PERIOD: Duration = Duration::from_millis(500);
/// Times that a flapping link goes down.
const FLAPS: usize = 3;
/// How long any other fault lasts.
const LASTS: Duration = Duration::from_millis(800);
/// Share of the frames that a corrupting link changes.
const CORRUPTED: f64 = 0.01;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// The cable at the sender is pulled: it loses carrier, the receiver does not
    Cable,
    /// The switch swallows everything, carrier stays
    BlackHole,
    /// Only what the sender sends is swallowed
    OneWay,
    /// 5 % of the frames are lost
    Loss,
    /// 20 ms are added to each direction
    Delay,
    /// A tenth of the rate, behind a queue of 50 ms
    Throttle,
    /// 1 % of the frames have a flipped bit
    Corruption,
    /// The cable goes out and in once a second
    Flapping,
}

impl Fault {
    /// Name for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Fault::Cable => "cable pulled",
            Fault::BlackHole => "black hole",
            Fault::OneWay => "one way dead",
            Fault::Loss => "5 % loss",
            Fault::Delay => "+20 ms delay",
            Fault::Throttle => "throttled to 1/10",
            Fault::Corruption => "corrupting",
            Fault::Flapping => "flapping at 1 Hz",
        }
    }

    /// Name in the file.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Fault::Cable => "cable",
            Fault::BlackHole => "black-hole",
            Fault::OneWay => "one-way",
            Fault::Loss => "loss",
            Fault::Delay => "delay",
            Fault::Throttle => "throttle",
            Fault::Corruption => "corruption",
            Fault::Flapping => "flapping",
        }
    }

    /// Whether the link carries nothing at all in some direction, so that it has to be noticed.
    pub(super) const fn is_death(self) -> bool {
        matches!(self, Fault::Cable | Fault::BlackHole | Fault::OneWay | Fault::Flapping)
    }

    /// Whether that is all that it does, and sudden.
    pub(super) const fn is_sudden(self) -> bool {
        matches!(self, Fault::Cable | Fault::BlackHole | Fault::OneWay)
    }

    /// How often a trial inflicts it unless told otherwise: of what is sudden, one sample says little.
    pub(super) const fn rounds(self) -> u32 {
        if self.is_sudden() { 3 } else { 1 }
    }

    /// What it needs between the hosts. The emulator works on the processors that the daemons need.
    pub(super) const fn wiring(self) -> Wiring {
        match self {
            Fault::Cable | Fault::BlackHole | Fault::Flapping => Wiring::Switch,
            _ => Wiring::Emulator,
        }
    }

    /// Begins it.
    pub(super) fn begin(self, topology: &Topology, rate: Bitrate) -> Result<Moment> {
        match self {
            Fault::Cable | Fault::Flapping => topology.pull_cable(0, VICTIM),
            Fault::BlackHole => topology.kill_switch(VICTIM),
            Fault::OneWay => topology.impair(VICTIM, Direction::Forward, Impairment::black_hole()),
            Fault::Loss => topology.impair_both(VICTIM, Impairment::loss(0.05)),
            Fault::Delay => topology.impair_both(VICTIM, Impairment::delay(Duration::from_millis(20))),
            Fault::Throttle => topology.impair_both(VICTIM, Impairment::rate(rate.tenth())),
            Fault::Corruption => topology.impair_both(VICTIM, Impairment::corruption(CORRUPTED)),
        }
    }

    /// Lets it last.
    pub(super) fn last(self, topology: &Topology) -> Result<()> {
        if self != Fault::Flapping {
            thread::sleep(LASTS);
            return Ok(());
        }
        for flap in 1..=FLAPS {
            thread::sleep(HALF_PERIOD);
            if flap < FLAPS {
                topology.plug_cable(0, VICTIM)?;
                thread::sleep(HALF_PERIOD);
                topology.pull_cable(0, VICTIM)?;
            }
        }
        Ok(())
    }

    /// Ends it.
    pub(super) fn end(self, topology: &Topology) -> Result<Moment> {
        match self {
            Fault::Cable | Fault::Flapping => topology.plug_cable(0, VICTIM),
            Fault::BlackHole => topology.revive_switch(VICTIM),
            _ => topology.impair_both(VICTIM, Impairment::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_alike_on_the_command_line_and_in_the_file() {
        for fault in Fault::value_variants() {
            let value = fault.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), fault.key());
        }
    }
}
