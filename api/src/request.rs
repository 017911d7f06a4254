//! What a command may ask a bundle: one JSON line, `{"do":"status"}` and the like.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::told::Told;

/// What a command may ask. Further fields are ignored, so that a newer command can ask an older bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// What the bundle does; answered by a [`Status`](crate::status::Status).
    Status,
    /// End; answered before the bundle ends.
    Stop,
    /// The latest events; answered by `{"events": […]}`, each an [`Entry`](crate::Entry).
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
pub const REQUESTS: &str = r#"{"do":WHAT} with status, stop, events, follow, policy, receive, keys, allow, link-add, link-remove, link-drain, link-resume, link-set, peer-add, peer-remove, classes, class-add, class-remove, configuration, reload, filed or upgrade"#;
