//! Which NIC carries which sender: a thread samples the frames that leave.
//!
//! To receive all frames would cost the senders a copy of each. A sample of some milliseconds, ten times a second, has
//! enough frames to show how a sender is spread; between samples, a filter keeps all frames out. (Closing the socket
//! instead makes the kernel wait for its processors; under load, seconds went by without a sample.) It takes
//! CAP_NET_RAW. It does not see what a frame of a bundle carries.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket};
use socket2::{SockFilter, SockRef};

use super::sender::{SNAP, now_ns, sender_of};
use crate::Error;

const SAMPLE: Duration = Duration::from_millis(5);
const FRAMES_MAX: usize = 2_048;
/// From the end of a sample to the next one.
const PAUSE: Duration = Duration::from_millis(95);
const NOTHING: Duration = Duration::from_micros(500);
const QUEUE_MAX: usize = 65_536;
/// The instruction of a filter that returns how many bytes of a frame are taken (`BPF_RET | BPF_K`, linux/filter.h).
const RETURN: u16 = 0x06;
/// A frame that leaves this machine (`PACKET_OUTGOING`, linux/if_packet.h).
const OUTGOING: u8 = 4;

/// Bytes that were seen of each sender on each NIC: one list of NICs for each sender.
pub(super) type Seen = Vec<Vec<u64>>;

/// Which senders and NICs to sample, and when intervals begin.
pub(super) struct Subject {
    indexes: Vec<usize>,
    ports: Vec<u16>,
    origin_ns: u64,
    interval_ns: u64,
}

pub(super) struct Sampler {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Seen>>,
}

impl Subject {
    pub(super) fn new(
        nics: &[String],
        ports: Vec<u16>,
        origin_ns: u64,
        interval_ns: u64,
    ) -> Result<Subject, Error> {
        let index = |nic: &String| if_nametoindex(nic.as_str()).map(|index| index as usize);
        let indexes = nics.iter().map(index).collect::<nix::Result<_>>();
        let indexes = indexes.map_err(io::Error::from).map_err(Error::doing("finding the NICs"))?;
        Ok(Subject { indexes, ports, origin_ns, interval_ns })
    }
}

impl Sampler {
    /// Starts the thread; `None` when this process may not sample.
    pub(super) fn start(subject: Subject) -> Option<Sampler> {
        let shutter = Shutter::closed().ok()?;
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let mut seen = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                // A sample that fails is empty; the next one may succeed.
                let _ = subject.sample(&shutter, &mut seen);
                thread::park_timeout(PAUSE);
            }
            seen
        });
        Some(Sampler { end, thread })
    }

    pub(super) fn finish(self) -> Vec<Seen> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Subject {
    fn sample(&self, shutter: &Shutter, seen: &mut Vec<Seen>) -> io::Result<()> {
        let _open = shutter.open()?;
        let end = Instant::now() + SAMPLE;
        let mut frame = [0; SNAP];
        for _ in 0..FRAMES_MAX {
            match recvfrom::<LinkAddr>(shutter.socket.as_raw_fd(), &mut frame).map_err(io::Error::from) {
                Ok((length, Some(from))) if from.pkttype() == OUTGOING => {
                    self.note(&frame[..length.min(SNAP)], from.ifindex(), seen);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(NOTHING),
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    fn note(&self, frame: &[u8], index: usize, seen: &mut Vec<Seen>) {
        let nic = self.indexes.iter().position(|known| *known == index);
        let sender = sender_of(frame);
        let number = sender.and_then(|(port, _)| self.ports.iter().position(|known| *known == port));
        let (Some(nic), Some(number), Some((_, bytes))) = (nic, number, sender) else { return };
        let interval = now_ns().saturating_sub(self.origin_ns) / self.interval_ns.max(1);
        let interval = usize::try_from(interval).unwrap_or(usize::MAX).min(super::INTERVALS_MAX);
        while seen.len() <= interval {
            seen.push(vec![vec![0; self.indexes.len()]; self.ports.len()]);
        }
        seen[interval][number][nic] += bytes;
    }
}

/// A socket that sees every frame of every NIC while it is open.
struct Shutter {
    socket: OwnedFd,
}

struct Open<'a>(&'a Shutter);

impl Shutter {
    fn closed() -> io::Result<Shutter> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
        let shutter = Shutter { socket };
        shutter.close()?;
        Ok(shutter)
    }

    fn open(&self) -> io::Result<Open<'_>> {
        // Frames in the queue are of an earlier sample; the queue holds no more than so many.
        let mut old = [0; SNAP];
        let is_old = |_: &usize| recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut old).is_ok();
        let _ = (0..QUEUE_MAX).take_while(is_old).count();
        SockRef::from(&self.socket).detach_filter()?;
        Ok(Open(self))
    }

    fn close(&self) -> io::Result<()> {
        SockRef::from(&self.socket).attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // A shutter that stays open only fills the socket's queue.
        let _ = self.0.close();
    }
}

const COUNTERS: &str = "/proc/thread-self/net/dev";
const SENT: usize = 8;

pub(super) struct Nics {
    names: Vec<String>,
}

impl Nics {
    pub(super) fn open(names: &[String]) -> Result<Nics, Error> {
        let nics = Nics { names: names.to_vec() };
        nics.sent().map(|_| nics)
    }

    pub(super) fn sent(&self) -> Result<Vec<u64>, Error> {
        let text = fs::read_to_string(COUNTERS).map_err(Error::doing(COUNTERS))?;
        let of = |name: &String| {
            sent(&text, name).ok_or_else(|| {
                let there: Vec<&str> =
                    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
                Error::Refused(format!("no NIC `{name}`; allowed: {}", there.join(", ")))
            })
        };
        self.names.iter().map(of).collect()
    }
}

fn sent(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().nth(SENT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_the_ninth_number() {
        let text =
            "Inter-|   Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 900 10\n  eth1: 0 0 0 0 0 0 0 0 77 0\n";
        assert_eq!((sent(text, "lo"), sent(text, "eth1"), sent(text, "eth")), (Some(900), Some(77), None));
    }

    #[test]
    fn a_nic_that_is_not_there_is_refused() {
        assert!(Nics::open(&["lo".to_owned()]).is_ok());
        let sentence = Nics::open(&["no-such".to_owned()]).err().expect("refused").to_string();
        assert!(sentence.starts_with("no NIC `no-such`; allowed: ") && sentence.contains("lo"), "{sentence}");
    }
}
