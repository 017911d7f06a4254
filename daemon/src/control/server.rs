//! The bundle's end of the control socket: one thread serves many clients and waits for none of them.
//!
//! Each client has at most one answer under way, and a deadline; lines, clients and requests per turn are bounded.
//! Clients that follow the event log have places of their own ([`Follower`]), so that they take none of the others'.
//! [`Listener::bind`] takes the name before any device exists; clients that connect early wait until
//! [`Listener::serve`].

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use serde::Serialize;
use tabane_api::socket::{address, connect_now, peer_of};
use tabane_api::{Answer, REQUESTS, Request};
use tabane_io::Waker;
use tabane_process::sandbox::account::Group;

use super::follower::Follower;
use super::gate::{Gate, Right};
use super::outgoing::{Outgoing, not_now};
use crate::events::EventLog;

/// Clients served at once that may change the bundle; further ones wait in the kernel.
pub(super) const CLIENTS_MAX: usize = 16;
/// Watchers served at once, beside them; a further one takes the place of the one that is served for longest.
const WATCHERS_MAX: usize = 8;
/// Watchers get the same status again for this time: it costs the data path something each time.
const STATUS_FOR: Duration = Duration::from_millis(50);
/// Followers of the event log served at once; further ones are refused.
pub(super) const FOLLOWERS_MAX: usize = 64;
/// Longest request line, in bytes: a configuration.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;
const TOO_LONG: &str = "the request is longer than 1 MiB";
/// How long a client may take to send its request, and to take its answer.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
const REQUESTS_PER_TURN: usize = 16;
/// Connections accepted per turn: a client that is refused takes no place, and may connect again and again.
pub(super) const ACCEPTS_PER_TURN: usize = CLIENTS_MAX;
/// Pause after a failed accept (no file descriptors left) or poll, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Why the name could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{name} is already up (pid {pid}); `tabane down {name}` ends it")]
    AlreadyRunning { name: String, pid: i32 },
    #[error("the name {name} is taken by a process that takes no connection; `ss -xlp` names it")]
    Busy { name: String },
    #[error("cannot open the control socket: {0}")]
    Io(#[from] io::Error),
}

/// A taken name: while it lives, no other bundle of this name comes up in this network namespace.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    gate: Gate,
}

impl Listener {
    pub fn bind(name: &str) -> Result<Listener, BindError> {
        const TRIES: usize = 3;
        let address = address(name)?;
        let mut refusal = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let flags = SocketFlags::CLOEXEC;
            let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                .map_err(io::Error::from)?;
            match net::bind(&socket, &address) {
                Ok(()) => return Listener::adopt(socket).map_err(BindError::Io),
                Err(error) if error == rustix::io::Errno::ADDRINUSE => refusal = error.into(),
                Err(error) => return Err(BindError::Io(error.into())),
            }
            // The process that has the name may end between the two calls; then the name is free at the next try.
            match connect_now(name) {
                Ok(stream) => {
                    let pid = peer_of(&stream)?.pid;
                    return Err(BindError::AlreadyRunning { name: name.to_owned(), pid });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(BindError::Busy { name: name.to_owned() });
                }
                Err(_) => {}
            }
        }
        Err(refusal.into())
    }

    /// Lets the members of these groups ask, too.
    #[must_use]
    pub fn open_to(self, groups: &[(Group, Right)]) -> Listener {
        Listener { gate: self.gate.open_to(groups), ..self }
    }

    /// Serves clients on a thread of its own. There `handler` makes the answer to each request, and clients that follow
    /// `log` get its events.
    pub fn serve<A: Serialize>(
        &self,
        log: Arc<EventLog>,
        mut handler: impl FnMut(Request) -> A + Send + 'static,
    ) -> io::Result<Server> {
        let handler = Box::new(move |request| line_of(&handler(request)));
        self.socket.set_nonblocking(true)?;
        let stop = Arc::new(Waker::new()?);
        let (sender, takers) = channel();
        let news = Arc::new(Waker::new()?);
        let service = Service {
            socket: self.socket.try_clone()?,
            gate: self.gate.clone(),
            stop: Arc::clone(&stop),
            answers: Answers { handler, status: None },
            log,
            clients: Vec::new(),
            followers: Vec::new(),
            takers: (sender, Arc::clone(&news)),
            accept_from: Instant::now(),
            errors: 0,
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || service.run())?;
        Ok(Server { stop, thread: Some(thread), takers, news })
    }

    /// Takes over the name that another process hands over. From now on clients see this process as the one that
    /// serves.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Listener> {
        listen(&socket)?;
        Ok(Listener { socket: socket.into(), gate: Gate::new() })
    }

    /// Keeps the name after a handover that failed: clients see this process again, although another may have adopted
    /// the name.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let listens = getsockopt(&self.socket, PeerCredentials)?.pid();
        if u32::try_from(listens) == Ok(std::process::id()) { Ok(()) } else { listen(&self.socket) }
    }
}

