//! Commands that change peers and classes while traffic runs.

use clap::Subcommand;

use super::{Bundle, NamedBundle};
use crate::control::Request;
use crate::remote;

#[derive(Debug, Subcommand)]
pub(super) enum PeerChange {
    /// Greet a further peer on a link
    Add {
        #[command(flatten)]
        bundle: NamedBundle,
        /// The link as for `tabane link remove`
        #[arg(value_name = "NIC[,local=ADDR]")]
        link: String,
        /// Where the peer listens
        #[arg(value_name = "HOST:PORT")]
        peer: String,
    },
    /// Greet a peer on a link no longer; one that has joined stays until it is silent
    Remove {
        #[command(flatten)]
        bundle: NamedBundle,
        /// The link as for `tabane link remove`
        #[arg(value_name = "NIC[,local=ADDR]")]
        link: String,
        /// As it was named
        #[arg(value_name = "HOST:PORT")]
        peer: String,
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
    Add {
        #[command(flatten)]
        bundle: NamedBundle,
        /// What its frames match, and their policy
        #[arg(value_name = "[max_size=N,][dscp=N,][protocol=NAME,][port=N,]policy=POLICY")]
        class: String,
        /// Add it before the class of this number
        #[arg(long, value_name = "N")]
        before: Option<usize>,
    },
    /// Remove a class
    Remove {
        #[command(flatten)]
        bundle: NamedBundle,
        /// Its number, as `list` shows it
        #[arg(value_name = "N")]
        number: usize,
    },
}

impl PeerChange {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            PeerChange::Add { bundle, link, peer } => {
                remote::set(&bundle.name, &Request::PeerAdd { link, peer })
            }
            PeerChange::Remove { bundle, link, peer } => {
                remote::set(&bundle.name, &Request::PeerRemove { link, peer })
            }
        }
    }
}

impl ClassChange {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            ClassChange::List { bundle } => remote::list_classes(&bundle.name),
            ClassChange::Add { bundle, class, before } => remote::add_class(&bundle.name, class, before),
            ClassChange::Remove { bundle, number } => remote::remove_class(&bundle.name, number),
        }
    }
}
