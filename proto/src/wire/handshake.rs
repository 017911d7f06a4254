//! The handshake: the cells by which two nodes of a group agree on the keys of a session.
//!
//! ```text
//!  0      1       2        6      14            22          30         -32    -16     end
//!  +------+-------+--------+------+-------------+-----------+----------+------+-------+
//!  | step | epoch | serial | node | incarnation | addressee | body     | tag | stamp |
//!  +------+-------+--------+------+-------------+-----------+----------+------+-------+
//! ```
//!
//! The body of the first two steps is a message of Noise, which carries a hello in secret. The fields in front of it let
//! a receiver drop a repeated or late message at the cost of the tag alone. The tag covers everything before it, the
//! header of the cell included; the stamp, zero unless the addressee has asked for one, covers the tag, too.

use super::Malformed;
use super::cell::{HEADER, Header, Kind};
use super::fields::{Reader, Writer};
use super::hello::NodeId;
use crate::security::TAG;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes in front of the body.
const FIXED: usize = 30;

/// What a handshake cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first message.
    Initiation = 1,
    /// The second message: the answer to the first.
    Response = 2,
    /// Instead of an answer: a request to return with a stamp. The body is the cookie.
    Cookie = 3,
}

/// A handshake cell without tag and stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub step: Step,
    /// The number of the keys that come of it, not 0.
    pub epoch: u8,
    /// Rises with each handshake that its initiator begins; the other steps repeat that of the first.
    pub serial: u32,
    /// Who speaks.
    pub node: NodeId,
    /// The speaker's incarnation.
    pub incarnation: u64,
    /// Who is spoken to: the address from which a greeting came may be another node's.
    pub addressee: NodeId,
    /// What the step carries.
    pub body: &'a [u8],
}

/// A handshake cell in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged<'a> {
    /// What the tag covers.
    pub covered: &'a [u8],
    /// Proves that its maker knows the group key.
    pub tag: &'a [u8; TAG],
    /// Proves that the speaker receives at its address, or zeros.
    pub stamp: &'a [u8; TAG],
}

impl<'a> Tagged<'a> {
    /// Finds the parts of a cell.
    ///
    /// # Errors
    /// [`Malformed`] when it is too short to have them.
    pub fn split(cell: &'a [u8]) -> Result<Self, Malformed> {
        let (rest, stamp) = cell.split_last_chunk().ok_or(Malformed::Truncated)?;
        let (covered, tag) = rest.split_last_chunk().ok_or(Malformed::Truncated)?;
        if covered.len() < HEADER + FIXED {
            return Err(Malformed::Truncated);
        }
        Ok(Self { covered, tag, stamp })
    }
}

impl<'a> Message<'a> {
    /// Reads a message from what the tag covers.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no message.
    pub fn parse(covered: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(covered.get(HEADER..).ok_or(Malformed::Truncated)?);
        let step = match reader.u8()? {
            1 => Step::Initiation,
            2 => Step::Response,
            3 => Step::Cookie,
            _ => return Err(Malformed::Field),
        };
        let (epoch, serial) = (reader.u8()?, reader.u32()?);
        let (node, incarnation) = (NodeId(reader.u64()?), reader.u64()?);
        let addressee = NodeId(reader.u64()?);
        let body = reader.0;
        let fits = epoch != 0 && (step != Step::Cookie || body.len() == TAG);
        if fits {
            Ok(Self { step, epoch, serial, node, incarnation, addressee, body })
        } else {
            Err(Malformed::Field)
        }
    }

    /// The bytes that the tag covers, header included. The link is 0: the same bytes may take several.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + FIXED + self.body.len()];
        Header::new(Kind::Handshake, 0, 0, 0).emit(&mut bytes);
        let mut writer = Writer::new(&mut bytes[HEADER..]);
        writer.u8(self.step as u8).u8(self.epoch).u32(self.serial);
        writer.u64(self.node.0).u64(self.incarnation).u64(self.addressee.0).bytes(self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;
    use alloc::vec::Vec;

    fn example() -> Message<'static> {
        Message {
            step: Step::Initiation,
            epoch: 2,
            serial: 7,
            node: NodeId::new([2, 0, 0, 0, 0, 1], 7420),
            incarnation: 0x1122_3344_5566_7788,
            addressee: NodeId::new([2, 0, 0, 0, 0, 2], 7420),
            body: &[0xaa, 0xbb],
        }
    }

    fn cell() -> Vec<u8> {
        [example().emit(), vec![1; TAG], vec![2; TAG]].concat()
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(example().emit(), golden("handshake"));
        let cell = cell();
        let tagged = Tagged::split(&cell).unwrap();
        assert_eq!((tagged.tag, tagged.stamp), (&[1; TAG], &[2; TAG]));
        assert_eq!(Message::parse(tagged.covered), Ok(example()));
        assert_eq!(Header::parse(&cell).map(|header| header.kind), Ok(Kind::Handshake));
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let cell = cell();
        for cut in 0..HEADER + FIXED + 2 * TAG {
            assert_eq!(Tagged::split(&cell[..cut]), Err(Malformed::Truncated), "cut at {cut}");
        }
        for cut in 0..HEADER + FIXED {
            assert_eq!(Message::parse(&cell[..cut]), Err(Malformed::Truncated), "cut at {cut}");
        }
        for (at, value) in [(HEADER, 0), (HEADER, 4), (HEADER, 3), (HEADER + 1, 0)] {
            let mut bytes = example().emit();
            bytes[at] = value;
            assert_eq!(Message::parse(&bytes), Err(Malformed::Field), "{value} at {at}");
        }
    }
}
