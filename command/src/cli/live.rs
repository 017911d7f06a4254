//! Commands that change links, peers and classes while traffic runs.

use clap::{Args, Subcommand};
use tabane_api::Request;

use super::{Bundle, words};
use crate::remote;

#[derive(Debug, Subcommand)]
pub(super) enum LinkChange {
    /// Add a link
    #[command(allow_missing_positional = true)]
    Add {
        #[command(flatten)]
        bundle: Bundle,
        /// As after `--link` of `tabane up`
        #[arg(value_name = "NIC[,local=ADDR][,port=N][,peer=HOST:PORT]...[,rate=RATE][,protected]")]
        link: String,
    },
    /// Remove a link; cells on their way still arrive
    #[command(allow_missing_positional = true)]
    Remove(OneLink),
    /// Drain a link: data takes others at both ends, and nothing is lost; heartbeats go on. Waits until no data passes over it
    #[command(allow_missing_positional = true)]
    Drain(OneLink),
    /// Use a drained link again
    #[command(allow_missing_positional = true)]
    Resume(OneLink),
    /// Change a link's rate (or `measured`), also `down=` and `up=`, its weight (or `none`), or its peers, all of which are named
    #[command(allow_missing_positional = true)]
    Set {
        #[command(flatten)]
        bundle: Bundle,
        /// The link as for `remove`, and what changes
        #[arg(
            value_name = "NIC[,local=ADDR][,port=N][,rate=RATE|,down=RATE,up=RATE][,weight=N][,peer=HOST:PORT]..."
        )]
        link: String,
    },
}

/// A link of a bundle.
#[derive(Args, Debug)]
pub(super) struct OneLink {
    #[command(flatten)]
    bundle: Bundle,
    /// The link's NIC, and its local address where several links use that NIC
    #[arg(value_name = "NIC[,local=ADDR]")]
    link: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum PeerChange {
    /// Greet a further peer on a link
    Add {
        /// Name of the bundle [default: the only one that is up], the link as for `tabane link remove`, and where the peer listens
        #[arg(value_name = "[NAME] NIC[,local=ADDR] HOST:PORT", num_args = 2..=3, required = true)]
        words: Vec<String>,
    },
    /// Greet a peer on a link no longer; one that has joined stays until it is silent
    Remove {
        /// Name of the bundle [default: the only one that is up], the link as for `tabane link remove`, and the peer as it was named
        #[arg(value_name = "[NAME] NIC[,local=ADDR] HOST:PORT", num_args = 2..=3, required = true)]
        words: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ClassChange {
    /// Show the classes with their numbers: the first that matches a frame decides
    List {
        #[command(flatten)]
        bundle: Bundle,
    },
    /// Add a class behind the others
    #[command(allow_missing_positional = true)]
    Add {
        #[command(flatten)]
        bundle: Bundle,
        /// What its frames match, and their policy
        #[arg(value_name = "[max_size=N,][dscp=N,][protocol=NAME,][port=N,]policy=POLICY")]
        class: String,
        /// Add it before the class of this number
        #[arg(long, value_name = "N")]
        before: Option<usize>,
    },
    /// Remove a class
    #[command(allow_missing_positional = true)]
    Remove {
        #[command(flatten)]
        bundle: Bundle,
        /// Its number, as `list` shows it
        #[arg(value_name = "N")]
        number: usize,
    },
}

impl LinkChange {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            LinkChange::Add { bundle, link } => {
                remote::change_link(&bundle.meant()?, &Request::LinkAdd { link })
            }
            LinkChange::Remove(OneLink { bundle, link }) => {
                remote::change_link(&bundle.meant()?, &Request::LinkRemove { link })
            }
            LinkChange::Drain(OneLink { bundle, link }) => remote::drain_link(&bundle.meant()?, link),
            LinkChange::Resume(OneLink { bundle, link }) => {
                remote::change_link(&bundle.meant()?, &Request::LinkResume { link })
            }
            LinkChange::Set { bundle, link } => remote::change(&bundle.meant()?, &Request::LinkSet { link }),
        }
    }
}

impl PeerChange {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            PeerChange::Add { words } => {
                let (name, [link, peer]) = words::with_two(words)?;
                remote::change(&name, &Request::PeerAdd { link, peer })
            }
            PeerChange::Remove { words } => {
                let (name, [link, peer]) = words::with_two(words)?;
                remote::change(&name, &Request::PeerRemove { link, peer })
            }
        }
    }
}

impl ClassChange {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            ClassChange::List { bundle } => remote::list_classes(&bundle.meant()?),
            ClassChange::Add { bundle, class, before } => {
                remote::change_class(&bundle.meant()?, &Request::ClassAdd { class, before })
            }
            ClassChange::Remove { bundle, number } => {
                remote::change_class(&bundle.meant()?, &Request::ClassRemove { number })
            }
        }
    }
}
