//! Who may ask: root, the user as whom the daemon runs, and the members of one group.
//!
//! Abstract sockets have no owner and no permissions, so the kernel is asked who connected, and of which groups that
//! process is a member. There is one rule for all requests, `status` included: whoever is let in takes a place that
//! others then do not have.
//!
//! Source: `SO_PEERCRED`, `SO_PEERGROUPS` (unix(7), Linux 4.13).

use std::io;
use std::os::unix::net::UnixStream;

use super::peer_of;

/// A group whose members may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, for those who are no members.
    pub name: String,
    /// Its number.
    pub gid: u32,
}

/// Lets some in.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    pub(super) group: Option<Group>,
}

impl Gate {
    /// Why the process at the other end may not ask; `None` when it may.
    pub(super) fn refusal(&self, stream: &UnixStream) -> io::Result<Option<String>> {
        let peer = peer_of(stream)?;
        if peer.uid == 0 || peer.uid == rustix::process::getuid().as_raw() {
            return Ok(None);
        }
        let Some(Group { name, gid }) = &self.group else {
            return Ok(Some("only root and the user who runs the bundle may ask".to_owned()));
        };
        if peer.gid == *gid || tabane_io::peer_groups(stream)?.contains(gid) {
            return Ok(None);
        }
        Ok(Some(format!("only root, the user who runs the bundle and members of group {name} may ask")))
    }
}
