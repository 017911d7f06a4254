//! The control socket: an abstract Unix socket named `tabane/NAME`. Like the device it belongs to the network namespace, so one name means
//! one bundle there, and the kernel removes it with the process. Such sockets have no file permissions: the daemon asks the kernel who
//! connected, and the command who serves (`trust.rs`).

use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The address of the bundle `name` in this network namespace.
pub fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("tabane/{name}").as_bytes())?)
}

/// A connection to whoever serves the name. It waits for nobody: any user may take a name and accept no connection.
pub fn connect_now(name: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &address(name)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The process at the other end, as it was when it connected or began to listen.
pub struct Peer {
    /// 0 when it lives in a foreign pid namespace.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Who is at the other end of a connection, as the kernel tells it.
pub fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let peer = getsockopt(stream, PeerCredentials)?;
    Ok(Peer { pid: peer.pid(), uid: peer.uid(), gid: peer.gid() })
}
