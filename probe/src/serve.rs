//! The server of every probe: it echoes messages, or receives and counts them.
//!
//! Any host on the network may connect, so everything is bounded ([`Limits`]): sessions at a time, the length of a
//! request and the time until it is there, silence, and the length of a session. A session with an unknown request
//! ends. No client gets more bytes than it has sent, but for a short line for each message that it wanted stamped, and only
//! the client that has connected gets any.

mod session;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IsTerminal};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::Error;
use crate::wire::{self, Answer};
pub(crate) use session::with_port;

const CHECK_EVERY: Duration = Duration::from_millis(200);
const BACKLOG: i32 = 64;
/// How long a server that cannot accept (no file descriptor, no memory) waits before it tries again.
const RECOVERY: Duration = Duration::from_millis(100);

/// Longest delay that can be asked for, in microseconds.
const DELAY_MAX_US: u64 = 1_000_000;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at a time; further ones are refused.
    pub sessions: usize,
    /// Sessions of one address at a time: it leaves room for others.
    pub of_one: usize,
    /// Time until the request must be there.
    pub request: Duration,
    /// Time without a byte after which a session ends.
    pub silence: Duration,
    /// Length of a session.
    pub session: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 64,
            of_one: 32,
            request: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            session: Duration::from_secs(3_600),
        }
    }
}

/// Messages that a server answers late: a fault that tests of `rtt` look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Messages of fewer bytes than this.
    pub below: u32,
    /// How much later they are answered, at least; the kernel adds the slack of its timers.
    pub by: Duration,
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Delay, String> {
        let delay = || {
            let (below, by) = text.split_once(',')?;
            let (below, micros) = (below.parse().ok()?, by.parse().ok()?);
            (micros <= DELAY_MAX_US).then_some(Delay { below, by: Duration::from_micros(micros) })
        };
        delay()
            .ok_or_else(|| format!("allowed: bytes and microseconds, up to {DELAY_MAX_US}, such as 1024,100"))
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
    delay: Option<Delay>,
    open: Open,
}

type Open = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

impl Server {
    /// Listens at `address`; at `[::]` also for IPv4.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Server> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        // SO_RCVTIMEO bounds accept(2) as well.
        socket.set_read_timeout(Some(CHECK_EVERY))?;
        Ok(Server { listener: socket.into(), limits, delay: None, open: Arc::default() })
    }

    /// The same with a fault in its answers.
    pub fn delayed(self, delay: Option<Delay>) -> Server {
        Server { delay, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` is true; sessions under way end with the process.
    pub fn run(&self, end: impl Fn() -> bool) -> io::Result<()> {
        while !end() {
            match self.listener.accept() {
                Ok((stream, from)) => self.admit(stream, from),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    ErrorKind::InvalidInput => return Err(error),
                    _ => {
                        tracing::warn!("cannot accept a connection: {error}");
                        thread::sleep(RECOVERY);
                    }
                },
            }
        }
        Ok(())
    }

    fn admit(&self, mut stream: TcpStream, from: SocketAddr) {
        let seat = match Seat::take(&self.open, &self.limits, from.ip().to_canonical()) {
            Ok(seat) => seat,
            Err(why) => {
                // A new connection has room for a line; a client that does not read it sees the connection end.
                let _ = wire::write_line(&mut stream, &Answer::Refused(why));
                return;
            }
        };
        let (limits, delay) = (self.limits, self.delay);
        let session = move || {
            // The connection ends when its seat is free, so that the next one of who sees the end finds room.
            let _connection = stream.try_clone();
            let _seat = seat;
            match session::serve(stream, from, &limits, delay) {
                Ok(done) => tracing::info!("{from}: {done}"),
                Err(error) => tracing::info!("{from}: session ended: {error}"),
            }
        };
        if let Err(error) = thread::Builder::new().name("session".to_owned()).spawn(session) {
            tracing::warn!("{from}: no thread for a session: {error}");
        }
    }
}

/// One of the sessions that may be open at a time; given back when it is dropped.
struct Seat {
    open: Open,
    address: IpAddr,
}

impl Seat {
    fn take(open: &Open, limits: &Limits, address: IpAddr) -> Result<Seat, String> {
        let mut seats = open.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, its) = (seats.values().sum::<usize>(), seats.get(&address).copied().unwrap_or_default());
        if all >= limits.sessions {
            return Err(format!("{all} sessions are open, and no more are allowed"));
        }
        if its >= limits.of_one {
            return Err(format!(
                "{its} sessions of {address} are open, and no more of one address are allowed"
            ));
        }
        seats.insert(address, its + 1);
        Ok(Seat { open: Arc::clone(open), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let left = seats.remove(&self.address).unwrap_or_default() - 1;
        if left > 0 {
            seats.insert(self.address, left);
        }
    }
}

fn in_time(end: Instant) -> io::Result<()> {
    let over = || io::Error::new(ErrorKind::TimedOut, "it lasted longer than a session may");
    (Instant::now() < end).then_some(()).ok_or_else(over)
}

/// Variable with the filter, the daemon's: a level (`debug`), or levels by module.
const VARIABLE: &str = "TABANE_LOG";

/// Starts the log at level INFO, or as `TABANE_LOG` says.
pub(crate) fn start_log() -> Result<(), Error> {
    let typed = std::env::var(VARIABLE).unwrap_or_default();
    let allowed = "off, error, warn, info, debug, trace, or such levels by module";
    let filter = filter(typed.trim())
        .map_err(|error| Error::Refused(format!("{VARIABLE}: {error}; allowed: {allowed}")))?;
    // A line that stderr does not take is lost; the server goes on.
    let log = tracing_subscriber::fmt().compact().with_max_level(LevelFilter::TRACE).with_writer(io::stderr);
    let log = log.log_internal_errors(false).with_ansi(io::stderr().is_terminal()).with_target(false);
    // Tests start the log more than once; the first one stays.
    let _ = log.finish().with(filter).try_init();
    Ok(())
}

/// What is let through: `typed`, and INFO of every module that it does not speak of.
fn filter(typed: &str) -> Result<Targets, ParseError> {
    let typed: Targets = if typed.is_empty() { Targets::new() } else { typed.parse()? };
    let level = typed.default_level().unwrap_or(LevelFilter::INFO);
    Ok(typed.with_default(level))
}
