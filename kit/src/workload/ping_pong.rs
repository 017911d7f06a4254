//! Round trips of one byte over one connection, as P4 measures them: from before the write to after the read.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{SILENCE_MAX, Stream, accept};
use crate::usual::*;

/// Longest round trip told apart from longer ones, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    pub count: u64,
    /// The median, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 were not longer, in microseconds.
    pub p99_us: f64,
}

/// Plays from `client` to `server`, which has the address `at`, for the time `duration`.
pub fn play(
    client: &Namespace,
    server: &Namespace,
    at: SocketAddr,
    stream: Stream,
    duration: Duration,
) -> Result<RoundTrips> {
    let (listener, at) = server.enter(|| stream.listen(at))?.with_context(|| format!("listening at {at}"))?;
    let echo = server.spawn("echo", move || answer(&listener))?;
    let histogram = client.enter(|| call(at, stream, duration))??;
    joined(echo)?;
    Ok(RoundTrips::of(&histogram))
}

/// Plays between two threads, over a pair of Unix sockets, for the time `duration`.
pub fn play_at_home(duration: Duration) -> Result<RoundTrips> {
    let (near, far) = UnixStream::pair()?;
    for end in [&near, &far] {
        end.set_read_timeout(Some(SILENCE_MAX))?;
    }
    let echo = thread::spawn(move || echo(far));
    let histogram = strike(near, duration)?;
    joined(echo)?;
    Ok(RoundTrips::of(&histogram))
}

impl RoundTrips {
    /// What these times, in nanoseconds, come to.
    pub fn of(times: &Histogram<u64>) -> RoundTrips {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        RoundTrips {
            count: times.len(),
            p50_us: microseconds(times.value_at_quantile(0.5)),
            p99_us: microseconds(times.value_at_quantile(0.99)),
        }
    }
}

/// A histogram of times in nanoseconds, as [`RoundTrips::of`] takes it.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).context("a histogram of round trips")
}

fn answer(listener: &TcpListener) -> Result<()> {
    let connection = accept(listener)?;
    connection.set_nodelay(true)?;
    echo(connection)
}

fn echo(mut connection: impl Read + Write) -> Result<()> {
    let mut byte = [0];
    loop {
        match connection.read_exact(&mut byte) {
            Ok(()) => connection.write_all(&byte)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn call(at: SocketAddr, stream: Stream, duration: Duration) -> Result<Histogram<u64>> {
    let connection = stream.connect(at).with_context(|| format!("connecting to {at}"))?;
    connection.set_nodelay(true)?;
    strike(connection, duration)
}

fn strike(mut connection: impl Read + Write, duration: Duration) -> Result<Histogram<u64>> {
    let mut histogram = histogram()?;
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

// A byte stream that does not leave its machine's memory: a pair of Unix sockets, as fast as two threads can use it.

/// Bytes of one call: what iperf3 takes for TCP.
const CALL_BYTES: usize = 128 << 10;

/// Sends for the time `duration`; returns the bytes that were read.
pub fn stream_at_home(duration: Duration) -> Result<u64> {
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

// ICMP echo requests, by busybox.

/// Seconds between two requests.
const INTERVAL: &str = "0.2";
/// Longest that all of them take: busybox waits 10 s for the last answer.
const END_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pings {
    pub sent: u64,
    /// Round trips of those that were answered, in milliseconds, in order.
    pub trips_ms: Vec<f64>,
}

impl Pings {
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.trips_ms.len() as u64)
    }
}

/// Sends `count` requests, at most 200, from `host` to `to`.
pub fn ping(host: &Namespace, to: IpAddr, count: u32) -> Result<Pings> {
    let mut command = host.command("busybox");
    command.args(["ping", "-c", &count.to_string(), "-i", INTERVAL, &to.to_string()]);
    let ending = Process::start(command)?.wait(END_WITHIN)?;
    parse(&ending.output).with_context(|| format!("ping {to}: {}", ending.last_words()))
}

fn parse(output: &str) -> Option<Pings> {
    let summary = output.lines().find(|line| line.contains("packets transmitted"))?;
    let sent = summary.split_whitespace().next()?.parse().ok()?;
    let trip = |line: &str| line.split_once("time=")?.1.strip_suffix(" ms")?.parse().ok();
    Some(Pings { sent, trips_ms: output.lines().filter_map(trip).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = stream_at_home(Duration::from_millis(20)).unwrap();
        assert!(bytes > 0 && bytes.is_multiple_of(CALL_BYTES as u64), "{bytes}");
    }

    #[test]
    fn answers_are_counted_and_timed() {
        let output = "PING 10.77.0.2 (10.77.0.2): 56 data bytes\n\
                      64 bytes from 10.77.0.2: seq=0 ttl=64 time=0.185 ms\n\
                      64 bytes from 10.77.0.2: seq=2 ttl=64 time=12.5 ms\n\n\
                      --- 10.77.0.2 ping statistics ---\n\
                      3 packets transmitted, 2 packets received, 33% packet loss\n\
                      round-trip min/avg/max = 0.185/6.342/12.5 ms\n";
        let pings = parse(output).unwrap();
        assert_eq!((pings.lost(), pings), (1, Pings { sent: 3, trips_ms: vec![0.185, 12.5] }));
        assert_eq!(parse("ping: bad address"), None);
    }
}
