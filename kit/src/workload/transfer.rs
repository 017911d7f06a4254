//! A file sent over one connection, again and again until told to end, and checked by SHA-256 at both ends.
//!
//! The receiver notes the time of every read: the largest gap between two reads is the longest stall that an
//! application would have seen, to the microsecond. What carries the file is a module: [`tcp`] or [`quic`].

mod quic;
mod tcp;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tabane_sim::random::{self, Random};

use super::Stream;
use super::gaps::Gaps;
use crate::clock::monotonic_ns;
use crate::netns::{Namespace, joined};

/// Bytes per read and write.
const CHUNK: usize = 256 << 10;

/// SHA-256 of some bytes.
pub type Sum = [u8; 32];

/// What carries a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A TCP connection with CUBIC.
    Tcp,
    /// An MPTCP connection; each of its subflows has CUBIC.
    Mptcp,
    /// One stream of a QUIC connection with CUBIC, which takes a packet for lost when three later ones have arrived.
    Quic,
}

/// A file of random bytes that has no name, and so is gone with the process.
#[derive(Debug)]
pub struct Source {
    file: File,
    bytes: u64,
    sum: Sum,
}

/// A transfer at work.
#[derive(Debug)]
pub struct Transfer {
    end: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    ends: Ends,
    source: (u64, Sum),
}

/// The threads at both ends: the sender's tells how many copies it sent.
#[derive(Debug)]
struct Ends {
    sender: JoinHandle<Result<u64>>,
    receiver: JoinHandle<Result<Received>>,
}

/// What became of a transfer.
#[derive(Debug)]
pub struct Outcome {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Whole copies of the file that were sent.
    pub copies: u64,
    /// Every copy arrived, whole, with the sum of the file.
    pub sha256_ok: bool,
    /// Copies that arrived with another sum than the file's.
    pub damaged: u64,
    /// Times between two reads that got something.
    pub gaps: Gaps,
    /// Why the connection was lost, if it was.
    pub lost: Option<String>,
}

/// What the receiving end saw.
#[derive(Debug)]
struct Received {
    bytes: u64,
    /// Sums of the copies that are whole, and of the one that is not.
    sums: Vec<Sum>,
    digest: Sha256,
    /// Bytes of a copy, and those that the last one still lacks.
    copy_bytes: u64,
    lacking: u64,
    gaps: Gaps,
    lost: Option<String>,
    progress: Arc<AtomicU64>,
}

impl Source {
    /// A file of `bytes` random bytes made from `seed`; its sum is taken from what the file then holds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn random(bytes: u64, seed: u64) -> Result<Source> {
        let mut file = tempfile::tempfile().context("a temporary file")?;
        let mut random = Random::new(seed, random::Stream::Traffic);
        let mut chunk = vec![0; CHUNK];
        let mut left = bytes;
        while left > 0 {
            let length = CHUNK.min(usize::try_from(left)?);
            random.fill(&mut chunk[..length]);
            file.write_all(&chunk[..length]).context("writing a temporary file")?;
            left -= length as u64;
        }
        file.rewind()?;
        let mut source = Source { file, bytes, sum: [0; 32] };
        let mut digest = Sha256::new();
        while let Some(chunk) = source.next(&mut chunk)? {
            digest.update(chunk);
        }
        source.sum = digest.finalize().into();
        Ok(source)
    }

    /// Writes `bytes` over the beginning of the file; its sum stays that of the former content.
    #[cfg(test)]
    pub(super) fn overwrite(&mut self, bytes: &[u8]) {
        self.file.write_all(bytes).and_then(|()| self.file.rewind()).unwrap();
    }

    /// Its length.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its sum.
    pub(super) fn sum(&self) -> Sum {
        self.sum
    }

    /// The file's next bytes; `None` at its end, after which it begins anew.
    pub(super) fn next<'a>(&mut self, chunk: &'a mut [u8]) -> Result<Option<&'a [u8]>> {
        let length = self.file.read(chunk)?;
        if length == 0 {
            self.file.rewind()?;
        }
        Ok(Some(&chunk[..length]).filter(|chunk| !chunk.is_empty()))
    }
}

impl Transfer {
    /// Starts sending `source` by TCP from `client` to `server`, which has the address `at`.
    ///
    /// # Errors
    /// The connection cannot be prepared.
    pub fn start(client: &Namespace, server: &Namespace, at: SocketAddr, source: Source) -> Result<Transfer> {
        Transfer::over(Carrier::Tcp, client, server, at, source)
    }

