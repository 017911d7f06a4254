//! What runs through a path: each kind of traffic is a file, ends by itself or when told to, and never waits for ever.

pub mod app;
pub mod database;
pub mod datagrams;
pub mod delivery;
pub mod echoes;
pub mod etcd;
pub mod fleet;
pub mod ganesha;
pub mod iperf;
pub mod mpi;
pub mod ping_pong;
pub mod sequence;
pub mod store;
pub mod transfer;
pub mod web;

use std::net::{TcpListener, TcpStream, UdpSocket};

use serde_json::Value;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::prerequisites::require_program;
use crate::usual::*;

/// How long a connection may be silent before it counts as lost. TCP doubles its timeout with each try in vain: after some
/// seconds without a path, as a daemon that was killed makes them, the next try may be as far away.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long a server may take to listen; an emulated machine takes seconds to load it.
const LISTEN_WITHIN: Duration = Duration::from_secs(60);

/// Congestion control of every stream, whatever the machine prefers: two kinds on one path would measure each other.
pub const CONGESTION: &str = "cubic";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Tcp,
    /// TCP over several paths (RFC 8684).
    Mptcp,
}

impl Stream {
    fn socket(self, address: SocketAddr) -> Result<Socket> {
        let protocol = match self {
            Stream::Tcp => Protocol::TCP,
            Stream::Mptcp => Protocol::MPTCP,
        };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
        socket.set_tcp_congestion(CONGESTION.as_bytes()).context("the kernel has no CUBIC")?;
        Ok(socket)
    }

    /// Listens at `address`, and says where that is, port included. Further subflows of MPTCP go to other addresses of the
    /// host and find nobody unless it listens there, too.
    pub fn listen(self, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
        let socket = self.socket(address)?;
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
        let own = if self == Stream::Mptcp && address.is_ipv4() { any } else { address };
        socket.bind(&own.into())?;
        socket.listen(1)?;
        let listener = TcpListener::from(socket);
        let port = listener.local_addr()?.port();
        Ok((listener, SocketAddr::new(address.ip(), port)))
    }

    /// Connects to `address`; reads and writes on the connection are bounded by [`SILENCE_MAX`].
    pub fn connect(self, address: SocketAddr) -> Result<TcpStream> {
        let socket = self.socket(address)?;
        socket.connect_timeout(&address.into(), SILENCE_MAX)?;
        bounded(socket.into())
    }
}

fn bounded(stream: TcpStream) -> Result<TcpStream> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

/// Accepts the next connection within [`SILENCE_MAX`]; its reads and writes are bounded by the same time.
pub fn accept(listener: &TcpListener) -> Result<TcpStream> {
    // SO_RCVTIMEO bounds accept(2) as well.
    SockRef::from(listener).set_read_timeout(Some(SILENCE_MAX))?;
    let (stream, _) = listener.accept()?;
    bounded(stream)
}

/// Wanted receive buffer for datagrams; the kernel may grant less. What is measured is the path, not a short nap of the receiver.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

fn datagrams_at(host: &Namespace, at: SocketAddr) -> Result<UdpSocket> {
    let socket = host.enter(|| UdpSocket::bind(at))?.with_context(|| format!("binding to {at}"))?;
    SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    Ok(socket)
}

pub fn wait_until_listening(host: &Namespace, port: u16, server: &str) -> Result<()> {
    let is_there = || Ok(is_listening(host, port)?.then_some(()));
    wait_for(&format!("{server} that listens"), LISTEN_WITHIN, is_there)
}

/// Whether a socket listens (state 0A) on the port; a connection to find out would be taken for a client.
fn is_listening(host: &Namespace, port: u16) -> Result<bool> {
    let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let tables = host.enter(|| Ok::<_, std::io::Error>(table("tcp")? + &table("tcp6")?))??;
    let wanted = format!(":{port:04X}");
    Ok(tables.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 3 && fields[1].ends_with(&wanted) && fields[3] == "0A"
    }))
}

const PORT: u16 = 7430;
/// Time for a server to listen; an emulated machine takes seconds to load a program.
const SERVES_WITHIN: Duration = Duration::from_secs(30);
const END_WITHIN: Duration = Duration::from_secs(120);

/// A server at work, and the host that asks it.
#[derive(Debug)]
pub struct Probe<'a> {
    program: PathBuf,
    client: &'a Namespace,
    server: Process,
}

impl<'a> Probe<'a> {
    /// Starts a server on `server`, which `client` reaches at `address`, with the program
    /// beside `tabane`, the executable of a daemon.
    pub fn start(
        tabane: &Path,
        client: &'a Namespace,
        server: &Namespace,
        address: IpAddr,
    ) -> Result<Probe<'a>> {
        let program = tabane.with_file_name("tabane-probe");
        require_program(&program, "tabane-probe")?;
        let mut command = server.command(&program);
        command.args(["serve", "--listen", &format!("0.0.0.0:{PORT}")]);
        let server = Process::start(command)?;
        let at = SocketAddr::new(address, PORT);
        wait_for("a server that listens", SERVES_WITHIN, || {
            let connect = || TcpStream::connect_timeout(&at, SERVES_WITHIN);
            Ok(client.enter(connect)?.ok())
        })?;
        Ok(Probe { program, client, server })
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub fn measure(&self, what: &[&str], flags: &[&str]) -> Result<Value> {
        let mut command = self.client.command(&self.program);
        command.args(what).args(flags).arg("--json");
        let output = Process::start(command)?.wait(END_WITHIN)?.success("the probe")?;
        serde_json::from_str(&output).with_context(|| output.clone())
    }

    pub fn stop(self) -> Result<()> {
        self.server.stop()?.success("the server").map(drop)
    }
}
