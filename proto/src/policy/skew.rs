//! P0.skew as a test: sender A starts 10 s before B, C and D, on two equal links that divide themselves fairly.

use super::example::{choice, waiting};
use super::senders::PERIOD;
use super::{Choice, Distribute, Waiting};
use crate::time::Instant;
use core::time::Duration;
use std::vec::Vec;

const RATE: u64 = 12_500_000;
const SENDERS: u32 = 4;

/// Plays so many periods; says how many senders each link has in each of them.
pub(super) fn play(policy: &mut dyn Distribute, periods: u64) -> Vec<Vec<usize>> {
    let links = [choice(0, Some(RATE)), choice(1, Some(RATE))];
    let mut now = Instant::default();
    let mut seats = Vec::new();
    for period in 0..periods * PERIOD.as_secs() {
        let active = if period < PERIOD.as_secs() { 1 } else { SENDERS };
        let chosen: Vec<_> = (0..active).map(|flow| seat(policy, &links, flow, now)).collect();
        let senders = |link: usize| chosen.iter().filter(|other| **other == link).count();
        for (flow, link) in (0..).zip(&chosen) {
            policy.handle_sent(flow, links[*link].link, RATE / senders(*link) as u64);
        }
        if period % PERIOD.as_secs() == 0 {
            seats.push(Vec::from([senders(0), senders(1)]));
        }
        now = now + Duration::from_secs(1);
    }
    seats
}

fn seat(policy: &mut dyn Distribute, links: &[Choice], flow: u32, now: Instant) -> usize {
    policy.share(links, &Waiting { now, ..waiting(flow, 1) }).expect("no link is full").index
}
