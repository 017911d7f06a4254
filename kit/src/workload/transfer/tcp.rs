//! A transfer over TCP or MPTCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::{CHUNK, End, Ends, Received, Source};
use crate::usual::*;
use crate::workload::{Stream, accept};

/// Starts both ends: the client sends `source` until `end`, the server, which listens at `at`, takes it.
pub(super) fn start(
    stream: Stream,
    [client, server]: [&Namespace; 2],
    at: SocketAddr,
    source: Source,
    received: Received,
    end: Arc<End>,
) -> Result<Ends> {
    let (listener, at) = server.enter(|| stream.listen(at))?.with_context(|| format!("listening at {at}"))?;
    let receiver = server.spawn("receiver", move || receive(&listener, received))?;
    let sender = client.spawn("sender", move || {
        let connection = stream.connect(at).with_context(|| format!("connecting to {at}"))?;
        send(connection, source, &end)
    })?;
    Ok(Ends { sender, receiver })
}

fn send(mut connection: TcpStream, mut source: Source, end: &End) -> Result<u64> {
    let mut copies = 0;
    loop {
        while let Some(mut chunk) = source.next() {
            while !chunk.is_empty() {
                // No longer than a silence: what it has taken by then is returned.
                let taken = connection.write(chunk)?;
                chunk = &chunk[taken..];
                end.is_in_time()?;
            }
        }
        copies += 1;
        if end.is_near() {
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
            Ok(length) => {
                if let Err(late) = received.take(&chunk[..length]) {
                    break Err(late);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break Err(error.into()),
        }
    };
    received.end_with(ended);
    Ok(received)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_cut_short_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"half").unwrap();
        drop(client);
        let arrived = Arc::new(AtomicU64::new(0));
        let received =
            receive(&listener, Received::new(Source::random(8, 1), Arc::clone(&arrived), Arc::default()))
                .unwrap();
        assert_eq!((received.bytes, received.copies, received.is_damaged, received.lost), (4, 0, true, None));
        assert_eq!(arrived.load(Ordering::Relaxed), 4);
    }

    /// What never falls silent ends all the same: the receiver gives up what drips, the sender what is taken slowly.
    #[test]
    fn what_is_late_is_given_up_at_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let late = || Arc::new(End { is_last: true.into(), latest: Instant::now().into() });
        let drip = thread::spawn(move || {
            let mut client = TcpStream::connect(at).unwrap();
            (0..1_000_000).all(|_| client.write_all(b"d").is_ok())
        });
        let received = Received::new(Source::random(64 << 20, 1), Arc::default(), late());
        let received = receive(&listener, received).unwrap();
        assert!(received.lost.unwrap().contains("not all has arrived"), "{} bytes", received.bytes);
        assert!(!drip.join().unwrap(), "all of it was taken");

        let client = TcpStream::connect(at).unwrap();
        let taken =
            thread::spawn(move || std::io::copy(&mut listener.accept().unwrap().0, &mut std::io::sink()));
        let error = send(client, Source::random(64 << 20, 1), &late()).unwrap_err();
        assert!(error.to_string().contains("not all has arrived"), "{error:#}");
        taken.join().unwrap().unwrap();
    }
}
