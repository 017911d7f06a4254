//! The kinds of events: what an [`Entry`](crate::Entry) may say in `what`.
//!
//! Sources of the page `docs/reference/events.md`; `docs/events.md` has an example of each.

/// Each kind and its meaning.
pub const KINDS: [(&str, &str); 32] = [
    ("device-gone", "Somebody deleted the bundle's device; the daemon ends with exit code 1."),
    ("peer-joined", "A peer answered."),
    ("peer-left", "A peer has been silent for 10 s, or was restarted."),
    ("peer-refused", "A node cannot be a peer; `detail` says why."),
    ("stranger", "While there is no peer, somebody greets who is not of the group."),
    (
        "peer-expired",
        "A session ended: its keys could not be renewed, or this machine goes on from a snapshot.",
    ),
    ("link-up", "A link works in one direction."),
    ("link-down", "A link does not work any more in one direction; `signal` says what showed it."),
    ("link-suspect", "A link loses so much that data avoids it as long as another one is better."),
    ("link-trusted", "A link that was suspect is used again."),
    ("path-mtu", "What a path carries has been found, and it is not what was known."),
    ("segments-lost", "What leaves by one call for the NIC to segment is lost, and single datagrams arrive."),
    ("link-drained", "Data takes other links as long as one is up; with `peer`, the peer drains its end."),
    ("link-resumed", "A link is drained no longer."),
    ("link-set", "The rate, the weight or the peers of a link have changed."),
    ("data-path", "Frames to a peer take the kernel path, or travel in cells; `detail` says why."),
    ("policy", "The policy of all workers was switched."),
    ("receive", "The receive engine of all workers was switched."),
    ("link-added", "A link joined the bundle."),
    ("link-removed", "A link left the bundle."),
    ("carrier-lost", "The NIC of a link has lost its carrier, though it may have it again."),
    ("nic-mtu", "The MTU of a link's NIC has changed."),
    ("nic-gone", "The NIC of a link was deleted."),
    ("nic-back", "A NIC of the name of one that was deleted is there, and the link uses it."),
    ("name-resolved", "The name of a peer has other addresses now."),
    ("name-failed", "The name of a peer cannot be resolved; it is tried again."),
    ("keys", "`tabane key` has changed the group keys."),
    ("allow", "`tabane allow` has changed whose nodes are let in."),
    ("classes", "`tabane class` has changed the classes."),
    ("reloaded", "`tabane reload` has taken a file in."),
    ("upgraded", "Another process has taken the bundle over."),
    ("skipped", "Stands for events that came faster than this reader took them; it is counted nowhere."),
];

/// Where a kind stands in [`KINDS`].
pub fn place(what: &str) -> Option<usize> {
    KINDS.iter().position(|(kind, _)| *kind == what)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::entry::PAGE;

    #[test]
    fn the_page_describes_each_kind() {
        let kinds: BTreeSet<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
        let named = PAGE.split("**`").skip(1).filter_map(|rest| rest.split_once("`**"));
        assert_eq!(kinds, named.map(|(kind, _)| kind).collect(), "docs/events.md");
        assert_eq!(kinds.len(), KINDS.len(), "a kind stands there twice");
    }
}
