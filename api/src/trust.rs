//! Which users a command trusts to serve a bundle: root, the user who asks, and the user that daemons become.
//!
//! Any process may take an abstract name first. So a command checks who serves it before it sends anything, for what it
//! sends may be a key. The kernel reports the user who called `listen`: the one who started the bundle, for a daemon
//! listens before it becomes another user.
//!
//! Source: `SO_PEERCRED` (unix(7)).

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use nix::unistd::User;

use crate::socket::{Peer, peer_of};

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
