//! What programs in the kernel carry on a path beside its cells: they pay for heartbeats as cells do, and show that a path is in use.
//!
//! Beside [`crate::link::health`], which judges by it. Programs number nothing, so no frame of theirs is ever known to be missing. But
//! a heartbeat takes the same way behind them. One that does not arrive is missing together with all that programs sent since the one
//! before, and a frame that does arrive shows, as a cell would, that the path works.

use crate::time::Instant;

/// Bytes that count as much as a cell.
const CELL_BYTES: u64 = 1_024;

/// What programs have carried over a path since they were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames and superframes to the peer.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames and superframes from the peer.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// When the last of them came.
    pub received_at: Instant,
}

impl Carried {
    /// What was sent, in cells: one for each frame, and one for each KiB.
    pub(crate) fn sent(&self) -> u64 {
        self.sent_frames + self.sent_bytes / CELL_BYTES
    }

    /// The same of what was received.
    pub(crate) fn received(&self) -> u64 {
        self.received_frames + self.received_bytes / CELL_BYTES
    }
}

/// What a peer's programs have sent over a path, as its heartbeats tell, in cells modulo 2^32.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    all: u32,
    /// When the heartbeat was written that came last over the path itself.
    before: u32,
}

impl Told {
    /// The latest heartbeat tells it, whatever path it took.
    pub(crate) fn note(&mut self, sent: u32) {
        self.all = sent;
    }

    /// A heartbeat that came over the path tells it.
    pub(crate) fn note_before(&mut self, sent: u32) {
        self.before = sent;
    }

    /// What is known to have been sent after the last heartbeat that came over the path.
    pub(crate) fn since(&self) -> u64 {
        u64::from(self.all.wrapping_sub(self.before).cast_signed().max(0).cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_count_and_so_do_large_ones() {
        let carried = Carried { sent_frames: 3, sent_bytes: 3 * 66, ..Carried::default() };
        assert_eq!(carried.sent(), 3);
        let carried = Carried { received_frames: 2, received_bytes: 2 * 60_000, ..Carried::default() };
        assert_eq!(carried.received(), 2 + 117);
    }

    #[test]
    fn what_was_sent_since_is_known_though_numbers_come_round() {
        let mut told = Told::default();
        told.note_before(u32::MAX - 9);
        told.note(30);
        assert_eq!(told.since(), 40);
        told.note_before(31);
        assert_eq!(told.since(), 0, "an older heartbeat over another path comes later");
    }
}
