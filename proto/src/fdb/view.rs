//! Which peer a MAC address lives behind, as one worker sees it: it learns from frames that arrive, and ages entries.
//!
//! Hosts may sit behind a bridge on either side. A frame to an unknown or group address goes to every peer; a frame from
//! a peer never goes to another one (split horizon), so no loop can form inside a bundle.
//!
//! Addresses stand in the table that all workers share ([`crate::fdb`]). This view maps the numbers of nodes there to the
//! worker's peers. When a peer is gone, its mapping goes, so its addresses are unknown at once.

use crate::fdb::{Claim, Fdb, NUMBERS, Refusal, second};
use crate::policy::classify::Mac;
use crate::session::peers::ByPeer;
use crate::time::Instant;
use crate::wire::hello::NodeId;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// A peer without a number claims one again after so many seconds, or at once when only another worker was claiming.
const ASK_AGAIN_AFTER: u32 = 1;
/// Addresses that are kept for who asks what was learned.
const LEARNED: usize = 1_024;

pub(crate) struct View {
    fdb: Arc<Fdb>,
    /// Each peer's: its node's number.
    claims: ByPeer<Claim>,
    /// By a node's number: the peer's index, and since when the number is its node's.
    peers: Box<[Option<(u16, u32)>]>,
    /// Peers whose nodes have no number yet.
    nameless: Vec<(u16, NodeId)>,
    /// When these claim again, in seconds.
    ask_at: u32,
    /// The latest moment that this worker has seen, in seconds.
    second: u32,
    /// What was learned and nobody has asked for yet.
    learned: VecDeque<(Mac, u16)>,
}

impl View {
    pub(crate) fn new(fdb: Arc<Fdb>) -> Self {
        let peers = vec![None; NUMBERS].into_boxed_slice();
        let (claims, nameless, learned) = (ByPeer::default(), Vec::new(), VecDeque::new());
        Self { fdb, claims, peers, nameless, ask_at: 0, second: 0, learned }
    }

    /// A frame from `mac` came from `peer`.
    pub(crate) fn learn(&mut self, now: Instant, mac: Mac, peer: u16) {
        self.second = second(now).max(self.second);
        let claim = self.claims.get(peer).filter(|_| !is_group(mac));
        let is_written = claim.is_some_and(|claim| self.fdb.learn(self.second, mac, claim.number));
        if is_written && self.learned.len() < LEARNED {
            self.learned.push_back((mac, peer));
        }
    }

    /// An address that was learned, or is used in another second, and the peer behind which it lives. Of very many some are left
    /// out until the next second.
    pub(crate) fn poll_learned(&mut self) -> Option<(Mac, u16)> {
        self.learned.pop_front()
    }

    /// The peer behind which `mac` lives, when it is known.
    pub(crate) fn look_up(&mut self, now: Instant, mac: Mac) -> Option<u16> {
        self.second = second(now).max(self.second);
        if is_group(mac) {
            return None;
        }
        let found = self.fdb.look_up(self.second, mac)?;
        let (peer, since) = self.peers[usize::from(found.number)]?;
        (found.learned >= since).then_some(peer)
    }

    /// A peer is there. Addresses behind its node may be known already, by other workers or from before its restart.
    pub(crate) fn meet_peer(&mut self, now: Instant, peer: u16, node: NodeId) {
        self.second = second(now).max(self.second);
        if self.claim(peer, node).is_err() {
            self.nameless.push((peer, node));
        }
    }

    pub(crate) fn forget_peer(&mut self, gone: u16) {
        self.nameless.retain(|(peer, _)| *peer != gone);
        if let Some(claim) = self.claims.remove(gone) {
            self.peers[usize::from(claim.number)] = None;
            self.fdb.nodes().release(self.second, claim.number);
        }
    }

    /// Periodic work: this worker's part of the sweep, and claims that failed before.
    pub(crate) fn age(&mut self, now: Instant) {
        self.second = second(now).max(self.second);
        self.fdb.sweep(self.second);
        while self.second >= self.ask_at
            && let Some((peer, node)) = self.nameless.last().copied()
        {
            match self.claim(peer, node) {
                Ok(()) => drop(self.nameless.pop()),
                Err(Refusal::Busy) => return,
                Err(Refusal::Full) => self.ask_at = self.second + ASK_AGAIN_AFTER,
            }
        }
    }

    fn claim(&mut self, peer: u16, node: NodeId) -> Result<(), Refusal> {
        let claim = self.fdb.nodes().claim(self.second, node)?;
        debug_assert!(self.claims.get(peer).is_none(), "a peer joins once");
        self.peers[usize::from(claim.number)] = Some((peer, claim.since));
        self.claims.insert(peer, claim);
        Ok(())
    }
}

