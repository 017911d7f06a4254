//! What programs in the kernel may do in place of cells.

use super::*;
use crate::{Choosing, KernelEnd, KernelPeer, KernelSender, NeedsCells};
use alloc::vec;
use alloc::vec::Vec;

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const PEER: NodeId = NodeId(2);

fn end(link: u8) -> KernelEnd {
    let address = core::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, link.into());
    KernelEnd { mac: [2, 0, 0, 0, 0, link], address, port: 7421, orders: false }
}

/// A hello of the peer on a link that takes frames of the kernel path.
fn say(bundle: &mut Bundle, link: u8, change: impl Fn(Hello) -> Hello) {
    let hello = Hello { node: PEER, session: 7, link, kernel: Some(end(link)), ..bundle.hello(link, None) };
    let from = core::net::SocketAddr::from((end(link).address, 7420));
    bundle.handle_hello(NOW, Origin { link, from }, &change(hello));
}

/// A bundle whose paths to one peer are up and known to carry what NICs take.
fn of_links(links: u8) -> Bundle {
    let settings = LinkSettings { kernel: Some(end(9)), ..LinkSettings::new(1_452) };
    let settings = vec![settings; usize::from(links)];
    let settings = Settings { slots: 512, buffers: 16, ..Settings::new(NodeId(1), 1, settings) };
    let mut bundle = Bundle::new(NOW, Settings { policy: PolicyKind::Hash, ..settings });
    (0..links).for_each(|link| say(&mut bundle, link, |hello| hello));
    for path in bundle.outbound() {
        path.standing = crate::link::outbound::Standing::Up;
        path.path_mtu.fit(NOW, LONGEST - 48, 48);
        path.path_mtu.confirm();
    }
    bundle
}

fn bundle() -> Bundle {
    of_links(2)
}

/// A packet of which the paths carry longer ones, and the longest that the NICs take.
const PACKET: u16 = 1_400;
const LONGEST: u16 = 1_500;

fn peer(bundle: &mut Bundle) -> KernelPeer {
    bundle.kernel_peers(NOW, PACKET, false).remove(0)
}

/// The links that flows may have, or why frames need cells.
fn open(bundle: &mut Bundle) -> Result<Vec<u8>, NeedsCells> {
    let KernelPeer { paths, needs_cells, .. } = peer(bundle);
    let open: Vec<u8> = paths.iter().filter(|path| path.open).map(|path| path.link).collect();
    assert_eq!((paths.len(), open.is_empty()), (bundle.outbound().len(), needs_cells.is_some()));
    needs_cells.map_or(Ok(open), Err)
}

#[test]
fn hellos_say_where_links_take_frames() {
    let mut bundle = bundle();
    assert_eq!(bundle.hello(1, None).kernel, Some(end(9)));
    let KernelPeer { node, paths, .. } = peer(&mut bundle);
    assert_eq!((node, paths.iter().map(|path| path.end).collect()), (PEER, vec![end(0), end(1)]));
}

#[test]
fn a_path_that_data_does_not_take_is_closed() {
    let mut bundle = bundle();
    assert_eq!(open(&mut bundle), Ok(vec![0, 1]));
    say(&mut bundle, 1, |hello| Hello { drains: true, ..hello });
    assert_eq!(open(&mut bundle), Ok(vec![0]), "drained there");
    bundle.handle_carrier(NOW, 0, false);
    assert_eq!(open(&mut bundle), Ok(vec![1]), "the only one, so it carries data after all");
    bundle.handle_carrier(NOW, 1, false);
    assert_eq!(open(&mut bundle), Err(NeedsCells::Now));
}

#[test]
fn a_peer_that_pauses_gets_nothing_and_may_send() {
    let mut bundle = bundle();
    say(&mut bundle, 0, |hello| Hello { pauses: true, ..hello });
    assert_eq!(open(&mut bundle), Err(NeedsCells::Now), "its successor gets what is kept");
    say(&mut bundle, 0, |hello| hello);
    assert_eq!(open(&mut bundle), Ok(vec![0, 1]));
    bundle.part(0);
    assert_eq!(bundle.kernel_peers(NOW, PACKET, false), []);
}

#[test]
fn what_programs_cannot_do_needs_cells() {
    type Change = fn(&mut Bundle);
    let cases: [(Change, NeedsCells); 9] = [
        (|bundle| say(bundle, 0, |hello| Hello { kernel: None, ..hello }), NeedsCells::Peer(0)),
        (|bundle| bundle.links[1].settings.kernel = None, NeedsCells::Link(1)),
        (|bundle| bundle.set_policy(PolicyKind::Adaptive), NeedsCells::Order),
        (|bundle| bundle.set_policy(PolicyKind::Duplicate), NeedsCells::Policy),
        (
            |bundle| {
                let layers = crate::HashLayers::Layer2;
                let options = PolicyOptions { hash: layers, ..PolicyOptions::default() };
                bundle.set_classes(options, &[]);
            },
            NeedsCells::Policy,
        ),
        (
            |bundle| {
                let voice = crate::Match { dscp: Some(46), ..crate::Match::default() };
                let class = Class { matches: voice, policy: PolicyKind::Duplicate };
                bundle.set_classes(PolicyOptions::default(), &[class]);
            },
            NeedsCells::Classes,
        ),
        (|bundle| bundle.state_link(NOW, 0, [Some(1_000_000), None], None), NeedsCells::Rate(0)),
        (|bundle| say(bundle, 1, |hello| Hello { receives: Some(1_000), ..hello }), NeedsCells::Rate(1)),
        (
            |bundle| bundle.outbound()[1].end.endpoint = Some("192.0.2.2:7420".parse().unwrap()),
            NeedsCells::Routed(1),
        ),
    ];
    for (change, why) in cases {
        let mut bundle = bundle();
        change(&mut bundle);
        assert_eq!(peer(&mut bundle).needs_cells, Some(why));
    }
    let too_long = bundle().kernel_peers(NOW, LONGEST + 1, false).remove(0);
    assert_eq!(too_long.needs_cells, Some(NeedsCells::Mtu(0, LONGEST)));
}

