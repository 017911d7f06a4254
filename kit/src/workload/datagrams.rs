//! Small datagrams as fast as one thread can send them, one system call each, and how many arrive.

use std::io::ErrorKind;
use std::net::UdpSocket;

use super::datagrams_at;
use crate::usual::*;

/// Silence after which the receiver takes the flow for ended.
const ENDED_AFTER: Duration = Duration::from_millis(300);
/// Datagrams between two looks at the clock.
const BURST: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Accepted by the sending socket, per second.
    pub sent_per_second: f64,
    /// Read from the receiving socket, per second.
    pub received_per_second: f64,
    /// Share of those sent that were not received, 0 to 1.
    pub lost: f64,
}

/// Sends datagrams with `bytes` of payload from `client` to `server`, which has the address `at`.
pub fn blast(
    client: &Namespace,
    server: &Namespace,
    at: SocketAddr,
    bytes: usize,
    duration: Duration,
) -> Result<Outcome> {
    let receiver = datagrams_at(server, at)?;
    let at = receiver.local_addr()?;
    let counting = server.spawn("receiver", move || count(&receiver, bytes, duration))?;
    let sent = client.enter(|| send(at, bytes, duration))??;
    let received = joined(counting)?;
    let seconds = duration.as_secs_f64();
    Ok(Outcome {
        sent_per_second: sent as f64 / seconds,
        received_per_second: received as f64 / seconds,
        lost: 1.0 - received as f64 / sent as f64,
    })
}

fn send(at: SocketAddr, bytes: usize, duration: Duration) -> Result<u64> {
    let any = if at.is_ipv4() { SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)) } else { "[::]:0".parse()? };
    let socket = UdpSocket::bind(any)?;
    socket.connect(at).with_context(|| format!("connecting to {at}"))?;
    let datagram = vec![0x55; bytes];
    let (mut sent, end) = (0, Instant::now() + duration);
    while Instant::now() < end {
        for _ in 0..BURST {
            match socket.send(&datagram) {
                Ok(_) => sent += 1,
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(NO_BUFFERS) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(sent)
}

/// ENOBUFS: a full device queue refuses a datagram, which is then not counted as sent.
const NO_BUFFERS: i32 = nix::errno::Errno::ENOBUFS as i32;

/// Counts datagrams of the right size until none comes for a while; waits for the first one a little longer.
fn count(socket: &UdpSocket, bytes: usize, duration: Duration) -> Result<u64> {
    let mut buffer = vec![0; bytes + 1];
    let mut received = 0;
    socket.set_read_timeout(Some(duration))?;
    let end = Instant::now() + 2 * duration + ENDED_AFTER;
    while Instant::now() < end {
        match socket.recv(&mut buffer) {
            Ok(length) => received += u64::from(length == bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
        if received == 1 {
            socket.set_read_timeout(Some(ENDED_AFTER))?;
        }
    }
    anyhow::ensure!(received > 0, "none of the datagrams arrived");
    Ok(received)
}
