//! The names of peers: when they are resolved, and what follows from their addresses.
//!
//! ```text
//!   thread `names`, in the sandbox                        process `tabaned resolve-names` (names/process.rs)
//!   whose peer is not reached?  ── name ─────────────>    asks the system: hosts file, DNS, whatever nsswitch.conf says
//!   the workers greet           <─ Answer, JSON line ──
//! ```
//!
//! The system's resolver opens files, sockets and libraries, which the daemon gives up; so a process of its own asks it. The
//! thread asks for a name at once when its peer is not reached, and then after [`PAUSES`]; never while the peer is reached.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_config::address::parse_host;

use crate::events::EventLog;
use crate::shell::links::Links;
pub(crate) use process::{RESOLVE, Resolver, serve};

/// How often the thread looks whose peer is not reached.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two questions for a name: at first, and at most, as it doubles.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));
/// Questions that wait for their answers at once: the process has a thread for each.
const ASKED_MAX: usize = 8;
/// Addresses of a name that are greeted, the first ones.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// The longest answer, in bytes.
const ANSWER_MAX: usize = 16 << 10;

/// What the resolver says about a name.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) name: String,
    /// Without repetition; empty when there is an error.
    pub(crate) addresses: Vec<IpAddr>,
    error: Option<String>,
}

impl Answer {
    /// Reads a line of the process. It may have been taken over: addresses that no peer of a configuration could have are left out.
    pub(crate) fn read(line: &[u8]) -> serde_json::Result<Self> {
        let mut answer: Self = serde_json::from_slice(line)?;
        answer.addresses.retain(|address| is_of_one_host(*address));
        answer.addresses.truncate(ADDRESSES_MAX);
        Ok(answer)
    }
}

/// Whether a peer may listen there: as in the configuration, no group, and no address that needs a scope.
pub(crate) fn is_of_one_host(address: IpAddr) -> bool {
    parse_host(&address.to_string()).is_ok()
}

/// Starts the thread that asks `resolver`. It ends with the process.
pub(crate) fn start(resolver: Resolver, links: Arc<Links>, events: Arc<EventLog>) -> io::Result<()> {
    let client = Client { links, events, names: Names::default(), input: Vec::new() };
    std::thread::Builder::new().name("names".to_owned()).spawn(move || client.run(resolver))?;
    Ok(())
}

/// The resolver's client, on a thread of its own.
struct Client {
    links: Arc<Links>,
    events: Arc<EventLog>,
    names: Names,
    /// Bytes of an answer that is not whole yet.
    input: Vec<u8>,
}

impl Client {
    fn run(mut self, resolver: Resolver) {
        let error = match self.ask(&resolver.into_stream()) {
            Ok(never) => match never {},
            Err(error) => error,
        };
        let why = "no name is resolved any more; `tabane upgrade` starts the process that does it anew";
        self.events.tell("name-failed", format!("{why}: {error}"));
    }

    /// Asks and takes answers until the process is gone.
    fn ask(&mut self, mut stream: &UnixStream) -> io::Result<std::convert::Infallible> {
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        loop {
            self.names.follow(&self.links.names());
            let reached = self.links.reached();
            for name in self.names.due(Instant::now(), &reached) {
                stream.write_all(format!("{name}\n").as_bytes())?;
            }
            self.receive(stream)?;
        }
    }

    /// Takes the answers that come before it is time to look again.
    fn receive(&mut self, mut stream: &UnixStream) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let until = Instant::now() + LOOK_EVERY;
        while Instant::now() < until {
            match stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.input.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                self.heed(Answer::read(&line)?);
            }
            if self.input.len() > ANSWER_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    fn heed(&mut self, answer: Answer) {
        match self.names.heed(&answer) {
            News::None => {}
            News::Addresses => {
                let list = answer.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                self.events.tell("name-resolved", format!("{} is {list}", answer.name));
                self.links.set_addresses(&answer.name, answer.addresses);
            }
            News::Failure => {
                let reason = answer.error.unwrap_or_else(|| "it has no address".to_owned());
                self.events.tell("name-failed", format!("{}: {reason}; it is tried again", answer.name));
            }
        }
    }
}

/// The names, and when each is to be resolved.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, Name>);

struct Name {
    /// As resolved last, in order.
    addresses: Vec<IpAddr>,
    failed: bool,
    /// When it was asked for last; `None`: never.
    asked: Option<Instant>,
    waits: bool,
    /// The time until the next question.
    pause: Duration,
}

/// What is new about a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    None,
    Addresses,
    Failure,
}

impl Names {
    /// The names are these now.
    pub(crate) fn follow(&mut self, names: &BTreeSet<String>) {
        self.0.retain(|name, _| names.contains(name));
        for name in names {
            self.0.entry(name.clone()).or_insert_with(|| Name {
                addresses: Vec::new(),
                failed: false,
                asked: None,
                waits: false,
                pause: PAUSES.0,
            });
        }
    }