    /// As [`Transfer::start`], over any `carrier`.
    ///
    /// # Errors
    /// As [`Transfer::start`].
    pub fn over(
        carrier: Carrier,
        client: &Namespace,
        server: &Namespace,
        at: SocketAddr,
        source: Source,
    ) -> Result<Transfer> {
        let end = Arc::new(AtomicBool::new(false));
        let (ended, identity) = (Arc::clone(&end), (source.bytes, source.sum));
        let arrived = Arc::new(AtomicU64::new(0));
        let received = Received::new(source.bytes, Arc::clone(&arrived));
        let ends = match carrier {
            Carrier::Tcp => tcp::start(Stream::Tcp, [client, server], at, source, received, ended)?,
            Carrier::Mptcp => tcp::start(Stream::Mptcp, [client, server], at, source, received, ended)?,
            Carrier::Quic => quic::start([client, server], at, source, received, ended)?,
        };
        Ok(Transfer { end, arrived, ends, source: identity })
    }

    /// Bytes that have arrived so far.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Lets the copy at work be the last one, without waiting for its arrival.
    pub fn end(&self) {
        self.end.store(true, Ordering::Relaxed);
    }

    /// Lets the copy at work be the last one, and waits for its arrival.
    ///
    /// # Errors
    /// The file cannot be read; a lost connection is not an error but part of the outcome.
    pub fn finish(self) -> Result<Outcome> {
        self.end();
        let sent = joined(self.ends.sender);
        let received = joined(self.ends.receiver)?;
        let (copies, complaint) = match sent {
            Ok(copies) => (copies, None),
            Err(error) => (0, Some(format!("sender: {error:#}"))),
        };
        let (bytes, sum) = self.source;
        let whole = received.bytes == copies * bytes && received.sums.len() as u64 == copies && copies > 0;
        let damaged = received.sums.iter().filter(|each| **each != sum).count() as u64;
        Ok(Outcome {
            bytes: received.bytes,
            copies,
            sha256_ok: whole && damaged == 0,
            damaged,
            gaps: received.gaps,
            lost: received.lost.or(complaint),
        })
    }
}

impl Received {
    fn new(copy_bytes: u64, progress: Arc<AtomicU64>) -> Received {
        Received {
            bytes: 0,
            sums: Vec::new(),
            digest: Sha256::new(),
            copy_bytes,
            lacking: copy_bytes,
            gaps: Gaps::default(),
            lost: None,
            progress,
        }
    }

    /// Takes what was read.
    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.gaps.note(monotonic_ns()?);
        self.bytes += bytes.len() as u64;
        self.progress.store(self.bytes, Ordering::Relaxed);
        while !bytes.is_empty() {
            let (of_this_copy, rest) = bytes.split_at(bytes.len().min(usize::try_from(self.lacking)?));
            self.digest.update(of_this_copy);
            self.lacking -= of_this_copy.len() as u64;
            if self.lacking == 0 {
                self.sums.push(self.digest.finalize_reset().into());
                self.lacking = self.copy_bytes;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Notes why nothing more comes.
    fn end_with(&mut self, ended: Result<()>) {
        if let Err(error) = ended {
            self.lost = Some(format!("receiver, after {} bytes: {error:#}", self.bytes));
        }
    }
}

impl Outcome {
    /// Mean speed in 10^9 bits per second.
    #[must_use]
    pub fn gbps(&self) -> f64 {
        self.bytes as f64 * 8e-9 / self.gaps.duration().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_holds_what_its_seed_says() {
        let sums = [1, 1, 2].map(|seed| Source::random(CHUNK as u64 + 7, seed).unwrap().sum);
        assert_eq!(sums[0], sums[1]);
        assert_ne!(sums[0], sums[2]);
    }

    #[test]
    fn a_source_begins_anew_after_its_end() {
        let mut source = Source::random(7, 1).unwrap();
        let mut chunk = [0; 8];
        let first = source.next(&mut chunk).unwrap().unwrap().to_vec();
        assert!(source.next(&mut chunk).unwrap().is_none());
        assert_eq!(source.next(&mut chunk).unwrap(), Some(&first[..]));
    }

    #[test]
    fn copies_are_told_apart_and_half_a_copy_has_no_sum() {
        let arrived = Arc::new(AtomicU64::new(0));
        let mut received = Received::new(8, Arc::clone(&arrived));
        for bytes in [&b"firstfi"[..], b"rsecond-half"] {
            received.take(bytes).unwrap();
        }
        let sum = |bytes: &[u8]| Sum::from(Sha256::digest(bytes));
        assert_eq!(received.sums, [sum(b"firstfir"), sum(b"second-h")]);
        assert_eq!((received.bytes, arrived.load(Ordering::Relaxed)), (19, 19));
    }
}
