//! One connection at the server, from its request to its end.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use super::{Delay, Limits, datagrams, in_time};
use crate::wire::{self, Answer, Ask, ECHO_MAX, Received, Request, SIZES_MAX, VERSION};

/// What a sink reads at a time, in bytes.
const GULP: usize = 256 * 1024;

/// What a session did, for the log.
pub(super) enum Done {
    /// It returned so many messages.
    Echoed(u64),
    /// It took so much.
    Took(Received),
    /// Its request was refused.
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

/// Does what the request on `stream` says.
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
        Ask::Sink => sink(&mut stream, None, end).map(Done::Took),
        Ask::Answer { size } => sink(&mut stream, Some(size), end).map(Done::Took),
        Ask::Datagrams { port } => datagrams::count(&mut stream, port, limits).map(Done::Took),
    }
}

fn check(request: &Request) -> Result<(), String> {
    if request.probe != VERSION {
        return Err(format!("version {} is not known here; allowed: {VERSION}", request.probe));
    }
    let sizes = match &request.ask {
        Ask::Echo { sizes } => sizes.as_slice(),
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
        let size = *sizes.get(usize::from(buffer[0])).ok_or(ErrorKind::InvalidData)?;
        let message = &mut buffer[..size as usize];
        // The other side waits for the answer before it sends another message.
        stream.read_exact(message.get_mut(came..).ok_or(ErrorKind::InvalidData)?)?;
        if let Some(delay) = delay.filter(|delay| size < delay.below) {
            thread::sleep(delay.by);
        }
        stream.write_all(message)?;
        count += 1;
        in_time(end)?;
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
