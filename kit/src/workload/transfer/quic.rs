//! A transfer over one stream of a QUIC connection (RFC 9000), encrypted as always.
//!
//! Its loss detection has a fixed threshold: a packet is lost when one that was sent three later has been
//! acknowledged (RFC 9002, 6.1.1). TCP adapts to reordering, QUIC does not. A runtime of one thread at each end drives
//! it.

use std::net::{Ipv6Addr, UdpSocket};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig,
};
use rustix::net::sockopt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{ARRIVES_WITHIN, CHUNK, End, Ends, Received, Source};
use crate::usual::*;
use crate::workload::SILENCE_MAX;

const NAME: &str = "lab";
/// Most bytes on the way, and wanted buffers of the sockets.
const WINDOW_BYTES: u32 = 4 << 20;

/// Starts both ends: the client sends `source` until `end`, the server, which has the address `at`, takes it.
pub(super) fn start(
    [client, server]: [&Namespace; 2],
    at: SocketAddr,
    source: Source,
    received: Received,
    end: Arc<End>,
) -> Result<Ends> {
    let listener = server.enter(|| socket(at))?.with_context(|| format!("listening at {at}"))?;
    let at = listener.local_addr()?;
    let (server_config, client_config) = configuration()?;
    let receiver = server.spawn("receiver", move || receive(listener, server_config, received))?;
    let sender = client.spawn("sender", move || {
        let any: SocketAddr =
            if at.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut endpoint = endpoint(socket(any)?, None)?;
            endpoint.set_default_client_config(client_config);
            send(&endpoint, at, source, &end).await
        })
    })?;
    Ok(Ends { sender, receiver })
}

/// Sends one whole copy, and more until told to end, and waits until the receiver has all; returns how many.
async fn send(endpoint: &Endpoint, at: SocketAddr, mut source: Source, end: &End) -> Result<u64> {
    let connection = endpoint.connect(at, NAME)?.await.with_context(|| format!("connecting to {at}"))?;
    let mut stream = connection.open_uni().await?;
    let mut copies = 0;
    loop {
        while let Some(mut chunk) = source.next() {
            while !chunk.is_empty() {
                let taken = stream.write(chunk).await?;
                chunk = &chunk[taken..];
                end.is_in_time()?;
            }
        }
        copies += 1;
        if end.is_near() {
            break;
        }
    }
    stream.finish()?;
    let closed = timeout(ARRIVES_WITHIN + SILENCE_MAX, connection.closed()).await;
    match closed.context("the receiver does not say that it has all")? {
        ConnectionError::ApplicationClosed(_) => Ok(copies),
        error => Err(error.into()),
    }
}

fn receive(socket: UdpSocket, config: ServerConfig, mut received: Received) -> Result<Received> {
    runtime()?.block_on(async {
        let endpoint = endpoint(socket, Some(config))?;
        let ended = receive_stream(&endpoint, &mut received).await;
        received.end_with(ended);
        // Whoever has not heard of the end by then has ended, too.
        timeout(SILENCE_MAX, endpoint.wait_idle()).await.ok();
        Ok(received)
    })
}

/// Takes the one stream of the one connection to its end, and closes the connection.
async fn receive_stream(endpoint: &Endpoint, received: &mut Received) -> Result<()> {
    let Some(incoming) = timeout(SILENCE_MAX, endpoint.accept()).await.context("nobody connects")? else {
        bail!("the endpoint has ended");
    };
    let connection = incoming.await?;
    let mut stream = connection.accept_uni().await?;
    while let Some(chunk) = stream.read_chunk(CHUNK, true).await? {
        received.take(&chunk.bytes)?;
    }
    connection.close(0_u32.into(), b"all is here");
    Ok(())
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("a runtime for QUIC")
}

fn socket(at: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    let bytes = usize::try_from(WINDOW_BYTES)?;
    sockopt::set_socket_recv_buffer_size_force(&socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes))?;
    sockopt::set_socket_send_buffer_size_force(&socket, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes))?;
    Ok(socket)
}

/// An end that works on this thread's runtime.
fn endpoint(socket: UdpSocket, server: Option<ServerConfig>) -> Result<Endpoint> {
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?)
}

/// What receiver and sender go by: a certificate made for them alone, and no more than [`SILENCE_MAX`] of silence.
fn configuration() -> Result<(ServerConfig, ClientConfig)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_string()]).context("a certificate")?;
    let certificate: CertificateDer<'static> = made.cert.into();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(SILENCE_MAX.try_into()?))
        .stream_receive_window(WINDOW_BYTES.into())
        .receive_window(WINDOW_BYTES.into())
        .send_window(WINDOW_BYTES.into());
    let transport = Arc::new(transport);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    server.transport_config(Arc::clone(&transport));
    client.transport_config(transport);
    Ok((server, client))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_stream_arrives_whole_and_both_ends_know() {
        let (server_config, client_config) = configuration().unwrap();
        let socket_at = |at: &str| socket(at.parse().unwrap()).unwrap();
        let server = socket_at("127.0.0.1:0");
        let at = server.local_addr().unwrap();
        let source = Source::random(100_000, 1);
        let arrived = Arc::new(AtomicU64::new(0));
        let received = Received::new(source.clone(), Arc::clone(&arrived), Arc::default());
        let receiver = std::thread::spawn(move || receive(server, server_config, received));
        let sent = runtime().unwrap().block_on(async {
            let mut endpoint = endpoint(socket_at("127.0.0.1:0"), None).unwrap();
            endpoint.set_default_client_config(client_config);
            send(&endpoint, at, source, &End { is_last: true.into(), ..End::default() }).await
        });
        let received = receiver.join().unwrap().unwrap();
        assert_eq!((sent.unwrap(), received.bytes, received.lost), (1, 100_000, None));
        assert_eq!((received.copies, received.damaged), (1, 0));
    }
}
