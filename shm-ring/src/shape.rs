//! The division of a window of memory, and the header that holds it.
//!
//! ```text
//!   header | windows of channel 0: of node 0 from 1, from 2, ..; of node 1 from 0, from 2, ..; .. | channel 1 | ..
//!   window:  control page | ring of `units` units of `unit` bytes
//! ```
//!
//! The layout is specified in `docs/shm-ring.md`; the bytes of its golden block are those of the test below.

use core::fmt;
use core::ops::Range;

/// Bytes at the beginning of the memory that belong to the header.
pub const HEADER: usize = 4096;
/// Bytes of a window before its ring.
const CONTROL: usize = 4096;
/// "TABANEMW", as its bytes lie in memory.
const MAGIC: u64 = u64::from_le_bytes(*b"TABANEMW");
/// Changes with every change that an older reader would misread.
const VERSION: u8 = 1;
/// Where the header's words are.
const MAGIC_AT: usize = 0;
const SHAPE_AT: usize = 8;

/// The longest message, in bytes: with its head, 64 KB.
pub const MESSAGE_MAX: usize = (64 << 10) - HEAD;
/// Bytes of the word before each message.
pub(crate) const HEAD: usize = 8;

/// The division of the memory. Its values are always allowed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    unit_log: u8,
    units_log: u8,
    slots: u16,
    channels: u16,
}

/// Why there is no such shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeError {
    /// The memory is not a window: it does not begin with the magic number.
    NotAWindow,
    /// The header is of another version.
    Version(u8),
    /// A unit is no power of two from 512 B to 64 KB.
    Unit,
    /// The units of a ring are no power of two, or their bytes fewer than two of the longest messages or more than 1
    /// GiB.
    Units,
    /// There are not 2 to 256 slots.
    Slots,
    /// There are not 1 to 64 channels.
    Channels,
    /// The memory is smaller than this many bytes, which its windows take.
    TooSmall(u64),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAWindow => write!(f, "it does not begin as a window does"),
            Self::Version(version) => write!(f, "it is of version {version}, and this is {VERSION}"),
            Self::Unit => write!(f, "a unit is a power of two from 512 B to 64 KiB"),
            Self::Units => write!(f, "a ring is a power of two of units, 128 KiB to 1 GiB together"),
            Self::Slots => write!(f, "there are 2 to 256 slots"),
            Self::Channels => write!(f, "there are 1 to 64 channels"),
            Self::TooSmall(bytes) => write!(f, "it is smaller than the {bytes} bytes that its windows take"),
        }
    }
}

impl core::error::Error for ShapeError {}

impl Shape {
    /// `unit`: bytes of a unit; `ring`: bytes of a window's ring; `slots`: nodes; `channels`: workers of a node.
    ///
    /// # Errors
    /// What is not allowed.
    pub fn new(unit: usize, ring: usize, slots: u16, channels: u16) -> Result<Self, ShapeError> {
        if !unit.is_power_of_two() {
            return Err(ShapeError::Unit);
        }
        if !ring.is_power_of_two() || ring < unit {
            return Err(ShapeError::Units);
        }
        let log = |value: usize| u8::try_from(value.trailing_zeros()).unwrap_or(u8::MAX);
        Self { unit_log: log(unit), units_log: log(ring / unit), slots, channels }.checked()
    }

    fn checked(self) -> Result<Self, ShapeError> {
        if !(9..=16).contains(&self.unit_log) {
            Err(ShapeError::Unit)
        } else if self.units_log > 30 || !(17..=30).contains(&(self.units_log + self.unit_log)) {
            Err(ShapeError::Units)
        } else if !(2..=256).contains(&self.slots) {
            Err(ShapeError::Slots)
        } else if !(1..=64).contains(&self.channels) {
            Err(ShapeError::Channels)
        } else {
            Ok(self)
        }
    }

    /// The shape in a header, with which `memory` bytes of memory begin.
    ///
    /// # Errors
    /// The header is another's, holds values that are not allowed, or needs more than there is memory.
    pub fn parse(header: [u64; 2], memory: usize) -> Result<Self, ShapeError> {
        let [magic, word] = header;
        if magic != MAGIC {
            return Err(ShapeError::NotAWindow);
        }
        let [version, unit_log, units_log, _, s0, s1, c0, c1] = word.to_le_bytes();
        if version != VERSION {
            return Err(ShapeError::Version(version));
        }
        let (slots, channels) = (u16::from_le_bytes([s0, s1]), u16::from_le_bytes([c0, c1]));
        let shape = Self { unit_log, units_log, slots, channels }.checked()?;
        if (memory as u64) < shape.bytes() { Err(ShapeError::TooSmall(shape.bytes())) } else { Ok(shape) }
    }

