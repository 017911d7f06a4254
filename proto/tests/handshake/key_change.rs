//! What becomes of those who are joined when the group's key changes.

use crate::net::{KEY, Net};
use crate::{SETTLED, assert_frames_pass};
use core::time::Duration;
use tabane_proto::security::Rekey;

const NEW: [u8; 32] = [8; 32];
/// Sessions get new keys so often.
const REKEY: Rekey = Rekey { after: Duration::from_millis(40), cells: u64::MAX };

fn joined() -> Net {
    let mut net = Net::empty(REKEY);
    (0..2).for_each(|_| net.add(Some(KEY)));
    net.run(SETTLED);
    net
}

#[test]
fn in_three_rounds_nobody_leaves_and_sessions_go_on_getting_keys() {
    let mut net = joined();
    for keys in [&[KEY, NEW][..], &[NEW, KEY], &[NEW]] {
        for node in 0..2 {
            net.change_keys(node, keys);
            let before = net.epoch(0);
            net.run(4 * SETTLED);
            assert_ne!(net.epoch(0), before, "new keys");
            assert_frames_pass(&mut net);
        }
    }
    assert_eq!(net.comings(0), ["1 joined, sealed"]);
    net.add(Some(KEY));
    net.run(1_000);
    assert!(net.comings(2).is_empty(), "the old key lets nobody in");
}

/// Its session goes on with the keys that it has: only a restart of the others shows it out.
#[test]
fn who_has_joined_stays_without_the_new_key_until_the_others_are_restarted() {
    let mut net = joined();
    net.change_keys(0, &[NEW]);
    net.run(SETTLED);
    let epoch = net.epoch(0);
    net.run(20_000);
    assert_eq!((net.links_up(0), net.epoch(0)), (2, epoch), "it stays, and gets no new keys");
    assert_frames_pass(&mut net);
    net.restart(0);
    net.change_keys(0, &[NEW]);
    net.run(1_000);
    assert!(net.comings(0).is_empty());
}
