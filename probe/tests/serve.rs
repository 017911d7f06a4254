//! A server among strangers: what they send, leave out or hold open costs it no more than its limits say.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tabane_probe::serve::{Limits, Server};
use tabane_probe::wire::{self, Answer, Ask, LINE_MAX, Received, Request, SIZES_MAX, STAMPED_MAX, VERSION};

const SHORT: Limits = Limits {
    sessions: 2,
    of_one: 2,
    request: Duration::from_millis(300),
    silence: Duration::from_millis(300),
    session: Duration::from_millis(1_500),
};
/// Time after which the busiest machine has done what takes a server one of its limits.
const AT_LAST: Duration = Duration::from_secs(20);

/// A server on the loopback that ends with its value.
struct Stage {
    address: SocketAddr,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    fn new(limits: Limits) -> Stage {
        let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), limits).expect("loopback");
        let (address, end) = (server.address().expect("bound"), Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&end);
        let thread = thread::spawn(move || server.run(|| asked.load(Ordering::Relaxed)).expect("serving"));
        Stage { address, end, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(AT_LAST)).expect("a timeout");
        stream
    }

    fn ask(&self, request: &Request) -> (TcpStream, Answer) {
        let mut stream = self.connect();
        wire::write_line(&mut stream, request).expect("sent");
        let answer = wire::read_line(&mut stream, AT_LAST).expect("answered");
        (stream, answer)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()), "the server panicked");
    }
}

fn request(ask: Ask) -> Request {
    Request { probe: VERSION, ask }
}

/// What is left to read until the server closes the connection.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A connection that is reset has ended as well.
    let _ = stream.read_to_end(&mut rest);
    rest
}

/// What the server says that it took, once nothing more comes.
fn taken(mut stream: TcpStream) -> Received {
    stream.shutdown(std::net::Shutdown::Write).expect("closed");
    match wire::read_line(&mut stream, AT_LAST).expect("answered") {
        Answer::Received(received) => received,
        answer => panic!("{answer:?}"),
    }
}

#[test]
fn messages_are_echoed() {
    let stage = Stage::new(Limits::default());
    let (mut stream, answer) = stage.ask(&request(Ask::Echo { sizes: vec![9, 5, 1] }));
    assert_eq!(answer, Answer::Ready { port: None });
    for message in [&b"\x01ello"[..], b"\x00lternate", b"\x02", b"\x01gain"] {
        stream.write_all(message).expect("sent");
        let mut echo = vec![0; message.len()];
        stream.read_exact(&mut echo).expect("echoed");
        assert_eq!(echo, message);
    }
}

#[test]
fn stamped_messages_are_echoed_and_told_of_at_the_end_but_not_without_end() {
    let stage = Stage::new(Limits::default());
    for count in [3, STAMPED_MAX, STAMPED_MAX + 1] {
        let (mut stream, answer) = stage.ask(&request(Ask::StampedEcho { sizes: vec![1] }));
        assert_eq!(answer, Answer::Ready { port: None });
        stream.set_nodelay(true).expect("no delay");
        let mut echo = [7];
        let mut echoes =
            || stream.write_all(&[0]).and_then(|()| stream.read_exact(&mut echo)).is_ok() && echo == [0];
        assert_eq!((0..count).take_while(|_| echoes()).count(), count.min(STAMPED_MAX));
        let told =
            if stream.shutdown(std::net::Shutdown::Write).is_ok() { rest(&mut stream) } else { Vec::new() };
        let lines: Vec<Option<[u64; 4]>> = told
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).expect("a line"))
            .collect();
        assert_eq!(lines.len(), if count > STAMPED_MAX { 0 } else { count });
        assert!(lines.iter().flatten().flatten().all(|nanoseconds| *nanoseconds < 10_000_000_000));
        // Also of the first message, which comes when the kernel has just been asked.
        assert_eq!(lines.iter().filter(|line| line.is_none()).count(), 0, "stamps are missing");
    }
}

#[test]
fn a_message_of_no_size_that_was_asked_for_ends_the_session() {
    let stage = Stage::new(Limits::default());
    for message in [&b"\x02"[..], b"\x00too long", b"\xff"] {
        let (mut stream, _) = stage.ask(&request(Ask::Echo { sizes: vec![4, 9] }));
        stream.write_all(message).expect("sent");
        assert_eq!(rest(&mut stream), b"", "{message:?}");
    }
}

