//! Runs of the simulated machines, and when a figure of theirs counts as a published one.

use crate::device::exchange::{self, Machines};
use crate::device::oc48;
use crate::device::sender::{Load, Machine, Payload, Sent};
use tabane_engine::fragments::Fragments;
use tabane_engine::reclaim::Method;

use tabane_kit::report::Samples;

/// The adaptive reclaim of P1's driver.
pub(super) const ADAPTIVE: Method = Method::Adaptive(oc48::MARKS);
/// Packets of a run of P1's sender: some are counted after the room has filled.
const PACKETS: usize = 2_000;
/// Messages of a run of P3's hosts.
const MESSAGES: usize = 200;
/// What "about" leaves to a machine that is made up: a third to both sides.
pub(super) const ABOUT: f64 = 1.0 / 3.0;

/// Whether a figure is about the published one.
pub(super) fn is_about(own: f64, published: f64) -> bool {
    (own / published - 1.0).abs() <= ABOUT
}

/// P1's sender at work.
pub(super) fn send(machine: &Machine, reclaim: Method, fragments: &Fragments, message: usize) -> Sent {
    load(machine, reclaim, fragments, Payload::Message, message)
}

/// The same with a payload in one piece.
pub(super) fn send_dummy(machine: &Machine, message: usize) -> Sent {
    load(machine, ADAPTIVE, &Fragments::ScatterGather, Payload::Dummy, message)
}

fn load(machine: &Machine, reclaim: Method, fragments: &Fragments, payload: Payload, message: usize) -> Sent {
    machine.send(&Load { reclaim, fragments: fragments.clone(), payload, message, packets: PACKETS })
}

/// A figure of a run that is the same each time.
pub(super) fn one(unit: &'static str, value: f64) -> Samples {
    Samples::new(unit, vec![value])
}

/// How much more `own` is than `base`, in percent.
pub(super) fn gain(own: f64, base: f64) -> f64 {
    100.0 * (own / base - 1.0)
}

/// What P3's hosts exchange: a run for each round, whose polls come at other moments.
pub(super) fn exchange(
    machines: &Machines,
    message: usize,
    mtu: usize,
    connections: usize,
    rounds: usize,
) -> Samples {
    let run =
        |seed| machines.exchange(&exchange::Load { message, mtu, connections, messages: MESSAGES, seed });
    Samples::new("MB/s", (0..rounds as u64).map(run).collect())
}
