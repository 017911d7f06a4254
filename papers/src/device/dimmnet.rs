//! Models of P3's machines: two PCs with the memory-slot NIC DIMMnet-2, with its bug and without.
//!
//! Part of [`crate::device`]. From the paper: units, rates of reading and writing with and without the hardware's bug, the
//! rate between two NICs (measured there), polls every 20 µs (of the measurements; the design says 32 µs). From its rate of
//! memory: a copy reads and writes each byte, so it goes at half of 3.6 GB/s. Assumed: 1 µs for a poll.
//!
//! Fitted, each to one published figure; a test holds them to it:
//! - the bytes that are read of each unit besides its content: 8.01 MB/s at messages of 64 KB, measured with the bug;
//! - the cost of a packet: 84 MB/s at messages of 8 KB, predicted there without the bug. That is 5 polls for each message:
//!   11 to 13 µs give the same figure, so it is the middle of these.
//!
//! Everything else is then predicted. The paper's own figures without the bug are predictions, too.
//! Source: Mori et al., "Implementation and evaluation of a network driver for the TCP/IP protocol stack using DIMMnet-2
//! NIC", sections 2, 5 and 6, table 1.

use super::exchange::Machines;
use super::slot::SlotSettings;
use core::time::Duration;

/// As measured.
pub const WITH_BUG: Machines = Machines {
    slot: SlotSettings {
        unit: 512,
        unit_state: UNIT_STATE,
        write: 69.3,
        read: 17.0,
        wire: 700.0,
        poll: Duration::from_micros(20),
    },
    packet: Duration::from_nanos(PACKET),
    copy: 1_800.0,
    poll: Duration::from_micros(1),
};

/// As predicted there: reading and writing are as fast as with any other memory.
pub const WITHOUT_BUG: Machines =
    Machines { slot: SlotSettings { write: 3_600.0, read: 3_600.0, ..WITH_BUG.slot }, ..WITH_BUG };

/// Bytes; fitted.
const UNIT_STATE: usize = 533;
/// Nanoseconds; fitted.
const PACKET: u64 = 12_000;

#[cfg(test)]
mod tests {
    use super::super::exchange::Load;
    use super::*;

    #[test]
    fn what_was_fitted_gives_what_it_was_fitted_to() {
        for (machines, message, published) in [(WITH_BUG, 65_536, 8.01), (WITHOUT_BUG, 8_192, 84.0)] {
            let load = Load { message, mtu: 65_536, connections: 1, messages: 400, seed: 1 };
            let own = machines.exchange(&load);
            assert!((own / published - 1.0).abs() < 0.03, "{own:.3} MB/s instead of {published}");
        }
    }
}
