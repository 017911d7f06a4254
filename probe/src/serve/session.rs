//! One connection at the server, from its request to its end.

use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use socket2::SockRef;

use super::{Delay, Limits, in_time};
use crate::stamped::{self, Arrivals, Sent, Stamped};
use crate::wire::{self, Answer, Ask, ECHO_MAX, Passage, Received, Request, SIZES_MAX, STAMPED_MAX, VERSION};

const GULP: usize = 256 * 1024;

pub(super) enum Done {
    Echoed(u64),
    Took(Received),
    Refused(String),
}

impl fmt::Display for Done {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Done::Echoed(count) => write!(out, "{count} messages echoed"),
            Done::Took(received) => write!(out, "{} bytes received", received.bytes),
            Done::Refused(why) => write!(out, "refused: {why}"),
        }
    }
}

pub(super) fn serve(
    mut stream: TcpStream,
    from: SocketAddr,
    limits: &Limits,
    delay: Option<Delay>,
) -> io::Result<Done> {
    let end = Instant::now() + limits.session;
    stream.set_write_timeout(Some(limits.request))?;
    let request: Request = wire::read_line(&mut stream, limits.request)?;
    if let Err(why) = check(&request) {
        wire::write_line(&mut stream, &Answer::Refused(why.clone()))?;
        return Ok(Done::Refused(why));
    }
    tracing::info!("{from}: {:?}", request.ask);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limits.silence))?;
    stream.set_write_timeout(Some(limits.silence))?;
    match request.ask {
        Ask::Echo { sizes } => echo(&mut stream, &sizes, delay, end).map(Done::Echoed),
        Ask::StampedEcho { sizes } => stamped_echo(stream, &sizes, delay, end).map(Done::Echoed),
        Ask::Sink => sink(&mut stream, None, end).map(Done::Took),
        Ask::Answer { size } => sink(&mut stream, Some(size), end).map(Done::Took),
        Ask::Datagrams { port } => count(&mut stream, port, limits).map(Done::Took),
    }
}

fn check(request: &Request) -> Result<(), String> {
    if request.probe != VERSION {
        return Err(format!("version {} is not known here; allowed: {VERSION}", request.probe));
    }
    let sizes = match &request.ask {
        Ask::Echo { sizes } | Ask::StampedEcho { sizes } => sizes.as_slice(),
        Ask::Answer { size } => std::slice::from_ref(size),
        Ask::Sink | Ask::Datagrams { .. } => return Ok(()),
    };
    if !(1..=SIZES_MAX).contains(&sizes.len()) {
        return Err(format!("messages of {} sizes cannot be echoed; allowed: 1 to {SIZES_MAX}", sizes.len()));
    }
    sizes.iter().find(|size| !(1..=ECHO_MAX).contains(*size)).map_or(Ok(()), |size| {
        Err(format!("a message of {size} bytes cannot be answered; allowed: 1 to {ECHO_MAX}"))
    })
}

/// Returns messages until the other side closes; the first byte of each is the place of its size.
fn echo(stream: &mut TcpStream, sizes: &[u32], delay: Option<Delay>, end: Instant) -> io::Result<u64> {
    wire::write_line(stream, &Answer::Ready { port: None })?;
    let mut buffer = vec![0; sizes.iter().copied().max().unwrap_or_default() as usize];
    let mut count = 0;
    loop {
        // A message that comes in one piece takes one call, whatever its size.
        let came = match stream.read(&mut buffer) {
            Ok(0) => return Ok(count),
            Ok(came) => came,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let message = whole(&mut buffer, sizes)?;
        // The other side waits for the answer before it sends another message.
        stream.read_exact(message.get_mut(came..).ok_or(ErrorKind::InvalidData)?)?;
        late(message, delay);
        stream.write_all(message)?;
        count += 1;
        in_time(end)?;
    }
}

/// The same, and says at the end how long each message was here.
fn stamped_echo(mut stream: TcpStream, sizes: &[u32], delay: Option<Delay>, end: Instant) -> io::Result<u64> {
    let arrivals = Arrivals::begin()?;
    wire::write_line(&mut stream, &Answer::Ready { port: None })?;
    let (mut stream, mut received) = (Stamped::new(stream, 0, arrivals)?, Vec::new());
    let mut buffer = vec![0; sizes.iter().copied().max().unwrap_or_default() as usize];
    loop {
        let (came, mut last) = stream.receive(&mut buffer)?;
        if came == 0 {
            break;
        }
        let message = whole(&mut buffer, sizes)?;
        let rest = message.get_mut(came..).ok_or(ErrorKind::InvalidData)?;
        last = stream.receive_all(rest)?.unwrap_or(last);
        if received.len() == STAMPED_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        received.push(last);
        late(message, delay);
        stream.send(message)?;
        stream.collect()?;
        in_time(end)?;
    }
    let (stream, sent) = stream.end();
    let mut out = BufWriter::new(stream);
    for (received, sent) in received.iter().zip(&sent) {
        serde_json::to_writer(&mut out, &passage(received, sent))?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(received.len() as u64)
}

/// How long a message was here; `None` where a stamp is missing, or the clock was set meanwhile.
fn passage(received: &stamped::Received, sent: &Sent) -> Option<Passage> {
    let moments = [received.arrived?, received.returned, sent.called, sent.queued?, sent.driver?];
    let mut passage = [0; 4];
    for (place, duration) in passage.iter_mut().enumerate() {
        *duration = moments[place + 1].checked_sub(moments[place])?;
    }
    Some(passage)
}

/// The message that begins in `buffer`: its first byte is the place of its size.
fn whole<'a>(buffer: &'a mut [u8], sizes: &[u32]) -> io::Result<&'a mut [u8]> {
    let size = *sizes.get(usize::from(buffer[0])).ok_or(ErrorKind::InvalidData)?;
    Ok(&mut buffer[..size as usize])
}

