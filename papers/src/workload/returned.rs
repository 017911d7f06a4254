//! A stream that the other end returns: both directions are busy at once (P2, 3.1).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use tabane_kit::workload::accept;

use crate::prelude::*;

const CHUNK: usize = 64 << 10;

/// Streams for so many seconds from `client` to `server`, which has the address `at`; returns what came back in each of them, in
/// 10^6 bytes.
pub fn stream(client: &Namespace, server: &Namespace, at: SocketAddr, seconds: usize) -> Result<Vec<f64>> {
    let listen = || Stream::Tcp.listen(at);
    let (listener, at) = server.enter(listen)?.with_context(|| format!("listening at {at}"))?;
    let returning = server.spawn("returning", move || give_back(accept(&listener)?))?;
    let connection =
        client.enter(|| Stream::Tcp.connect(at))?.with_context(|| format!("connecting to {at}"))?;
    let end = Instant::now() + Duration::from_secs(seconds as u64);
    let outgoing = connection.try_clone()?;
    let sending = client.spawn("sending", move || send(outgoing, end))?;
    let came = count(connection, seconds)?;
    joined(sending)?;
    joined(returning)?;
    Ok(came.into_iter().map(|bytes| bytes as f64 / 1e6).collect())
}

fn send(mut connection: TcpStream, end: Instant) -> Result<()> {
    let chunk = vec![0; CHUNK];
    while Instant::now() < end {
        connection.write_all(&chunk)?;
    }
    Ok(connection.shutdown(Shutdown::Write)?)
}

fn give_back(mut connection: TcpStream) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match connection.read(&mut chunk) {
            Ok(0) => return Ok(connection.shutdown(Shutdown::Write)?),
            Ok(length) => connection.write_all(&chunk[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn count(mut connection: TcpStream, seconds: usize) -> Result<Vec<u64>> {
    let (began, mut chunk, mut came) = (Instant::now(), vec![0; CHUNK], vec![0; seconds]);
    loop {
        match connection.read(&mut chunk) {
            Ok(0) => return Ok(came),
            Ok(length) => {
                let second = usize::try_from(began.elapsed().as_secs())?;
                if let Some(bytes) = came.get_mut(second) {
                    *bytes += length as u64;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
