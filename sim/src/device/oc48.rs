//! A model of P1's sender: a PC of 2003 with a card for OC-48c; its parameters are published, fitted or assumed.
//!
//! Part of [`crate::device`]. From the paper: the processor (Xeon, 2.0 GHz), the bus, the card's memory, the line, the
//! clusters. Assumed: what is in [`PROCESSOR`] without another source, bursts of 512 bytes, 256 descriptors, room of
//! 256 KB (FreeBSD's largest socket buffer as it comes), the marks.
//!
//! Fitted, in this order, each to one published figure of the drivers before anything was changed (section 2); a test
//! holds them to it:
//! - the bus' overhead: Linux, which keeps a packet in one piece, fills the line from 9 KB on;
//! - a pass over memory and an interrupt: FreeBSD sends messages of 64 KB at 1.9 Gbit/s from clusters of 2 KB, and at
//!   2.2 Gbit/s from clusters of 4 KB.
//!
//! The paper's figures of its adaptive driver (section 6) are then predicted.
//! Source: Shimizu et al., "Enhancement of over-Gbps protocol processing using BSD UNIX", table 1, sections 2, 3 and 6.

use super::card::{Bus, CardSettings};
use super::sender::{Layout, Machine, Processor};
use core::time::Duration;
use tabane_engine::reclaim::{Marks, Room};

/// Content from which on FreeBSD uses clusters, in bytes: `MINCLSIZE`.
pub const CLUSTERS_FROM: usize = 213;
/// When the adaptive driver switches; the paper does not say.
pub const MARKS: Marks = Marks::new(25, 50);

const PROCESSOR: Processor = Processor {
    call: Duration::from_nanos(4_000),
    fragment: Duration::from_nanos(250),
    pass_per_megabyte: Duration::from_micros(PASS),
    register: Duration::from_nanos(300),
    interrupt_entry: Duration::from_nanos(INTERRUPT / 2),
    interrupt_exit: Duration::from_nanos(INTERRUPT / 2),
    wake: Duration::from_nanos(2_000),
};
/// Microseconds for a MB; fitted.
const PASS: u64 = 1_483;
/// Nanoseconds; fitted.
const INTERRUPT: u64 = 1_500;
/// Clocks; fitted.
const OVERHEAD: u64 = 45;

const CARD: CardSettings = CardSettings {
    // PCI, 64 bit, 66 MHz.
    bus: Bus { clock: 66_000_000, width: 8, burst: 512, overhead: OVERHEAD },
    descriptor: 16,
    memory: 512 << 10,
    // What OC-48c leaves for packets, as the paper counts it.
    line: 2_400_000_000,
    // HDLC: flag, address, control, protocol, checksum.
    framing: 9,
};

/// FreeBSD 4.8 on that machine.
pub const FREEBSD: Machine = Machine {
    processor: PROCESSOR,
    layout: clusters_of(2_048),
    room: Room { descriptors: 256, bytes: 256 << 10 },
    card: CARD,
};

/// The same with clusters of 4 KB.
pub const FREEBSD_4K: Machine = Machine { layout: clusters_of(4_096), ..FREEBSD };

/// Linux 2.4 on that machine: the same costs, but one piece for each packet.
pub const LINUX: Machine = Machine { layout: Layout::Contiguous, ..FREEBSD };

const fn clusters_of(cluster: usize) -> Layout {
    Layout::Clusters { small: 256, clusters_from: CLUSTERS_FROM, cluster }
}

#[cfg(test)]
mod tests {
    use super::super::sender::{Load, MESSAGE_MAX, Payload};
    use super::*;
    use tabane_engine::fragments::Fragments;
    use tabane_engine::reclaim::Method;

    /// Gbit/s of the unchanged driver.
    fn gbit(machine: &Machine, message: usize) -> f64 {
        let (fragments, payload) = (Fragments::ScatterGather, Payload::Message);
        let load = Load { reclaim: Method::Interrupt, fragments, payload, message, packets: 1_000 };
        machine.send(&load).mbit() / 1e3
    }

    #[test]
    fn what_was_fitted_gives_what_it_was_fitted_to() {
        for (machine, published) in [(FREEBSD, 1.9), (FREEBSD_4K, 2.2)] {
            let own = gbit(&machine, MESSAGE_MAX);
            assert!((own / published - 1.0).abs() < 0.01, "{own:.3} Gbit/s instead of {published}");
        }
        let bus = CARD.bus;
        let (read, on_line) = (bus.takes(16) + bus.takes(9_216 + 28), (9_216 + 28 + 9) as f64 * 8.0 / 2.4e9);
        assert!(
            (read.as_secs_f64() / on_line - 1.0).abs() < 0.02,
            "{read:?} on the bus for {on_line} s of line"
        );
    }
}
