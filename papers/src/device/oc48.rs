//! A model of P1's sender: a PC of 2003 with a card for OC-48c; its parameters are published, fitted or assumed.
//!
//! Part of [`crate::device`]. From the paper: the processor (Xeon, 2.0 GHz; its cache has 512 KB), the bus, the card's memory, the
//! lines, the clusters. Assumed: what is in [`PROCESSOR`] without another source, bursts of 512 bytes, 256 descriptors, room of
//! 256 KB (FreeBSD's largest socket buffer as it comes), the marks; 8 buffers to copy into; that the card for 10 Gbit/s is otherwise the same, but does the checksums.
//!
//! Fitted, in this order, each to one published figure; a test holds them to it:
//! - the bus' overhead, and what the start of a descriptor takes: Linux, which keeps a packet in one piece, fills the line
//!   from 9 KB on (section 2), and a payload in one piece gains 17 % at 64 KB (section 6.2);
//! - a pass over memory and an interrupt: FreeBSD sends messages of 64 KB at 1.9 Gbit/s from clusters of 2 KB, and at
//!   2.2 Gbit/s from clusters of 4 KB (section 2);
//! - a call: without interrupts short packets gain 70 % (section 6.1); here at most 59 %, for then the bus is the limit;
//! - a copy from the cache: three copied clusters gain 10 % at 4 KB (section 6.3).
//!
//! The other figures of sections 2 and 6 are then predicted.
//! Source: Shimizu et al., "Enhancement of over-Gbps protocol processing using BSD UNIX", table 1, sections 2, 3 and 6.

use core::time::Duration;

use tabane_engine::reclaim::{Room, Watermarks};

use super::card::{Bus, CardSettings};
use super::sender::{Layout, Machine, Processor};

/// Content from which on FreeBSD uses clusters, in bytes: `MINCLSIZE`.
pub const CLUSTERS_FROM: usize = 213;
/// When the adaptive driver switches; the paper does not say.
pub const MARKS: Watermarks = Watermarks::new(25, 50);

const PROCESSOR: Processor = Processor {
    call: Duration::from_nanos(CALL),
    fragment: Duration::from_nanos(250),
    pass_per_megabyte: Duration::from_micros(PASS),
    copy_in_cache_per_megabyte: Duration::from_micros(COPY_IN_CACHE),
    cache: 512 << 10,
    bounces: 8,
    register: Duration::from_nanos(300),
    interrupt_entry: Duration::from_nanos(INTERRUPT / 2),
    interrupt_exit: Duration::from_nanos(INTERRUPT / 2),
    wake: Duration::from_nanos(2_000),
};
/// Nanoseconds; fitted.
const CALL: u64 = 2_300;
/// Microseconds for a MB; fitted.
const PASS: u64 = 1_497;
/// Microseconds for a MB; fitted.
const COPY_IN_CACHE: u64 = 530;
/// Nanoseconds; fitted.
const INTERRUPT: u64 = 1_500;
/// Clocks; fitted.
const OVERHEAD: u64 = 41;
/// Clocks; fitted.
const START: u64 = 60;

const CARD: CardSettings = CardSettings {
    // PCI, 64 bit, 66 MHz.
    bus: Bus { clock: 66_000_000, width: 8, burst: 512, overhead: OVERHEAD },
    descriptor: 16,
    start: START,
    memory: 512 << 10,
    // What OC-48c leaves for packets, as the paper counts it.
    line: 2_400_000_000,
    // HDLC: flag, address, control, protocol, checksum.
    framing: 9,
    sums: false,
};

const CARD_10G: CardSettings = CardSettings {
    // PCI-X, 64 bit, 133 MHz.
    bus: Bus { clock: 133_000_000, ..CARD.bus },
    line: 10_000_000_000,
    // Preamble, header, checksum, gap.
    framing: 38,
    sums: true,
    ..CARD
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

/// FreeBSD over 10 Gbit/s Ethernet.
pub const FREEBSD_10G: Machine = Machine { card: CARD_10G, ..FREEBSD };

/// Linux over 10 Gbit/s Ethernet.
pub const LINUX_10G: Machine = Machine { card: CARD_10G, ..LINUX };

const fn clusters_of(cluster: usize) -> Layout {
    Layout::Clusters { small: 256, clusters_from: CLUSTERS_FROM, cluster }
}

#[cfg(test)]
mod tests {
    use super::super::sender::{Load, MESSAGE_MAX, Payload};
    use super::*;
    use tabane_engine::fragments::Fragments;
    use tabane_engine::reclaim::Method;

    fn sent(machine: &Machine, reclaim: Method, first: usize, payload: Payload, message: usize) -> f64 {
        let fragments = Fragments::CopyFirst(first);
        machine.send(&Load { reclaim, fragments, payload, message, packets: 1_000 }).mbit()
    }

    fn unchanged(machine: &Machine, message: usize) -> f64 {
        sent(machine, Method::Interrupt, 0, Payload::Message, message)
    }

    #[test]
    fn what_was_fitted_gives_what_it_was_fitted_to() {
        let is = |own: f64, published: f64, within: f64, what: &str| {
            assert!((own - published).abs() < within, "{what}: {own:.3} instead of {published}");
        };
        is(unchanged(&FREEBSD, MESSAGE_MAX), 1_900.0, 20.0, "clusters of 2 KB");
        is(unchanged(&FREEBSD_4K, MESSAGE_MAX), 2_200.0, 22.0, "clusters of 4 KB");
        let bus = CARD.bus;
        let read = bus.clocks(START) + bus.takes(16) + bus.takes(9_216 + 28);
        let on_line = (9_216 + 28 + 9) as f64 * 8.0 / 2.4e9;
        is(read.as_secs_f64() / on_line, 1.0, 0.02, "the bus for 9 KB, in parts of the line");
        let adaptive = |payload, message| sent(&FREEBSD, Method::Adaptive(MARKS), 0, payload, message);
        let whole = adaptive(Payload::Dummy, MESSAGE_MAX) / adaptive(Payload::Message, MESSAGE_MAX);
        is(100.0 * (whole - 1.0), 17.0, 1.0, "gain of one piece");
        let short = adaptive(Payload::Message, 64) / unchanged(&FREEBSD, 64);
        is(100.0 * (short - 1.0), 59.0, 1.0, "gain without interrupts, instead of the published 70 %");
        let copied = sent(&FREEBSD, Method::Interrupt, 4, Payload::Message, 4_096);
        is(100.0 * (copied / unchanged(&FREEBSD, 4_096) - 1.0), 10.0, 1.0, "gain of a copy at 4 KB");
    }
}
