//! The receive program: what a peer sent comes out, and what a hostile one sends is refused and counted.

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use tabane_kernel::{KernelPath, Seat};
use tabane_netns::{READY_WITHIN, wait_for};
use tabane_proto::KernelPeer;

use crate::stage::{
    DROP, NEXT, OUTER, OWN_MAC, PEER_MAC, PORT, REDIRECT, Which, counted, end, inner, on_link, peer, run,
    with_peer,
};

/// The shortest frame for which the kernel runs a program here: Ethernet and IPv6.
const SHORTEST: usize = 54;
/// Mutated frames of a run, and the seed of how.
const FRAMES: usize = 20_000;
const SEED: u64 = 1;

pub(crate) fn takes_out() -> Result<()> {
    let kernel_path = with_peer()?;
    for (is_ipv4, payload) in [(true, 0), (true, 1), (true, 1400), (false, 0), (false, 1380)] {
        let sent = inner(OWN_MAC, PEER_MAC, is_ipv4, payload);
        let (result, got) = run(&kernel_path, Which::Receive, &on_link(1, 0, &sent))?;
        assert_eq!(result, REDIRECT);
        assert_eq!(got, sent);
    }
    let traffic = kernel_path.traffic(0, 1);
    assert_eq!(traffic.received_frames, 5);
    assert_eq!(traffic.received_bytes, (42 + 43 + 1442 + 62 + 1442) as u64);
    assert!(traffic.received_ns > 0);
    assert_eq!(kernel_path.traffic(0, 0).received_frames, 0);
    Ok(())
}

pub(crate) fn refuses_lengths() -> Result<()> {
    let kernel_path = with_peer()?;
    let sent = on_link(0, 0, &inner(OWN_MAC, PEER_MAC, true, 64));
    let (matched, whole) = (OUTER, sent.len());
    let longer: Vec<u8> = sent.iter().copied().chain([0; 8]).collect();
    for length in (SHORTEST..whole).chain(whole + 1..=longer.len()) {
        let mut result = 0;
        let seen = counted(&kernel_path, || {
            result = run(&kernel_path, Which::Receive, &longer[..length])?.0;
            Ok(())
        })?;
        // Who cannot read the port does not know that the frame is for the bundle.
        if length < matched {
            assert_eq!((result, seen), (NEXT, vec![]), "{length} bytes");
        } else {
            assert_eq!((result, seen), (DROP, vec![("drop_length", 1)]), "{length} bytes");
        }
    }
    assert_eq!(kernel_path.traffic(0, 0).received_frames, 0);
    Ok(())
}

/// What the rules say of any frame: the counter, or `None` for one that is not the bundle's; `taken` for one that comes out.
fn rule(frame: &[u8]) -> Option<&'static str> {
    let field = |at: usize, bytes: usize| frame.get(at..at + bytes);
    let number = |at| field(at, 2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
    let for_this_host = frame.len() >= OUTER && field(0, 6) == Some(&[0; 6]);
    if !for_this_host || number(12) != Some(0x86dd) || frame[14] >> 4 != 6 || frame[20] != 17 {
        return None;
    }
    if number(56) != Some(usize::from(PORT)) {
        return None;
    }
    let from = (0..2).find(|link| field(22, 16) == Some(&end(*link, 2).address.octets()[..]));
    let Some(link) = from else { return Some("pass_source") };
    if field(38, 16) != Some(&end(link, 1).address.octets()[..]) {
        return Some("pass_destination");
    }
    let payload = number(18)?;
    if 54 + payload != frame.len() || number(58) != Some(payload) || frame.len() < OUTER + 15 {
        return Some("drop_length");
    }
    if number(60) != Some(0) {
        return Some("drop_checksum");
    }
    match (number(OUTER + 12), frame[OUTER + 14] >> 4) {
        (Some(0x0800), 4) | (Some(0x86dd), 6) => {}
        _ => return Some("drop_protocol"),
    }
    let sender = field(OUTER + 6, 6)?;
    if sender == OWN_MAC || sender[0] & 1 == 1 {
        return Some("drop_source");
    }
    // The kernel takes nothing off a frame whose inner IP header is not complete.
    let least = if number(OUTER + 12) == Some(0x0800) { 20 } else { 40 };
    Some(if frame.len() < OUTER + 14 + least { "drop_receiving" } else { "taken" })
}

/// A frame of a peer, of which some bytes, the length, or lengths that it states are changed.
fn mutate(random: &mut StdRng) -> Vec<u8> {
    let sent = inner(OWN_MAC, PEER_MAC, random.random(), random.random_range(0..80));
    let mut frame = on_link(random.random_range(0..2), random.random_range(0..1 << 20), &sent);
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..(OUTER + 20).min(frame.len()));
        frame[at] =
            if random.random() { random.random() } else { frame[at] ^ 1 << random.random_range(0..8) };
    }
    if random.random_ratio(1, 3) {
        frame.resize(random.random_range(SHORTEST..200), 0);
    }
    if random.random_ratio(1, 3) && frame.len() >= OUTER {
        let payload = u16::try_from(frame.len() - 54).unwrap_or(0).to_be_bytes();
        frame[18..20].copy_from_slice(&payload);
        frame[58..60].copy_from_slice(&payload);
    }
    frame
}

