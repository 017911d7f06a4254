//! Senders: both programs take a flow for the same one, which has a link and is counted.

use std::error::Error;

use tabane_kernel::layout::{NEWCOMERS, SENDERS};
use tabane_kernel::{KernelPath, PathState, Policy, Seat, Volume};

use crate::frames::{OUTER, inner, on_link, own};
use crate::send::link_of;
use crate::stage::{OWN_MAC, PEER_MAC, REDIRECT, Which, path, run, with_peer};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Where ports stand in a frame.
const fn ports(is_ipv4: bool) -> usize {
    if is_ipv4 { 34 } else { 54 }
}

/// A policy that gives newcomers links in turn, from the second one on.
fn in_turn(received: bool) -> Policy {
    let newcomers = std::array::from_fn(|place| if place % 2 == 0 { 1 } else { 0 });
    Policy::Senders { newcomers, received }
}

/// A datagram of a flow, and one that answers it.
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

/// All senders that have a link.
fn seated(kernel_path: &KernelPath) -> Vec<(usize, Seat, Volume)> {
    let seat = |sender| kernel_path.sender(sender).map(|(seat, volume)| (sender, seat, volume));
    (0..SENDERS).filter_map(seat).collect()
}

/// Both directions of a flow are one sender's, and are counted.
pub(crate) fn counts() -> Result<()> {
    for (is_ipv4, port) in [(true, 1_024), (true, 1_025), (false, 1_024), (false, 1_025)] {
        let mut kernel_path = with_peer()?;
        kernel_path.set_policy(0, in_turn(true))?;
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
        kernel_path.set_policy(0, in_turn(received))?;
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
    kernel_path.set_policy(0, in_turn(false))?;
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
    kernel_path.set_path(0, 1, Some(PathState { is_up: false, ..path(1) }))?;
    assert_eq!(all(&kernel_path)?, [0; 20]);
    kernel_path.set_path(0, 1, Some(path(1)))?;
    assert_eq!(all(&kernel_path)?, [0; 20], "nobody moves back");
    kernel_path.set_seat(sender, None)?;
    kernel_path.set_policy(0, Policy::Senders { newcomers: [1; NEWCOMERS], received: false })?;
    assert_eq!(all(&kernel_path)?.iter().filter(|link| **link == 1).count(), moved, "a newcomer again");
    Ok(())
}
