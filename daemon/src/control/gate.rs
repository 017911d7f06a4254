//! Who may ask: root, the user who started the daemon and the one as whom it runs, and the members of groups, each with a right of
//! its own.
//!
//! Abstract sockets have no owner and no permissions, so the server asks the kernel who connected, and of which groups
//! that process is a member. A process that may ask nothing is refused at once, so that it takes no place. Requests
//! that change the configuration, or hand the keys and the device over, are for owners alone: root and the user who
//! started the daemon. These have read the keys' files.
//!
//! Source: `SO_PEERCRED`, `SO_PEERGROUPS` (unix(7), Linux 4.13).

use std::io;
use std::os::unix::net::UnixStream;

use tabane_api::Request;
use tabane_api::socket::peer_of;
use tabane_process::sandbox::account::Group;

/// What a process may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Owner,
    /// What an operator may ask, and to use other keys: it gives them, and gets none.
    Keeper,
    /// Everything but the keys.
    Operator,
    /// What the bundle does, and nothing that changes it.
    Watcher,
}

impl Right {
    /// Why it does not include a request; `None` when it does.
    pub(super) fn refusal(self, request: &Request) -> Option<&'static str> {
        let looks = matches!(request, Request::Status | Request::Events | Request::Follow | Request::Classes);
        if self == Self::Watcher && !looks {
            return Some(
                "members of the group that may watch the bundle can ask for its status, its events and its classes only",
            );
        }
        let gives_keys = matches!(request, Request::Keys { .. } | Request::Allow { .. });
        let is_owners = matches!(request, Request::Reload { .. } | Request::Filed { .. } | Request::Upgrade);
        let is_refused = is_owners && self != Self::Owner || gives_keys && self == Self::Operator;
        is_refused.then_some(
            "only root and the user who started the bundle may change its keys, reload it or take it over",
        )
    }
}

/// Decides who may ask.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    starter: u32,
    groups: Vec<(Group, Right)>,
}

impl Gate {
    /// For root and the present user of this process, who starts the daemon.
    pub(super) fn new() -> Self {
        Self { starter: rustix::process::geteuid().as_raw(), groups: Vec::new() }
    }

    /// Lets the members of these groups in, too. Who is in several has the right of the first.
    pub(super) fn open_to(self, groups: &[(Group, Right)]) -> Self {
        Self { groups: groups.to_vec(), ..self }
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
        for (Group { gid, .. }, right) in &self.groups {
            if peer.gid == *gid || tabane_io::peer_groups(stream)?.contains(gid) {
                return Ok(Ok(*right));
            }
        }
        let names: Vec<_> = self.groups.iter().map(|(group, _)| group.name.as_str()).collect();
        Ok(Err(match names.as_slice() {
            [] => "only root and the user who runs the bundle may ask".to_owned(),
            names => {
                let names = names.join(" or ");
                format!("only root, the user who runs the bundle and members of group {names} may ask")
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use tabane_api::Told;

    use super::*;

    #[test]
    fn who_watches_changes_nothing() {
        for request in [Request::Status, Request::Events, Request::Follow, Request::Classes] {
            assert_eq!(Right::Watcher.refusal(&request), None, "{request:?}");
        }
        let link = || "eth1".to_owned();
        let others = [
            Request::Stop,
            Request::Policy { policy: "rr".to_owned() },
            Request::LinkDrain { link: link() },
            Request::LinkResume { link: link() },
            Request::Configuration,
            Request::Upgrade,
            Request::Keys { keys: Vec::new() },
        ];
        for request in others {
            assert!(Right::Watcher.refusal(&request).is_some(), "{request:?}");
        }
    }

    #[test]
    fn what_may_change_keys_is_for_owners() {
        let (told, file) = (Told::default(), std::path::PathBuf::from("/etc/tabane/tb0.toml"));
        let owners = [
            Request::Keys { keys: Vec::new() },
            Request::Allow { allow: None },
            Request::Reload { told: told.clone(), file: file.clone() },
            Request::Filed { told, file },
            Request::Upgrade,
        ];
        for request in owners {
            assert!(Right::Operator.refusal(&request).is_some(), "{request:?}");
            let gives = matches!(request, Request::Keys { .. } | Request::Allow { .. });
            assert_eq!(Right::Keeper.refusal(&request).is_none(), gives, "{request:?}");
            assert_eq!(Right::Owner.refusal(&request), None);
        }
        for request in [Request::Configuration, Request::LinkDrain { link: "eth1".to_owned() }] {
            assert_eq!(Right::Operator.refusal(&request), None, "{request:?}");
        }
    }
}
