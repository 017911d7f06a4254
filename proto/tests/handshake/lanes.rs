//! Which lanes flows take, by the headers of their cells.

use crate::joined;
use crate::net::Net;
use std::collections::{BTreeMap, BTreeSet};
use tabane_proto::PolicyKind;
use tabane_proto::wire::cell::Kind;

/// The links that the cells of each lane have taken since so many cells were sent.
fn links_of_lanes(net: &Net, since: usize) -> BTreeMap<u8, BTreeSet<u8>> {
    let mut lanes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for cell in net.said[since..].iter().filter(|cell| cell.is(Kind::Data)) {
        lanes.entry(cell.header().lane).or_default().insert(cell.from.nic);
    }
    lanes
}

/// Frames of this many flows, one each millisecond.
fn talk(net: &mut Net, flows: u8) {
    for flow in 0..flows {
        net.send_frame_of(0, flow);
        net.run(1);
    }
}

#[test]
fn flows_that_are_bound_to_different_links_share_no_lane() {
    for policy in [PolicyKind::Hash, PolicyKind::Tlb, PolicyKind::TlbHistory] {
        let mut net = joined();
        net.set_policy(0, policy);
        let since = net.said.len();
        talk(&mut net, 64);
        let lanes = links_of_lanes(&net, since);
        assert!(lanes.values().all(|links| links.len() == 1), "{policy:?}: {lanes:?}");
        for link in [0, 1] {
            let of_it = lanes.values().filter(|links| links.contains(&link)).count();
            assert_eq!(of_it, 8, "{policy:?}: {lanes:?}");
        }
    }
}

#[test]
fn a_flow_that_moves_to_another_link_keeps_its_lane() {
    let mut net = joined();
    net.set_policy(0, PolicyKind::Hash);
    let since = net.said.len();
    talk(&mut net, 16);
    let before = links_of_lanes(&net, since);
    net.set_policy(0, PolicyKind::ActiveBackup);
    let since = net.said.len();
    talk(&mut net, 16);
    let after = links_of_lanes(&net, since);
    assert!(before.keys().eq(after.keys()), "{before:?}, then {after:?}");
    assert_eq!(after.values().flatten().collect::<BTreeSet<_>>().len(), 1, "all take one link: {after:?}");
}
