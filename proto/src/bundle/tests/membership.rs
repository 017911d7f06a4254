//! Hellos of strangers and of former incarnations.

use super::*;
use crate::group::membership::ANSWERS_BEHIND;

#[test]
fn hellos_without_end_are_not_all_answered() {
    let now = Instant::default();
    let mut bundle = alone(now, 1);
    let hello = Hello { node: node(2), incarnation: 5, ..bundle.hello(0, None) };
    let origin = Origin { link: 0, from: endpoint(2) };
    (0..5_000).for_each(|_| bundle.handle_hello(now, origin, &hello));
    assert_eq!(bundle.held().messages, ANSWERS_BEHIND);
    assert_eq!(bundle.counters().hellos_unanswered, 5_000 - ANSWERS_BEHIND as u64);
    while bundle.poll_control(now).is_some() {}
    bundle.handle_hello(now, origin, &hello);
    assert_eq!(bundle.held().messages, 1, "it is answered again");
}

#[test]
fn a_hello_of_a_former_self_that_comes_late_shuts_nobody_out() {
    let now = Instant::default();
    let mut bundle = alone(now, 1);
    let origin = Origin { link: 0, from: endpoint(2) };
    let hello = |bundle: &Bundle, incarnation| Hello { node: node(2), incarnation, ..bundle.hello(0, None) };
    let of = |bundle: &Bundle| {
        let peer = bundle.sessions.table().get(bundle.find(node(2)).unwrap()).unwrap();
        (peer.incarnation, peer.session_in)
    };
    for incarnation in [6, 5, 6] {
        let hello = hello(&bundle, incarnation);
        bundle.handle_hello(now, origin, &hello);
    }
    let (incarnation, given) = of(&bundle);
    assert_eq!(incarnation, 5, "the last one that was new");
    let alive = Hello { session: 7, your_session: given, ..hello(&bundle, 6) };
    bundle.handle_hello(now, origin, &alive);
    assert_eq!(of(&bundle).0, 6, "the incarnation that knows the latest session number is alive");
    let late = hello(&bundle, 5);
    bundle.handle_hello(now, origin, &late);
    assert_eq!(of(&bundle).0, 6);
}