    /// The header with this shape, as words that follow each other in memory.
    pub fn header(self) -> [u64; 2] {
        [MAGIC, self.word()]
    }

    /// The words of the header in the order to store them: the shape first, so that a node that finds the magic number
    /// finds it.
    pub fn header_stores(self) -> [(usize, u64); 2] {
        [(SHAPE_AT, self.word()), (MAGIC_AT, MAGIC)]
    }

    /// The shape alone, as each window repeats it.
    pub(crate) fn word(self) -> u64 {
        let [s0, s1] = self.slots.to_le_bytes();
        let [c0, c1] = self.channels.to_le_bytes();
        u64::from_le_bytes([VERSION, self.unit_log, self.units_log, 0, s0, s1, c0, c1])
    }

    /// Bytes of a unit.
    pub fn unit(self) -> usize {
        1 << self.unit_log
    }

    /// Units of a ring.
    pub fn units(self) -> u32 {
        1 << self.units_log
    }

    /// Bytes of a ring.
    pub fn ring(self) -> usize {
        1 << (self.unit_log + self.units_log)
    }

    /// Nodes that there is room for.
    pub fn slots(self) -> u16 {
        self.slots
    }

    /// Workers of a node that there is room for.
    pub fn channels(self) -> u16 {
        self.channels
    }

    /// Bytes of memory that all windows take, with the header.
    pub fn bytes(self) -> u64 {
        let slots = u64::from(self.slots);
        let windows = u64::from(self.channels) * slots * (slots - 1);
        HEADER as u64 + windows * (CONTROL + self.ring()) as u64
    }

    /// The receive window of node `to` for what node `from` sends.
    ///
    /// # Panics
    /// There is no such channel or node, or both nodes are the same.
    pub fn window(self, channel: u16, to: u16, from: u16) -> Window {
        assert!(channel < self.channels && to < self.slots && from < self.slots && to != from);
        let (slots, to, from) = (usize::from(self.slots), usize::from(to), usize::from(from));
        let before = (usize::from(channel) * slots + to) * (slots - 1) + from - usize::from(from > to);
        Window { shape: self, at: HEADER + before * (CONTROL + self.ring()) }
    }
}

/// One receive window: where its words and units are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    shape: Shape,
    at: usize,
}

impl Window {
    /// Where in the memory it lies.
    pub fn place(self) -> Range<usize> {
        self.at..self.at + CONTROL + self.shape.ring()
    }

    /// The writer's shape.
    pub(crate) fn shape_at(self) -> usize {
        self.at
    }

    /// The writer's heartbeat.
    pub(crate) fn heartbeat_at(self) -> usize {
        self.at + 8
    }

    /// What the writer has written into this window.
    pub(crate) fn written_at(self) -> usize {
        self.at + 64
    }

    /// What the writer has taken from its own window of the reader.
    pub(crate) fn taken_at(self) -> usize {
        self.at + 128
    }

    pub(crate) fn shape(self) -> Shape {
        self.shape
    }

    /// Units that a message of `length` bytes takes with its head.
    pub(crate) fn units_for(self, length: usize) -> u32 {
        debug_assert!(length <= MESSAGE_MAX);
        u32::try_from((HEAD + length).div_ceil(self.shape.unit())).unwrap_or(u32::MAX)
    }

    /// Where a unit begins, by its number since the ring's beginning.
    pub(crate) fn unit_at(self, unit: u32) -> usize {
        self.ring_at() + (unit & (self.shape.units() - 1)) as usize * self.shape.unit()
    }

    /// Where `length` bytes lie that begin `offset` bytes behind the beginning of `unit`: at most two pieces, for the
    /// ring ends somewhere. `length` is at most that of the ring.
    pub(crate) fn pieces(
        self,
        unit: u32,
        offset: usize,
        length: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        debug_assert!(length <= self.shape.ring());
        let begin = (self.unit_at(unit) - self.ring_at() + offset) & (self.shape.ring() - 1);
        let first = length.min(self.shape.ring() - begin);
        let pieces = [(self.ring_at() + begin, first), (self.ring_at(), length - first)];
        pieces.into_iter().filter(|(_, length)| *length > 0)
    }

