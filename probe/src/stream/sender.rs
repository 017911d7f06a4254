//! A sender: a process that connects, waits for its start, sends until its end, and reports what it did.
//!
//! Its protocol is JSON lines: it writes [`Word::Ready`], reads a [`Plan`] and writes [`Word::Done`]. When its standard
//! input ends, it ends as well, so no sender outlives the process that started it.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::clock::{Clock, Pace};
use crate::connection::Server;
use crate::output::Interruption;
use crate::output::print;
use crate::wire::{Ask, Received};

/// How often a sender that waits for its start checks whether to end.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// When a sender sends, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) origin_ns: u64,
    pub(super) interval_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    /// It is connected, from this local port.
    Ready(u16),
    Done(Done),
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// Bytes that the socket took, in each interval.
    pub(super) bytes: Vec<u64>,
    pub(super) received: Received,
}

/// A process of `tabane probe stream`
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    server: String,
    size: u32,
    #[arg(long)]
    mbit: Option<f64>,
}

impl Options {
    pub(super) fn arguments(server: &str, size: u32, mbit: Option<f64>) -> Vec<String> {
        let mbit = mbit.map(|mbit| format!("--mbit={mbit}"));
        [server.to_owned(), size.to_string()].into_iter().chain(mbit).collect()
    }
}

/// Runs a sender; reports a failure to the process that started it.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let last = serve(options).map_or_else(|error| Word::Failed(error.to_string()), Word::Done);
    say(&last)
}

fn serve(options: &Options) -> Result<Done, Error> {
    let interruption = Interruption::listen()?;
    let server = Server::find(&options.server)?;
    let mut stream = server.ask(Ask::Sink)?;
    let port = stream.local_addr().map_err(Error::doing("asking for the local port"))?.port();
    say(&Word::Ready(port))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Error::doing("waiting for the start"))?;
    let plan: Plan = serde_json::from_str(&line).map_err(|_| {
        Error::Refused("a sender is started by `tabane probe stream`, and by nothing else".to_owned())
    })?;
    let ended = watch_input();
    let ends = || interruption.came() || ended.load(Ordering::Relaxed);
    let bytes = send(&mut stream, options, plan, ends)?;
    Ok(Done { bytes, received: server.settle(stream)? })
}

fn say(word: &Word) -> Result<(), Error> {
    let line = serde_json::to_string(word).map_err(io::Error::from).map_err(Error::doing("writing JSON"))?;
    print(&format!("{line}\n"))
}

fn watch_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    // The thread ends with the process, as a read that waits cannot be ended.
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// Sends from the start to the end of the plan; the bytes of each interval.
fn send(
    stream: &mut TcpStream,
    options: &Options,
    plan: Plan,
    ends: impl Fn() -> bool,
) -> Result<Vec<u64>, Error> {
    let message = vec![0; options.size as usize];
    let intervals = (plan.end_ns - plan.origin_ns).div_ceil(plan.interval_ns.max(1));
    let mut bytes = vec![0; usize::try_from(intervals).unwrap_or(usize::MAX)];
    while now_ns() < plan.start_ns && !ends() {
        let left = Duration::from_nanos(plan.start_ns.saturating_sub(now_ns()));
        thread::sleep(left.min(CHECK_EVERY));
    }
    let clock = Clock::start();
    // One clock of its own is read per message instead of two.
    let (base_ns, mut now) = (now_ns(), now_ns());
    let mut pace = Pace::new(options.size, options.mbit, 0);
    while now < plan.end_ns && !ends() {
        pace.wait(clock);
        stream.write_all(&message).map_err(Error::doing(format!("sending {} B", options.size)))?;
        now = base_ns + clock.now_ns();
        let interval = usize::try_from((now - plan.origin_ns) / plan.interval_ns).unwrap_or(usize::MAX);
        if let Some(count) = bytes.get_mut(interval) {
            *count += message.len() as u64;
        }
    }
    Ok(bytes)
}

