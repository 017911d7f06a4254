//! The control socket of a bundle that does nothing else, on a name that only this process knows.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tabane_api::{Request, ask_as_json};
use tabane_config::key::Key;
use tabane_config::{Ports, parse_allow, parse_change, parse_class, parse_link};
use tabane_proto::PolicyKind;
use tabaned::control::{Listener, Server};
use tabaned::events::EventLog;

const TIMEOUT: Duration = Duration::from_secs(5);
const PORTS: Ports = Ports { first: 7420, workers: 1 };

pub(crate) struct Service {
    name: String,
    _server: Server,
}

impl Service {
    pub(crate) fn start() -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let name = format!("fuzz-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let log = Arc::new(EventLog::new().expect("an eventfd"));
        let server = Listener::bind(&name).expect("a free name").serve(log, answer).expect("a thread");
        Self { name, _server: server }
    }

    /// Sends bytes as one client; returns the answers, unless the connection is one that lasts.
    pub(crate) fn receive(&self, bytes: &[u8]) -> Vec<Value> {
        let address = SocketAddr::from_abstract_name(format!("tabane/{}", self.name)).expect("a short name");
        let mut client = UnixStream::connect_addr(&address).expect("served");
        client.set_read_timeout(Some(TIMEOUT)).expect("a time that is not zero");
        // A client that is refused in the middle cannot send the rest.
        let _ = client.write_all(bytes).and_then(|()| client.shutdown(Shutdown::Write));
        let lasts = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        if lasts(b"follow") || lasts(b"upgrade") {
            return Vec::new();
        }
        let lines = BufReader::new(client).lines().map_while(Result::ok);
        lines.map(|line| serde_json::from_str(&line).expect("JSON")).collect()
    }

    pub(crate) fn assert_alive(&self) {
        assert_eq!(ask_as_json(&self.name, &Request::Status).expect("an answer"), json!({ "do": "status" }));
    }
}

/// What a bundle would read in a request, and the request itself.
fn answer(request: Request) -> Value {
    match &request {
        Request::LinkAdd { link }
        | Request::LinkRemove { link }
        | Request::LinkDrain { link }
        | Request::LinkResume { link } => drop(parse_link(link, PORTS)),
        Request::LinkSet { link } => drop(parse_change(link, PORTS)),
        Request::PeerAdd { link, peer } | Request::PeerRemove { link, peer } => {
            drop(parse_link(&format!("{link},peer={peer}"), PORTS));
        }
        Request::ClassAdd { class, .. } => drop(parse_class(class)),
        Request::Reload { told, .. } | Request::Filed { told, .. } => drop(told.understood()),
        Request::Keys { keys, .. } => keys.iter().for_each(|key| drop(Key::from_hex(key))),
        Request::Allow { allow: Some(allow) } => drop(parse_allow(allow)),
        Request::Policy { policy } => {
            let _ = policy.parse::<PolicyKind>();
        }
        _ => {}
    }
    serde_json::to_value(request).expect("a request is JSON")
}
