//! A file sent over one connection, again and again until told to end; the receiver compares every byte.
//!
//! The receiver notes the time of every read: the largest gap between two reads is the longest stall that an
//! application would have seen, to the microsecond. What carries the file is a module: [`tcp`] or [`quic`].

mod quic;
mod tcp;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tabane_sim::random::{self, Random};

use super::Stream;
use crate::usual::*;

/// How long what was sent may take to arrive once it is waited for; a connection that is slower counts as lost. One that brings a
/// byte now and then is never silent, so [`SILENCE_MAX`](super::SILENCE_MAX) alone would not end it.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(60);
const CHUNK: usize = 256 << 10;

/// A longer file repeats itself after so many bytes.
const PERIOD: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A connection of the kernel's; each of its subflows has CUBIC.
    Stream(Stream),
    /// One stream of a QUIC connection with CUBIC, which takes a packet for lost when three later ones have arrived.
    Quic,
}

/// A file of random bytes, in memory, while it is read.
#[derive(Clone, Debug)]
pub struct Source {
    /// At most [`PERIOD`] bytes.
    content: Arc<[u8]>,
    bytes: u64,
    at: u64,
}

#[derive(Debug)]
pub struct Transfer {
    end: Arc<End>,
    arrived: Arc<AtomicU64>,
    ends: Ends,
    copy_bytes: u64,
}

#[derive(Debug, Default)]
struct End {
    is_last: AtomicBool,
    latest: OnceLock<Instant>,
}

/// The threads at both ends: the sender's tells how many copies it sent.
#[derive(Debug)]
struct Ends {
    sender: JoinHandle<Result<u64>>,
    receiver: JoinHandle<Result<Received>>,
}

#[derive(Debug)]
pub struct Outcome {
    pub bytes: u64,
    /// Whole copies of the file that were sent.
    pub copies: u64,
    /// Every copy arrived, whole, as it was sent.
    pub is_whole: bool,
    /// Copies that arrived with another content.
    pub damaged: u64,
    pub gaps: Gaps,
    pub lost: Option<String>,
}

#[derive(Debug)]
struct Received {
    bytes: u64,
    expected: Source,
    copies: u64,
    damaged: u64,
    is_damaged: bool,
    gaps: Gaps,
    lost: Option<String>,
    progress: Arc<AtomicU64>,
    end: Arc<End>,
}

impl Source {
    /// A file of `bytes` random bytes made from `seed`.
    pub fn random(bytes: u64, seed: u64) -> Source {
        let mut content = vec![0; usize::try_from(bytes.min(PERIOD)).expect("a period fits into memory")];
        Random::new(seed, random::Stream::Traffic).fill(&mut content);
        Source { content: content.into(), bytes, at: 0 }
    }

    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if self.at == self.bytes {
            self.at = 0;
            return None;
        }
        let length = self.ahead(CHUNK).len() as u64;
        self.at += length;
        let end = usize::try_from((self.at - 1) % PERIOD + 1).ok()?;
        self.content.get(end - usize::try_from(length).ok()?..end)
    }

    /// Up to `most` bytes that come next.
    fn ahead(&self, most: usize) -> &[u8] {
        let left = usize::try_from(self.bytes - self.at).unwrap_or(usize::MAX);
        let content = &self.content[usize::try_from(self.at % PERIOD).unwrap_or(0)..];
        &content[..content.len().min(left).min(most)]
    }
}

impl Transfer {
    /// Starts sending `source` by TCP from `client` to `server`, which has the address `at`.
    pub fn start(client: &Namespace, server: &Namespace, at: SocketAddr, source: Source) -> Result<Transfer> {
        Transfer::over(Carrier::Stream(Stream::Tcp), client, server, at, source)
    }

    pub fn over(
        carrier: Carrier,
        client: &Namespace,
        server: &Namespace,
        at: SocketAddr,
        source: Source,
    ) -> Result<Transfer> {
        let end = Arc::<End>::default();
        let (ended, copy_bytes) = (Arc::clone(&end), source.bytes);
        let arrived = Arc::new(AtomicU64::new(0));
        let received = Received::new(source.clone(), Arc::clone(&arrived), Arc::clone(&end));
        let ends = match carrier {
            Carrier::Stream(stream) => tcp::start(stream, [client, server], at, source, received, ended)?,
            Carrier::Quic => quic::start([client, server], at, source, received, ended)?,
        };
        Ok(Transfer { end, arrived, ends, copy_bytes })
    }

    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Lets the copy at work be the last one, without waiting for its arrival.
    pub fn end(&self) {
        self.end.is_last.store(true, Ordering::Relaxed);
    }

    /// Lets the copy at work be the last one, and waits for its arrival, no longer than [`ARRIVES_WITHIN`] and one silence.
    pub fn finish(self) -> Result<Outcome> {
        self.finish_until(Instant::now() + ARRIVES_WITHIN)
    }

    fn finish_until(self, latest: Instant) -> Result<Outcome> {
        self.end();
        self.end.latest.get_or_init(|| latest);
        let sent = joined(self.ends.sender);
        let received = joined(self.ends.receiver)?;
        let (copies, complaint) = match sent {
            Ok(copies) => (copies, None),
            Err(error) => (0, Some(format!("sender: {error:#}"))),
        };
        let is_whole = received.bytes == copies * self.copy_bytes && received.copies == copies && copies > 0;
        let damaged = received.damaged + u64::from(received.is_damaged);
        Ok(Outcome {
            bytes: received.bytes,
            copies,
            is_whole: is_whole && damaged == 0,
            damaged,
            gaps: received.gaps,
            lost: received.lost.or(complaint),
        })
    }
}

impl End {
    fn is_near(&self) -> bool {
        self.is_last.load(Ordering::Relaxed)
    }

