//! The entries of the maps: what `programs/layout.h` is in C, and how each is written down for the kernel.
//!
//! `tests/layout.rs` compares the two.

/// Links of a bundle.
pub const LINKS: usize = 16;
/// Places of a peer's table by which a flow's hash names a link.
pub const SLOTS: usize = 64;
/// Senders: flows share one by a hash of their addresses and ports.
pub const SENDERS: usize = tabane_proto::SENDERS as usize;
/// Newcomers among senders that have a link ahead.
pub const NEWCOMERS: usize = tabane_proto::NEWCOMERS;
/// A slot that names no link: the frame travels in cells.
pub const NO_LINK: u8 = 0xff;
/// Flows of which a processor keeps the last segment.
pub const FLOWS: usize = 256;
/// Longest headers of a TCP segment, and the longest payload that is kept, in bytes.
pub const HEADERS_MAX: usize = 144;
/// See [`HEADERS_MAX`].
pub const SEGMENT_MAX: usize = 2_048;
/// Lanes of a peer; lane 0 is without order.
pub const LANES: usize = 16;
/// Bytes that a frame takes more on a link than on the device: IPv6, UDP, inner Ethernet header.
pub const OVERHEAD: u32 = 40 + 8 + 14;
/// The peer that an address of this host's own has.
pub const THIS_HOST: u32 = u32::MAX;

/// Flags of [`Peer`] and [`Path`].
pub const PEER_READY: u32 = 1 << 0;
/// See [`PEER_READY`].
pub const PEER_STRIPED: u32 = 1 << 1;
/// See [`PEER_READY`].
pub const PEER_WEIGHTED: u32 = 1 << 2;
/// See [`PEER_READY`].
pub const PEER_SENDERS: u32 = 1 << 3;
/// See [`PEER_READY`].
pub const PEER_RECEIVED: u32 = 1 << 4;
/// See [`PEER_READY`].
pub const PATH_UP: u32 = 1 << 0;

/// Flag of [`Sender`] that has a link: its peer's number stands above [`SEAT_PEER_SHIFT`], the link below.
pub const SEATED: u64 = 1 << 31;
/// See [`SEATED`].
pub const SEAT_PEER_SHIFT: u32 = 8;

/// Binary digits behind the point of [`Path::byte_time`].
pub const TIME_SHIFT: u32 = 12;

/// Defines structures that are laid out as C has them without holes, and how they become bytes.
macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident = $c:literal { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(C)]
            pub struct $name {
                $(#[doc = concat!("`", stringify!($field), "` of `struct ", $c, "`.")] pub $field: $kind,)*
            }

            impl $name {
                /// Its name in C; name, offset and bytes of each field.
                pub const C: (&'static str, &'static [(&'static str, usize, usize)]) = ($c, &[
                    $((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$kind>())),*
                ]);

                /// The bytes that the kernel keeps.
                pub fn bytes(&self) -> Vec<u8> {
                    let mut bytes = Vec::with_capacity(size_of::<Self>());
                    $(bytes.extend_from_slice(&self.$field.to_ne_bytes_of_entry());)*
                    debug_assert_eq!(bytes.len(), size_of::<Self>(), "no holes");
                    bytes
                }

                /// From such bytes; `None`: they are too few.
                pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                    $(let $field = Field::of_entry(bytes.get(std::mem::offset_of!($name, $field)..)?)?;)*
                    Some(Self { $($field),* })
                }
            }
        )*
    };
}

/// A field as the kernel keeps it.
trait Field: Sized {
    fn to_ne_bytes_of_entry(&self) -> Vec<u8>;
    /// What stands first.
    fn of_entry(bytes: &[u8]) -> Option<Self>;
}

impl Field for u32 {
    fn to_ne_bytes_of_entry(&self) -> Vec<u8> {
        self.to_ne_bytes().to_vec()
    }

    fn of_entry(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self::from_ne_bytes)
    }
}

impl Field for u64 {
    fn to_ne_bytes_of_entry(&self) -> Vec<u8> {
        self.to_ne_bytes().to_vec()
    }

    fn of_entry(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self::from_ne_bytes)
    }
}

