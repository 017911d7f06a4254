//! A record: one Ethernet frame (up to 64 KB, a superframe) with the state of its offloads, in a lane's stream.
//!
//! ```text
//!  0      1             4                      14
//!  +------+-------------+----------------------+--------------------+
//!  | kind | length (24) | virtio_net_hdr (10)  | Ethernet frame ... |
//!  +------+-------------+----------------------+--------------------+
//! ```
//!
//! `length` counts what follows it. Kind 0 is padding to the end of the cell. A record begins only where
//! [`RECORD_START_MIN`] bytes remain, so that its prefix, its virtio header and the two MAC addresses lie in one piece.
//! Source: `struct virtio_net_hdr`, Virtual I/O Device 1.2, 5.1.6; the stream is RFC 9347's AGGFRAG idea.

use super::Malformed;

/// Bytes of kind and length.
pub const PREFIX: usize = 4;
/// Bytes of the virtio header.
pub const VNET: usize = 10;
/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// The longest Ethernet frame: a 65,535-byte packet with header and one VLAN tag.
pub const FRAME_MAX: usize = 65_535 + ETHERNET + 4;
/// A record begins only where at least this many bytes remain in the cell's payload.
pub const RECORD_START_MIN: usize = PREFIX + VNET + ETHERNET;
/// The longest record, prefix included.
pub const RECORD_MAX: usize = PREFIX + VNET + FRAME_MAX;

const PADDING: u8 = 0;
const FRAME: u8 = 1;

/// What begins at a place of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Padding up to the end of the cell.
    Padding,
    /// A record; that many bytes (virtio header and frame) follow the prefix.
    Frame(usize),
}

/// Reads what begins at the front of `payload`, the rest of a cell.
///
/// # Errors
/// [`Malformed`] when no sender of this version would have written it.
pub fn parse(payload: &[u8]) -> Result<Start, Malformed> {
    match payload {
        [PADDING, ..] | [] => Ok(Start::Padding),
        [FRAME, high, middle, low, ..] if payload.len() >= RECORD_START_MIN => {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            let allowed = VNET + ETHERNET..=VNET + FRAME_MAX;
            if allowed.contains(&length) { Ok(Start::Frame(length)) } else { Err(Malformed::Field) }
        }
        [FRAME, ..] => Err(Malformed::Truncated),
        _ => Err(Malformed::Kind),
    }
}

/// Writes the prefix of a record whose virtio header and frame have `length` bytes together (below 2^24).
pub fn emit(length: usize, payload: &mut [u8]) {
    debug_assert!(length <= VNET + FRAME_MAX);
    #[expect(clippy::cast_possible_truncation, reason = "RECORD_MAX is below 2^24")]
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    payload[..PREFIX].copy_from_slice(&[FRAME, high, middle, low]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut bytes = [0xaa; RECORD_START_MIN];
        emit(65_170, &mut bytes);
        assert_eq!(bytes[..PREFIX], crate::wire::golden("record"));
        assert_eq!(parse(&bytes), Ok(Start::Frame(65_170)));
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let mut bytes = [0; RECORD_START_MIN];
        assert_eq!(parse(&bytes), Ok(Start::Padding));
        assert_eq!(parse(&[]), Ok(Start::Padding));
        emit(VNET + ETHERNET, &mut bytes);
        assert_eq!(parse(&bytes[..RECORD_START_MIN - 1]), Err(Malformed::Truncated));
        for (length, verdict) in [
            (VNET + ETHERNET - 1, Err(Malformed::Field)),
            (VNET + FRAME_MAX, Ok(Start::Frame(VNET + FRAME_MAX))),
        ] {
            emit(length, &mut bytes);
            assert_eq!(parse(&bytes), verdict);
        }
        bytes[0] = 2;
        assert_eq!(parse(&bytes), Err(Malformed::Kind));
    }
}
