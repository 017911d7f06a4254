//! A file sent over one TCP connection, again and again until told to end, and checked by SHA-256 at both ends.
//!
//! The receiver notes the time of every read: the largest gap between two reads is the longest stall that an
//! application would have seen, to the microsecond.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use super::gaps::Gaps;
use super::{Stream, accept};
use crate::clock::monotonic_ns;
use crate::netns::{Namespace, joined};

/// Bytes per read and write.
const CHUNK: usize = 256 << 10;

/// SHA-256 of some bytes.
pub type Sum = [u8; 32];

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
    sender: JoinHandle<Result<u64>>,
    receiver: JoinHandle<Result<Received>>,
    source: (u64, Sum),
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
    /// Times between two reads that got something.
    pub gaps: Gaps,
    /// Why the connection was lost, if it was.
    pub lost: Option<String>,
}

/// What the receiving end saw.
#[derive(Debug, Default)]
struct Received {
    bytes: u64,
    sums: Vec<Sum>,
    gaps: Gaps,
    lost: Option<String>,
}

impl Source {
    /// A file of `bytes` random bytes made from `seed`; its sum is taken from what the file then holds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn random(bytes: u64, seed: u64) -> Result<Source> {
        let mut file = tempfile::tempfile().context("a temporary file")?;
        let mut random = StdRng::seed_from_u64(seed);
        let mut chunk = vec![0; CHUNK];
        let mut left = bytes;
        while left > 0 {
            let length = CHUNK.min(usize::try_from(left)?);
            random.fill_bytes(&mut chunk[..length]);
            file.write_all(&chunk[..length]).context("writing a temporary file")?;
            left -= length as u64;
        }
        let mut digest = Sha256::new();
        for_each_chunk(&mut file, |chunk| {
            digest.update(chunk);
            Ok(())
        })?;
        Ok(Source { file, bytes, sum: digest.finalize().into() })
    }
}

impl Transfer {
    /// Starts sending `source` from `client` to `server`, which has the address `at`.
    ///
    /// # Errors
    /// The connection cannot be prepared.
    pub fn start(client: &Namespace, server: &Namespace, at: SocketAddr, source: Source) -> Result<Transfer> {
        let listener =
            server.enter(|| Stream::Tcp.listen(at))?.with_context(|| format!("listening at {at}"))?;
        let at = listener.local_addr()?;
        let end = Arc::new(AtomicBool::new(false));
        let (ended, bytes, sum) = (Arc::clone(&end), source.bytes, source.sum);
        let arrived = Arc::new(AtomicU64::new(0));
        let progress = Arc::clone(&arrived);
        let receiver = server.spawn("receiver", move || receive(&listener, bytes, &progress))?;
        let sender = client.spawn("sender", move || send(at, source.file, &ended))?;
        Ok(Transfer { end, arrived, sender, receiver, source: (bytes, sum) })
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
        let sent = joined(self.sender);
        let received = joined(self.receiver)?;
        let (copies, complaint) = match sent {
            Ok(copies) => (copies, None),
            Err(error) => (0, Some(format!("sender: {error:#}"))),
        };
        let (bytes, sum) = self.source;
        let whole = received.bytes == copies * bytes && received.sums.len() as u64 == copies && copies > 0;
        Ok(Outcome {
            bytes: received.bytes,
            copies,
            sha256_ok: whole && received.sums.iter().all(|each| *each == sum),
            gaps: received.gaps,
            lost: received.lost.or(complaint),
        })
    }
}

/// Sends one whole copy, and more until told to end; returns how many.
fn send(at: SocketAddr, mut file: File, end: &AtomicBool) -> Result<u64> {
    let mut connection = Stream::Tcp.connect(at).with_context(|| format!("connecting to {at}"))?;
    let mut copies = 0;
    loop {
        for_each_chunk(&mut file, |chunk| Ok(connection.write_all(chunk)?))?;
        copies += 1;
        if end.load(Ordering::Relaxed) {
            return Ok(copies);
        }
    }
}

/// Reads `file` from its start to its end.
fn for_each_chunk(file: &mut File, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    file.rewind()?;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(()),
            length => take(&chunk[..length])?,
        }
    }
}

fn receive(listener: &TcpListener, bytes_per_copy: u64, arrived: &AtomicU64) -> Result<Received> {
    let mut received = Received::default();
    let mut connection = accept(listener)?;
    if let Err(error) = receive_copies(&mut connection, bytes_per_copy, &mut received, arrived) {
        received.lost = Some(format!("receiver, after {} bytes: {error:#}", received.bytes));
    }
    Ok(received)
}

fn receive_copies(
    connection: &mut TcpStream,
    bytes_per_copy: u64,
    received: &mut Received,
    arrived: &AtomicU64,
) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut digest = Sha256::new();
    let mut left = bytes_per_copy;
    loop {
        let room = CHUNK.min(usize::try_from(left)?);
        let length = match connection.read(&mut chunk[..room]) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        received.gaps.note(monotonic_ns()?);
        received.bytes += length as u64;
        arrived.store(received.bytes, Ordering::Relaxed);
        digest.update(&chunk[..length]);
        left -= length as u64;
        if left == 0 {
            received.sums.push(digest.finalize_reset().into());
            left = bytes_per_copy;
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
    fn half_a_copy_has_no_sum() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"half").unwrap();
        drop(client);
        let arrived = AtomicU64::new(0);
        let received = receive(&listener, 8, &arrived).unwrap();
        assert_eq!((received.bytes, received.sums.len()), (4, 0));
        assert_eq!(arrived.into_inner(), 4);
    }
}
