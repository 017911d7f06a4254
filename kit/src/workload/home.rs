//! A byte stream that does not leave its machine's memory: a pair of Unix sockets, as fast as two threads can use it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::SILENCE_MAX;
use crate::netns::joined;

/// Bytes of one call: what iperf3 takes for TCP.
const CALL_BYTES: usize = 128 << 10;

/// Sends for the time `duration`; returns the bytes that were read.
pub fn stream(duration: Duration) -> Result<u64> {
    let (mut near, far) = UnixStream::pair()?;
    near.set_write_timeout(Some(SILENCE_MAX))?;
    far.set_read_timeout(Some(SILENCE_MAX))?;
    let reader = thread::spawn(move || read(far));
    let (chunk, end) = (vec![0x55; CALL_BYTES], Instant::now() + duration);
    while Instant::now() < end {
        near.write_all(&chunk)?;
    }
    drop(near);
    joined(reader)
}

fn read(mut from: UnixStream) -> Result<u64> {
    let (mut chunk, mut bytes) = (vec![0; CALL_BYTES], 0);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes += length as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = stream(Duration::from_millis(20)).unwrap();
        assert!(bytes > 0 && bytes.is_multiple_of(CALL_BYTES as u64), "{bytes}");
    }
}
