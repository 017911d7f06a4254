//! Faults by chance: which happen when, drawn from a seed before flows begin, so that a run can be repeated.
//!
//! Faults begin at even distances, give or take, and overlap. Two rules hold at any time: one link is sound, and a host
//! whose daemon does not run has no fault that wants it to. The daemon of the first host is never killed: its memory
//! tells of the whole run.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::plan::{Fault, FaultKind, Scenario};
use super::units::Share;
use crate::prelude::*;

/// How long a fault of a link lasts, in milliseconds.
const LASTS_MS: Range<u64> = 30..2_000;
/// How long a daemon does not run: less than connections take for the end of their peer, with the time to find each
/// other again.
const PROCESS_LASTS_MS: Range<u64> = 30..1_000;
/// How long a daemon that was started again is left alone, for it takes requests some time after its start.
const STARTS_WITHIN: Duration = Duration::from_secs(2);
/// From the last beginning to the end of the flows.
const HEALS_WITHIN: Duration = Duration::from_secs(4);
/// Draws for one fault before it is left out; one that the rules allow comes up much sooner.
const DRAWS_MAX: usize = 1_000;
/// Shares of frames that a link loses or changes, and delay that it adds.
const LOST: Share = Share { per_million: 50_000 };
const CORRUPTED: Share = Share { per_million: 10_000 };
const DELAY: Duration = Duration::from_millis(20);

/// The kinds; the first four need an emulated wire.
const KINDS: [FaultKind; 12] = [
    FaultKind::OneWay,
    FaultKind::Loss,
    FaultKind::Corruption,
    FaultKind::Delay,
    FaultKind::BlackHole,
    FaultKind::Cable,
    FaultKind::NicDown,
    FaultKind::NicGone,
    FaultKind::LinkOut,
    FaultKind::Killed,
    FaultKind::Halted,
    FaultKind::Policy,
];
const NEED_WIRE: usize = 4;

impl Scenario {
    pub(super) fn with_random_faults(&self, seed: u64) -> Scenario {
        let (mut random, mut drawn) = (StdRng::seed_from_u64(seed), self.clone());
        let span = self.duration.saturating_sub(self.warm_up() + HEALS_WITHIN);
        let interval = span / self.random_faults.max(1);
        let kinds = if self.hosts == 2 { &KINDS[..] } else { &KINDS[NEED_WIRE..] };
        for number in 0..self.random_faults {
            let begins = self.warm_up() + interval * number + interval.mul_f64(random.random_range(0.0..0.9));
            let draws = (0..DRAWS_MAX).map(|_| self.draw(kinds, begins, &mut random));
            let allowed = draws.into_iter().find(|fault| is_allowed(fault, &drawn.faults, self.links.len()));
            drawn.faults.extend(allowed);
        }
        drawn
    }

    fn draw(&self, kinds: &[FaultKind], begins: Duration, random: &mut StdRng) -> Fault {
        let kind = kinds[random.random_range(0..kinds.len())];
        let lasts = if kind.is_of_process() { PROCESS_LASTS_MS } else { LASTS_MS };
        let ends = begins + Duration::from_millis(random.random_range(lasts));
        let (host, link) = (random.random_range(0..self.hosts), random.random_range(0..self.links.len()));
        let policy = PolicyKind::ALL[random.random_range(0..PolicyKind::ALL.len())];
        Fault {
            kind,
            link: (!kind.is_of_daemon()).then_some(link),
            begins,
            ends: (kind != FaultKind::Policy).then_some(ends),
            host: kind.is_of_host().then_some(host),
            rate: None,
            delay: (kind == FaultKind::Delay).then_some(DELAY),
            jitter: None,
            loss: (kind == FaultKind::Loss).then_some(LOST),
            corruption: (kind == FaultKind::Corruption).then_some(CORRUPTED),
            policy: (kind == FaultKind::Policy).then_some(policy),
        }
    }
}

fn is_allowed(fault: &Fault, others: &[Fault], links: usize) -> bool {
    let stands = |other: &&Fault| {
        let starts = if other.kind == FaultKind::Killed { STARTS_WITHIN } else { Duration::ZERO };
        other.ends.unwrap_or(other.begins) + starts >= fault.begins
    };
    let standing: Vec<&Fault> = others.iter().filter(stands).collect();
    let unsound: Vec<usize> = standing.iter().filter_map(|other| other.link).collect();
    let here = || standing.iter().filter(|other| other.host == fault.host).map(|other| other.kind);
    let link_is_free = fault.link.is_none_or(|link| unsound.len() + 1 < links && !unsound.contains(&link));
    let daemon_runs = !needs_daemon(fault.kind) || !here().any(FaultKind::is_of_process);
    let daemon_may_go =
        !fault.kind.is_of_process() || !here().any(|other| other.is_of_process() || needs_daemon(other));
    let is_spared = (fault.kind, fault.host) == (FaultKind::Killed, Some(0));
    link_is_free && daemon_runs && daemon_may_go && !is_spared
}

/// Whether the daemon has to run, and to have been running: it is asked for something, or lacks a NIC that is up, without which it
/// would not start.
fn needs_daemon(kind: FaultKind) -> bool {
    kind.wants_daemon() || matches!(kind, FaultKind::NicDown | FaultKind::NicGone)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::file::parse;
    use super::*;

    fn drawn(seconds: u64, faults: u32, links: usize, hosts: u8, seed: u64) -> Vec<Fault> {
        let text = format!(
            "duration = \"{seconds} s\"\nwarm_up = \"2 s\"\nrandom_faults = {faults}\nhosts = {hosts}\n\
             [[link]]\nrate = \"50 Mbit/s\"\ncount = {links}\n"
        );
        parse("test", &text).unwrap().with_random_faults(seed).faults
    }

    #[test]
    fn a_seed_draws_faults_of_all_kinds_that_are_possible() {
        let [one, same, other] = [7, 7, 8].map(|seed| drawn(900, 1_000, 3, 2, seed));
        assert!(one == same && one != other);
        assert_eq!(one.len(), 1_000, "none is left out");
        let kinds = |faults: &[Fault]| faults.iter().map(|fault| fault.kind).collect::<BTreeSet<_>>().len();
        assert_eq!(kinds(&one), KINDS.len());
        assert_eq!(kinds(&drawn(900, 1_000, 3, 3, 1)), KINDS.len() - NEED_WIRE);
    }

    #[test]
    fn one_link_is_sound_and_daemons_run_when_they_must() {
        for (seed, links) in (0..20).zip([2, 3, 4].into_iter().cycle()) {
            let faults = drawn(66, 100, links, 2, seed);
            for fault in &faults {
                let lasts = |other: &&Fault| {
                    (other.begins..=other.ends.unwrap_or(other.begins)).contains(&fault.begins)
                };
                let standing: Vec<&Fault> = faults.iter().filter(lasts).collect();
                let unsound: Vec<usize> = standing.iter().filter_map(|fault| fault.link).collect();
                let different: BTreeSet<usize> = unsound.iter().copied().collect();
                assert!(different.len() == unsound.len() && unsound.len() < links, "{standing:?}");
                for idle in standing.iter().filter(|fault| fault.kind.is_of_process()) {
                    let mut here = standing.iter().filter(|other| other.host == idle.host);
                    assert!(here.all(|other| !needs_daemon(other.kind)), "{standing:?}");
                }
            }
        }
    }
}
