//! A file sent to another machine, which answers with the SHA-256 that it has computed.
//!
//! [`super::transfer`] has both ends in this process; here each is on a machine of its own.
//!
//! ```text
//!   sender ── length, 8 bytes, little-endian ── the file ──> taker
//!          <── SHA-256, 32 bytes ──
//! ```

use std::io::{Read, Write};
use std::net::TcpListener;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::transfer::Source;
use super::{Stream, accept};
use crate::usual::*;

type Sum = [u8; 32];

const CHUNK: usize = 64 << 10;

/// A file that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// Its length.
    pub bytes: u64,
    /// From the first byte to the answer.
    pub seconds: f64,
    /// Both ends have the same sum.
    pub sha256_ok: bool,
}

impl Delivery {
    /// Mean speed in 10^6 bits per second.
    pub fn mbit(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds
    }
}

/// Sends `source` to the taker at `to`, from the namespace of the calling thread.
pub fn send(to: SocketAddr, source: &mut Source) -> Result<Delivery> {
    let mut digest = Sha256::new();
    while let Some(chunk) = source.next() {
        digest.update(chunk);
    }
    let sum = Sum::from(digest.finalize());
    let mut connection = Stream::Tcp.connect(to).with_context(|| format!("connecting to {to}"))?;
    let began = Instant::now();
    connection.write_all(&source.bytes().to_le_bytes())?;
    while let Some(chunk) = source.next() {
        connection.write_all(chunk)?;
    }
    let mut answer = Sum::default();
    connection.read_exact(&mut answer).context("the sum of the other end")?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Delivery { bytes: source.bytes(), seconds, sha256_ok: answer == sum })
}

/// Who takes files, one connection after the other.
#[derive(Debug)]
pub struct Taker {
    listener: TcpListener,
}

impl Taker {
    /// Listens at `port` in the namespace of the calling thread.
    pub fn listen(port: u16) -> Result<Taker> {
        let (listener, _) = Stream::Tcp.listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))?;
        Ok(Taker { listener })
    }

    /// Takes the next file.
    pub fn take(&self) -> Result<()> {
        let mut connection = accept(&self.listener).context("nobody sends a file")?;
        let mut length = [0; 8];
        connection.read_exact(&mut length)?;
        let mut left = u64::from_le_bytes(length);
        let (mut digest, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
        while left > 0 {
            let room = chunk.len().min(usize::try_from(left)?);
            let length = connection.read(&mut chunk[..room])?;
            anyhow::ensure!(length > 0, "the sender went away {left} bytes before the end");
            digest.update(&chunk[..length]);
            left -= length as u64;
        }
        Ok(connection.write_all(&digest.finalize())?)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const BYTES: usize = 3 * CHUNK + 5;

    fn deliver(taker: Taker, takes: fn(Taker)) -> Delivery {
        let port = taker.listener.local_addr().unwrap().port();
        let taking = thread::spawn(move || takes(taker));
        let mut source = Source::random(BYTES as u64, 1);
        let delivery = send(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), &mut source).unwrap();
        taking.join().unwrap();
        delivery
    }

    #[test]
    fn both_ends_have_the_same_sum() {
        let delivery = deliver(Taker::listen(0).unwrap(), |taker| taker.take().unwrap());
        assert!(delivery.sha256_ok && delivery.bytes == BYTES as u64, "{delivery:?}");
    }

    #[test]
    fn another_file_has_another_sum() {
        let delivery = deliver(Taker::listen(0).unwrap(), |taker| {
            let mut connection = accept(&taker.listener).unwrap();
            connection.read_exact(&mut [0; 8 + BYTES]).unwrap();
            connection.write_all(&Sum::default()).unwrap();
        });
        assert!(!delivery.sha256_ok, "{delivery:?}");
    }
}
