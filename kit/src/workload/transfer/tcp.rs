//! A transfer over TCP or MPTCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use super::{CHUNK, Ends, Received, Source};
use crate::netns::Namespace;
use crate::workload::{Stream, accept};

/// Starts both ends: the client sends `source` until `end`, the server, which listens at `at`, takes it.
pub(super) fn start(
    stream: Stream,
    [client, server]: [&Namespace; 2],
    at: SocketAddr,
    source: Source,
    received: Received,
    end: Arc<AtomicBool>,
) -> Result<Ends> {
    let (listener, at) = server.enter(|| stream.listen(at))?.with_context(|| format!("listening at {at}"))?;
    let receiver = server.spawn("receiver", move || receive(&listener, received))?;
    let sender = client.spawn("sender", move || {
        let connection = stream.connect(at).with_context(|| format!("connecting to {at}"))?;
        send(connection, source, &end)
    })?;
    Ok(Ends { sender, receiver })
}

/// Sends one whole copy, and more until told to end; returns how many.
fn send(mut connection: TcpStream, mut source: Source, end: &AtomicBool) -> Result<u64> {
    let mut copies = 0;
    loop {
        while let Some(chunk) = source.next() {
            connection.write_all(chunk)?;
        }
        copies += 1;
        if end.load(Ordering::Relaxed) {
            return Ok(copies);
        }
    }
}

fn receive(listener: &TcpListener, mut received: Received) -> Result<Received> {
    let mut connection = accept(listener)?;
    let mut chunk = vec![0; CHUNK];
    let ended = loop {
        match connection.read(&mut chunk) {
            Ok(0) => break Ok(()),
            Ok(length) => received.take(&chunk[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break Err(error.into()),
        }
    };
    received.end_with(ended);
    Ok(received)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn what_is_cut_short_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"half").unwrap();
        drop(client);
        let arrived = Arc::new(AtomicU64::new(0));
        let received = receive(&listener, Received::new(Source::random(8, 1), Arc::clone(&arrived))).unwrap();
        assert_eq!((received.bytes, received.copies, received.is_damaged, received.lost), (4, 0, true, None));
        assert_eq!(arrived.load(Ordering::Relaxed), 4);
    }
}
