//! Connections: so many at once, and each has to say within some seconds what it wants.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_tcp_user_timeout;
use tabane_io::Signals;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::socket::Socket;

/// Connections that are served at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// Time for a request's head. Who is silent for longer gives the place back.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// A client that takes nothing of an answer for so many milliseconds loses its place: the kernel ends the connection.
const TAKEN_WITHIN: u32 = if cfg!(test) { 1_000 } else { 10_000 };
/// Bytes of a request's head at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Questions to bundles that are under way at once.
const QUESTIONS_MAX: usize = 4;
/// After the kernel has refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves on a thread of its own until SIGTERM or SIGINT comes.
pub(crate) fn until_a_signal(signals: &Signals, socket: Socket, router: Router) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(QUESTIONS_MAX).build();
    let runtime = runtime.context("cannot start the server")?;
    let listener = {
        let _context = runtime.enter();
        match socket {
            Socket::Tcp(listener, _) => Listener::Tcp(TcpListener::from_std(listener)?),
            Socket::Unix(listener, _) => Listener::Unix(UnixListener::from_std(listener)?),
        }
    };
    let server = Server { listener, router, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) };
    let serve = move || runtime.block_on(server.serve());
    std::thread::Builder::new().name("server".to_owned()).spawn(serve)?;
    loop {
        match poll(&mut [PollFd::new(signals, PollFlags::IN)], None) {
            Err(rustix::io::Errno::INTR) => {}
            // Questions that are under way are not waited for.
            ready => return ready.map(drop).context("cannot wait for signals"),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct Server {
    listener: Listener,
    router: Router,
    places: Arc<Semaphore>,
}

impl Server {
    async fn serve(self) {
        while let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
            match &self.listener {
                Listener::Tcp(listener) => {
                    let accepted = listener.accept().await.and_then(|(stream, _)| {
                        set_tcp_user_timeout(&stream, TAKEN_WITHIN)?;
                        Ok(stream)
                    });
                    self.admit(accepted, place).await;
                }
                Listener::Unix(listener) => {
                    self.admit(listener.accept().await.map(|(stream, _)| stream), place).await;
                }
            }
        }
    }

    /// Serves a connection, which keeps its place until it ends.
    async fn admit<S>(&self, stream: io::Result<S>, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match stream {
            Ok(stream) => {
                let service = TowerToHyperService::new(self.router.clone());
                tokio::spawn(async move {
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT).max_buf_size(HEAD_BYTES_MAX);
                    // A browser that goes away in between is no error of anybody.
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection is refused");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use axum::routing::get;

    use super::*;

    /// A client asks for much, and reads nothing of it.
    #[test]
    fn who_takes_no_answer_loses_the_place() {
        const WITHIN: Duration = Duration::from_secs(60);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let router = Router::new().route("/", get(async || "x".repeat(1 << 20)));
            let places = Arc::new(Semaphore::new(1)); // which is free for the next connection
            tokio::spawn(Server { listener: Listener::Tcp(listener), router, places }.serve());
            let mut client = TcpStream::connect(address).expect("a connection");
            let asks = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
            client.write_all(&asks).expect("they fit");
            let next = tokio::task::spawn_blocking(move || {
                let mut next = TcpStream::connect(address)?;
                next.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
                next.set_read_timeout(Some(WITHIN))?;
                next.read_exact(&mut [0; 100])
            });
            next.await.expect("a thread").expect("the place is free again");
            drop(client);
        });
    }
}