impl<const BYTES: usize> Field for [u8; BYTES] {
    fn to_ne_bytes_of_entry(&self) -> Vec<u8> {
        self.to_vec()
    }

    fn of_entry(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied()
    }
}

entries! {
    /// What is fixed when the programs are loaded.
    Config = "config" { device: u32, reorder: u32, paths: u32, port: [u8; 2], padding: [u8; 2] }
    /// A peer, by its number.
    Peer = "peer" { flags: u32, slots: [u8; SLOTS], newcomers: [u8; NEWCOMERS] }
    /// A link's way to a peer, by peer times [`LINKS`] plus link.
    Path = "path" {
        flags: u32,
        ifindex: u32,
        mtu: u32,
        delay_ns: u32,
        byte_time: u32,
        local_mac: [u8; 6],
        remote_mac: [u8; 6],
        local: [u8; 16],
        remote: [u8; 16],
        remote_port: [u8; 2],
        padding: [u8; 2],
    }
    /// A sender, by its number.
    Sender = "sender" { seat: u64 }
    /// Who sends from an address on a link: key of `sources`.
    Source = "source" { ifindex: u32, address: [u8; 16] }
    /// The last segment of a flow that a processor gave to a link.
    LastSegment = "last_segment" {
        version: u64,
        sent_ns: u64,
        path: u32,
        frame_bytes: u32,
        header_bytes: u32,
        payload_bytes: u32,
        headers: [u8; HEADERS_MAX],
        payload: [u8; SEGMENT_MAX],
    }
    /// Whose turn it is in a lane, by peer times [`LANES`] plus lane.
    Turn = "turn" { word: u64 }
    /// How the frames of a peer are put in order, by its number.
    Order = "order" { hold_ns: u64, grace_ns: u64, held_max: u32, links: u32, session: u32, padding: u32 }
}

/// Defines structures of counters, a word each.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[doc = $meaning:literal])* $field:ident),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                $($(#[doc = $meaning])* pub $field: u64,)*
            }

            impl $name {
                /// Names of the words, in their order in memory.
                pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

                /// Name and meaning of each word, as users read them.
                pub const DESCRIBED: &'static [(&'static str, &'static str)] =
                    &[$((concat!("kernel_", stringify!($field)), concat!($($meaning),*).trim_ascii())),*];

                /// From its words; those that are missing are 0.
                pub(crate) fn from_words(mut words: impl Iterator<Item = u64>) -> Self {
                    Self { $($field: words.next().unwrap_or(0)),* }
                }

                /// Names and values.
                pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                    [$((stringify!($field), self.$field)),*].into_iter()
                }
            }
        )*
    };
}

