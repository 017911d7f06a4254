//! Datagrams at an offered rate, each returned by an echo: how long they take, and how many come back.
//!
//! The sender sleeps until the next one is due and then sends all that are, so that it leaves the processors to others; at
//! rates beyond some ten thousand a second they go in small bursts. Nobody waits for an answer before the next question.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use rustix::thread::set_current_timer_slack;

use super::datagrams_at;
use super::ping_pong::{RoundTrips, histogram};
use crate::netns::Running;
use crate::usual::*;

/// Payload of a datagram; it begins with the time at which it was sent.
const BYTES: usize = 64;
/// Datagrams between two looks at the clock.
const BURST: u128 = 64;
const SECOND_NS: u128 = 1_000_000_000;
/// How often a thread that waits for datagrams looks whether it is over, and how long what is on its way may take.
const LOOK: Duration = Duration::from_millis(100);
/// How late the sender may wake up, in nanoseconds.
const TIMER_SLACK: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Round trips of those that came back.
    pub trips: RoundTrips,
    /// Came back, per second.
    pub returned_per_second: f64,
}

/// Offers `per_second` datagrams for the time `duration`, from `client` to `server`, which has the address `at`.
pub fn offer(
    client: &Namespace,
    server: &Namespace,
    at: SocketAddr,
    per_second: u64,
    duration: Duration,
) -> Result<Outcome> {
    let bound = |host: &Namespace, at: SocketAddr| -> Result<UdpSocket> {
        let socket = datagrams_at(host, at)?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(socket)
    };
    let echo = bound(server, at)?;
    let socket = bound(client, (Ipv4Addr::UNSPECIFIED, 0).into())?;
    socket.connect(echo.local_addr()?).with_context(|| format!("connecting to {at}"))?;
    let echoing = Running::start(server, "echo", move |over| give_back(&echo, over))?;
    let (reader, start) = (socket.try_clone()?, Instant::now());
    let reading = Running::start(client, "reader", move |over| read(&reader, start, over))?;
    let sent = client.enter(|| send(&socket, start, per_second, duration))?;
    echoing.end()?;
    let times = reading.end()?;
    let sent = sent?;
    ensure!(!times.is_empty(), "none of {sent} datagrams came back");
    let returned_per_second = times.len() as f64 / duration.as_secs_f64();
    Ok(Outcome { trips: RoundTrips::of(&times), returned_per_second })
}

fn send(socket: &UdpSocket, start: Instant, per_second: u64, duration: Duration) -> Result<u64> {
    set_current_timer_slack(NonZeroU64::new(TIMER_SLACK)).context("the sender's timer slack")?;
    let (begin, mut datagram) = (start.elapsed(), [0; BYTES]);
    let (mut offered, mut sent) = (0, 0);
    loop {
        let passed = start.elapsed().saturating_sub(begin);
        if passed >= duration {
            return Ok(sent);
        }
        let due = 1 + passed.as_nanos() * u128::from(per_second) / SECOND_NS;
        for _ in 0..(due - offered).min(BURST) {
            let now = u64::try_from(start.elapsed().as_nanos())?;
            datagram[..8].copy_from_slice(&now.to_le_bytes());
            // A full device refuses a datagram, and an echo that has ended none that matters.
            sent += u64::from(socket.send(&datagram).is_ok());
            offered += 1;
        }
        let next = u64::try_from(offered * SECOND_NS / u128::from(per_second))?;
        thread::sleep((begin + Duration::from_nanos(next)).saturating_sub(start.elapsed()));
    }
}

fn give_back(socket: &UdpSocket, over: &AtomicBool) -> Result<()> {
    let mut datagram = [0; BYTES];
    loop {
        match socket.recv_from(&mut datagram) {
            Ok((length, from)) => drop(socket.send_to(&datagram[..length], from)),
            Err(error) if is_silence(&error) && over.load(Ordering::Relaxed) => return Ok(()),
            Err(error) if is_silence(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read(socket: &UdpSocket, start: Instant, over: &AtomicBool) -> Result<Histogram<u64>> {
    let (mut times, mut datagram) = (histogram()?, [0; BYTES]);
    loop {
        match socket.recv(&mut datagram) {
            Ok(BYTES) => {
                let sent = datagram.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                let now = u64::try_from(start.elapsed().as_nanos())?;
                times.saturating_record(now.saturating_sub(sent).max(1));
            }
            Ok(_) => {}
            Err(error) if is_silence(&error) && over.load(Ordering::Relaxed) => return Ok(times),
            Err(error) if is_silence(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_silence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
