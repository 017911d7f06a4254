//! The fuzz bodies: each takes any bytes, and must neither panic nor break its assertions.

mod bundle;
mod fleet;
mod pair;
mod service;
mod window;
mod world;

use tabane_proto::wire::cell::{HEADER, Header};
use tabane_proto::wire::handshake::{Message, Tagged};
use tabane_proto::wire::heartbeat::{HEARTBEAT_MAX, Heartbeat};
use tabane_proto::wire::hello::{HELLO_MAX, Hello};
use tabane_proto::wire::record;
use tabane_proto::wire::repair::{REQUEST_MAX, Request};

use bundle::bundle;
use fleet::fleet;
use pair::Pair;
use service::{Service, probe};
use window::window;

/// Takes any bytes, and panics when something does not hold.
pub type Body = fn(&[u8]);

/// The bodies, each by the name of its folder in `corpus`.
pub const TARGETS: [(&str, Body); 12] = [
    ("bundle", bundle),
    ("cell", cell),
    ("config", config),
    ("control", control),
    ("fleet", fleet),
    ("handshake", handshake),
    ("overheard", overheard),
    ("probe", probe),
    ("reassemble", reassemble),
    ("recorded", recorded),
    ("told", told),
    ("window", window),
];
/// Steps of one input of [`recorded`].
const STEPS_MAX: usize = 500;

/// Every parser of the wire format: a value that parses, written again, parses to the same value.
fn cell(bytes: &[u8]) {
    if let Ok(header) = Header::parse(bytes) {
        let mut again = [0; HEADER];
        header.emit(&mut again);
        assert_eq!(again, bytes[..HEADER]);
    }
    let payload = bytes.get(HEADER..).unwrap_or(bytes);
    let _ = record::parse(payload);
    for parse in [Hello::parse, Hello::parse_opened] {
        let Ok(hello) = parse(payload) else { continue };
        let mut again = [0; HELLO_MAX];
        let length = hello.emit(&mut again);
        assert_eq!(parse(&again[..length]), Ok(hello));
    }
    if let Ok(heartbeat) = Heartbeat::parse(payload) {
        let mut again = vec![0; HEARTBEAT_MAX + usize::from(heartbeat.padding)];
        let length = heartbeat.emit(&mut again);
        assert_eq!(Heartbeat::parse(&again[..length]), Ok(heartbeat));
    }
    if let Ok(Ok(message)) = Tagged::split(bytes).map(|tagged| Message::parse(tagged.covered)) {
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
    if let Ok(request) = Request::parse(payload) {
        let mut again = [0; REQUEST_MAX];
        let length = request.emit(&mut again);
        assert_eq!(Request::parse(&again[..length]), Ok(request));
    }
}

/// A joined bundle that receives any cells on its links: it counts and drops them, and goes on working.
///
/// The bytes are a list of datagrams: a length, how to mend the header so that it gets further, the rest.
fn reassemble(bytes: &[u8]) {
    let mut pair = Pair::joined();
    let mut rest = bytes;
    while let [length, mend, tail @ ..] = rest {
        let (datagram, later) = tail.split_at(usize::from(*length).min(tail.len()));
        pair.inject(datagram, *mend);
        rest = later;
    }
    pair.assert_alive();
}

/// Two bundles in a sealed session that receive anything that a stranger can send, and a member: cells with a valid tag. Their
/// session lives.
///
/// The bytes are a list of datagrams: a length, how to change the rest (see [`Pair::inject_open`]), the rest.
fn handshake(bytes: &[u8]) {
    let mut pair = Pair::sealed();
    let mut rest = bytes;
    while let [length, make, tail @ ..] = rest {
        let (datagram, later) = tail.split_at(usize::from(*length).min(tail.len()));
        pair.inject_open(datagram, *make);
        rest = later;
    }
    pair.assert_alive();
    pair.assert_faithful();
}

/// Two bundles in a sealed session that receive their own recorded cells again, changed or not, and sometimes restart: none of
/// these brings a frame or ends a session, and in the end they are joined.
///
/// The bytes are a list of steps of four bytes: see [`Pair::repeat`].
fn recorded(bytes: &[u8]) {
    let mut pair = Pair::recorded();
    let (steps, _) = bytes.as_chunks();
    steps.iter().take(STEPS_MAX).for_each(|step| pair.repeat(*step));
    pair.assert_faithful();
    pair.assert_alive();
}

/// Packets that the doctor overhears: what is understood of one is still understood when more stands behind it. And frames whose
/// flows `top` names.
fn overheard(bytes: &[u8]) {
    tabane::fuzzing::frame(bytes);
    if let Some(heard) = tabane_io::overhear::parse(bytes) {
        let longer = [bytes, &[0xff; 8]].concat();
        assert_eq!(tabane_io::overhear::parse(&longer), Some(heard));
    }
}

/// What other processes tell a daemon and its commands. The first byte says who: the process that resolves names, the one that hands
/// a bundle over, `tabane init` on another machine.
fn told(bytes: &[u8]) {
    match bytes.split_first() {
        Some((what, lines)) if what % 3 == 0 => tabaned::fuzzing::resolver(lines),
        Some((what, state)) if what % 3 == 1 => tabaned::fuzzing::handover(state),
        Some((_, line)) => tabane::fuzzing::line(line),
        None => {}
    }
}

/// The control socket: whatever a client sends, every line that comes back is JSON, and the next client is served.
fn control(bytes: &[u8]) {
    let service = Service::start();
    for answer in service.receive(bytes) {
        assert!(answer.is_object(), "{answer}");
    }
    service.assert_alive();
}

/// The configuration: any text gives a configuration or sentences, and a printed configuration reads back as the same.
fn config(bytes: &[u8]) {
    use tabane_config::key::Key;
    use tabane_config::{file, resolve};

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let read =
        |text: &str| file::parse("f", text).and_then(|it| resolve::resolve(&it, |_, _| Ok(Key([0; 32]))));
    match read(text) {
        Ok(config) => assert_eq!(read(&config.to_string()).as_ref(), Ok(&config)),
        Err(problems) => {
            let is_sentence = |text: String| !text.is_empty() && !text.contains('\n');
            assert!(!problems.is_empty() && problems.iter().all(|problem| is_sentence(problem.to_string())));
        }
    }
}
