//! The control socket: an abstract Unix socket named `tabane/NAME`. Like the device it belongs to the network namespace, so one name means
//! one bundle there, and the kernel removes it with the process. Such sockets have no file permissions: the daemon asks the kernel who
//! connected, and the command who serves.
//!
//! A command trusts root, the user who asks, and the user that daemons become. Any process may take an abstract name first, so it checks
//! who serves the name before it sends anything, for what it sends may be a key. The kernel reports the user who called `listen`: the one
//! who started the bundle, for a daemon listens before it becomes another user.
//!
//! Source: `SO_PEERCRED` (unix(7)).

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::User;
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
    pub uid: u32,
    pub gid: u32,
}

/// Who is at the other end of a connection, as the kernel tells it.
pub fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let peer = getsockopt(stream, PeerCredentials)?;
    Ok(Peer { pid: peer.pid(), uid: peer.uid(), gid: peer.gid() })
}

/// The user as whom a daemon runs that root starts, if there is such a user.
pub const USUAL_USER: &str = "tabane";

/// The user as whom daemons run, as it was when somebody asked first: who gives up files cannot look later.
static USUAL: OnceLock<Option<u32>> = OnceLock::new();

/// The process that serves a name, if it is not to be asked.
pub(super) fn stranger(stream: &UnixStream) -> io::Result<Option<Peer>> {
    let peer = peer_of(stream)?;
    let own = rustix::process::geteuid().as_raw();
    Ok(if is_trusted(peer.uid, own, usual) { None } else { Some(peer) })
}

/// The user as whom daemons run, if there is one.
pub fn usual() -> Option<u32> {
    *USUAL.get_or_init(|| User::from_name(USUAL_USER).ok().flatten().map(|user| user.uid.as_raw()))
}

fn is_trusted(uid: u32, own: u32, usual: impl FnOnce() -> Option<u32>) -> bool {
    uid == 0 || uid == own || usual() == Some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_oneself_and_the_usual_user_are_trusted() {
        for uid in [0, 1_000, 990] {
            assert!(is_trusted(uid, 1_000, || Some(990)), "{uid}");
        }
        assert!(!is_trusted(1_001, 1_000, || Some(990)));
        assert!(!is_trusted(990, 0, || None), "there is no such user");
    }
}