/// A bundle whose peer puts frames in order.
fn ordered(policy: PolicyKind) -> Bundle {
    let mut bundle = bundle();
    bundle.set_policy(policy);
    for link in 0..2 {
        say(&mut bundle, link, |hello| Hello {
            kernel: Some(KernelEnd { orders: true, ..end(link) }),
            ..hello
        });
    }
    bundle
}

#[test]
fn flows_are_spread_where_the_peer_puts_them_in_order_or_nobody_has_to() {
    let mut bundle = ordered(PolicyKind::Adaptive);
    assert_eq!(open(&mut bundle), Ok(vec![0, 1]));
    let KernelPeer { choosing, paths, .. } = peer(&mut bundle);
    assert_eq!((choosing, paths[0].speed > 0), (Choosing::Earliest, true));
    say(&mut bundle, 1, |hello| hello);
    assert_eq!(open(&mut bundle), Err(NeedsCells::Order), "one link of it is as before");
    assert_eq!(bundle.kernel_peers(NOW, PACKET, true)[0].needs_cells, None, "TCP is to do");
}

#[test]
fn weights_are_shares_of_links() {
    let mut bundle = ordered(PolicyKind::Weighted);
    for (link, weight) in [(0, 3), (1, 1)] {
        bundle.state_link(NOW, link, [None; 2], Some(weight));
    }
    let KernelPeer { choosing, paths, .. } = peer(&mut bundle);
    assert_eq!((choosing, [paths[0].speed, paths[1].speed]), (Choosing::Shares, [3, 1]));
}

#[test]
fn an_order_is_that_of_the_links_that_bring_something_and_of_one_start() {
    let mut bundle = ordered(PolicyKind::Adaptive);
    let order = peer(&mut bundle).order;
    assert_eq!(order.links, 0, "nothing has come");
    say(&mut bundle, 0, |hello| Hello { incarnation: hello.incarnation + 1, ..hello });
    assert_ne!(peer(&mut bundle).order.incarnation, order.incarnation);
}

#[test]
fn one_link_has_nothing_to_spread() {
    let mut bundle = of_links(1);
    bundle.set_policy(PolicyKind::Adaptive);
    assert_eq!(open(&mut bundle), Ok(vec![0]));
}

#[test]
fn active_backup_has_one_link_and_keeps_to_its_primary() {
    let mut bundle = bundle();
    bundle.set_classes(PolicyOptions { primary: Some(1), ..PolicyOptions::default() }, &[]);
    bundle.set_policy(PolicyKind::ActiveBackup);
    assert_eq!(open(&mut bundle), Ok(vec![1]));
    bundle.handle_carrier(NOW, 1, false);
    assert_eq!(open(&mut bundle), Ok(vec![0]));
    let path = &mut bundle.outbound()[1];
    path.standing = crate::link::outbound::Standing::Up;
    path.path_mtu.confirm();
    assert_eq!(open(&mut bundle), Ok(vec![1]));
}

#[test]
fn what_programs_send_is_not_of_others() {
    let mut bundle = bundle();
    let mut at = |secs: u64, by_programs: u64, by_nic: u64| {
        let now = NOW + core::time::Duration::from_secs(secs);
        let carried =
            crate::Carried { sent_frames: by_programs, link_bytes: by_programs, ..Default::default() };
        bundle.handle_carried(now, |_, link| (link == 1).then_some(carried));
        bundle.handle_nic(now, 1, crate::NicReport { sent: by_nic, ..Default::default() });
        bundle.links[1].load.others()
    };
    at(0, 50_000, 70_000);
    assert_eq!(at(1, 90_000, 115_000), 5_000);
}

#[test]
fn senders_have_links_which_the_policy_renews() {
    for (policy, counts_received) in [(PolicyKind::Tlb, false), (PolicyKind::TlbHistory, true)] {
        let mut bundle = bundle();
        bundle.set_policy(policy);
        assert_eq!(open(&mut bundle), Ok(vec![0, 1]), "flows are bound, so nothing is put in order");
        let Choosing::Senders { newcomers, received } = peer(&mut bundle).choosing else {
            panic!("{policy}")
        };
        assert_eq!((&newcomers[..4], received), (&[0, 1, 0, 1][..], counts_received));
        let mut seconds = |bytes: [u64; 2], later: u64| {
            bundle.handle_senders(2, |sender| {
                let seat = KernelSender { node: PEER, link: 1 };
                bytes.get(sender as usize).map(|bytes| (seat, [*bytes, 0]))
            });
            bundle.kernel_peers(NOW + core::time::Duration::from_secs(later), PACKET, false);
            bundle.poll_moves()
        };
        assert_eq!(seconds([0; 2], 0), []);
        let moves = seconds([10_000_000, 0], 10);
        assert_eq!(moves.last(), Some(&(1, None)), "{policy}: who sent nothing is a newcomer next time");
        bundle.handle_carrier(NOW, 0, false);
        let Choosing::Senders { newcomers, .. } = peer(&mut bundle).choosing else { panic!("{policy}") };
        assert_eq!(newcomers, [1; 16]);
    }
}