#[test]
fn datagrams_are_counted_and_those_of_strangers_are_not() {
    let stage = Stage::new(Limits::default());
    let [ours, strange] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
    let port = ours.local_addr().expect("bound").port();
    let (stream, answer) = stage.ask(&request(Ask::Datagrams { port }));
    let Answer::Ready { port: Some(port) } = answer else { panic!("{answer:?}") };
    for length in [0, 1, 700, 65_507] {
        strange.send_to(&[1; 9], ("127.0.0.1", port)).expect("sent");
        ours.send_to(&vec![7; length], ("127.0.0.1", port)).expect("sent");
    }
    let Received { messages, bytes, .. } = taken(stream);
    assert_eq!((messages, bytes), (4, 66_208));
    assert!(ours.set_nonblocking(true).is_ok() && ours.recv(&mut [0; 9]).is_err(), "it answered");
}

#[test]
fn what_is_no_request_ends_the_connection_without_a_word() {
    // There is room for one connection after the other.
    let stage = Stage::new(Limits { sessions: 1, of_one: 1, ..SHORT });
    let long = vec![b'x'; 4 * LINE_MAX];
    let two = b"{\"probe\":2,\"ask\":\"sink\"}\n{\"probe\":2,\"ask\":\"sink\"}\n";
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\n", b"{}\n", b"\xff\xfe\n", b"{\"probe\":1", &long, two]
    {
        let mut stream = stage.connect();
        // The server may have closed the connection before all is sent.
        let _ = stream.write_all(garbage);
        assert_eq!(rest(&mut stream), b"", "{}", String::from_utf8_lossy(garbage));
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_a_sentence() {
    let stage = Stage::new(Limits::default());
    let refused = |request: &Request| match stage.ask(request).1 {
        Answer::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&request(Ask::Echo { sizes: vec![1, 0] })),
        "a message of 0 bytes cannot be answered; allowed: 1 to 1048576"
    );
    assert_eq!(
        refused(&request(Ask::Echo { sizes: vec![u32::MAX] })),
        "a message of 4294967295 bytes cannot be answered; allowed: 1 to 1048576"
    );
    for (sizes, count) in [(Vec::new(), 0), (vec![1; SIZES_MAX + 1], SIZES_MAX + 1)] {
        assert_eq!(
            refused(&request(Ask::Echo { sizes })),
            format!("messages of {count} sizes cannot be echoed; allowed: 1 to 32")
        );
    }
    assert_eq!(refused(&Request { probe: 9, ask: Ask::Sink }), "version 9 is not known here; allowed: 2");
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let stage = Stage::new(SHORT);
    let (begin, mut stream) = (Instant::now(), stage.connect());
    assert_eq!(rest(&mut stream), b"");
    let waited = begin.elapsed();
    assert!((SHORT.request..AT_LAST).contains(&waited), "{waited:?}");
    let (mut stream, _) = stage.ask(&request(Ask::Sink));
    assert_eq!(rest(&mut stream), b"", "silent after the request");
}

#[test]
fn who_says_it_slowly_is_not_waited_for_either() {
    let stage = Stage::new(SHORT);
    let (begin, mut stream) = (Instant::now(), stage.connect());
    let pause = SHORT.request / 4;
    let closed = (0..200).any(|_| {
        thread::sleep(pause);
        stream.write_all(b" ").is_err()
    });
    assert!(closed && begin.elapsed() < AT_LAST, "{:?}", begin.elapsed());
}

#[test]
fn no_session_lasts_for_ever() {
    let stage = Stage::new(SHORT);
    let (mut stream, _) = stage.ask(&request(Ask::Echo { sizes: vec![1] }));
    let begin = Instant::now();
    let mut byte = [0];
    while begin.elapsed() < AT_LAST
        && stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte)).is_ok()
    {}
    assert!((SHORT.session / 2..AT_LAST).contains(&begin.elapsed()), "{:?}", begin.elapsed());
}

#[test]
fn sessions_are_bounded_and_their_seats_come_back() {
    let limits = Limits::default();
    for (limits, why) in [
        (Limits { sessions: 2, ..limits }, "2 sessions are open, and no more are allowed"),
        (
            Limits { of_one: 2, ..limits },
            "2 sessions of 127.0.0.1 are open, and no more of one address are allowed",
        ),
    ] {
        let stage = Stage::new(limits);
        let sink = request(Ask::Sink);
        let held = [stage.ask(&sink), stage.ask(&sink)];
        assert!(held.iter().all(|(_, answer)| *answer == Answer::Ready { port: None }));
        let mut third = stage.connect();
        let answer: Answer = wire::read_line(&mut third, AT_LAST).expect("answered");
        assert_eq!(answer, Answer::Refused(why.to_owned()));
        drop(held);
        let begin = Instant::now();
        while stage.ask(&sink).1 != (Answer::Ready { port: None }) {
            assert!(begin.elapsed() < AT_LAST, "the seats do not come back");
        }
    }
}