fn late(message: &[u8], delay: Option<Delay>) {
    if let Some(delay) = delay.filter(|delay| message.len() < delay.below as usize) {
        thread::sleep(delay.by);
    }
}

/// Receives until the other side closes its direction, and reports how much it was. Each message of `answered` bytes is answered
/// by one byte.
fn sink(stream: &mut TcpStream, answered: Option<u32>, end: Instant) -> io::Result<Received> {
    wire::write_line(stream, &Answer::Ready { port: None })?;
    let mut buffer = vec![0; GULP];
    let mut received = Received::default();
    let mut first = None;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let begin = *first.get_or_insert_with(Instant::now);
                received.note(count, begin.elapsed());
                // The other side waits for the answer, so no message begins in the bytes of another.
                if answered.is_some_and(|size| received.bytes.is_multiple_of(size.into())) {
                    stream.write_all(&[0])?;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        in_time(end)?;
    }
    wire::write_line(stream, &Answer::Received(received))?;
    Ok(received)
}

const DATAGRAM_MAX: usize = 65_536;
/// Wanted buffer of the socket; the kernel grants what its limits allow.
const BUFFER_BYTES: usize = 8 << 20;
/// Silence after which no datagram is on its way any more, and the pause between two checks of the connection.
const QUIET: Duration = Duration::from_millis(100);
const CHECK_EVERY: u64 = 4_096;

/// Counts datagrams from `port` of the one at the other end of `stream` until that one has no more.
pub(super) fn count(stream: &mut TcpStream, port: u16, limits: &Limits) -> io::Result<Received> {
    let socket = socket(stream, port)?;
    wire::write_line(stream, &Answer::Ready { port: Some(socket.local_addr()?.port()) })?;
    stream.set_nonblocking(true)?;
    let end = Instant::now() + limits.session;
    let mut last = Instant::now();
    let mut buffer = vec![0; DATAGRAM_MAX];
    let (mut received, mut first, mut ended) = (Received::default(), None, false);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                last = Instant::now();
                received.note(length, last.duration_since(*first.get_or_insert(last)));
            }
            Err(error) if is_pause(&error) && ended => break,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if received.messages.is_multiple_of(CHECK_EVERY) || last.elapsed() >= QUIET {
            ended |= has_ended(stream)?;
            in_time(end)?;
            if last.elapsed() > limits.silence {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
    stream.set_nonblocking(false)?;
    wire::write_line(stream, &Answer::Received(received))?;
    Ok(received)
}

fn socket(stream: &TcpStream, port: u16) -> io::Result<UdpSocket> {
    let (here, there) = (stream.local_addr()?, stream.peer_addr()?);
    let socket = UdpSocket::bind(with_port(here, 0))?;
    socket.connect(with_port(there, port))?;
    SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES)?;
    socket.set_read_timeout(Some(QUIET))?;
    Ok(socket)
}

/// `address` with another port. IPv4 that came to an IPv6 socket is IPv4 again; the scope of a link-local address
/// stays.
pub(crate) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(_) => address,
    }
}

/// Whether nothing came for a while, or the probe's host reports that no socket listens there, as after the probe has
/// closed it.
fn is_pause(error: &io::Error) -> bool {
    let pauses = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionRefused];
    pauses.contains(&error.kind())
}

/// Whether the probe has closed its direction of the connection, on which it sends nothing.
fn has_ended(stream: &mut TcpStream) -> io::Result<bool> {
    match stream.read(&mut [0]) {
        Ok(0) => Ok(true),
        Ok(_) => Err(ErrorKind::InvalidData.into()),
        Err(error) if is_pause(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
