//! The send program: what it carries, and what it leaves to cells.

use std::time::Duration;

use anyhow::Result;
use tabane_kernel::layout::{NEWCOMERS, SENDERS};
use tabane_kernel::{KernelPath, Seat, Volume};
use tabane_proto::{Choosing, KernelPeer};

use crate::stage::{
    NEXT, OUTER, OWN_MAC, PEER_MAC, REDIRECT, Which, counted, end, inner, on_link, own, peer, peer_by, run,
    run_superframe, tcp, with_peer, without,
};

/// The largest payload of a datagram by IPv4 that fits: MTU less outer and inner headers.
const PAYLOAD_MAX: usize = 1500 - 62 - 28;

pub(crate) fn leaves_to_cells() -> Result<()> {
    let mut kernel_path = with_peer()?;
    kernel_path.learn([2, 0xbb, 0, 0, 0, 3], 1)?;
    let mut arp = own(true, 10);
    arp[13] = 6;
    let mut tagged = own(true, 10);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let cases = [
        ("user_multicast", inner([0xff; 6], OWN_MAC, true, 10)),
        ("user_multicast", inner([0x33, 0x33, 0, 0, 0, 1], OWN_MAC, false, 10)),
        ("user_protocol", arp),
        ("user_protocol", tagged),
        ("user_unknown", inner([2, 1, 1, 1, 1, 1], OWN_MAC, true, 10)),
        ("user_not_ready", inner([2, 0xbb, 0, 0, 0, 3], OWN_MAC, true, 10)),
        ("user_large", own(true, PAYLOAD_MAX + 1)),
    ];
    for (why, frame) in cases {
        let seen = counted(&kernel_path, || {
            assert_eq!(run(&kernel_path, Which::Send, &frame)?, (NEXT, frame), "{why}");
            Ok(())
        })?;
        assert_eq!(seen, [(why, 1)]);
    }
    kernel_path.set_peer(0, &without(without(peer(), 0), 1), true)?;
    let seen = counted(&kernel_path, || {
        assert_eq!(run(&kernel_path, Which::Send, &own(true, 10))?.0, NEXT);
        Ok(())
    })?;
    assert_eq!(seen, [("user_no_link", 1)]);
    Ok(())
}

/// The frame on the link, turned around: as if the peer had sent it.
fn turned(mut frame: Vec<u8>) -> Vec<u8> {
    let (from, to) = (frame[22..38].to_vec(), frame[38..54].to_vec());
    frame[22..38].copy_from_slice(&to);
    frame[38..54].copy_from_slice(&from);
    frame[OUTER..OUTER + 12].rotate_left(6);
    frame
}

pub(crate) fn comes_out_again() -> Result<()> {
    let kernel_path = with_peer()?;
    for is_ipv4 in [true, false] {
        for payload in (0..=PAYLOAD_MAX - if is_ipv4 { 0 } else { 20 }).step_by(97).chain([1390]) {
            let sent = own(is_ipv4, payload);
            let (result, frame) = run(&kernel_path, Which::Send, &sent)?;
            assert_eq!((result, frame.len()), (REDIRECT, sent.len() + OUTER));
            let (result, got) = run(&kernel_path, Which::Receive, &turned(frame))?;
            assert_eq!((result, got), (REDIRECT, inner(OWN_MAC, PEER_MAC, is_ipv4, payload)));
        }
    }
    let sum = |word: fn(&tabane_kernel::Traffic) -> u64| -> u64 {
        (0..2).map(|link| word(&kernel_path.traffic(0, link))).sum()
    };
    assert_eq!(sum(|traffic| traffic.sent_frames), sum(|traffic| traffic.received_frames));
    assert_eq!(sum(|traffic| traffic.sent_bytes), sum(|traffic| traffic.received_bytes));
    let headers = sum(|traffic| traffic.link_bytes) - sum(|traffic| traffic.sent_bytes);
    assert_eq!(headers, sum(|traffic| traffic.sent_frames) * OUTER as u64);
    Ok(())
}

