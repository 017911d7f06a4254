//! The repair request: which cells of a link did not arrive. Links keep FIFO order, so a cell that a later number has
//! overtaken is lost, and the receiver asks for it at once.
//!
//! Invariant: a request names at most [`GAPS_MAX`] gaps, each with at least one number.

use super::Malformed;
use super::cell::LINKS;
use super::fields::{Reader, Writer};

/// Gaps that one request can name.
pub const GAPS_MAX: usize = 64;
/// The longest request, without the cell header.
pub const REQUEST_MAX: usize = 2 + GAPS_MAX * 8;

/// Consecutive cells of one link that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The addressee's number of the link, below [`LINKS`].
    pub link: u8,
    /// How many are missing, 1 to 65,535.
    pub count: u16,
    /// The link number of the first.
    pub first: u32,
}

/// A request for the cells of several gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    gaps: [Gap; GAPS_MAX],
    count: u8,
}

impl Default for Request {
    fn default() -> Self {
        Self { gaps: [Gap::default(); GAPS_MAX], count: 0 }
    }
}

impl Request {
    /// The gaps that are named.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps[..usize::from(self.count)]
    }

    /// Adds a gap; `false` when the request is full.
    pub fn push(&mut self, gap: Gap) -> bool {
        let Some(place) = self.gaps.get_mut(usize::from(self.count)) else { return false };
        *place = gap;
        self.count += 1;
        true
    }

    /// Reads a request from the payload of a cell. Bytes behind it are ignored.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a request.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let mut request = Self::default();
        let count = reader.u8()?;
        reader.u8()?;
        for _ in 0..count {
            let link = reader.u8()?;
            reader.u8()?;
            let gap = Gap { link, count: reader.u16()?, first: reader.u32()? };
            if usize::from(link) >= LINKS || gap.count == 0 || !request.push(gap) {
                return Err(Malformed::Field);
            }
        }
        Ok(request)
    }

    /// Writes the request to `payload` (at least [`REQUEST_MAX`] bytes) and returns its length.
    pub fn emit(&self, payload: &mut [u8]) -> usize {
        let mut writer = Writer::new(payload);
        writer.u8(self.count).u8(0);
        for gap in self.gaps() {
            writer.u8(gap.link).u8(0).u16(gap.count).u32(gap.first);
        }
        writer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut request = Request::default();
        assert!(request.push(Gap { link: 1, count: 23, first: 0xffff_fff0 }));
        let mut bytes = [0; REQUEST_MAX];
        let length = request.emit(&mut bytes);
        assert_eq!(bytes[..length], crate::wire::golden("repair"));
        assert_eq!(Request::parse(&bytes), Ok(request));
        assert_eq!(Request::parse(&bytes[..length - 1]), Err(Malformed::Truncated));
    }

    #[test]
    fn a_full_request_takes_no_more_and_a_longer_one_is_refused() {
        let mut request = Request::default();
        let gap = Gap { link: 0, count: 1, first: 0 };
        assert_eq!((0..100).filter(|_| request.push(gap)).count(), GAPS_MAX);
        let mut bytes = [0; REQUEST_MAX + 8];
        request.emit(&mut bytes);
        bytes[0] = 65;
        bytes[REQUEST_MAX + 3] = 1;
        assert_eq!(Request::parse(&bytes), Err(Malformed::Field));
    }
}
