//! The numbers by which the forwarding database names nodes, the same for all workers.
//!
//! A worker claims the number of a peer's node, and releases it when the peer is gone. Workers that claim a number for the
//! same node get the same. A number that no worker has stays with its node as long as others are free, so the addresses of
//! a node that restarts stay known.
//!
//! When another node gets the number, older entries are not that node's. A claim says since when the number is its
//! node's, and the worker ignores older entries; so nothing is searched for.
//!
//! Invariant: a number belongs to one node while any worker has it, and entries that were made for its former node are
//! older than the `since` of the next claim.

pub(crate) use super::entry::NUMBERS;
use crate::wire::hello::NodeId;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A number is given to another node when nobody has had it for so many seconds.
const FREE_AFTER: u32 = 2;

/// The number by which one worker names a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Not 0.
    pub(crate) number: u16,
    /// Entries from this second on are about the node.
    pub(crate) since: u32,
}

/// Why a node gets no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another worker claims one at the moment; the next try may succeed at once.
    Busy,
    /// None is free.
    Full,
}

#[derive(Default)]
struct Place {
    /// 0: none yet.
    node: AtomicU64,
    since: AtomicU32,
    /// Workers that have the number.
    holders: AtomicU32,
    /// The second in which one of them gave it back last.
    left: AtomicU32,
}

pub(crate) struct Nodes {
    places: Box<[Place]>,
    /// A worker takes a number at the moment. Others do not wait for it.
    busy: AtomicBool,
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self { places: (0..NUMBERS).map(|_| Place::default()).collect(), busy: AtomicBool::new(false) }
    }

    /// Takes the number of a node, which gets one if it has none.
    pub(crate) fn claim(&self, second: u32, node: NodeId) -> Result<Claim, Refusal> {
        self.alone(|| self.hold(node).or_else(|| self.assign(second, node)).ok_or(Refusal::Full))
    }

    /// Releases a number. All entries with it were made by `second`.
    pub(crate) fn release(&self, second: u32, number: u16) {
        let place = &self.places[usize::from(number)];
        place.left.fetch_max(second, Ordering::Relaxed);
        place.holders.fetch_sub(1, Ordering::Release);
    }

    /// Does `work` unless another worker is at it.
    fn alone(&self, work: impl FnOnce() -> Result<Claim, Refusal>) -> Result<Claim, Refusal> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(Refusal::Busy);
        }
        let result = work();
        self.busy.store(false, Ordering::Release);
        result
    }

    fn hold(&self, node: NodeId) -> Option<Claim> {
        let known = self.numbers().find(|(_, place)| place.node.load(Ordering::Relaxed) == node.0);
        known.filter(|_| node.0 != 0).map(|(number, place)| take(number, place))
    }

    /// Gives a node the number that was released first; numbers that no node has had count as released in second 0.
    fn assign(&self, second: u32, node: NodeId) -> Option<Claim> {
        let is_free = |place: &Place| {
            let left = place.left.load(Ordering::Relaxed);
            let is_new = place.node.load(Ordering::Relaxed) == 0;
            is_new || place.holders.load(Ordering::Acquire) == 0 && left.saturating_add(FREE_AFTER) <= second
        };
        let free = self.numbers().filter(|(_, place)| node.0 != 0 && is_free(place));
        let (number, place) = free.min_by_key(|(_, place)| place.left.load(Ordering::Relaxed))?;
        place.node.store(node.0, Ordering::Relaxed);
        // Another worker's clock may be a little behind.
        place.since.store(second.saturating_sub(FREE_AFTER - 1), Ordering::Relaxed);
        Some(take(number, place))
    }

    fn numbers(&self) -> impl Iterator<Item = (u16, &Place)> {
        (0..).zip(&self.places).skip(1)
    }
}

fn take(number: u16, place: &Place) -> Claim {
    place.holders.fetch_add(1, Ordering::Relaxed);
    Claim { number, since: place.since.load(Ordering::Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_agree_and_a_node_that_returns_has_its_number() {
        let nodes = Nodes::new();
        let first = nodes.claim(10, NodeId(7)).unwrap();
        assert_eq!(nodes.claim(20, NodeId(7)), Ok(first));
        assert_ne!(nodes.claim(20, NodeId(8)).unwrap().number, first.number);
        (0..2).for_each(|_| nodes.release(30, first.number));
        assert_eq!(nodes.claim(40, NodeId(7)), Ok(first));
        assert_eq!(nodes.claim(30, NodeId(0)), Err(Refusal::Full), "nobody is called so");
    }

    #[test]
    fn the_number_that_was_left_first_is_given_again_and_none_too_soon() {
        let nodes = Nodes::new();
        let claims = (1..NUMBERS as u64).map(|node| nodes.claim(10, NodeId(node)).unwrap());
        let claims: alloc::vec::Vec<_> = claims.collect();
        assert_eq!(nodes.claim(1_000, NodeId(5_000)), Err(Refusal::Full));
        nodes.release(100, claims[4].number);
        nodes.release(99, claims[3].number);
        assert_eq!(nodes.claim(100, NodeId(5_000)), Err(Refusal::Full), "an entry could be of either");
        let next = nodes.claim(102, NodeId(5_000)).unwrap();
        assert_eq!(next, Claim { number: claims[3].number, since: 101 });
        assert_eq!(nodes.claim(102, NodeId(5_001)).unwrap().number, claims[4].number);
        assert_eq!(nodes.claim(200, NodeId(4)), Err(Refusal::Full), "its number is another's");
    }

    #[test]
    fn who_finds_another_at_it_does_not_wait() {
        let nodes = Nodes::new();
        let nested = nodes.alone(|| nodes.claim(1, NodeId(1)));
        assert_eq!(nested, Err(Refusal::Busy));
        assert!(nodes.claim(1, NodeId(1)).is_ok());
    }
}
