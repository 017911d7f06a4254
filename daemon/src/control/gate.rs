//! Who may ask: root, the user who started the daemon and the one as whom it runs, and the members of one group.
//!
//! Abstract sockets have no owner and no permissions, so the server asks the kernel who connected, and of which groups
//! that process is a member. A process that may ask nothing is refused at once, so that it takes no place. Requests
//! that change the keys or which nodes are let in, or hand the keys over, are for owners alone: root and the user who
//! started the daemon. These have read the keys' files.
//!
//! Source: `SO_PEERCRED`, `SO_PEERGROUPS` (unix(7), Linux 4.13).

use std::io;
use std::os::unix::net::UnixStream;

use super::{Request, peer_of};

/// A group whose members may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, for those who are no members.
    pub name: String,
    /// Its number.
    pub gid: u32,
}

/// What a process may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Everything.
    Owner,
    /// Everything but the keys.
    Operator,
}

impl Right {
    /// Why it does not include a request; `None` when it does.
    pub(super) fn refusal(self, request: &Request) -> Option<&'static str> {
        let concerns_keys = matches!(
            request,
            Request::Keys { .. }
                | Request::Allow { .. }
                | Request::Reload { .. }
                | Request::Filed { .. }
                | Request::Upgrade
        );
        (concerns_keys && self != Self::Owner).then_some(
            "only root and the user who started the bundle may change its keys, reload it or take it over",
        )
    }
}

/// Decides who may ask.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The user who started the daemon.
    starter: u32,
    group: Option<Group>,
}

impl Gate {
    /// For root and the present user of this process, who starts the daemon.
    pub(super) fn new() -> Self {
        Self { starter: rustix::process::geteuid().as_raw(), group: None }
    }

    /// Lets members of `group` in, too.
    pub(super) fn open_to(self, group: Option<Group>) -> Self {
        Self { group, ..self }
    }

    /// What the process at the other end may ask, or why nothing.
    pub(super) fn right(&self, stream: &UnixStream) -> io::Result<Result<Right, String>> {
        let peer = peer_of(stream)?;
        if peer.uid == 0 || peer.uid == self.starter {
            return Ok(Ok(Right::Owner));
        }
        if peer.uid == rustix::process::getuid().as_raw() {
            return Ok(Ok(Right::Operator));
        }
        let Some(Group { name, gid }) = &self.group else {
            return Ok(Err("only root and the user who runs the bundle may ask".to_owned()));
        };
        if peer.gid == *gid || tabane_io::peer_groups(stream)?.contains(gid) {
            return Ok(Ok(Right::Operator));
        }
        Ok(Err(format!("only root, the user who runs the bundle and members of group {name} may ask")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_force::Told;

    #[test]
    fn what_may_change_keys_is_for_owners() {
        let (told, file) = (Told::default(), std::path::PathBuf::from("/etc/tabane/tb0.toml"));
        let owners = [
            Request::Keys { keys: Vec::new(), files: Vec::new() },
            Request::Allow { allow: None },
            Request::Reload { told: told.clone(), file: file.clone() },
            Request::Filed { told, file },
            Request::Upgrade,
        ];
        for request in owners {
            assert!(Right::Operator.refusal(&request).is_some(), "{request:?}");
            assert_eq!(Right::Owner.refusal(&request), None);
        }
        for request in [Request::Configuration, Request::LinkDrain { link: "eth1".to_owned() }] {
            assert_eq!(Right::Operator.refusal(&request), None, "{request:?}");
        }
    }
}
