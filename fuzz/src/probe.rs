//! A server of probes on loopback, and clients that send what the input says.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use tabane_probe::serve::{Limits, Server};
use tabane_probe::wire::{Answer, Ask, LINE_MAX, Received, Request, read_line};

const TIMEOUT: Duration = Duration::from_secs(10);
const SINK: &[u8] = b"{\"probe\":2,\"ask\":\"sink\"}\n";

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), Limits::default()).expect("loopback");
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
    let request = serde_json::from_slice::<Request>(line).ok().filter(|_| is_line).map(|request| request.ask);
    // The server waits for a tenth of a second until no datagram comes any more.
    if matches!(request, Some(Ask::Datagrams { .. })) {
        return;
    }
    let (answer, said) = ask(line, messages);
    let is_stamped = matches!(request, Some(Ask::StampedEcho { .. }));
    assert!(is_stamped || answer.is_some() == request.is_some(), "{request:?}: {answer:?}");
    assert!(is_stamped || said.len() <= messages.len() + LINE_MAX, "{request:?}: {} bytes", said.len());
    let (_, said) = ask(SINK, messages);
    let received = serde_json::from_slice(&said).expect("an answer");
    assert!(matches!(received, Answer::Received(Received { bytes, .. }) if bytes == messages.len() as u64));
}

/// Sends a line, and messages once it is answered; returns the answer, and what came afterwards.
fn ask(line: &[u8], messages: &[u8]) -> (Option<Answer>, Vec<u8>) {
    let mut stream = TcpStream::connect(*SERVER).expect("served");
    let mut said = Vec::new();
    // A client that is refused in the middle can neither send nor receive the rest.
    let mut sent = stream.write_all(line);
    if !line.ends_with(b"\n") {
        sent = sent.and_then(|()| stream.shutdown(Shutdown::Write));
    }
    let answer = sent.and_then(|()| read_line(&mut stream, TIMEOUT)).ok();
    let sent = stream.write_all(messages).and_then(|()| stream.shutdown(Shutdown::Write));
    let _ = sent.and_then(|()| stream.read_to_end(&mut said));
    (answer, said)
}
