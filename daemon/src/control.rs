//! The control socket: how a command asks a running bundle.
//!
//! ```text
//!   tabane down | status | …      client.rs ── {"do":"stop"}\n ──> server.rs ── Request ──> handler of the run loop
//!                                 client.rs <── one JSON line ──── server.rs <── Value ───┘
//!   tabane events --follow        client.rs <── a line per event ─ follower.rs <── event log
//! ```
//!
//! The socket is an abstract Unix socket named `tabane/NAME`. Like the device it belongs to the network namespace, so
//! one name means one bundle there, and the kernel removes it with the process. Such sockets have
//! no file permissions: the server asks the kernel who connected (`gate.rs`), and the command who serves (`trust.rs`).

mod client;
mod follower;
mod gate;
mod outgoing;
mod present;
mod server;
#[cfg(test)]
mod tests;
pub(crate) mod trust;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::in_force::Told;

pub use client::{AskError, ask, follow, open_request, refusal, stop};
pub use gate::{Group, Right};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
pub use present::{Present, meant, present};
pub use server::{BindError, Listener, Server};

/// What a command may ask. Further fields are ignored, so that a newer command can ask an older bundle.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// What the bundle does; answered by a [`Status`](crate::status::Status).
    Status,
    /// End; answered before the bundle ends.
    Stop,
    /// The latest events; answered by `{"events": […]}`, each an [`Entry`](crate::events::Entry).
    Events,
    /// The latest events and those to come: a line per event instead of an answer.
    Follow,
    /// Switch the policy; answered by `{"old": …, "new": …}`.
    Policy {
        /// The name of the new one.
        policy: String,
    },
    /// Switch the receive engine; answered by `{"old": …, "new": …}`.
    Receive {
        /// The name of the new one.
        engine: String,
    },
    /// Use other group keys; answered by `{"group": …}`, which the first one makes.
    Keys {
        /// In hexadecimal digits: the one to send with, then those that are accepted, too.
        keys: Vec<String>,
    },
    /// Let in only nodes with these keys; answered by `{"allowed": …}`, how many. Without a list: all of the group.
    Allow {
        /// Public keys as people write them.
        allow: Option<Vec<String>>,
    },
    /// Add a link; answered by `{"link": …}`, its number.
    LinkAdd {
        /// As after `--link`.
        link: String,
    },
    /// Remove a link; answered by `{"link": …}`, the number that it had, when its sockets are closed.
    LinkRemove {
        /// Its NIC, and `,local=ADDRESS` where that is not enough.
        link: String,
    },
    /// Drain a link; answered by `{"link": …}`, its number.
    LinkDrain {
        /// As for `LinkRemove`.
        link: String,
    },
    /// End that; answered in the same way.
    LinkResume {
        /// As for `LinkRemove`.
        link: String,
    },
    /// Change a link; answered by `{"done": […]}`, what has changed.
    LinkSet {
        /// The link as for `LinkRemove`, and behind it `,rate=`, `,weight=` and `,peer=`.
        link: String,
    },
    /// Name a further peer on a link; answered in the same way.
    PeerAdd {
        /// As for `LinkRemove`.
        link: String,
        /// Where the peer listens.
        peer: String,
    },
    /// Name a peer on a link no longer; answered in the same way.
    PeerRemove {
        /// As for `LinkRemove`.
        link: String,
        /// As it was named.
        peer: String,
    },
    /// The classes of frames; answered by `{"classes": […]}`, each as after `tabane class add`.
    Classes,
    /// Add a class; answered by `{"number": …}`.
    ClassAdd {
        /// As after `tabane class add`.
        class: String,
        /// The number of the class before which it goes; without it goes behind all.
        #[serde(default)]
        before: Option<usize>,
    },
    /// Remove a class; answered by `{"class": …}`, what it was.
    ClassRemove {
        /// Its number, from 1.
        number: usize,
    },
    /// What is in force, and how the bundle was started, without secrets; answered by `{"told": …, "groups": […], "origin": …}`.
    Configuration,
    /// Change what differs from this file; answered by `{"done": […]}`, what has changed.
    Reload {
        /// What the file says, with the flags of the start over it.
        told: Told,
        /// Its absolute path.
        file: PathBuf,
    },
    /// A file says this from now on; answered by `{}`.
    Filed {
        /// What it says, with the flags of the start over it.
        told: Told,
        /// Its absolute path.
        file: PathBuf,
    },
    /// Hand the bundle over to the process that asks; the module `handover` says what follows.
    Upgrade,
}

/// The requests that exist, for the answer to an unknown one.
const REQUESTS: &str = r#"{"do":WHAT} with status, stop, events, follow, policy, receive, keys, allow, link-add, link-remove, link-drain, link-resume, link-set, peer-add, peer-remove, classes, class-add, class-remove, configuration, reload, filed or upgrade"#;

/// The address of the bundle `name` in this network namespace.
fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("tabane/{name}").as_bytes())?)
}

/// A connection to whoever serves the name. It waits for nobody: any user may take a name and accept no connection.
fn connect_now(name: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &address(name)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The answer that says only that it is done: `{}`.
pub fn done() -> serde_json::Value {
    serde_json::json!({})
}

/// The process at the other end, as it was when it connected or began to listen.
pub(crate) struct Peer {
    /// 0 when it lives in a foreign pid namespace.
    pub(crate) pid: i32,
    uid: u32,
    gid: u32,
}

pub(crate) fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let peer = getsockopt(stream, PeerCredentials)?;
    Ok(Peer { pid: peer.pid(), uid: peer.uid(), gid: peer.gid() })
}
