//! What open pages are told while it happens: the status of each bundle four times a second and soon after each event, and its
//! events at once.
//!
//! ```text
//!   list     a thread: which bundles are up, once a second ── starts ──> observe
//!   observe  a thread per bundle: asks for its status, reads its event log ──> all feeds
//!   Feed     an open page: messages that wait to be sent to it
//! ```
//!
//! Threads ask only while a page is open, so a bundle pays for who looks. A page that does not read is let go: it comes back
//! and gets the present state. A bundle that ends stays with its last state, marked as gone, until it is back.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use futures_core::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tabane_api::{AskError, Entry, Present, Request, Status, open_request, status_of};
use tabane_process::locked;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::bundles::{Shown, shown};

/// Time between two questions for a status, as `tabane top` asks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time between two of them when something has happened.
const INTERVAL_LEAST: Duration = Duration::from_millis(100);
/// Time between two looks at which bundles are up.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
const RATE_WINDOW_NS: u64 = 1_000_000_000;
/// Pages that are open at once.
const PAGES_MAX: usize = 32;
const MESSAGES_MAX: usize = 256;
/// Events of a bundle that a new page gets; as many as a bundle keeps.
const EVENTS_MAX: usize = 256;

/// What a page is told.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Said<'a> {
    Bundles {
        names: &'a [String],
    },
    /// A bundle's status, without its events.
    Status {
        bundle: &'a str,
        status: &'a Status,
        shown: Shown,
    },
    /// A bundle gives no status, and why.
    Gone {
        bundle: &'a str,
        reason: String,
    },
    /// Events of a bundle; `anew`: those before are forgotten.
    Events {
        bundle: &'a str,
        anew: bool,
        events: &'a [Entry],
    },
}

type Message = Arc<str>;

/// What pages are told, for all of them.
#[derive(Clone)]
pub(crate) struct Live(Arc<Inner>);

struct Inner {
    present: Mutex<Present>,
    state: Mutex<State>,
    /// The first page is open, or there is none any more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pages: Vec<Sender<Message>>,
    names: Option<(Vec<String>, Message)>,
    bundles: BTreeMap<String, Kept>,
}

/// What a new page is told of a bundle.
#[derive(Default)]
struct Kept {
    state: Option<Message>,
    events: Vec<Entry>,
}

impl Live {
    /// Tells pages of the bundles that `present` lists.
    pub(crate) fn start(present: Present) -> io::Result<Self> {
        let (present, state) = (Mutex::new(present), Mutex::default());
        let live = Self(Arc::new(Inner { present, state, changed: Condvar::new() }));
        let own = live.clone();
        thread::Builder::new().name("list".to_owned()).spawn(move || own.list())?;
        Ok(live)
    }

    /// The bundles that are up now.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        locked(&self.0.present).names()
    }

    /// A new page, which is told the present state first; `None`: too many are open.
    pub(crate) fn follow(&self) -> Option<Feed> {
        let mut state = locked(&self.0.state);
        state.pages.retain(|page| !page.is_closed());
        if state.pages.len() >= PAGES_MAX {
            return None;
        }
        let (sender, messages) = channel(MESSAGES_MAX);
        let names = state.names.iter().map(|(_, message)| Arc::clone(message));
        let bundles = state.bundles.iter().flat_map(|(bundle, kept)| {
            let events = message(&Said::Events { bundle, anew: true, events: &kept.events });
            events.into_iter().chain(kept.state.clone())
        });
        for message in names.chain(bundles) {
            // There is room, unless more bundles are up than a page can show.
            let _ = sender.try_send(message);
        }
        state.pages.push(sender);
        self.0.changed.notify_all();
        Some(Feed(messages))
    }

    fn is_watched(&self) -> bool {
        let mut state = locked(&self.0.state);
        state.pages.retain(|page| !page.is_closed());
        !state.pages.is_empty()
    }

    /// Looks which bundles are up, while a page is open.
    fn list(&self) {
        loop {
            let closed = |state: &mut State| state.pages.iter().all(Sender::is_closed);
            let waited = self.0.changed.wait_while(locked(&self.0.state), |state| closed(state));
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            if let Ok(names) = self.names() {
                self.tell_names(names);
            }
            thread::sleep(LIST_INTERVAL);
        }
    }

    fn tell_names(&self, names: Vec<String>) {
        let mut state = locked(&self.0.state);
        for name in &names {
            if !state.bundles.contains_key(name) {
                let (own, bundle) = (self.clone(), name.clone());
                let observer = thread::Builder::new().name("observe".to_owned());
                // Without a thread the next look tries again.
                if observer.spawn(move || own.observe(&bundle)).is_ok() {
                    state.bundles.insert(name.clone(), Kept::default());
                }
            }
        }
        if state.names.as_ref().is_none_or(|(known, _)| *known != names)
            && let Some(message) = message(&Said::Bundles { names: &names })
        {
            state.tell(&message);
            state.names = Some((names, message));
        }
    }

    /// Tells of one bundle while a page is open.
    fn observe(&self, name: &str) {
        let (mut earlier, mut log): (Vec<Status>, Option<Log>) = (Vec::new(), None);
        while self.is_watched() {
            let asked = Instant::now();
            match status_of(name) {
                Ok(status) => {
                    if log.is_none() {
                        log = Log::open(name).ok();
                    }
                    self.tell_status(name, Status { events: Vec::new(), ..status }, &mut earlier);
                }
                Err(error) => {
                    earlier.clear();
                    self.tell_gone(name, &error);
                }
            }
            self.tell_events(name, &mut log, asked);
        }
        locked(&self.0.state).bundles.remove(name);
    }

    fn tell_status(&self, bundle: &str, status: Status, earlier: &mut Vec<Status>) {
        let goes_on = |before: &Status| before.pid == status.pid && before.now_ns < status.now_ns;
        earlier.retain(goes_on);
        let is_old = |before: &Status| status.now_ns - before.now_ns >= RATE_WINDOW_NS;
        while earlier.get(1).is_some_and(is_old) {
            earlier.remove(0);
        }
        let shown = shown(&status, earlier.first());
        let message = message(&Said::Status { bundle, status: &status, shown });
        earlier.push(status);
        locked(&self.0.state).tell_state(bundle, message);
    }

    fn tell_gone(&self, bundle: &str, error: &AskError) {
        let reason = match error {
            AskError::NotUp { .. } => "is not up".to_owned(),
            other => other.to_string(),
        };
        let message = message(&Said::Gone { bundle, reason });
        locked(&self.0.state).tell_state(bundle, message);
    }

    /// Tells of what the log says until it is time for the next status; the last one was `asked` for then.
    fn tell_events(&self, bundle: &str, log: &mut Option<Log>, asked: Instant) {
        let mut tick = asked + INTERVAL;
        loop {
            let left = tick.saturating_duration_since(Instant::now());
            let Some(open) = log else { return thread::sleep(left) };
            match open.wait(left) {
                Ok(events) if events.is_empty() => return,
                Ok(events) => {
                    let anew = std::mem::take(&mut open.is_new);
                    locked(&self.0.state).tell_events(bundle, anew, &events);
                    tick = asked + INTERVAL_LEAST;
                }
                // The bundle has ended, or its log has passed to another process.
                Err(_) => *log = None,
            }
        }
    }
}