words! {
    /// What crossed a path.
    Traffic {
        /// Frames (superframes count once) that the send program gave to the link.
        sent_frames,
        /// Their bytes as on the device, with the Ethernet header.
        sent_bytes,
        /// Bytes of the packets in which they leave, with the headers of each and outer ones.
        link_bytes,
        /// Frames that came out of this path.
        received_frames,
        /// Their bytes as on the device.
        received_bytes,
        /// When the last one came, by CLOCK_MONOTONIC in nanoseconds.
        received_ns,
    }
    /// What a sender has sent and received.
    Volume {
        /// Bytes of packets on links.
        sent,
        /// Bytes as on the device.
        received,
    }
    /// Frames that the programs did not carry. `user_`: the frame goes on to the device's reader and travels in cells. `drop_`: it
    /// is gone. `pass_`: it is left to the stack. `order_`: frames that have a number.
    Counts {
        /// Frames in cells: to more than one receiver.
        user_multicast,
        /// Frames in cells: neither IPv4 nor IPv6, or with a VLAN tag.
        user_protocol,
        /// Frames in cells: nobody knows where the address lives.
        user_unknown,
        /// Frames in cells: the peer has no kernel path, or this node gives it none.
        user_not_ready,
        /// Frames in cells: no path is up.
        user_no_link,
        /// Frames in cells: longer than the link takes, or than what they are segmented into may be.
        user_large,
        /// Frames in cells: the kernel did not make room for the outer header.
        user_refused,
        /// Frames dropped: the kernel failed when the outer header was half made.
        drop_sending,
        /// Packets left to the stack: to the kernel path's port, from an address that no peer has on the link.
        pass_source,
        /// Packets left to the stack: from a peer, but not to the address that this node has on the path.
        pass_destination,
        /// Packets dropped: lengths of outer headers and frame contradict each other.
        drop_length,
        /// Packets dropped: with a UDP checksum, which no sender makes.
        drop_checksum,
        /// Packets dropped: inside is neither IPv4 nor IPv6.
        drop_protocol,
        /// Packets dropped: inside is a sender's address that belongs to another peer or to this node.
        drop_source,
        /// Packets dropped: the kernel could not take the outer header off.
        drop_receiving,
        /// Frames over several links that came when it was their turn and went past the reorder qdisc.
        order_in_turn,
    }
    /// What left once more because its path was given up.
    AgainCounts {
        /// TCP segments that were sent once more by another path when theirs was given up.
        segments_again,
    }
    /// What the reorder qdisc did. `gap_`: numbers that were given up, one after the other without a frame between them. `drop_`:
    /// the frame is gone.
    ReorderCounts {
        /// Frames behind the receive program without a place in an order.
        reorder_unordered,
        /// Frames over several links that came when it was their turn, while others of their flow waited for them or were leaving.
        reorder_in_order,
        /// Frames over several links that waited for others.
        reorder_held,
        /// Frames over several links whose number had been given up. They are handed on.
        reorder_late,
        /// Orders whose numbers were far from what was waited for: the qdisc came later.
        reorder_restarted,
        /// Gaps given up: every link had delivered a later frame.
        gap_passed,
        /// Gaps given up: the hold time was over.
        gap_timeout,
        /// Gaps given up: too much waited behind them.
        gap_full,
        /// Gaps given up: the peer's numbers began anew.
        gap_restart,
        /// Frames dropped: too many waited for others.
        drop_full,
        /// Frames dropped: the kernel had no memory for one that was to wait.
        drop_memory,
    }
}

// Which link each value of a flow's hash has: open links have equally many slots, and keep theirs as far as they can.

/// Changes `slots` so that each open link has its share. A slot changes its link only when that link is closed or has too many, so that
/// few flows move.
pub(crate) fn assign(slots: &mut [u8; SLOTS], open: &[bool; LINKS]) {
    let links = open.iter().filter(|open| **open).count().max(1);
    let mut more = SLOTS % links;
    let mut left = open.map(|open| {
        let share = SLOTS / links + usize::from(more > 0);
        more = more.saturating_sub(usize::from(open));
        if open { share } else { 0 }
    });
    for slot in slots.iter_mut() {
        match left.get_mut(usize::from(*slot)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => *slot = NO_LINK,
        }
    }
    let mut given = (0_u8..).zip(left).flat_map(|(link, left)| std::iter::repeat_n(link, left));
    for slot in slots.iter_mut().filter(|slot| **slot == NO_LINK) {
        *slot = given.next().unwrap_or(NO_LINK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many slots each of the first four links has when these are open.
    fn shares(slots: &mut [u8; SLOTS], some: [bool; 4]) -> [usize; 4] {
        let mut open = [false; LINKS];
        open[..4].copy_from_slice(&some);
        assign(slots, &open);
        [0, 1, 2, 3].map(|link| slots.iter().filter(|slot| **slot == link).count())
    }

    #[test]
    fn a_link_that_fails_moves_its_own_flows_only_and_gets_them_back() {
        let mut slots = [NO_LINK; SLOTS];
        assert_eq!(shares(&mut slots, [true; 4]), [16; 4]);
        let before = slots;
        assert_eq!(shares(&mut slots, [true, false, true, true]), [22, 0, 21, 21]);
        assert!(before.iter().zip(&slots).all(|(old, new)| old == new || *old == 1));
        assert_eq!(shares(&mut slots, [true; 4]), [16; 4]);
        assert_eq!(shares(&mut slots, [false; 4]), [0; 4], "without a link no slot names one");
        assert_eq!(slots, [NO_LINK; SLOTS]);
    }
}
