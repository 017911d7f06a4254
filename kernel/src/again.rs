//! The last segments of TCP flows, which leave once more when their path is left.
//!
//! TCP finds out what is lost when something later arrives. When all that was on its way is lost, nothing does: TCP sends its
//! last segment again some milliseconds later (RFC 8985, section 7), and when that is lost as well, because nobody has left the path yet,
//! waits for its timeout of 200 ms or more. The send program keeps the last segment of each flow, so that it can arrive as soon as the path
//! is left. What had arrived already is a duplicate, as any TCP knows it. An acknowledgement is a last segment, too.
//!
//! - The program writes meanwhile: what changes while it is read is not used.
//! - The frame goes by the device, as the stack's own do, and takes whatever way such frames have.
//! - Each length is compared with the frame's own, for whoever is behind a bridge may have made it.

use std::os::fd::AsFd;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use tabane_io::{DeviceSocket, MappedArray, now_ns};

use crate::Error;
use crate::layout::{AgainCounts, FLOWS, LastSegment};

const WORD: usize = size_of::<u64>();
const WORDS: usize = size_of::<LastSegment>() / WORD;
/// Where the protocol's header begins, the first byte of IP, what IP calls TCP.
const ETHERNET: usize = 14;
const TCP: u8 = 6;
/// Bytes of an IPv6 header.
const IPV6: usize = 40;
/// In TCP's header: where its length, flags and checksum stand, and the flag for a reduced window, which a superframe's first segment has alone.
const OFFSET: usize = 12;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const REDUCED: u8 = 0x80;

/// What the send program keeps, and the way by which it leaves again.
pub(crate) struct Again {
    memory: MappedArray,
    processors: usize,
    socket: DeviceSocket,
    sent: u64,
}

impl Again {
    /// `map`: the program's `last_segments`.
    pub(crate) fn new(map: impl AsFd, processors: usize, device: u32) -> Result<Self, Error> {
        let memory = MappedArray::new(map, processors * FLOWS * WORDS).map_err(Error::Counters)?;
        let socket = DeviceSocket::open(device).map_err(Error::Socket)?;
        Ok(Self { memory, processors, socket, sent: 0 })
    }

    /// Sends what left by a path within this time. What the device does not take is TCP's to send again.
    pub(crate) fn send(&mut self, path: u32, within: Duration) {
        let sent = self.frames(path, within).filter(|frame| self.socket.send(frame).is_ok()).count();
        self.sent += u64::try_from(sent).unwrap_or(0);
    }

    pub(crate) fn counts(&self) -> AgainCounts {
        AgainCounts::from_words([self.sent].into_iter())
    }

    /// The last segment of each flow that left by a path within this time.
    pub(crate) fn frames(&self, path: u32, within: Duration) -> impl Iterator<Item = Vec<u8>> {
        let since = now_ns().saturating_sub(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        let of = move |flow| (0..self.processors).map(move |processor| processor * FLOWS + flow);
        let newest = (0..FLOWS).filter_map(move |flow| of(flow).max_by_key(|index| self.sent_ns(*index)));
        newest
            .filter(move |index| self.sent_ns(*index) >= since)
            .filter_map(|index| self.read(index))
            .filter(move |last| last.path == path)
            .filter_map(|last| segment(&last))
    }

    fn word(&self, index: usize, word: usize) -> u64 {
        self.memory.word(index * WORDS + word).unwrap_or(0)
    }

    fn sent_ns(&self, index: usize) -> u64 {
        self.word(index, 1)
    }

    /// An entry; `None`: it is just written.
    fn read(&self, index: usize) -> Option<LastSegment> {
        let version = self.word(index, 0);
        fence(Ordering::Acquire);
        let bytes: Vec<u8> = (0..WORDS).flat_map(|word| self.word(index, word).to_ne_bytes()).collect();
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && version == self.word(index, 0);
        is_whole.then(|| LastSegment::from_bytes(&bytes))?
    }
}

fn segment(last: &LastSegment) -> Option<Vec<u8>> {
    let [whole, headers, payload] =
        [last.frame_bytes, last.header_bytes, last.payload_bytes].map(|bytes| bytes as usize);
    let skipped = whole.checked_sub(headers)?.checked_sub(payload)?;
    let mut frame = [last.headers.get(..headers)?, last.payload.get(..payload)?].concat();
    let at = tcp(&frame, whole)?;
    let length = frame.get(at + OFFSET)? >> 4;
    if at + usize::from(length) * 4 != headers || headers < at + 20 {
        return None;
    }
    let number = u32::from_be_bytes(frame[at + 4..at + 8].try_into().ok()?);
    frame[at + 4..at + 8].copy_from_slice(&number.wrapping_add(u32::try_from(skipped).ok()?).to_be_bytes());
    if skipped > 0 {
        frame[at + FLAGS] &= !REDUCED;
    }
    finish(&mut frame, at)?;
    Some(frame)
}

/// Where TCP's header begins in a frame whose IP header speaks of `whole` bytes.
fn tcp(frame: &[u8], whole: usize) -> Option<usize> {
    let ip = frame.get(ETHERNET..)?;
    let long = |at: usize| Some(usize::from(u16::from_be_bytes(ip.get(at..at + 2)?.try_into().ok()?)));
    match ip.first()? >> 4 {
        4 => {
            let header = usize::from(ip[0] & 0xf) * 4;
            let is_whole = long(2)? + ETHERNET == whole && long(6)? & 0x3fff == 0;
            (header >= 20 && is_whole && *ip.get(9)? == TCP).then_some(ETHERNET + header)
        }
        6 => (long(4)? + ETHERNET + IPV6 == whole && *ip.get(6)? == TCP).then_some(ETHERNET + IPV6),
        _ => None,
    }
}

fn finish(frame: &mut [u8], at: usize) -> Option<()> {
    let [total, segment] = [ETHERNET, at].map(|from| u16::try_from(frame.len() - from).ok());
    let (total, segment) = (total?, segment?);
    let ip = ETHERNET;
    let addresses = if frame[ip] >> 4 == 4 {
        frame[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
        frame[ip + 10..ip + 12].fill(0);
        let checksum = !sum(&frame[ip..at], 0);
        frame[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
        ip + 12..ip + 20
    } else {
        frame[ip + 4..ip + 6].copy_from_slice(&segment.to_be_bytes());
        ip + 8..ip + 40
    };
    let pseudo = sum(&frame[addresses], u32::from(segment) + u32::from(TCP));
    frame[at + CHECKSUM..at + CHECKSUM + 2].fill(0);
    let checksum = !sum(&frame[at..], u32::from(pseudo));
    frame[at + CHECKSUM..at + CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// The sum of 16-bit words by ones' complement (RFC 1071).
fn sum(bytes: &[u8], start: u32) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from));
    let mut all = words.fold(start, |all, word| all + word);
    while let carry @ 1.. = all >> 16 {
        all = (all & 0xffff) + carry;
    }
    u16::try_from(all).unwrap_or(0)
}