/// CLOCK_MONOTONIC in nanoseconds: the same for all processes of a machine.
pub(super) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

// Which sender a frame is from that leaves a NIC: reads the TCP source port from its headers.
//
// Sources: RFC 791, RFC 8200, RFC 9293, IEEE 802.1Q.

const ETHERNET: usize = 12;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Tags of a VLAN, and of a service VLAN around it; each takes 4 bytes.
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const TCP: u8 = 6;
const IPV6_HEADER: usize = 40;

/// Bytes of a frame that hold all these headers.
pub(super) const SNAP: usize = 128;

/// The TCP source port, and the length of the IP packet; `None` for all that is not TCP right over IP.
pub(super) fn sender_of(frame: &[u8]) -> Option<(u16, u64)> {
    let mut place = ETHERNET;
    while TAGS.contains(&pair(frame, place)?) {
        place += 4;
    }
    let packet = frame.get(place + 2..)?;
    match pair(frame, place)? {
        IPV4 => {
            let header = usize::from(packet.first()? & 0x0f) * 4;
            let is_first = u16::from_be_bytes(pair(packet, 6)?) & 0x1fff == 0;
            (packet.get(9)? == &TCP && is_first).then_some(())?;
            Some((port(packet, header)?, length(packet, 2, 0)?))
        }
        IPV6 => {
            (packet.get(6)? == &TCP).then_some(())?;
            Some((port(packet, IPV6_HEADER)?, length(packet, 4, IPV6_HEADER as u64)?))
        }
        _ => None,
    }
}

fn port(packet: &[u8], place: usize) -> Option<u16> {
    pair(packet, place).map(u16::from_be_bytes)
}

/// A length field; 0 stands for superframes of more than 64 KB.
fn length(packet: &[u8], place: usize, more: u64) -> Option<u64> {
    let length = u64::from(u16::from_be_bytes(pair(packet, place)?));
    Some(if length == 0 { 1 << 16 } else { length + more })
}

fn pair(bytes: &[u8], place: usize) -> Option<[u8; 2]> {
    bytes.get(place..place + 2)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of zeros with these bytes at these places.
    fn frame(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut frame = vec![0; 90];
        for (place, bytes) in parts {
            frame[*place..place + bytes.len()].copy_from_slice(bytes);
        }
        frame
    }

    #[test]
    fn ports_are_found_behind_any_headers() {
        let plain = frame(&[(12, &IPV4), (14, &[0x45, 0, 0x05, 0xdc]), (23, &[TCP]), (34, &[0x9c, 0x40])]);
        assert_eq!(sender_of(&plain), Some((40_000, 1_500)));
        let tagged = frame(&[
            (12, &[0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00]),
            (22, &[0x46, 0, 0, 64]),
            (31, &[TCP]),
            (46, &[0, 80]),
        ]);
        assert_eq!(sender_of(&tagged), Some((80, 64)));
        let six = frame(&[(12, &IPV6), (18, &[0x10, 0x00, TCP]), (54, &[0, 80])]);
        assert_eq!(sender_of(&six), Some((80, 4_136)));
    }

    #[test]
    fn what_is_not_tcp_has_no_sender() {
        let udp = frame(&[(12, &IPV4), (14, &[0x45, 0, 0, 99]), (23, &[17])]);
        let later_fragment = frame(&[(12, &IPV4), (14, &[0x45, 0, 0, 99]), (20, &[0, 1]), (23, &[TCP])]);
        for other in [udp, later_fragment, frame(&[(12, &[0x88, 0xb5])]), vec![]] {
            assert_eq!(sender_of(&other), None);
        }
    }

    proptest! {
        #[test]
        fn no_frame_panics(frame in prop::collection::vec(any::<u8>(), 0..SNAP)) {
            let _ = sender_of(&frame);
        }
    }
}
