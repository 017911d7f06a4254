//! A file sent to another machine, which makes it, too, compares every byte, and answers whether all are right.
//!
//! [`super::transfer`] has both ends in this process; here each is on a machine of its own.
//!
//! ```text
//!   sender ── length and seed, 8 bytes each, little-endian ── the file ──> taker
//!          <── 1, or 0 ──
//! ```

use std::io::{Read, Write};
use std::net::TcpListener;

use serde::{Deserialize, Serialize};

use super::transfer::Source;
use super::{Stream, accept};
use crate::usual::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub bytes: u64,
    /// From the first byte to the answer.
    pub seconds: f64,
    /// It arrived as it was sent.
    pub is_whole: bool,
}

impl Delivery {
    /// Mean speed in 10^6 bits per second.
    pub fn mbit(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds
    }
}

/// Sends the file of `bytes` random bytes made from `seed` to the taker at `to`, from the namespace of the calling thread.
pub fn send(to: SocketAddr, bytes: u64, seed: u64) -> Result<Delivery> {
    let mut source = Source::random(bytes, seed);
    let mut connection = Stream::Tcp.connect(to).with_context(|| format!("connecting to {to}"))?;
    let began = Instant::now();
    connection.write_all(&[bytes, seed].map(u64::to_le_bytes).concat())?;
    while let Some(chunk) = source.next() {
        connection.write_all(chunk)?;
    }
    let mut answer = [0];
    connection.read_exact(&mut answer).context("the answer of the other end")?;
    Ok(Delivery { bytes, seconds: began.elapsed().as_secs_f64(), is_whole: answer == [1] })
}

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

    pub fn take(&self) -> Result<()> {
        let mut connection = accept(&self.listener).context("nobody sends a file")?;
        let [mut length, mut seed] = [[0; 8]; 2];
        connection.read_exact(&mut length)?;
        connection.read_exact(&mut seed)?;
        let mut expected = Source::random(u64::from_le_bytes(length), u64::from_le_bytes(seed));
        let (mut found, mut is_whole) = (Vec::new(), true);
        while let Some(chunk) = expected.next() {
            found.resize(chunk.len(), 0);
            connection.read_exact(&mut found).context("the sender went away before the end")?;
            is_whole &= found == chunk;
        }
        Ok(connection.write_all(&[is_whole.into()])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 600_005;

    #[test]
    fn a_file_is_whole_unless_a_byte_is_another() {
        let taker = Taker::listen(0).unwrap();
        let at = (Ipv4Addr::LOCALHOST, taker.listener.local_addr().unwrap().port());
        let taking = thread::spawn(move || (0..2).for_each(|_| taker.take().unwrap()));
        let delivery = send(at.into(), BYTES, 1).unwrap();
        assert!(delivery.is_whole && delivery.bytes == BYTES, "{delivery:?}");

        let mut connection = Stream::Tcp.connect(at.into()).unwrap();
        connection.write_all(&[4, 1].map(u64::to_le_bytes).concat()).unwrap();
        connection.write_all(&[0; 4]).unwrap();
        let mut answer = [7];
        connection.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0]);
        taking.join().unwrap();
    }
}
