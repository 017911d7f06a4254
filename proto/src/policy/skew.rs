//! P0.skew as a test: sender A starts 10 s before B, C and D, on two equal links that divide themselves fairly.

use super::example::{RATE, links, newcomers, waiting};
use super::senders::{PERIOD, SENDERS as ENTRIES};
use super::{Choice, Distribute, NEWCOMERS, Policy, PolicyKind, PolicyOptions, Seen, Waiting};
use crate::time::Instant;
use core::time::Duration;
use std::vec::Vec;

const SENDERS: u32 = 4;

/// Plays so many periods; says how many senders each link has in each of them.
pub(super) fn play(policy: &mut dyn Distribute, periods: u64) -> Vec<Vec<usize>> {
    let links = links();
    over_time(periods, |now, active| {
        let chosen: Vec<_> = (0..active).map(|flow| seat(policy, &links, flow, now)).collect();
        for (flow, link) in (0..).zip(&chosen) {
            policy.handle_sent(flow, links[*link].link, RATE / of(&chosen, *link) as u64);
        }
        chosen
    })
}

/// The same with programs that carry what is sent.
pub(super) fn play_by_programs(kind: PolicyKind, periods: u64) -> Vec<Vec<usize>> {
    let (links, mut policy) = (links(), Policy::new(kind, &PolicyOptions::default()));
    let (mut seats, mut carried, mut came) = ([None; ENTRIES as usize], [0; ENTRIES as usize], 0_u8);
    over_time(periods, |now, active| {
        policy.handle_senders(came.into(), |flow| {
            let flow = flow as usize;
            seats[flow].map(|link| Seen { peer: 0, link, carried: [carried[flow], 0] })
        });
        let links_of = newcomers(&mut policy, &links, &Waiting { now, ..waiting(0, 1) });
        for (flow, seat) in policy.moves() {
            seats[flow as usize] = seat.map(|(_, link)| link);
        }
        let mut take = || (links_of[usize::from(came) % NEWCOMERS], came += 1).0;
        let chosen: Vec<usize> = seats[..active as usize]
            .iter_mut()
            .map(|seat| *seat.get_or_insert_with(&mut take) as usize)
            .collect();
        for (carried, link) in carried.iter_mut().zip(&chosen) {
            *carried += RATE / of(&chosen, *link) as u64;
        }
        chosen
    })
}

/// Those of all senders that have this link.
fn of(chosen: &[usize], link: usize) -> usize {
    chosen.iter().filter(|other| **other == link).count()
}

/// `second` plays a second in which so many senders send, and says the link of each.
fn over_time(periods: u64, mut second: impl FnMut(Instant, u32) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut now = Instant::default();
    let mut seats = Vec::new();
    for number in 0..periods * PERIOD.as_secs() {
        let chosen = second(now, if number < PERIOD.as_secs() { 1 } else { SENDERS });
        if number % PERIOD.as_secs() == 0 {
            seats.push([0, 1].map(|link| of(&chosen, link)).to_vec());
        }
        now = now + Duration::from_secs(1);
    }
    seats
}

fn seat(policy: &mut dyn Distribute, links: &[Choice], flow: u32, now: Instant) -> usize {
    policy.share(links, &Waiting { now, ..waiting(flow, 1) }).expect("no link is full").index
}