    /// The names to ask for now, which count as asked. `reached`: those whose peer is.
    pub(crate) fn due(&mut self, now: Instant, reached: &BTreeSet<String>) -> Vec<String> {
        let waiting = self.0.values().filter(|name| name.waits).count();
        let mut due = Vec::new();
        for (text, name) in &mut self.0 {
            if reached.contains(text) {
                name.pause = PAUSES.0;
                continue;
            }
            let is_due = name.asked.is_none_or(|asked| now >= asked + name.pause);
            if is_due && !name.waits && waiting + due.len() < ASKED_MAX {
                name.pause = if name.asked.is_some() { (2 * name.pause).min(PAUSES.1) } else { name.pause };
                (name.asked, name.waits) = (Some(now), true);
                due.push(text.clone());
            }
        }
        due
    }

    /// An answer came. One that nobody has asked for is none.
    pub(crate) fn heed(&mut self, answer: &Answer) -> News {
        let asked = self.0.get_mut(&answer.name).filter(|name| name.waits);
        let Some(name) = asked else { return News::None };
        name.waits = false;
        if answer.addresses.is_empty() {
            let is_new = !std::mem::replace(&mut name.failed, true);
            return if is_new { News::Failure } else { News::None };
        }
        name.failed = false;
        // Servers shuffle the addresses of a name.
        let mut addresses = answer.addresses.clone();
        addresses.sort_unstable();
        let is_new = name.addresses != addresses;
        name.addresses = addresses;
        if is_new { News::Addresses } else { News::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn answer(addresses: &[&str]) -> Answer {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        Answer { name: "b".to_owned(), addresses, error: None }
    }

    #[test]
    fn a_name_is_asked_for_at_once_and_then_ever_more_rarely_until_its_peer_is_reached() {
        let (mut names, start) = (Names::default(), Instant::now());
        names.follow(&named(&["b"]));
        let mut asked = Vec::new();
        for second in 0..20 {
            let now = start + Duration::from_secs(second);
            if !names.due(now, &named(&[])).is_empty() {
                asked.push(second);
            }
            assert!(names.due(now, &named(&[])).is_empty(), "its answer has not come");
            names.heed(&answer(&[]));
        }
        assert_eq!(asked, [0, 1, 3, 6, 9, 12, 15, 18]);
        let at = |second| start + Duration::from_secs(second);
        assert!(names.due(at(100), &named(&["b"])).is_empty(), "reached");
        assert_eq!(names.due(at(101), &named(&[])), ["b"]);
        names.heed(&answer(&[]));
        assert_eq!(names.due(at(103), &named(&[])), ["b"], "the pause begins anew");
    }

    #[test]
    fn only_news_are_told() {
        let (mut names, mut now) = (Names::default(), Instant::now());
        names.follow(&named(&["b"]));
        let mut asked = |addresses: &[&str]| {
            now += PAUSES.1;
            assert_eq!(names.due(now, &named(&[])), ["b"]);
            names.heed(&answer(addresses))
        };
        assert_eq!(asked(&[]), News::Failure);
        assert_eq!(asked(&[]), News::None, "told already");
        assert_eq!(asked(&["192.0.2.1", "2001:db8::1"]), News::Addresses);
        assert_eq!(asked(&["2001:db8::1", "192.0.2.1"]), News::None, "in another order");
        assert_eq!(asked(&[]), News::Failure);
        assert_eq!(asked(&["192.0.2.1"]), News::Addresses);
        assert_eq!(names.heed(&answer(&["192.0.2.2"])), News::None, "nobody has asked");
        names.follow(&named(&[]));
        assert_eq!(names.heed(&answer(&["192.0.2.2"])), News::None, "its link was removed");
    }

    #[test]
    fn only_addresses_that_a_configuration_could_state_are_taken() {
        let addresses: Vec<String> = (0..20).map(|host| format!("192.0.2.{host}")).collect();
        let groups = ["224.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::1", "::"].map(str::to_owned);
        let all = [&groups[..], &addresses].concat();
        let line = serde_json::json!({ "name": "b", "addresses": all });
        let read = Answer::read(line.to_string().as_bytes()).expect("an answer");
        assert_eq!(
            read.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            addresses[..ADDRESSES_MAX]
        );
    }

    #[test]
    fn few_questions_wait_at_once() {
        let mut names = Names::default();
        let all: Vec<String> = (0..100).map(|number| format!("host{number}")).collect();
        names.follow(&all.iter().cloned().collect());
        assert_eq!(names.due(Instant::now(), &named(&[])).len(), ASKED_MAX);
        assert_eq!(names.due(Instant::now(), &named(&[])).len(), 0);
    }
}