    fn ring_at(self) -> usize {
        self.at + CONTROL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The golden bytes of `docs/shm-ring.md`.
    fn golden() -> Vec<u8> {
        let text = include_str!("../../docs/shm-ring.md");
        let block = text.split("```golden header\n").nth(1).and_then(|rest| rest.split("```").next());
        let lines = block.expect("the document has the block").lines();
        let bytes = lines.flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
        bytes.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
    }

    #[test]
    fn the_header_is_the_documented_one() {
        let shape = Shape::new(4096, 2 << 20, 2, 1).expect("allowed");
        let bytes: Vec<u8> = shape.header().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes, golden());
        assert_eq!(Shape::parse(shape.header(), 8 << 20), Ok(shape));
        assert_eq!(shape.bytes(), 4096 + 2 * (4096 + (2 << 20)));
    }

    #[test]
    fn windows_lie_side_by_side_and_fill_the_memory() {
        let shape = Shape::new(512, 128 << 10, 4, 2).expect("allowed");
        let mut begins: Vec<usize> = Vec::new();
        for channel in 0..2 {
            for to in 0..4 {
                begins
                    .extend((0..4).filter(|from| *from != to).map(|from| shape.window(channel, to, from).at));
            }
        }
        let stride = CONTROL + shape.ring();
        let expected: Vec<usize> = (0..24).map(|index| HEADER + index * stride).collect();
        assert_eq!(begins, expected);
        assert_eq!(shape.bytes(), (HEADER + 24 * stride) as u64);
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let new = |unit, ring, slots, channels| Shape::new(unit, ring, slots, channels).err();
        assert_eq!(new(512, 128 << 10, 2, 1), None);
        assert_eq!(new(64 << 10, 1 << 30, 256, 64), None);
        assert_eq!(new(256, 1 << 20, 2, 1), Some(ShapeError::Unit));
        assert_eq!(new(128 << 10, 1 << 20, 2, 1), Some(ShapeError::Unit));
        assert_eq!(new(1000, 1 << 20, 2, 1), Some(ShapeError::Unit));
        assert_eq!(new(512, 64 << 10, 2, 1), Some(ShapeError::Units));
        assert_eq!(new(512, 2 << 30, 2, 1), Some(ShapeError::Units));
        assert_eq!(new(512, 1 << 20, 1, 1), Some(ShapeError::Slots));
        assert_eq!(new(512, 1 << 20, 2, 0), Some(ShapeError::Channels));
    }

    #[test]
    fn a_strange_header_is_refused() {
        let [magic, word] = Shape::new(512, 128 << 10, 2, 1).expect("allowed").header();
        let parse = |magic, word| Shape::parse([magic, word], 1 << 20);
        assert_eq!(parse(0, word), Err(ShapeError::NotAWindow));
        assert_eq!(parse(magic, word ^ 3), Err(ShapeError::Version(2)));
        assert_eq!(parse(magic, word | 0xff << 8), Err(ShapeError::Unit));
        assert_eq!(parse(magic, word | 0xff << 16), Err(ShapeError::Units));
        assert_eq!(parse(magic, word | 0xff << 40), Err(ShapeError::Slots));
        assert_eq!(parse(magic, word & u64::MAX >> 16), Err(ShapeError::Channels));
        let needed = 4096 + 2 * (4096 + (128 << 10));
        assert_eq!(Shape::parse([magic, word], 1 << 18), Err(ShapeError::TooSmall(needed)));
    }

    #[test]
    fn a_message_at_the_end_of_the_ring_goes_on_at_its_beginning() {
        let window = Shape::new(512, 128 << 10, 2, 1).expect("allowed").window(0, 0, 1);
        let ring = window.ring_at();
        let pieces = |unit, offset, length| window.pieces(unit, offset, length).collect::<Vec<_>>();
        assert_eq!(pieces(255, 8, 1000), [(ring + 255 * 512 + 8, 504), (ring, 496)]);
        assert_eq!(pieces(256, 8, 10), [(ring + 8, 10)]);
        assert_eq!(pieces(255, 512 + 8, 10), [(ring + 8, 10)]);
        assert_eq!(window.unit_at(u32::MAX), ring + 255 * 512);
    }
}