/// The link by which a frame left: that of its outer address.
pub(crate) fn link_of(frame: &[u8]) -> u16 {
    (0..2).find(|link| frame[38..54] == end(*link, 2).address.octets()).expect("a path's address")
}

/// The links of so many flows, told apart by their ports.
fn links(kernel_path: &KernelPath, flows: u16) -> Result<Vec<u16>> {
    let one = |flow: u16| {
        let mut frame = own(true, 10);
        frame[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
        Ok(link_of(&run(kernel_path, Which::Send, &frame)?.1))
    };
    (0..flows).map(one).collect()
}

pub(crate) fn follows_links() -> Result<()> {
    let mut kernel_path = with_peer()?;
    let both = links(&kernel_path, 200)?;
    assert_eq!(both, links(&kernel_path, 200)?, "a flow keeps its link");
    let second: u16 = both.iter().sum();
    assert!((60..140).contains(&second), "{second} of 200 flows by the second link");
    kernel_path.set_peer(0, &without(peer(), 0), true)?;
    assert_eq!(links(&kernel_path, 200)?, [1; 200]);
    kernel_path.set_peer(0, &peer(), true)?;
    let again: u16 = links(&kernel_path, 200)?.iter().sum();
    assert!((60..140).contains(&again), "{again} of 200 flows by the second link");
    Ok(())
}

fn links_of_frames(kernel_path: &KernelPath, frames: usize) -> Result<Vec<u16>> {
    (0..frames).map(|_| Ok(link_of(&run(kernel_path, Which::Send, &own(true, 1000))?.1))).collect()
}

/// Of links that are free the nearer one comes first; the other one as soon as the nearer is busy for a part of the difference.
pub(crate) fn fills_far_links() -> Result<()> {
    for (later, links) in [(20, [1, 0, 1, 0]), (2_000, [1, 1, 1, 0])] {
        let mut kernel_path = with_peer()?;
        // A frame takes 22 ms.
        let mut peer = peer_by(Choosing::Earliest, [50_000; 2]);
        let later = Duration::from_millis(later);
        peer.paths[0].delay = later;
        kernel_path.set_peer(0, &peer, true)?;
        assert_eq!(links_of_frames(&kernel_path, 4)?, links, "{later:?} later");
    }
    Ok(())
}

/// Links get their shares also when none of them is ever busy, and do not make up for the time in which they were down.
pub(crate) fn gives_shares() -> Result<()> {
    let mut kernel_path = with_peer()?;
    let by_shares = peer_by(Choosing::Shares, [3, 1]);
    kernel_path.set_peer(0, &by_shares, true)?;
    let by_second =
        |kernel_path: &KernelPath| -> Result<u16> { Ok(links_of_frames(kernel_path, 400)?.iter().sum()) };
    let all = by_second(&kernel_path)?;
    assert!((98..=102).contains(&all), "{all} of 400 by a link of a quarter");
    kernel_path.set_peer(0, &without(by_shares.clone(), 1), true)?;
    assert_eq!(by_second(&kernel_path)?, 0);
    kernel_path.set_peer(0, &by_shares, true)?;
    // In 2 ms at its speed, it may catch up by 75 frames.
    let again = by_second(&kernel_path)?;
    assert!((98..=190).contains(&again), "{again} of 400 after it was down");
    Ok(())
}

pub(crate) fn stripes() -> Result<()> {
    const FRAMES: u16 = 400;
    let mut kernel_path = with_peer()?;
    // So slow that the links cannot have sent anything before the last frame comes.
    kernel_path.set_peer(0, &peer_by(Choosing::Earliest, [25_000, 12_500]), true)?;
    let mut second = 0;
    let mut last = None;
    for _ in 0..FRAMES {
        let (result, frame) = run(&kernel_path, Which::Send, &own(true, 1000))?;
        assert_eq!(result, REDIRECT);
        let label = u32::from_be_bytes(frame[14..18].try_into()?) & 0xf_ffff;
        assert!(label >> 16 > 0, "a lane with an order");
        assert!(last.is_none_or(|last| label == last + 1), "{label:x} after {last:x?}");
        last = Some(label);
        second += link_of(&frame);
    }
    let third = FRAMES / 3;
    assert!(
        (third - 2..=third + 2).contains(&second),
        "{second} of {FRAMES} by a link of a third of the speed"
    );
    let (result, _) =
        run(&kernel_path, Which::Receive, &on_link(0, 0x1_0007, &inner(OWN_MAC, PEER_MAC, true, 9)))?;
    assert_eq!(result, REDIRECT, "without a qdisc numbered frames go to the device");
    Ok(())
}

/// What leaves again when its path is left: the last segment of a flow, as TCP itself would send it.
pub(crate) fn keeps_last() -> Result<()> {
    const NUMBER: u32 = u32::MAX - 1_000;
    const SEGMENT: usize = 1_000;
    // Window reduced, push, acknowledgement.
    let flags = 0x98;
    let payload: Vec<u8> = (0..3 * SEGMENT).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    for is_ipv4 in [true, false] {
        let kernel_path = with_peer()?;
        let kept = |within| [0, 1].map(|link| kernel_path.last_segments(0, link, within)).concat();
        let (long, none) = (Duration::from_secs(60), Vec::<Vec<u8>>::new());
        run(&kernel_path, Which::Send, &own(is_ipv4, 10))?;
        assert_eq!(kept(long), none, "a datagram may not come twice");
        for bytes in [0, 1, 777, SEGMENT] {
            let sent = tcp(is_ipv4, NUMBER, flags, &payload[..bytes]);
            assert_eq!(run(&kernel_path, Which::Send, &sent)?.0, REDIRECT);
            assert_eq!(kept(long), [sent], "{bytes} bytes");
        }
        for bytes in [SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 300] {
            let sent = tcp(is_ipv4, NUMBER, flags, &payload[..bytes]);
            run_superframe(&kernel_path, Which::Send, &sent, u32::try_from(SEGMENT)?)?;
            let skipped = (bytes - 1) / SEGMENT * SEGMENT;
            let number = NUMBER.wrapping_add(u32::try_from(skipped)?);
            assert_eq!(kept(long), [tcp(is_ipv4, number, flags & 0x7f, &payload[skipped..bytes])], "{bytes}");
        }
        assert_eq!(kept(Duration::ZERO), none, "too long ago");
        let whole = tcp(is_ipv4, NUMBER, flags, &payload[..100]);
        let padded = [&whole[..], &[0; 4]].concat();
        let mut with_long_head = whole.clone();
        with_long_head[if is_ipv4 { 46 } else { 66 }] = 0xf0;
        for odd in [padded, with_long_head] {
            run(&kernel_path, Which::Send, &odd)?;
            assert_ne!(kept(long), [odd], "its lengths contradict each other");
        }
    }
    Ok(())
}

// Senders: both programs take a flow for the same one, which has a link and is counted.

/// Where ports stand in a frame.
const fn ports(is_ipv4: bool) -> usize {
    if is_ipv4 { 34 } else { 54 }
}

/// A policy that gives newcomers links in turn, from the second one on.
fn in_turn(received: bool) -> KernelPeer {
    let newcomers = std::array::from_fn(|place| if place % 2 == 0 { 1 } else { 0 });
    peer_by(Choosing::Senders { newcomers, received }, [0; 2])
}

fn flow(is_ipv4: bool, port: u16) -> [Vec<u8>; 2] {
    let mut frame = own(is_ipv4, 100);
    let at = ports(is_ipv4);
    frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
    let mut answer = inner(OWN_MAC, PEER_MAC, is_ipv4, 100);
    let bytes = if is_ipv4 { 4 } else { 16 };
    answer[at - 2 * bytes..at].rotate_left(bytes);
    answer[at..at + 2].copy_from_slice(&frame[at + 2..at + 4]);
    answer[at + 2..at + 4].copy_from_slice(&frame[at..at + 2]);
    // Flow labels are each direction's own.
    if !is_ipv4 {
        (frame[17], answer[17]) = (1, 2);
    }
    [frame, answer]
}

fn send(kernel_path: &KernelPath, frame: &[u8]) -> Result<u16> {
    let (result, frame) = run(kernel_path, Which::Send, frame)?;
    assert_eq!(result, REDIRECT);
    Ok(link_of(&frame))
}

fn seated(kernel_path: &KernelPath) -> Vec<(usize, Seat, Volume)> {
    let seat = |sender| kernel_path.sender(sender).map(|(seat, volume)| (sender, seat, volume));
    (0..SENDERS).filter_map(seat).collect()
}

/// Both directions of a flow are one sender's, and are counted.
pub(crate) fn counts() -> Result<()> {
    for (is_ipv4, port) in [(true, 1_024), (true, 1_025), (false, 1_024), (false, 1_025)] {
        let mut kernel_path = with_peer()?;
        kernel_path.set_peer(0, &in_turn(true), true)?;
        let [frame, answer] = flow(is_ipv4, port);
        let link = send(&kernel_path, &frame)?;
        let (result, _) = run(&kernel_path, Which::Receive, &on_link(link, 0, &answer))?;
        assert_eq!(result, REDIRECT);
        let seated = seated(&kernel_path);
        let [(_, seat, volume)] = &seated[..] else { panic!("{seated:?}") };
        assert_eq!((seat.peer, seat.link), (0, link.into()));
        let [sent, received] = [frame.len() + OUTER, answer.len()].map(|bytes| bytes as u64);
        assert_eq!((volume.sent, volume.received), (sent, received), "IPv4: {is_ipv4}, port {port}");
    }
    Ok(())
}

/// Whoever answers goes by the link of the question, if what is received counts.
pub(crate) fn answers() -> Result<()> {
    for (received, links) in [(true, [0; 4]), (false, [1, 0, 1, 0])] {
        let mut kernel_path = with_peer()?;
        kernel_path.set_peer(0, &in_turn(received), true)?;
        let answered = (0..4).map(|flow_number| {
            let [frame, answer] = flow(true, 2_000 + flow_number);
            run(&kernel_path, Which::Receive, &on_link(0, 0, &answer))?;
            send(&kernel_path, &frame)
        });
        assert_eq!(answered.collect::<Result<Vec<_>>>()?, links, "what is received counts: {received}");
    }
    Ok(())
}

/// Newcomers take the links that the daemon has for them, keep them until the daemon gives another, and leave one that is down.
pub(crate) fn keep_links() -> Result<()> {
    let mut kernel_path = with_peer()?;
    kernel_path.set_peer(0, &in_turn(false), true)?;
    let all = |kernel_path: &KernelPath| -> Result<Vec<u16>> {
        (0..20).map(|number| send(kernel_path, &flow(true, 3_000 + number)[0])).collect()
    };
    let links = all(&kernel_path)?;
    let count = seated(&kernel_path).len();
    assert!(count > 16, "{count} senders of 20 flows");
    assert_eq!(kernel_path.newcomers(), count as u64);
    assert_eq!(links[..2], [1, 0], "in the order of the list");
    assert_eq!(all(&kernel_path)?, links);
    let (sender, seat, _) = seated(&kernel_path)[0];
    kernel_path.set_seat(sender, Some(Seat { link: 1 - seat.link, ..seat }))?;
    let moved = all(&kernel_path)?.iter().zip(&links).filter(|(link, before)| link != before).count();
    assert!(moved >= 1, "the daemon has moved a sender");
    kernel_path.set_peer(0, &without(in_turn(false), 1), true)?;
    assert_eq!(all(&kernel_path)?, [0; 20]);
    kernel_path.set_peer(0, &in_turn(false), true)?;
    assert_eq!(all(&kernel_path)?, [0; 20], "nobody moves back");
    kernel_path.set_seat(sender, None)?;
    let second = Choosing::Senders { newcomers: [1; NEWCOMERS], received: false };
    kernel_path.set_peer(0, &peer_by(second, [0; 2]), true)?;
    assert_eq!(all(&kernel_path)?.iter().filter(|link| **link == 1).count(), moved, "a newcomer again");
    Ok(())
}
