//! Two servers: the control socket of a bundle that does nothing else, on a name that only this process knows; and a server of probes
//! on loopback, whose clients send what the input says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{self, Ipv4Addr, Shutdown, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use tabane_api::{Request, ask_as_json};
use tabane_config::key::Key;
use tabane_config::{Ports, parse_allow, parse_change, parse_class, parse_link};
use tabane_probe::serve::{self, Limits};
use tabane_probe::wire::{Answer, Ask, LINE_MAX, Received, Request as Asked, read_line};
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

// Probes.

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const SINK: &[u8] = b"{\"probe\":2,\"ask\":\"sink\"}\n";

static PROBES: LazyLock<net::SocketAddr> = LazyLock::new(|| {
    let server = serve::Server::bind((Ipv4Addr::LOCALHOST, 0).into(), Limits::default()).expect("loopback");
    let address = server.address().expect("bound");
    std::thread::spawn(move || server.run(|| false));
    address
});

/// Any request is answered, no client is sent more bytes than it has sent and two lines, and the next one is served. A message
/// that is stamped brings a line more.
///
/// The bytes are a line, and what comes once it is answered.
pub(crate) fn probe(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
    let (line, messages) = bytes.split_at(end);
    let is_line = line.ends_with(b"\n") && line.len() <= LINE_MAX;
    let request = serde_json::from_slice::<Asked>(line).ok().filter(|_| is_line).map(|request| request.ask);
    // The server waits for a tenth of a second until no datagram comes any more.
    if matches!(request, Some(Ask::Datagrams { .. })) {
        return;
    }
    let (answer, said) = ask_probe(line, messages);
    let is_stamped = matches!(request, Some(Ask::StampedEcho { .. }));
    assert!(is_stamped || answer.is_some() == request.is_some(), "{request:?}: {answer:?}");
    assert!(is_stamped || said.len() <= messages.len() + LINE_MAX, "{request:?}: {} bytes", said.len());
    let (_, said) = ask_probe(SINK, messages);
    let received = serde_json::from_slice(&said).expect("an answer");
    assert!(matches!(received, Answer::Received(Received { bytes, .. }) if bytes == messages.len() as u64));
}

/// Sends a line, and messages once it is answered; returns the answer, and what came afterwards.
fn ask_probe(line: &[u8], messages: &[u8]) -> (Option<Answer>, Vec<u8>) {
    let mut stream = TcpStream::connect(*PROBES).expect("served");
    let mut said = Vec::new();
    // A client that is refused in the middle can neither send nor receive the rest.
    let mut sent = stream.write_all(line);
    if !line.ends_with(b"\n") {
        sent = sent.and_then(|()| stream.shutdown(Shutdown::Write));
    }
    let answer = sent.and_then(|()| read_line(&mut stream, ANSWER_WITHIN)).ok();
    let sent = stream.write_all(messages).and_then(|()| stream.shutdown(Shutdown::Write));
    let _ = sent.and_then(|()| stream.read_to_end(&mut said));
    (answer, said)
}
