//! Round trips of one byte over one connection, as P4 measures them: from before the write to after the read.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use super::{Stream, accept};
use crate::netns::{Namespace, joined};

/// Longest round trip told apart from longer ones, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;

/// Times of many round trips.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    /// How many there were.
    pub count: u64,
    /// The median, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 were not longer, in microseconds.
    pub p99_us: f64,
    /// The longest, in microseconds.
    pub max_us: f64,
}

/// Plays from `client` to `server`, which has the address `at`, for the time `duration`.
///
/// # Errors
/// The connection cannot be made, or breaks.
pub fn play(
    client: &Namespace,
    server: &Namespace,
    at: SocketAddr,
    stream: Stream,
    duration: Duration,
) -> Result<RoundTrips> {
    let (listener, at) = server.enter(|| stream.listen(at))?.with_context(|| format!("listening at {at}"))?;
    let echo = server.spawn("echo", move || echo(&listener))?;
    let histogram = client.enter(|| strike(at, stream, duration))??;
    joined(echo)?;
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    Ok(RoundTrips {
        count: histogram.len(),
        p50_us: microseconds(histogram.value_at_quantile(0.5)),
        p99_us: microseconds(histogram.value_at_quantile(0.99)),
        max_us: microseconds(histogram.max()),
    })
}

/// Returns every byte of one connection.
fn echo(listener: &TcpListener) -> Result<()> {
    let mut connection = accept(listener)?;
    connection.set_nodelay(true)?;
    let mut byte = [0];
    loop {
        match connection.read_exact(&mut byte) {
            Ok(()) => connection.write_all(&byte)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn strike(at: SocketAddr, stream: Stream, duration: Duration) -> Result<Histogram<u64>> {
    let mut connection = stream.connect(at).with_context(|| format!("connecting to {at}"))?;
    connection.set_nodelay(true)?;
    let mut histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).context("a histogram of round trips")?;
    let mut byte = [0];
    let end = Instant::now() + duration;
    while Instant::now() < end {
        let start = Instant::now();
        connection.write_all(&byte)?;
        connection.read_exact(&mut byte)?;
        histogram.saturating_record(u64::try_from(start.elapsed().as_nanos())?);
    }
    Ok(histogram)
}
