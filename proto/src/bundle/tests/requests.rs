//! The cost of a repair request.

use super::*;
use crate::link::outbound::LOG;
use crate::wire::cell::wire_seq;
use crate::wire::repair::Gap;
use alloc::vec;

#[test]
fn a_request_costs_no_more_than_the_log_holds() {
    let settings = Settings::new(NodeId::new([2, 0, 0, 0, 0, 1], 7420), 1, vec![LinkSettings::new(1_452)]);
    let mut bundle = Bundle::new(Instant::default(), settings);
    let node = NodeId::new([2, 0, 0, 0, 0, 2], 7420);
    let hello = Hello { node, incarnation: 5, session: 7, ..bundle.hello(0, None) };
    let from = "192.0.2.2:7420".parse().unwrap();
    bundle.handle_hello(Instant::default(), Origin { link: 0, from }, &hello);
    let path = &mut bundle.outbound()[0];
    for _ in 0..LOG + 9 {
        path.numbers.take(None);
    }
    let first = wire_seq(path.numbers.next() - 60_000);
    let mut request = Request::default();
    while request.push(Gap { link: 0, count: u16::MAX, first }) {}
    let (sender, mut around) = bundle.sending(bundle.polled);
    assert_eq!(sender.handle_request(0, &request, &mut around), LOG as u64);
}