/// Makes clients see this process and its present user: the kernel keeps the credentials of the last listen (unix(7),
/// `SO_PEERCRED`).
fn listen(socket: impl AsFd) -> io::Result<()> {
    const BACKLOG: i32 = 128;
    Ok(rustix::net::listen(socket, BACKLOG)?)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A served name. Dropping it ends the thread; clients then wait until the name is served again or given back.
#[derive(Debug)]
pub struct Server {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
    takers: Receiver<UnixStream>,
    news: Arc<Waker>,
}

impl Server {
    /// The next process that wants to take the bundle over. To be called when the server is readable.
    pub(crate) fn next_taker(&self) -> Option<UnixStream> {
        // A waker that cannot be cleared wakes again; the channel says whether there is one.
        let _ = self.news.clear();
        self.takers.try_recv().ok()
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The kernel refuses no eventfd.
        let _ = self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct Service {
    socket: UnixListener,
    gate: Gate,
    stop: Arc<Waker>,
    answers: Answers,
    log: Arc<EventLog>,
    /// In the order in which they came.
    clients: Vec<Client>,
    followers: Vec<Follower>,
    /// Where connections of processes that want to take over go, and the waker of the thread that takes them.
    takers: (Sender<UnixStream>, Arc<Waker>),
    /// No client is accepted before this time.
    accept_from: Instant,
    errors: u64,
}

impl Service {
    fn run(mut self) {
        while self.wait() {
            let now = Instant::now();
            let answers = &mut self.answers;
            self.clients.retain_mut(|client| now < client.deadline && client.turn(answers, now));
            self.move_on();
            self.log.clear_news();
            self.followers.retain_mut(|follower| follower.turn(&self.log));
            self.accept(now);
        }
        self.followers.retain_mut(|follower| follower.turn(&self.log));
    }

    /// Moves clients that follow the log to the followers, as far as there are places, and those that want to take over
    /// to the main thread.
    fn move_on(&mut self) {
        while let Some(index) = self.clients.iter().position(|client| client.leaves.is_some()) {
            let mut client = self.clients.remove(index);
            if client.leaves == Some(Request::Upgrade) {
                let (takers, news) = &self.takers;
                // If the server is being dropped, the client sees the connection end.
                let _ = takers.send(client.stream).map(|()| news.wake());
            } else if self.followers.len() < FOLLOWERS_MAX {
                self.followers.push(Follower::new(client.stream, &self.log));
            } else {
                client.close_with(&format!("{FOLLOWERS_MAX} followers are served already"));
                // A client that does not take this sees the connection end.
                let _ = client.flush();
            }
        }
    }

    /// Waits until there is something to do; `false` when the server is to stop.
    fn wait(&mut self) -> bool {
        let now = Instant::now();
        let accepting = !is_full(&self.clients) && now >= self.accept_from;
        let mut fds = vec![PollFd::new(&*self.stop, PollFlags::IN), PollFd::new(&*self.log, PollFlags::IN)];
        fds.extend(self.clients.iter().map(|client| PollFd::new(&client.stream, client.waits_for())));
        fds.extend(self.followers.iter().map(|follower| PollFd::new(follower, follower.waits_for())));
        fds.extend(accepting.then(|| PollFd::new(&self.socket, PollFlags::IN)));
        let paused = (now < self.accept_from).then_some(self.accept_from);
        let wake = self.clients.iter().map(|client| client.wakes_at(now)).chain(paused).min();
        let timeout = wake.and_then(|wake| Timespec::try_from(wake.saturating_duration_since(now)).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds[0].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => true,
            Err(error) => {
                drop(fds);
                self.count_error("poll", &error.into());
                std::thread::sleep(PAUSE);
                !matches!(self.stop.clear(), Ok(true))
            }
        }
    }

    /// Counts an error, and logs it at each power of two.
    fn count_error(&mut self, what: &str, error: &io::Error) {
        self.errors += 1;
        if self.errors.is_power_of_two() {
            let count = self.errors;
            tracing::warn!(%error, count, "the control socket cannot {what}, which is tried again");
        }
    }

    fn accept(&mut self, now: Instant) {
        if now < self.accept_from {
            return;
        }
        let (socket, gate) = (&self.socket, &self.gate);
        let next = || socket.accept().map(|(stream, _)| Client::admit(stream, gate, now));
        if let Err(error) = admit_some(&mut self.clients, next) {
            self.count_error("accept", &error);
            self.accept_from = now + PAUSE;
        }
    }
}

/// What answers requests.
struct Answers {
    handler: Box<dyn FnMut(Request) -> String + Send>,
    status: Option<(Instant, String)>,
}

impl Answers {
    fn answer(&mut self, now: Instant, right: Right, request: Request) -> String {
        let is_status = request == Request::Status;
        let fresh = self.status.as_ref().filter(|(at, _)| now.saturating_duration_since(*at) < STATUS_FOR);
        if let Some((_, status)) = fresh.filter(|_| is_status && right == Right::Watcher) {
            return status.clone();
        }
        let answer = (self.handler)(request);
        if is_status {
            self.status = Some((now, answer.clone()));
        }
        answer
    }
}

fn line_of(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// Whether all places are taken but those of watchers.
fn is_full(clients: &[Client]) -> bool {
    clients.iter().filter(|client| client.right != Right::Watcher).count() >= CLIENTS_MAX
}

/// Admits clients from `next` connections as far as there are places; `next` gives `None` for one that is refused.
pub(super) fn admit_some(
    clients: &mut Vec<Client>,
    mut next: impl FnMut() -> io::Result<Option<Client>>,
) -> io::Result<()> {
    for _ in 0..ACCEPTS_PER_TURN {
        if is_full(clients) {
            break;
        }
        match next() {
            Ok(client) => {
                clients.extend(client);
                let watches = |client: &Client| client.right == Right::Watcher;
                if clients.iter().filter(|client| watches(client)).count() > WATCHERS_MAX {
                    clients.iter().position(watches).map(|longest| clients.remove(longest));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One connection.
pub(super) struct Client {
    stream: UnixStream,
    right: Right,
    /// Bytes received and not yet answered: one line and one read at most.
    input: Vec<u8>,
    /// So many of them, the first ones, hold no end of a line.
    searched: usize,
    /// The answer under way.
    output: Outgoing,
    /// When the client is dropped unless it goes on.
    deadline: Instant,
    /// Whether no further request is read.
    closing: bool,
    /// The request to follow the event log or to take over, after which it is no longer a client of this kind.
    leaves: Option<Request>,
}

impl Client {
    /// Admits a client if it may ask.
    fn admit(stream: UnixStream, gate: &Gate, now: Instant) -> Option<Client> {
        stream.set_nonblocking(true).ok()?;
        let (right, refusal) = match gate.right(&stream).ok()? {
            Ok(right) => (right, None),
            Err(refusal) => (Right::Operator, Some(refusal)),
        };
        let deadline = now + CLIENT_TIMEOUT;
        let (input, output) = (Vec::new(), Outgoing::default());
        let (searched, closing, leaves) = (0, false, None);
        let mut client = Client { stream, right, input, searched, output, deadline, closing, leaves };
        if let Some(refusal) = refusal {
            client.close_with(&refusal);
            client.flush().ok()?;
            return None;
        }
        Some(client)
    }

    fn waits_for(&self) -> PollFlags {
        self.output.waits_for()
    }

    /// When its turn comes although the socket is not ready: now, if a request is left from its last turn.
    fn wakes_at(&self, now: Instant) -> Instant {
        if self.output.is_empty() && self.input[self.searched..].contains(&b'\n') {
            now
        } else {
            self.deadline
        }
    }

    /// Serves the client as far as possible without waiting; `false` when it is done.
    fn turn(&mut self, answers: &mut Answers, now: Instant) -> bool {
        self.try_turn(answers, now).unwrap_or(false)
    }

    fn try_turn(&mut self, answers: &mut Answers, now: Instant) -> io::Result<bool> {
        for _ in 0..REQUESTS_PER_TURN {
            if !self.flush()? {
                return Ok(true);
            }
            if self.closing {
                return Ok(false);
            }
            if self.leaves.is_some() {
                return Ok(true);
            }
            if let Some(end) = self.line_end() {
                self.answer(end, answers, now);
                self.deadline = now + CLIENT_TIMEOUT;
            } else if self.input.len() > LINE_BYTES_MAX {
                self.close_with(TOO_LONG);
            } else if !self.read()? {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Where the first line ends, if it does.
    fn line_end(&mut self) -> Option<usize> {
        let end = self.input[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.searched + end);
        self.searched = end.unwrap_or(self.input.len());
        end
    }

    fn answer(&mut self, end: usize, answers: &mut Answers, now: Instant) {
        if end > LINE_BYTES_MAX {
            return self.close_with(TOO_LONG);
        }
        let request = serde_json::from_slice(&self.input[..end]);
        let refusal = request.as_ref().ok().and_then(|request| self.right.refusal(request));
        match (request, refusal) {
            (Ok(_), Some(refusal)) => self.close_with(refusal),
            (Ok(request @ (Request::Follow | Request::Upgrade)), None) => self.leaves = Some(request),
            (Ok(request), None) => self.output.push(&answers.answer(now, self.right, request)),
            (Err(_), _) => self.close_with(&format!("unknown request; allowed: {REQUESTS}")),
        }
        self.input.drain(..=end);
        self.searched = 0;
    }

    fn close_with(&mut self, error: &str) {
        self.output.push(&line_of(&Answer::Refused { error: error.to_owned() }));
        self.closing = true;
    }

    /// Reads once; `false` when there is nothing now.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                self.input.extend_from_slice(&chunk[..length]);
                Ok(true)
            }
            Err(error) => not_now(error),
        }
    }

    /// Sends the rest of the answer; `false` when the client has to take some of it first.
    fn flush(&mut self) -> io::Result<bool> {
        self.output.flush(&mut self.stream)
    }
}
