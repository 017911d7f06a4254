//! The cost of a repair request.

use super::*;
use crate::link::outbound::LOG;
use crate::wire::cell::wire_seq;
use crate::wire::repair::Gap;

#[test]
fn a_request_costs_no_more_than_the_log_holds() {
    let mut bundle = alone(at(0), 1);
    say(&mut bundle, at(0), 2, |hello| hello);
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
