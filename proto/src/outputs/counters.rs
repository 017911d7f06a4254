//! The counters: each drop has one, named after its reason.
//!
//! Every room adds to them; the daemon reads them for the status.
//! Invariant: counters only grow.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counts since start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Name and value of each counter, in the order of the path.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }

            /// Name and meaning of each counter, in the same order.
            pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
                [$((stringify!($name), concat!($($doc),+).trim_ascii()),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Frames taken from the device and segmented into cells (once per peer that gets them).
    frames_sent,
    /// Bytes of those frames.
    frame_bytes_sent,
    /// Data cells put on links, repairs included.
    cells_sent,
    /// System calls that carried them.
    batches_sent,
    /// Cells put on a link a second time.
    cells_repaired,
    /// Replicas of cells put on further links by the policy `duplicate`.
    replicas_sent,
    /// Replicas left out because their link was too far behind or went down.
    replicas_skipped,
    /// Cells that a peer asked for again and that were not sent: beyond the repair budget, no longer kept, or too late.
    repair_declined,
    /// Frames sent to every peer because the fdb does not know their destination; frames to group addresses do not count.
    frames_flooded,
    /// Frames not sent because no peer is known.
    drop_no_peer,
    /// Frames dropped because their peer pauses for a handover, and as many as may wait for it already.
    drop_deferred,
    /// Frames not sent because no link to the peer is up.
    drop_no_link,
    /// Frames not sent because they are shorter than an Ethernet header or longer than a record.
    drop_frame_length,
    /// Frames dropped because their flow has waited too long and could neither be marked nor trimmed (`CoDel`).
    drop_queue_late,
    /// Frames that had waited longest, dropped because the ring was full.
    drop_queue_full,
    /// Frames marked "congestion experienced" (ECN) because their flow has waited too long.
    frames_marked,
    /// Superframes that lost their last segment because their flow has waited too long.
    frames_trimmed,
    /// Cells that the kernel refused to send.
    drop_refused,
    /// Cells received, of every kind.
    cells_received,
    /// Cells whose bytes are not a cell of this version.
    drop_malformed,
    /// Greetings and handshakes of strangers: their tag was not made with a key of the group.
    drop_tag,
    /// Handshakes, and sessions that ended, of nodes whose key this node does not allow.
    drop_not_allowed,
    /// Handshakes that were not answered because too many were begun in the same second.
    drop_flood,
    /// Cells that no key of their session opens, or that are not sealed: forged, damaged, or of an epoch that is over.
    drop_forged,
    /// Sealed cells whose number was received before, or is too old to tell; handshakes that were begun before.
    drop_replayed,
    /// Times that a handshake of this node gave a live session new keys.
    rekeys,
    /// Hellos that were not answered because too many messages waited to be sent.
    hellos_unanswered,
    /// Cells of a session that does not exist (strangers, or a peer's former self).
    drop_session,
    /// Cells from nodes of another group.
    drop_group,
    /// Data cells that had arrived before, such as the further replicas of `duplicate`.
    drop_duplicate,
    /// Data cells that arrived after the receiver had given them up.
    drop_late,
    /// Data cells whose lane number lies before 0.
    drop_window,
    /// Cells dropped because every receive buffer was taken.
    drop_no_buffer,
    /// Data cells that arrived before one that was sent earlier in their lane, and waited for it.
    cells_early,
    /// Cells found missing by a gap in their link's numbers.
    cells_missed,
    /// Cells that did not arrive before the reorder timeout.
    cells_given_up,
    /// Records lost because the receiver gave up one of their cells.
    records_spoiled,
    /// Records whose bytes contradict each other.
    records_malformed,
    /// Frames handed to the device.
    frames_delivered,
    /// Bytes of those frames.
    frame_bytes_delivered,
}
