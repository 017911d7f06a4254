//! Expiry: sessions whose keys cannot be renewed end.
//!
//! Beside the path. A peer that has an accepted group key can agree on new keys at any time. So a peer that sends, and does not
//! agree for long, has no such key any more, and knows the session's keys alone. Its session must not last for ever, or a
//! stolen group key could not be taken back.
//!
//! - When a group key is dropped, this node renews the sessions that go back to it at once, under the key that it speaks:
//!   a peer that got that key in time loses nothing. Ten handshakes, each tried ten times over all links, fit into the
//!   time until the session expires.
//! - For any other reason, a session expires when its keys are three times as old as they should become: after 120 s this
//!   node tries one handshake a second, so 240 have failed. Age alone decides, for numbers do not wrap and no cipher comes
//!   near its limit in that time.
//!
//! A node whose own key is taken off the list of those that are allowed has no such time: its session ends at once.
//!
//! Invariant: 10 s after a group key was dropped, nothing is sealed any more with keys that go back to it.

use crate::outputs::event::Expiry;
use crate::security::{PublicKey, Rekey};
use crate::session::Sessions;
use crate::time::Instant;
use crate::wire::hello::NodeId;
use alloc::vec::Vec;
use core::time::Duration;

/// A session that goes back to a group key that was dropped expires after this time. None expires sooner: handshakes take
/// their time however often keys are renewed.
const DROPPED_FOR: Duration = Duration::from_secs(10);
/// A session expires when its keys are so many times as old as they are when they are to be renewed.
const LIFETIMES: u32 = 3;

impl Sessions {
    /// The accepted group keys or nodes' keys have changed. Ends handshakes under other keys; returns the nodes that are not
    /// allowed any more, with their keys.
    pub(crate) fn review_keys(&mut self, now: Instant) -> Vec<(NodeId, Option<PublicKey>)> {
        let Self { security: Some(security), handshakes, table, .. } = self else { return Vec::new() };
        let is_accepted = |tag: &_| security.tagged_by(&[], tag).is_some();
        handshakes.keep_accepted(&**security);
        let mut shut_out = Vec::new();
        for session in table.iter_mut() {
            let Some(keys) = &mut session.keys else { continue };
            keys.review(now, is_accepted);
            if !security.accepts(keys.peer().as_ref()) {
                shut_out.push((session.node, keys.peer()));
            }
        }
        shut_out
    }

    /// Why the session with a peer is over, if it is.
    pub(crate) fn expired(&self, now: Instant, index: u16) -> Option<Expiry> {
        let (since, dropped) = self.table.get(index)?.keys.as_ref()?.age();
        expiry(now, since, dropped, self.rekey)
    }
}

/// Why a session is over whose keys were agreed on at `since`; `dropped`: when their group key was.
fn expiry(now: Instant, since: Instant, dropped: Option<Instant>, rekey: Rekey) -> Option<Expiry> {
    if dropped.is_some_and(|dropped| now.since(dropped) >= DROPPED_FOR) {
        return Some(Expiry::KeyDropped);
    }
    let age = now.since(since);
    (age >= (rekey.after.saturating_mul(LIFETIMES)).max(DROPPED_FOR)).then_some(Expiry::Unrenewed { age })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever happened before: from the bound on a session is over, and before it none is.
        #[test]
        fn sessions_expire_at_their_bounds_and_not_before(
            since in 0..600_000_u64, dropped in proptest::option::of(0..600_000_u64), later in 0..600_000_u64,
            after in 1..300_000_u64,
        ) {
            let at = |millis| Instant::from_nanos(millis * 1_000_000);
            let dropped = dropped.map(|dropped| since + dropped);
            let now = dropped.unwrap_or(since) + later;
            let rekey = Rekey { after: Duration::from_millis(after), cells: u64::MAX };
            let is_dropped = dropped.is_some_and(|dropped| now - dropped >= 10_000);
            let is_old = now - since >= (3 * after).max(10_000);
            let expiry = expiry(at(now), at(since), dropped.map(at), rekey);
            prop_assert_eq!(expiry.is_some(), is_dropped || is_old);
            prop_assert_eq!(expiry == Some(Expiry::KeyDropped), is_dropped);
        }
    }
}
