//! Numbered datagrams at a steady rate: each one that is lost, doubled, late or damaged is known by its number.
//!
//! What the sender's device has no room for is not lost: the socket says so (IP_RECVERR), and it is sent again at the
//! next tick. So is what finds no device at all.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{setsockopt, sockopt::Ipv4RecvErr};
use rustix::net::sockopt;

use super::transfer::Gaps;
use super::{RECEIVE_BUFFER_BYTES, datagrams_at};
use crate::usual::*;

/// Bytes of the number in front of each payload.
const NUMBER: usize = 8;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// What has not come so long after the sender's end is lost.
const LOST_AFTER: Duration = Duration::from_millis(500);
const UNDER_WAY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Datagrams per second, at least 1.
    pub per_second: u32,
    /// Payload of each, at least 8 bytes.
    pub bytes: usize,
}

#[derive(Debug)]
pub struct Sequence {
    /// How many are to be sent; [`UNDER_WAY`] until the end is asked for or reached.
    total: Arc<AtomicU64>,
    sender: JoinHandle<Result<Vec<u64>>>,
    receiver: JoinHandle<Result<Received>>,
}

#[derive(Clone)]
pub struct Outcome {
    pub sent: u64,
    /// Different ones that came.
    pub received: u64,
    /// When each of those that did not come was sent, in nanoseconds of CLOCK_MONOTONIC.
    pub lost_at_ns: Vec<u64>,
    pub doubled: u64,
    /// Datagrams that came after one with a higher number.
    pub overtaken: u64,
    pub damaged: u64,
    pub gaps: Gaps,
}

#[derive(Debug, Default)]
struct Received {
    has_come: Vec<bool>,
    doubled: u64,
    overtaken: u64,
    damaged: u64,
    gaps: Gaps,
}

impl Sequence {
    /// Starts sending from `client` to `server`, which has the IPv4 address `at`, for at most `limit`.
    pub fn start(
        client: &Namespace,
        server: &Namespace,
        at: SocketAddr,
        pace: Pace,
        limit: Duration,
    ) -> Result<Sequence> {
        ensure!(pace.per_second >= 1 && pace.bytes >= NUMBER, "{pace:?}: at least 1 per second of 8 bytes");
        let socket = datagrams_at(server, at)?;
        // More than the kernel allows others, where it may be had.
        sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).ok();
        socket.set_read_timeout(Some(LOOK_AGAIN_AFTER))?;
        let sending_socket = connected(client, socket.local_addr()?)?;
        let total = Arc::new(AtomicU64::new(UNDER_WAY));
        let [receiving, sending] = [(); 2].map(|()| Arc::clone(&total));
        let receiver = server.spawn("receiver", move || receive(&socket, pace.bytes, limit, &receiving))?;
        let sender = client.spawn("sender", move || send(&sending_socket, pace, limit, &sending))?;
        Ok(Sequence { total, sender, receiver })
    }

    /// Ends the sending, waits for what is on its way, and tells what became of all.
    pub fn finish(self) -> Result<Outcome> {
        self.total.fetch_min(UNDER_WAY - 1, Ordering::Relaxed);
        self.outcome()
    }

    /// Waits until all that fits into the time limit has been sent, else as [`Sequence::finish`].
    pub fn outcome(self) -> Result<Outcome> {
        let sent_ns = joined(self.sender);
        let received = joined(self.receiver)?;
        Ok(received.compared_with(&sent_ns?))
    }
}

fn connected(client: &Namespace, to: SocketAddr) -> Result<UdpSocket> {
    let socket = client.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    setsockopt(&socket, Ipv4RecvErr, &true).context("IP_RECVERR")?;
    socket.connect(to)?;
    Ok(socket)
}

/// Sends at the pace until told to end or `limit` is over; returns when each was sent.
fn send(socket: &UdpSocket, pace: Pace, limit: Duration, total: &AtomicU64) -> Result<Vec<u64>> {
    let sent = send_all(socket, pace, limit, total);
    // On failure too: the receiver waits for it.
    total.store(sent.as_ref().map_or(0, |sent| sent.len() as u64), Ordering::Release);
    sent
}

fn send_all(socket: &UdpSocket, pace: Pace, limit: Duration, total: &AtomicU64) -> Result<Vec<u64>> {
    set_timerslack(1).context("PR_SET_TIMERSLACK")?;
    let interval = Duration::from_secs(1) / pace.per_second;
    let start = Instant::now();
    let mut sent_ns = Vec::new();
    while start.elapsed() < limit && total.load(Ordering::Relaxed) == UNDER_WAY {
        let number = sent_ns.len() as u64;
        let due = interval * u32::try_from(number)?;
        thread::sleep(due.saturating_sub(start.elapsed()));
        match socket.send(&datagram(number, pace.bytes)) {
            Ok(_) => {
                sent_ns.push(monotonic_ns()?);
                while number == 0 && start.elapsed() < limit && is_resolving(socket.peer_addr()?.ip()) {
                    thread::sleep(interval);
                }
            }
            Err(error) if is_not_sent(&error) => thread::sleep(interval),
            Err(error) => return Err(error).context("sending a datagram"),
        }
    }
    Ok(sent_ns)
}

