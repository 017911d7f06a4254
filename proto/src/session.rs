//! Sessions: which nodes are peers, under which numbers, and what their cells are sealed with.
//!
//! ```text
//!   table       who has which place and session number      keyring, replay    what seals, opens and is refused
//!   handshake   how a session begins, and gets new keys     seal               cells on the way out and in
//!   cookie      who shows its address first                 expiry             sessions whose keys cannot be renewed
//! ```

pub(crate) mod cookie;
pub(crate) mod expiry;
pub(crate) mod handshake;
pub(crate) mod keyring;
mod replay;
pub(crate) mod seal;
pub(crate) mod table;

use crate::security::{Rekey, Security, TAG};
use crate::session::handshake::Handshakes;
use crate::session::seal::SEALED_MAX;
use crate::session::table::Table;
use crate::time::Instant;
use crate::wire::hello::NodeId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Where a cell came in.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) link: u8,
    pub(crate) from: SocketAddr,
}

/// The sessions with all peers.
pub(crate) struct Sessions {
    /// This node, and what tells its starts apart.
    node: NodeId,
    incarnation: u64,
    table: Table,
    /// `None`: cells are not sealed.
    security: Option<Box<dyn Security>>,
    rekey: Rekey,
    handshakes: Handshakes,
    /// Where what leaves is sealed.
    sealed: Vec<u8>,
}

impl Sessions {
    pub(crate) fn new(now: Instant, node: NodeId, incarnation: u64) -> Self {
        Self {
            node,
            incarnation,
            table: Table::new(incarnation),
            security: None,
            rekey: Rekey::default(),
            handshakes: Handshakes::new(now),
            sealed: Vec::new(),
        }
    }

    /// Cells are sealed from now on, or with other keys. Sessions live on with whoever has one that is still accepted.
    pub(crate) fn secure(&mut self, security: Box<dyn Security>, rekey: Rekey) {
        self.security = Some(security);
        self.rekey = rekey;
        self.sealed.resize(SEALED_MAX, 0);
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// What tells this start of the node from others.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// The place of the group key with which a tag was made.
    pub(crate) fn tagged_by(&self, covered: &[u8], tag: &[u8; TAG]) -> Option<usize> {
        self.security.as_ref()?.tagged_by(covered, tag)
    }

    /// The tag of a greeting, where cells are sealed.
    pub(crate) fn group_tag(&self, greeting: &[u8]) -> Option<[u8; TAG]> {
        Some(self.security.as_ref()?.tag(0, greeting))
    }
}