pub(crate) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Mac = [2, 0, 0, 0, 0, 9];
    const NOW: Instant = Instant::from_nanos(5_000_000_000);

    fn node(number: u8) -> NodeId {
        NodeId::new([2, 0, 0, 0, 0, number], 7420)
    }

    fn workers() -> [View; 2] {
        let fdb = Arc::new(Fdb::new(0, 1));
        [View::new(Arc::clone(&fdb)), View::new(fdb)]
    }

    #[test]
    fn what_one_worker_learns_the_others_know_by_their_own_peers() {
        let [mut one, mut other] = workers();
        one.meet_peer(NOW, 0, node(7));
        one.learn(NOW, HOST, 0);
        assert_eq!(one.look_up(NOW, HOST), Some(0));
        assert_eq!(other.look_up(NOW, HOST), None, "it has no such peer");
        other.meet_peer(NOW, 3, node(7));
        assert_eq!(other.look_up(NOW, HOST), Some(3));
        other.meet_peer(NOW, 2, node(8));
        other.learn(NOW, HOST, 2);
        assert_eq!(one.look_up(NOW, HOST), None, "the host has moved to a node unknown to this worker");
        one.meet_peer(NOW, 1, node(8));
        assert_eq!(one.look_up(NOW, HOST), Some(1));
    }

    #[test]
    fn what_is_learned_is_told_once_in_a_second_and_bounded() {
        let [mut one, _] = workers();
        one.meet_peer(NOW, 3, node(7));
        (0..2).for_each(|_| one.learn(NOW, HOST, 3));
        assert_eq!((one.poll_learned(), one.poll_learned()), (Some((HOST, 3)), None));
        one.learn(NOW + core::time::Duration::from_secs(1), HOST, 3);
        assert_eq!(one.poll_learned(), Some((HOST, 3)));
        for number in 0..2_000_u16 {
            let [high, low] = number.to_be_bytes();
            one.learn(NOW, [2, 1, 0, 0, high, low], 3);
        }
        assert_eq!(core::iter::from_fn(|| one.poll_learned()).count(), LEARNED);
    }

    #[test]
    fn a_peer_that_goes_takes_its_addresses_along_and_brings_them_back() {
        let [mut one, mut other] = workers();
        one.meet_peer(NOW, 0, node(7));
        other.meet_peer(NOW, 0, node(7));
        one.learn(NOW, HOST, 0);
        one.forget_peer(0);
        assert_eq!(one.look_up(NOW, HOST), None);
        assert_eq!(other.look_up(NOW, HOST), Some(0), "the other worker still has the peer");
        one.meet_peer(NOW, 4, node(7));
        assert_eq!(one.look_up(NOW, HOST), Some(4));
        one.forget_peer(4);
        one.forget_peer(4);
        one.forget_peer(9);
    }

    /// Every number is taken: the worker has a peer for each.
    fn full() -> (View, u16) {
        let [mut one, _] = workers();
        let last = u16::try_from(NUMBERS).unwrap() - 2;
        (0..=last).for_each(|peer| one.meet_peer(NOW, peer, NodeId(1 + u64::from(peer))));
        assert!(one.nameless.is_empty());
        (one, last)
    }

    /// A node gets the number of one that is gone: what lived behind that is not behind the new one.
    #[test]
    fn a_number_that_passes_to_another_node_takes_no_address_along() {
        let (mut one, last) = full();
        one.learn(NOW, HOST, last);
        one.meet_peer(NOW, last + 1, NodeId(99_999));
        let other = [2, 0, 0, 0, 0, 10];
        one.learn(NOW, other, last + 1);
        assert_eq!(one.look_up(NOW, other), None, "its node has no number");
        one.forget_peer(last);
        let later = NOW + core::time::Duration::from_secs(5);
        one.age(later);
        one.learn(later, other, last + 1);
        assert_eq!(one.look_up(later, other), Some(last + 1));
        assert_eq!(one.look_up(later, HOST), None);
    }

    #[test]
    fn group_addresses_are_never_learned_and_the_table_is_bounded() {
        let (mut one, last) = full();
        one.learn(NOW, [0xff; 6], 1);
        assert_eq!(one.look_up(NOW, [0xff; 6]), None);
        one.meet_peer(NOW, last + 1, NodeId(99_999));
        one.learn(NOW, HOST, last + 1);
        assert_eq!(one.look_up(NOW, HOST), None, "no number is left, so nothing is learned");
        one.age(NOW);
        assert_eq!((one.nameless.len(), one.ask_at), (1, second(NOW) + ASK_AGAIN_AFTER));
        one.forget_peer(last + 1);
        assert!(one.nameless.is_empty());
    }
}
