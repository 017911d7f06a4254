//! The ranges of whole numbers that a configuration may hold.

use std::fmt;

/// A range of whole numbers with the words that explain it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub low: i64,
    pub high: i64,
    /// Unit and reason, as they follow the numbers in a sentence.
    pub words: &'static str,
}

/// UDP port of the first worker; worker i uses the i-th port after it.
pub(crate) const PORT: Limits = Limits { low: 1, high: 65_535, words: "" };
/// MTU of the device: IPv4 needs 68 bytes (RFC 791), a TAP carries at most 65,535 with the Ethernet header (`tun.c`).
pub(crate) const MTU: Limits =
    Limits { low: 68, high: 65_521, words: " bytes (the maximum of a TAP device)" };
/// Workers, and queues of the TAP device.
pub(crate) const WORKERS: Limits = Limits { low: 1, high: 64, words: "" };
/// Frames that wait in the device's transmit queue.
pub(crate) const TX_QUEUE_LEN: Limits = Limits { low: 1, high: 10_000, words: " frames" };
pub(crate) const LINKS: Limits = Limits { low: 1, high: 16, words: " links" };
/// A link's part of the traffic.
pub(crate) const WEIGHT: Limits = Limits { low: 1, high: 1_000, words: "" };
/// Nodes that a window of memory has room for.
pub(crate) const SLOTS: Limits = Limits { low: 2, high: 256, words: " slots" };
/// A node's slot in a window of memory.
pub(crate) const SLOT: Limits = Limits { low: 0, high: 255, words: "" };
/// Classes of one bundle: what its core takes.
pub const CLASSES: Limits = Limits { low: 0, high: 64, words: " classes" };
/// Bytes of an Ethernet frame, from its header alone to the longest superframe.
pub(crate) const FRAME_SIZE: Limits = Limits { low: 14, high: 65_535, words: " bytes" };
/// Differentiated services code points (RFC 2474).
pub(crate) const DSCP: Limits = Limits { low: 0, high: 63, words: "" };
pub(crate) const ADDRESSES: Limits = Limits { low: 0, high: 64, words: " addresses" };
pub const PEERS: Limits = Limits { low: 0, high: 1023, words: " peers" };
/// Names among them.
pub const NAMES: Limits = Limits { low: 0, high: NAMES_MAX, words: " names" };
const NAMES_MAX: i64 = 16;

impl Limits {
    /// Whether `value` lies within the limits.
    pub(crate) fn hold(&self, value: i64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Both ends, without words.
    pub(super) fn range(&self) -> String {
        format!("{} to {}", self.low, self.high)
    }

    /// Whether a list of `count` items lies within the limits.
    pub fn hold_count(&self, count: usize) -> bool {
        i64::try_from(count).is_ok_and(|count| self.hold(count))
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.range(), self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_include_their_ends() {
        assert!(MTU.hold(68) && MTU.hold(65_521) && !MTU.hold(67) && !MTU.hold(65_522));
        assert_eq!(WORKERS.to_string(), "1 to 64");
    }
}
