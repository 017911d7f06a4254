//! Sessions: which nodes are peers, under which numbers, and which keys seal their cells.
//!
//! On the path a session seals and opens cells; the rest is beside it.
//!
//! ```text
//!   table       which peer has which index and number       keyring, replay    keys that seal and open; refused numbers
//!   peers       what rooms keep of each, by its index
//!   handshake   how a session begins, and gets new keys     seal               cells on the way out and in
//!   cookie      who must prove its address first            expiry             sessions whose keys cannot be renewed
//! ```

pub(crate) mod cookie;
pub(crate) mod expiry;
pub(crate) mod handshake;
pub(crate) mod keyring;
pub(crate) mod peers;
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

/// Where a cell arrived: the link, and the sender's address.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) link: u8,
    pub(crate) from: SocketAddr,
}

pub(crate) struct Sessions {
    /// This node, and its incarnation.
    node: NodeId,
    incarnation: u64,
    table: Table,
    /// `None`: cells are not sealed.
    security: Option<Box<dyn Security>>,
    rekey: Rekey,
    handshakes: Handshakes,
    /// The buffer in which batches are sealed.
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

    /// Seals cells from now on, or with other keys. Sessions live on with peers that have a key that is still accepted.
    pub(crate) fn secure(&mut self, security: Box<dyn Security>, rekey: Rekey) {
        self.security = Some(security);
        self.rekey = rekey;
        self.sealed.resize(SEALED_MAX, 0);
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The number that tells this start of the node from others.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    pub(crate) fn tagged_by(&self, covered: &[u8], tag: &[u8; TAG]) -> Option<usize> {
        self.security.as_ref()?.tagged_by(covered, tag)
    }

    /// The group tag of a greeting, where cells are sealed.
    pub(crate) fn group_tag(&self, greeting: &[u8]) -> Option<[u8; TAG]> {
        Some(self.security.as_ref()?.tag(0, greeting))
    }
}
