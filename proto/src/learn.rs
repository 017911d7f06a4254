//! Which peer a MAC address lives behind: learned from what arrives, forgotten with age.
//!
//! Hosts may sit behind a bridge on either side. A destination that is not known, or is a group address, goes to every
//! peer; what came from a peer never goes to another one (split horizon), so no loop can form inside a bundle.
//!
//! Invariant: at most [`ENTRIES`] addresses; a full table forgets the oldest.
//! Source: IEEE 802.1Q, 8.7 (learning) and 8.8.3 (ageing time, 300 s).

use crate::classify::Mac;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use core::time::Duration;

/// Addresses that are remembered.
pub(crate) const ENTRIES: usize = 4_096;
const AGE: Duration = Duration::from_secs(300);

/// The learning table.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    entries: BTreeMap<Mac, (u16, Instant)>,
}

impl Learned {
    /// A frame from `mac` came from `peer`.
    pub(crate) fn learn(&mut self, now: Instant, mac: Mac, peer: u16) {
        if is_group(mac) {
            return;
        }
        if self.entries.len() >= ENTRIES && !self.entries.contains_key(&mac) {
            self.forget_oldest();
        }
        self.entries.insert(mac, (peer, now));
    }

    /// The peer behind which `mac` lives, when it is known.
    pub(crate) fn look_up(&self, now: Instant, mac: Mac) -> Option<u16> {
        let (peer, learned) = *self.entries.get(&mac)?;
        (now.since(learned) < AGE).then_some(peer)
    }

    /// A peer is gone.
    pub(crate) fn forget_peer(&mut self, gone: u16) {
        self.entries.retain(|_, (peer, _)| *peer != gone);
    }

    fn forget_oldest(&mut self) {
        if let Some(mac) = self.entries.iter().min_by_key(|(_, (_, learned))| *learned).map(|(mac, _)| *mac) {
            self.entries.remove(&mac);
        }
    }
}

fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Mac = [2, 0, 0, 0, 0, 9];

    #[test]
    fn an_address_moves_ages_and_is_forgotten_with_its_peer() {
        let start = Instant::from_nanos(0);
        let mut learned = Learned::default();
        learned.learn(start, HOST, 1);
        learned.learn(start, HOST, 2);
        assert_eq!(learned.look_up(start + AGE - Duration::from_nanos(1), HOST), Some(2));
        assert_eq!(learned.look_up(start + AGE, HOST), None);
        learned.forget_peer(2);
        assert_eq!(learned.look_up(start, HOST), None);
    }

    #[test]
    fn group_addresses_are_never_learned_and_the_table_is_bounded() {
        let mut learned = Learned::default();
        learned.learn(Instant::default(), [0xff; 6], 1);
        assert_eq!(learned.look_up(Instant::default(), [0xff; 6]), None);
        for number in 0..=u16::try_from(ENTRIES).unwrap() {
            let [high, low] = number.to_be_bytes();
            learned.learn(Instant::from_nanos(number.into()), [2, 0, 0, 0, high, low], 1);
        }
        assert_eq!(learned.entries.len(), ENTRIES);
        assert_eq!(learned.look_up(Instant::default(), [2, 0, 0, 0, 0, 0]), None, "the oldest");
    }
}
