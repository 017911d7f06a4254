//! A TCP socket whose messages the kernel stamps with the time (`SO_TIMESTAMPING`), in software, on their way out and in.
//!
//! A message gets a stamp when it enters the queueing discipline, one when the driver takes it, and one when the driver
//! hands it to the stack of the other machine. The stamps of what was sent come back through the socket's error queue,
//! each with the number of the message's last byte; of a message in several segments the last one is stamped.
//! Source: Documentation/networking/timestamping.rst, Linux 6.18. `veth`, `lo`, `tun` and virtio-net stamp as other
//! drivers do; a driver that does not leaves [`Sent::driver`] empty.

use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt};

/// Flags of the kernel that nix has no name for (`linux/net_tstamp.h`).
const TX_SCHED: u32 = 1 << 8;
const OPT_ID_TCP: u32 = 1 << 16;
/// What `ee_info` of a stamp says (`linux/errqueue.h`).
const DRIVER: u32 = 0;
const QUEUED: u32 = 1;
/// Control messages of one call: a stamp takes 64 bytes, what it belongs to 48 at most.
const CONTROL_BYTES: usize = 256;
/// Messages that may be sent before the stamps of one have come.
const LATE_MAX: usize = 4;

const BEGINS_WITHIN: Duration = Duration::from_millis(200);

/// Nanoseconds since 1970, by the clock of the stamps.
pub(crate) type Moment = u64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) called: Moment,
    /// When it entered the queueing discipline.
    pub(crate) queued: Option<Moment>,
    pub(crate) driver: Option<Moment>,
    /// The number of its last byte, counted as the kernel does.
    last: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// When its last segment came from the driver.
    pub(crate) arrived: Option<Moment>,
    pub(crate) returned: Moment,
}

/// While this lives, the kernel stamps all that arrives. It begins a moment after the first socket of the machine has asked for that.
#[derive(Debug)]
pub(crate) struct Arrivals {
    _socket: UdpSocket,
}

impl Arrivals {
    pub(crate) fn begin() -> io::Result<Arrivals> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let flags =
            TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
        setsockopt(&socket, Timestamping, &flags)?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(BEGINS_WITHIN))?;
        let (began, mut control) = (Instant::now(), [0; CONTROL_BYTES]);
        while began.elapsed() < BEGINS_WITHIN {
            socket.send(&[0])?;
            let mut byte = [0];
            let parts = &mut [IoSliceMut::new(&mut byte)];
            let message = recvmsg::<()>(socket.as_raw_fd(), parts, Some(&mut control), MsgFlags::empty())?;
            if message.cmsgs()?.any(|part| matches!(part, ControlMessageOwned::ScmTimestampsns(_))) {
                break;
            }
        }
        Ok(Arrivals { _socket: socket })
    }
}

#[derive(Debug)]
pub(crate) struct Stamped {
    stream: TcpStream,
    sent: Vec<Sent>,
    next: u32,
    control: Vec<u8>,
    _arrivals: Arrivals,
}

impl Stamped {
    pub(crate) fn new(stream: TcpStream, room: usize, arrivals: Arrivals) -> io::Result<Stamped> {
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
            | TimestampingFlag::from_bits_retain(TX_SCHED | OPT_ID_TCP);
        setsockopt(&stream, Timestamping, &flags)?;
        let (sent, control) = (Vec::with_capacity(room), vec![0; CONTROL_BYTES]);
        Ok(Stamped { stream, sent, next: 0, control, _arrivals: arrivals })
    }

    pub(crate) fn now() -> Moment {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the kernel counts bytes modulo 2^32, too")]
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.next = self.next.wrapping_add(message.len() as u32);
        let last = self.next.wrapping_sub(1);
        self.sent.push(Sent { called: Stamped::now(), queued: None, driver: None, last });
        self.stream.write_all(message)
    }

    /// Receives up to the whole `buffer`; how many bytes came, 0 at the end.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Received)> {
        let mut parts = [IoSliceMut::new(buffer)];
        let message = loop {
            let control = Some(&mut self.control[..]);
            match recvmsg::<()>(self.stream.as_raw_fd(), &mut parts, control, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                other => break other?,
            }
        };
        let returned = Stamped::now();
        let stamp =
            |part| if let ControlMessageOwned::ScmTimestampsns(times) = part { Some(times) } else { None };
        let arrived = message.cmsgs()?.find_map(stamp).and_then(|times| moment(times.system.into()));
        Ok((message.bytes, Received { arrived, returned }))
    }

    pub(crate) fn receive_all(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let (mut done, mut last) = (0, None);
        while done < buffer.len() {
            let (came, received) = self.receive(&mut buffer[done..])?;
            if came == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            done += came;
            last = Some(received);
        }
        Ok(last)
    }

    pub(crate) fn collect(&mut self) -> io::Result<()> {
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        loop {
            let control = Some(&mut self.control[..]);
            let message = match recvmsg::<()>(self.stream.as_raw_fd(), &mut [], control, flags) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let (mut at, mut of) = (None, None);
            for part in message.cmsgs()? {
                match part {
                    ControlMessageOwned::ScmTimestampsns(times) => at = moment(times.system.into()),
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                        of = Some((error.ee_info, error.ee_data));
                    }
                    _ => {}
                }
            }
            let Some((kind, last)) = of else { continue };
            let sent = self.sent.iter_mut().rev().take(LATE_MAX).find(|sent| sent.last == last);
            let Some(sent) = sent else { continue };
            // A segment that is sent again is stamped again: the first stamp counts.
            match kind {
                QUEUED => sent.queued = sent.queued.or(at),
                DRIVER => sent.driver = sent.driver.or(at),
                _ => {}
            }
        }
    }

    pub(crate) fn end(self) -> (TcpStream, Vec<Sent>) {
        (self.stream, self.sent)
    }
}

impl Sent {
    #[cfg(test)]
    pub(crate) fn stamped(called: Moment, queued: Option<Moment>, driver: Option<Moment>) -> Sent {
        Sent { called, queued, driver, last: 0 }
    }
}

/// `None` for a stamp that is not there, which is 0.
fn moment(since: Duration) -> Option<Moment> {
    u64::try_from(since.as_nanos()).ok().filter(|moment| *moment > 0)
}