    fn is_in_time(&self) -> Result<()> {
        let is_late = self.latest.get().is_some_and(|latest| Instant::now() > *latest);
        ensure!(!is_late, "not all has arrived {ARRIVES_WITHIN:?} after it was waited for");
        Ok(())
    }
}

impl Received {
    fn new(expected: Source, progress: Arc<AtomicU64>, end: Arc<End>) -> Received {
        let (gaps, lost) = (Gaps::default(), None);
        Received { bytes: 0, expected, copies: 0, damaged: 0, is_damaged: false, gaps, lost, progress, end }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.end.is_in_time()?;
        self.gaps.note(monotonic_ns()?);
        self.bytes += bytes.len() as u64;
        self.progress.store(self.bytes, Ordering::Relaxed);
        while !bytes.is_empty() {
            let wanted = self.expected.ahead(bytes.len());
            let (found, rest) = bytes.split_at(wanted.len());
            self.is_damaged |= found != wanted;
            self.expected.at += found.len() as u64;
            if self.expected.at == self.expected.bytes {
                self.copies += 1;
                self.damaged += u64::from(std::mem::take(&mut self.is_damaged));
                self.expected.at = 0;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn end_with(&mut self, ended: Result<()>) {
        if let Err(error) = ended {
            self.lost = Some(format!("receiver, after {} bytes: {error:#}", self.bytes));
        }
    }
}

impl Outcome {
    /// Mean speed in 10^9 bits per second.
    pub fn gbps(&self) -> f64 {
        self.bytes as f64 * 8e-9 / self.gaps.duration().as_secs_f64()
    }
}

// Times in which a receiver got nothing: what an application sees of an outage.

/// Shorter gaps are not told apart: any scheduler makes them.
const NOTED_NS: u64 = 1_000_000;
/// Most gaps that are kept, the first ones.
const KEPT: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub struct Gaps {
    first_ns: Option<u64>,
    last_ns: u64,
    kept: Vec<Gap>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub length: Duration,
}

impl Gaps {
    /// Something arrived at `now_ns` of CLOCK_MONOTONIC.
    pub fn note(&mut self, now_ns: u64) {
        // The clock of an emulated machine that was stopped for a minute may come back a little earlier.
        let length_ns = now_ns.saturating_sub(self.last_ns);
        if self.first_ns.is_some() && length_ns >= NOTED_NS && self.kept.len() < KEPT {
            self.kept.push(Gap { at_ns: self.last_ns, length: Duration::from_nanos(length_ns) });
        }
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
    }

    /// The longest gap; what is shorter than a millisecond counts as none.
    pub fn longest(&self) -> Gap {
        self.longest_within(0, u64::MAX)
    }

    /// The longest of the gaps that overlap the time from `from_ns` to `to_ns`.
    pub fn longest_within(&self, from_ns: u64, to_ns: u64) -> Gap {
        let overlaps = |gap: &&Gap| gap.at_ns <= to_ns && gap.end_ns() >= from_ns;
        self.kept.iter().filter(overlaps).max_by_key(|gap| gap.length).copied().unwrap_or_default()
    }

    /// From the first arrival to the last.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns)))
    }

    /// From `start_ns` of CLOCK_MONOTONIC to the last arrival; zero without one.
    pub fn until_last(&self, start_ns: u64) -> Duration {
        Duration::from_nanos(self.last_ns.saturating_sub(start_ns))
    }
}

impl Gap {
    fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &mut Source) -> Vec<u8> {
        let mut content = Vec::new();
        while let Some(chunk) = source.next() {
            content.extend_from_slice(chunk);
        }
        content
    }

    #[test]
    fn a_source_holds_what_its_seed_says_and_begins_anew_after_its_end() {
        let bytes = PERIOD + CHUNK as u64 + 7;
        let [mut one, mut same, mut other] = [1, 1, 2].map(|seed| Source::random(bytes, seed));
        let first = read(&mut one);
        assert_eq!(first.len() as u64, bytes);
        assert!(read(&mut same) == first && read(&mut one) == first && read(&mut other) != first);
    }

    #[test]
    fn copies_are_told_apart_and_damage_is_seen_in_the_copy_that_has_it() {
        let arrived = Arc::new(AtomicU64::new(0));
        let mut source = Source::random(8, 1);
        let copy = read(&mut source);
        let mut received = Received::new(source, Arc::clone(&arrived), Arc::default());
        let twice = [&copy[..], &copy, &copy[..3]].concat();
        for bytes in [&twice[..5], &twice[5..]] {
            received.take(bytes).unwrap();
        }
        assert_eq!((received.copies, received.damaged, received.is_damaged), (2, 0, false));
        assert_eq!((received.bytes, arrived.load(Ordering::Relaxed)), (19, 19));
        received.take(&[!copy[3], copy[4], copy[5], copy[6], copy[7]]).unwrap();
        received.take(&copy).unwrap();
        assert_eq!((received.copies, received.damaged, received.is_damaged), (4, 1, false));
    }

    #[test]
    fn the_longest_gap_of_a_time_is_found() {
        let mut gaps = Gaps::default();
        for millisecond in [10, 15, 35, 40, 40] {
            gaps.note(millisecond * 1_000_000);
        }
        let gap = |at: u64, length| Gap { at_ns: at * 1_000_000, length: Duration::from_millis(length) };
        assert_eq!(gaps.longest(), gap(15, 20));
        assert_eq!(gaps.longest_within(36_000_000, u64::MAX), gap(35, 5));
        assert_eq!(gaps.longest_within(34_000_000, 34_000_000), gap(15, 20));
        assert_eq!(gaps.longest_within(50_000_000, u64::MAX), Gap::default());
        assert_eq!(gaps.duration(), Duration::from_millis(30));
    }
}