impl State {
    fn tell(&mut self, message: &Message) {
        self.pages.retain(|page| page.try_send(Arc::clone(message)).is_ok());
    }

    fn tell_state(&mut self, bundle: &str, message: Option<Message>) {
        let (Some(message), Some(kept)) = (message, self.bundles.get_mut(bundle)) else { return };
        kept.state = Some(Arc::clone(&message));
        self.tell(&message);
    }

    fn tell_events(&mut self, bundle: &str, anew: bool, events: &[Entry]) {
        let Some(kept) = self.bundles.get_mut(bundle) else { return };
        if anew {
            kept.events.clear();
        }
        kept.events.extend_from_slice(events);
        let surplus = kept.events.len().saturating_sub(EVENTS_MAX);
        kept.events.drain(..surplus);
        if let Some(message) = message(&Said::Events { bundle, anew, events }) {
            self.tell(&message);
        }
    }
}

fn message(said: &Said<'_>) -> Option<Message> {
    serde_json::to_string(said).ok().map(Message::from)
}

/// The messages for one page; it ends when the page does not read them.
pub(crate) struct Feed(Receiver<Message>);

impl Stream for Feed {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|message| message.map(|text| Ok(Event::default().data(&*text))))
    }
}

// The event log of a bundle, read as it grows.

/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// An open log.
struct Log {
    stream: UnixStream,
    /// Bytes after the last whole line.
    rest: Vec<u8>,
    /// Whether nothing was read yet: what comes first are the events that the bundle has kept.
    is_new: bool,
}

impl Log {
    /// Opens the log of the bundle `name`.
    fn open(name: &str) -> Result<Self, AskError> {
        let stream = open_request(name, &Request::Follow)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, rest: Vec::new(), is_new: true })
    }

    /// The events that come within this time; none: the time has passed.
    fn wait(&mut self, time: Duration) -> io::Result<Vec<Entry>> {
        let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut chunk = [0; 16 << 10];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => self.take(&chunk[..length]),
        }
    }

    /// The events of the lines that these bytes complete. A refusal is no event.
    fn take(&mut self, bytes: &[u8]) -> io::Result<Vec<Entry>> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LINE: &str = r#"{"number":4,"time":"2026-11-21T03:05:28.000123Z","at_ns":7,"what":"link-up","detail":"sending over eth2"}"#;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let (mut bundle, stream) = UnixStream::pair().expect("a pair");
        stream.set_nonblocking(true).expect("allowed");
        let mut log = Log { stream, rest: Vec::new(), is_new: true };
        assert!(log.wait(Duration::ZERO).expect("silence").is_empty());
        let (begin, end) = LINE.split_at(40);
        write!(bundle, "{LINE}\n{begin}").expect("written");
        assert_eq!(log.wait(Duration::ZERO).expect("a line").len(), 1);
        writeln!(bundle, "{end}").expect("written");
        let events = log.wait(Duration::ZERO).expect("the other line");
        assert_eq!((events.len(), events[0].what.as_str()), (1, "link-up"));
        writeln!(bundle, r#"{{"error":"only root may ask"}}"#).expect("written");
        log.wait(Duration::ZERO).expect_err("a refusal is no event");
        drop(bundle);
        log.wait(Duration::ZERO).expect_err("the end");
    }
}