/// Whether ARP still resolves a neighbour's address in this thread's namespace. The kernel queues what is sent meanwhile, and lets later
/// datagrams overtake it when the answer comes.
fn is_resolving(neighbour: IpAddr) -> bool {
    let known = fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
    known.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(&neighbour.to_string()) && words.nth(1) == Some("0x0")
    })
}

/// Whether the kernel says that a datagram has not left: no room, or no device with a route or the sender's address
/// (EINVAL).
fn is_not_sent(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::ENOBUFS | Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EINVAL))
}

/// Receives until all have come, or none has for a while after the last was sent.
fn receive(socket: &UdpSocket, bytes: usize, limit: Duration, total: &AtomicU64) -> Result<Received> {
    let mut received = Received::default();
    let mut buffer = vec![0; bytes + 1];
    let (end, mut last) = (Instant::now() + 2 * limit + LOST_AFTER, Instant::now());
    while Instant::now() < end {
        if let Ok(length) = socket.recv(&mut buffer) {
            last = Instant::now();
            received.take(&buffer[..length], bytes, monotonic_ns()?);
        }
        let total = total.load(Ordering::Acquire);
        let is_over = total < UNDER_WAY - 1;
        if is_over && (received.count() >= total || last.elapsed() > LOST_AFTER) {
            break;
        }
    }
    Ok(received)
}

/// The numbers of them, and the longest gap: what a failed check has to tell.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("sent", &self.sent)
            .field("received", &self.received)
            .field("lost", &self.lost_at_ns.len())
            .field("doubled", &self.doubled)
            .field("overtaken", &self.overtaken)
            .field("damaged", &self.damaged)
            .field("longest_gap", &self.gaps.longest())
            .finish()
    }
}

impl Received {
    fn take(&mut self, found: &[u8], bytes: usize, now_ns: u64) {
        let number = found.first_chunk::<NUMBER>().map(|number| u64::from_be_bytes(*number));
        let Some(number) = number.filter(|number| found == datagram(*number, bytes)) else {
            self.damaged += 1;
            return;
        };
        self.gaps.note(now_ns);
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        if self.has_come.get(place).copied().unwrap_or(false) {
            self.doubled += 1;
        } else if place < self.has_come.len() {
            self.overtaken += 1;
            self.has_come[place] = true;
        } else {
            self.has_come.resize(place, false);
            self.has_come.push(true);
        }
    }

    fn count(&self) -> u64 {
        self.has_come.iter().filter(|has_come| **has_come).count() as u64
    }

    fn compared_with(&self, sent_ns: &[u64]) -> Outcome {
        let has_come = |place: usize| self.has_come.get(place).copied().unwrap_or(false);
        let lost = sent_ns.iter().enumerate().filter(|(place, _)| !has_come(*place));
        Outcome {
            sent: sent_ns.len() as u64,
            received: self.count(),
            lost_at_ns: lost.map(|(_, at_ns)| *at_ns).collect(),
            doubled: self.doubled,
            overtaken: self.overtaken,
            damaged: self.damaged,
            gaps: self.gaps.clone(),
        }
    }
}

/// The number, and bytes that follow from it.
fn datagram(number: u64, bytes: usize) -> Vec<u8> {
    let filling = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let mut datagram = number.to_be_bytes().to_vec();
    datagram.extend(filling.into_iter().cycle().take(bytes.saturating_sub(NUMBER)));
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_is_told_from_the_others() {
        let mut received = Received::default();
        let mut broken = datagram(9, 20);
        broken[19] ^= 1;
        for (found, now_ns) in
            [(datagram(0, 20), 10), (datagram(3, 20), 40), (datagram(2, 20), 45), (datagram(2, 20), 46)]
        {
            received.take(&found, 20, now_ns);
        }
        received.take(&broken, 20, 99);
        received.take(&[1, 2], 20, 99);
        let outcome = received.compared_with(&[100, 101, 102, 103, 104]);
        assert_eq!((outcome.sent, outcome.received, outcome.lost_at_ns), (5, 3, vec![101, 104]));
        assert_eq!((outcome.doubled, outcome.overtaken, outcome.damaged), (1, 1, 2));
    }
}
