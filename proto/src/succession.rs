//! A node whose process makes way for another one: what it does before its sessions end.

use crate::bundle::Bundle;

impl Bundle {
    /// Whether nothing waits here: all that was taken from the device was heard by the peers, and all that was heard from
    /// them is delivered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let delivered = self.peers.iter().all(|peer| peer.gapped == 0);
        let heard =
            || self.peers.iter().flat_map(|peer| &peer.outbound).all(|link| !link.up || link.is_heard());
        delivered && !self.has_unsent() && heard()
    }
}
