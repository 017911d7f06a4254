//! The cell header: the first 16 bytes of every cell.
//!
//! ```text
//!  0       1       2       3       4               8               12      14      16
//!  +-------+-------+-------+-------+---------------+---------------+-------+-------+
//!  |ver|knd| epoch | link  | lane  |   link_seq    |   lane_seq    | block |session|
//!  +-------+-------+-------+-------+---------------+---------------+-------+-------+
//! ```
//!
//! Invariant: `emit` then `parse` gives the same header; `parse` refuses what `emit` cannot produce.
//! Source: the split of ordering (lane) and loss (link) numbers is this project's; BlockOffset is RFC 9347, 2.2.

use super::Malformed;

/// Bytes of the header.
pub const HEADER: usize = 16;
/// The version that this code speaks, in the upper half of the first byte.
pub const VERSION: u8 = 1;
/// Lanes of a peer: lane numbers are below this.
pub const LANES: usize = 16;
/// Links of a peer: link numbers are below this.
pub const LINKS: usize = 16;
/// `block_offset` of a cell in which no record begins.
pub const NO_RECORD: u16 = u16::MAX;

/// What a cell carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of a lane's stream of records.
    Data = 0,
    /// A hello: [`super::hello::Hello`]. A stranger may send it.
    Hello = 1,
    /// A heartbeat: [`super::heartbeat::Heartbeat`].
    Heartbeat = 2,
    /// A repair request: [`super::repair::Request`].
    Repair = 3,
    /// A message of a handshake: [`super::handshake::Message`]. A stranger may send it.
    Handshake = 4,
}

/// The header, its sequence numbers as they travel: the lower 32 bits (see [`unwrap_seq`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the cell carries.
    pub kind: Kind,
    /// Number of the key that sealed the cell; 0: not sealed. A sealed cell ends in a 16-byte tag.
    pub epoch: u8,
    /// The sender's number of the link that it put the cell on, below [`LINKS`].
    pub link: u8,
    /// The ordering domain, below [`LANES`]; 0 unless the kind is `Data`.
    pub lane: u8,
    /// Counts the cells on this link from [`session_start`], but not greetings and unsealed hellos: a gap is a loss.
    pub link_seq: u32,
    /// Counts the cells of this lane, from [`session_start`]: the order of delivery.
    pub lane_seq: u32,
    /// Where in the payload the first record begins, or [`NO_RECORD`].
    pub block_offset: u16,
    /// The number that the receiver gave to the sender in its hello; 0 in a hello to everyone.
    pub session: u16,
}

impl Header {
    /// Of an open cell that belongs to no lane.
    pub fn new(kind: Kind, link: u8, session: u16, seq: u64) -> Self {
        let link_seq = wire_seq(seq);
        Self { kind, epoch: 0, link, lane: 0, link_seq, lane_seq: 0, block_offset: NO_RECORD, session }
    }

    /// Reads the header at the front of a cell.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a header of this version.
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let bytes = frame.first_chunk::<HEADER>().ok_or(Malformed::Truncated)?;
        let [first, epoch, link, lane, l0, l1, l2, l3, s0, s1, s2, s3, b0, b1, i0, i1] = *bytes;
        if first >> 4 != VERSION {
            return Err(Malformed::Version);
        }
        let kind = match first & 0x0f {
            0 => Kind::Data,
            1 => Kind::Hello,
            2 => Kind::Heartbeat,
            3 => Kind::Repair,
            4 => Kind::Handshake,
            _ => return Err(Malformed::Kind),
        };
        let header = Self {
            kind,
            epoch,
            link,
            lane,
            link_seq: u32::from_be_bytes([l0, l1, l2, l3]),
            lane_seq: u32::from_be_bytes([s0, s1, s2, s3]),
            block_offset: u16::from_be_bytes([b0, b1]),
            session: u16::from_be_bytes([i0, i1]),
        };
        let lane_fits = if kind == Kind::Data { usize::from(lane) < LANES } else { lane == 0 };
        if usize::from(link) < LINKS && lane_fits { Ok(header) } else { Err(Malformed::Field) }
    }

    /// Writes the header to the front of `frame`, which has room for it.
    pub fn emit(&self, frame: &mut [u8]) {
        let [l0, l1, l2, l3] = self.link_seq.to_be_bytes();
        let [s0, s1, s2, s3] = self.lane_seq.to_be_bytes();
        let [b0, b1] = self.block_offset.to_be_bytes();
        let [i0, i1] = self.session.to_be_bytes();
        let first = VERSION << 4 | self.kind as u8;
        let bytes = [first, self.epoch, self.link, self.lane, l0, l1, l2, l3, s0, s1, s2, s3, b0, b1, i0, i1];
        frame[..HEADER].copy_from_slice(&bytes);
    }
}