pub(crate) fn mutated() -> Result<()> {
    let kernel_path = with_peer()?;
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut taken, mut refused) = (0_u64, 0_u64);
    for number in 0..FRAMES {
        let frame = mutate(&mut random);
        let (mut result, mut after) = (0, Vec::new());
        let seen = counted(&kernel_path, || {
            (result, after) = run(&kernel_path, Which::Receive, &frame)?;
            Ok(())
        })?;
        let why = rule(&frame);
        let expected = match why {
            None => (NEXT, vec![]),
            Some("taken") => (REDIRECT, vec![]),
            Some(why) if why.starts_with("pass") => (NEXT, vec![(why, 1)]),
            Some(why) => (DROP, vec![(why, 1)]),
        };
        assert_eq!((result, &seen), (expected.0, &expected.1), "frame {number}: {frame:02x?}");
        if result == REDIRECT {
            assert_eq!(after, frame[OUTER..], "frame {number}");
            taken += 1;
        } else if result == NEXT {
            assert_eq!(after, frame, "frame {number} is left as it was");
        } else {
            refused += 1;
        }
    }
    assert_eq!((0..2).map(|link| kernel_path.traffic(0, link).received_frames).sum::<u64>(), taken);
    assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused: the frames try nothing");
    Ok(())
}

pub(crate) fn learns() -> Result<()> {
    const BRIDGED: [u8; 6] = [2, 0xcc, 0, 0, 0, 9];
    let kernel_path = with_peer()?;
    let to_bridged = inner(BRIDGED, OWN_MAC, true, 10);
    assert_eq!(run(&kernel_path, Which::Send, &to_bridged)?.0, NEXT, "nobody knows it");
    let from_bridged = on_link(0, 0, &inner(OWN_MAC, BRIDGED, true, 10));
    assert_eq!(run(&kernel_path, Which::Receive, &from_bridged)?.0, REDIRECT);
    assert_eq!(run(&kernel_path, Which::Send, &to_bridged)?.0, REDIRECT, "it was learned");
    let another = [2, 0xcc, 0, 0, 0, 10];
    kernel_path.learn(another, 0)?;
    assert_eq!(
        run(&kernel_path, Which::Send, &inner(another, OWN_MAC, true, 10))?.0,
        REDIRECT,
        "the owner said it"
    );
    Ok(())
}

pub(crate) fn forgets_peers() -> Result<()> {
    const BEHIND: [[u8; 6]; 2] = [[2, 0xcc, 0, 0, 0, 1], [2, 0xcc, 0, 0, 0, 2]];
    let mut kernel_path = with_peer()?;
    for (peer, mac) in BEHIND.into_iter().enumerate() {
        kernel_path.learn(mac, peer)?;
        kernel_path.set_seat(7 + peer, Some(Seat { peer, link: 1 }))?;
    }
    let sent = |kernel_path: &KernelPath, mac| {
        anyhow::Ok(run(kernel_path, Which::Send, &inner(mac, OWN_MAC, true, 10))?.0)
    };
    assert_eq!(sent(&kernel_path, BEHIND[0])?, REDIRECT);
    kernel_path.remove_peer(0)?;
    let seats = [7, 8].map(|sender| kernel_path.sender(sender).map(|(seat, _)| seat.peer));
    assert_eq!(seats, [None, Some(1)]);
    // Another peer has the number.
    assert_eq!(kernel_path.set_peer(0, &peer(), true)?, None);
    // The programs search again with the next tick of the kernel's clock.
    wait_for("nobody knows it", READY_WITHIN, || Ok((sent(&kernel_path, BEHIND[0])? == NEXT).then_some(())))?;
    kernel_path.remove_peer(0)?;
    kernel_path.set_peer(1, &peer(), true)?;
    assert_eq!(sent(&kernel_path, BEHIND[1])?, REDIRECT, "what is behind others stays");
    Ok(())
}

pub(crate) fn follows_paths() -> Result<()> {
    let mut kernel_path = with_peer()?;
    let sent = inner(OWN_MAC, PEER_MAC, true, 10);
    let taken = |kernel_path: &KernelPath, link| {
        anyhow::Ok(run(kernel_path, Which::Receive, &on_link(link, 0, &sent))?.0)
    };
    assert_eq!(taken(&kernel_path, 1)?, REDIRECT);
    let on = |link: usize| KernelPeer { paths: vec![peer().paths[link]], ..peer() };
    let (near, far) = (on(0), on(1));
    let taken_address = far.paths[0].end.address;
    assert_eq!(kernel_path.set_peer(1, &far, true)?, Some(taken_address), "the address is peer 0's");
    assert_eq!(taken(&kernel_path, 1)?, REDIRECT, "and stays so");
    assert!(!kernel_path.is_ready(1), "there is no way to it");
    kernel_path.remove_peer(1)?;
    assert_eq!(taken(&kernel_path, 1)?, REDIRECT, "also when the other leaves");
    kernel_path.set_peer(0, &near, true)?;
    let seen = counted(&kernel_path, || {
        assert_eq!(taken(&kernel_path, 1)?, NEXT);
        Ok(())
    })?;
    assert_eq!(seen, [("pass_source", 1)]);
    assert_eq!(kernel_path.set_peer(1, &far, true)?, None);
    assert_eq!(taken(&kernel_path, 1)?, REDIRECT);
    Ok(())
}