/// The number of the first cell of every lane and link from one node to another: FNV-1a (64 bits, the lower half) over the
/// sender's and the receiver's incarnation and the session number that the receiver gave. Cells to a former
/// incarnation have numbers far from those that the new one expects, even where the session numbers happen to be equal.
pub fn session_start(sender: u64, receiver: u64, session: u16) -> u64 {
    let bytes = sender.to_be_bytes().into_iter().chain(receiver.to_be_bytes()).chain(session.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The upper half is 1, so that a number shortly before the first is not below zero.
    1 << 32 | hash & 0xffff_ffff
}

/// The lower 32 bits of a sequence number: the form in which it travels.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is what the receiver reconstructs")]
pub const fn wire_seq(full: u64) -> u32 {
    full as u32
}

/// The full sequence number whose lower half is `low` and that lies nearest to `expected`, or `None` when that would
/// lie before 0. Right as long as the two are less than 2^31 apart (the method of RFC 4303, A2.2).
pub const fn unwrap_seq(low: u32, expected: u64) -> Option<u64> {
    #[expect(clippy::cast_possible_wrap, reason = "the distance on the circle of 32-bit numbers is signed")]
    let distance = low.wrapping_sub(wire_seq(expected)) as i32;
    expected.checked_add_signed(distance as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;
    use proptest::prelude::*;

    fn example() -> Header {
        Header {
            kind: Kind::Data,
            epoch: 0,
            link: 1,
            lane: 10,
            link_seq: 0x0001_0203,
            lane_seq: 0xffff_fffe,
            block_offset: 1436,
            session: 0xbeef,
        }
    }

    #[test]
    fn golden_bytes() {
        let mut bytes = [0; HEADER];
        example().emit(&mut bytes);
        assert_eq!(bytes[..], golden("header"));
        assert_eq!(Header::parse(&bytes), Ok(example()));
    }

    #[test]
    fn lanes_start_where_both_ends_expect_and_no_former_incarnation_did() {
        assert_eq!(session_start(1, 2, 3), 0x1_9cbc_68e5);
        assert_ne!(session_start(1, 2, 3), session_start(2, 1, 3));
    }

    #[test]
    fn what_is_not_a_header_is_refused_with_its_reason() {
        let mut bytes = golden("header");
        assert_eq!(Header::parse(&bytes[..15]), Err(Malformed::Truncated));
        let mut with = |index: usize, value: u8| {
            bytes.copy_from_slice(&golden("header"));
            bytes[index] = value;
            Header::parse(&bytes)
        };
        assert_eq!(with(0, 0x20), Err(Malformed::Version));
        assert_eq!(with(0, 0x15), Err(Malformed::Kind));
        assert_eq!(with(2, 16), Err(Malformed::Field));
        assert_eq!(with(3, 16), Err(Malformed::Field));
        assert_eq!(with(0, 0x12), Err(Malformed::Field), "a heartbeat has no lane");
    }

    proptest! {
        #[test]
        fn what_parses_is_emitted_again(bytes in any::<[u8; HEADER]>()) {
            if let Ok(header) = Header::parse(&bytes) {
                let mut again = [0; HEADER];
                header.emit(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn sequence_numbers_survive_the_wire(full in 0u64..1 << 48, ahead in -0x7fff_ffffi64..0x7fff_ffff) {
            if let Some(expected) = full.checked_add_signed(ahead) {
                prop_assert_eq!(unwrap_seq(wire_seq(full), expected), Some(full));
            }
        }
    }
}
