//! Which faults happen when: drawn from a seed before anything begins, so that a run can be repeated.
//!
//! Faults begin at even distances, give or take, and overlap. Two rules hold at any time: one link is sound, and a host
//! whose daemon does not run has no fault that wants it to.

use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::prelude::*;

const LASTS_MS: std::ops::Range<u64> = 30..2_000;
/// How long a daemon does not run: less than connections take for the end of their peer, with the time to find each
/// other again.
const PROCESS_LASTS_MS: std::ops::Range<u64> = 30..1_000;
/// How long a daemon that was started again is left alone, for it takes requests some time after its start.
const STARTS_WITHIN: Duration = Duration::from_secs(2);
/// Draws for one fault before it is left out; one that the rules allow comes up much sooner.
const DRAWS_MAX: usize = 1_000;

#[derive(Debug)]
pub(super) struct Agenda {
    planned: Vec<Planned>,
    span: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    fault: Fault,
    begins: Duration,
    ends: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Begin(Fault),
    End(Fault),
}

impl fmt::Display for Event {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, Fault { kind, host, .. }) = match self {
            Event::Begin(fault) => ("begin", fault),
            Event::End(fault) => ("end", fault),
        };
        write!(to, "{verb} of \"{}\" at h{}", kind.label(), host + 1)
    }
}

impl Agenda {
    /// `faults` faults within `span`, in a topology that is built as `plan` says.
    pub(super) fn draw(plan: &Plan, span: Duration, faults: u32, seed: u64) -> Agenda {
        let mut random = StdRng::seed_from_u64(seed);
        let mut planned: Vec<Planned> = Vec::new();
        let interval = span / faults;
        let is_possible = |kind: &Kind| kind.is_possible(plan.wiring);
        let kinds: Vec<Kind> = Kind::value_variants().iter().copied().filter(is_possible).collect();
        for number in 0..faults {
            let begins = interval * number + interval.mul_f64(random.random_range(0.0..0.9));
            let drawn = (0..DRAWS_MAX).map(|_| Planned::draw(&kinds, plan, begins, &mut random));
            let allowed =
                drawn.into_iter().find(|candidate| candidate.is_allowed(&planned, plan.links.len()));
            planned.extend(allowed);
        }
        Agenda { planned, span }
    }

    pub(super) fn span(&self) -> Duration {
        self.span
    }

    pub(super) fn events(&self) -> Vec<(Duration, Event)> {
        let both =
            |each: &Planned| [(each.begins, Event::Begin(each.fault)), (each.ends, Event::End(each.fault))];
        let mut events: Vec<_> = self.planned.iter().flat_map(both).collect();
        events.sort_by_key(|(at, _)| *at);
        events
    }

    /// Each fault with its seconds of beginning and end.
    pub(super) fn timetable(&self) -> Vec<(f64, f64, Fault)> {
        let row = |each: &Planned| (each.begins.as_secs_f64(), each.ends.as_secs_f64(), each.fault);
        self.planned.iter().map(row).collect()
    }

    pub(super) fn counts(&self) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        for planned in &self.planned {
            *counts.entry(planned.fault.kind).or_default() += 1;
        }
        counts
    }
}

impl Planned {
    fn draw(kinds: &[Kind], plan: &Plan, begins: Duration, random: &mut StdRng) -> Planned {
        let kind = kinds[random.random_range(0..kinds.len())];
        let lasts = match kind {
            Kind::Policy => 0,
            kind if kind.is_of_process() => random.random_range(PROCESS_LASTS_MS),
            _ => random.random_range(LASTS_MS),
        };
        let fault = Fault {
            kind,
            host: random.random_range(0..plan.hosts),
            link: random.random_range(0..plan.links.len()),
            policy: random.random_range(0..PolicyKind::ALL.len()),
        };
        Planned { fault, begins, ends: begins + Duration::from_millis(lasts) }
    }

    /// Whether the rules allow it beside what is planned already, all of which begins earlier.
    fn is_allowed(&self, planned: &[Planned], links: usize) -> bool {
        let Fault { kind, host, link, .. } = self.fault;
        let standing: Vec<&Planned> = planned.iter().filter(|other| self.meets(other)).collect();
        let of_links = || standing.iter().filter(|other| other.fault.kind.is_of_link());
        let sound = links - of_links().count();
        let here = || standing.iter().filter(|other| other.fault.host == host).map(|other| other.fault.kind);
        let link_is_free =
            !kind.is_of_link() || (sound > 1 && of_links().all(|other| other.fault.link != link));
        let daemon_runs = !kind.wants_daemon() || !here().any(Kind::is_of_process);
        let daemon_may_go =
            !kind.is_of_process() || !here().any(|other| other.is_of_process() || other.wants_daemon());
        let is_spared = kind == Kind::Killed && host == 0;
        link_is_free && daemon_runs && daemon_may_go && !is_spared
    }

    /// Whether `other`, which begins earlier, still stands when this begins.
    fn meets(&self, other: &Planned) -> bool {
        let start = if other.fault.kind == Kind::Killed { STARTS_WITHIN } else { Duration::ZERO };
        other.ends + start >= self.begins
    }
}

// What fails, how it begins and how it ends.

/// Share of the frames that a lossy link loses.
const LOST: f64 = 0.05;
/// Share of the frames that a corrupting link changes.
const CORRUPTED: f64 = 0.01;
const DELAY: Duration = Duration::from_millis(20);
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The switch of a link swallows everything, carrier stays.
    SwitchDead,
    /// A link swallows what one side sends.
    OneWay,
    /// A link loses frames.
    Loss,
    /// A link flips bits.
    Corruption,
    /// A link adds delay.
    Delay,
    /// A cable is pulled at one host.
    Cable,
    /// A NIC is set down.
    NicDown,
    /// A NIC vanishes and comes back under another index.
    NicGone,
    /// A link is taken out of the bundle and in again.
    LinkOut,
    /// A daemon is killed and started again.
    Killed,
    /// A daemon does not get to run.
    Halted,
    /// The policy is switched; that lasts.
    Policy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The host at which it happens, or whose frames are concerned.
    pub(super) host: usize,
    /// The link, of a fault that has one.
    pub(super) link: usize,
    /// The new policy's place in [`PolicyKind::ALL`].
    pub(super) policy: usize,
}

impl Kind {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Kind::SwitchDead => "switch dead",
            Kind::OneWay => "one way dead",
            Kind::Loss => "5 % loss",
            Kind::Corruption => "1 % corrupted",
            Kind::Delay => "+20 ms delay",
            Kind::Cable => "cable pulled",
            Kind::NicDown => "NIC down",
            Kind::NicGone => "NIC deleted",
            Kind::LinkOut => "link removed",
            Kind::Killed => "daemon killed",
            Kind::Halted => "daemon halted",
            Kind::Policy => "policy switched",
        }
    }

    pub(super) const fn is_of_link(self) -> bool {
        !self.is_of_process() && !matches!(self, Kind::Policy)
    }

    /// Whether the daemon of its host does not run while it lasts.
    pub(super) const fn is_of_process(self) -> bool {
        matches!(self, Kind::Killed | Kind::Halted)
    }

    /// Whether it wants the daemon to run, and to have been running: the daemon is asked to change something, or lacks
    /// a NIC that is up, without which it would not start.
    pub(super) const fn wants_daemon(self) -> bool {
        matches!(self, Kind::Policy | Kind::LinkOut | Kind::NicDown | Kind::NicGone)
    }

    pub(super) fn is_possible(self, wiring: Wiring) -> bool {
        let needs_emulator = matches!(self, Kind::OneWay | Kind::Loss | Kind::Corruption | Kind::Delay);
        wiring == Wiring::Emulator || !needs_emulator
    }

    fn impairment(self) -> Impairment {
        match self {
            Kind::Loss => Impairment::loss(LOST),
            Kind::Corruption => Impairment::corruption(CORRUPTED),
            Kind::Delay => Impairment::delay(DELAY),
            _ => Impairment::black_hole(),
        }
    }
}

impl Fault {
    pub(super) fn begin(self, topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
        let (host, link) = (self.host, self.link);
        match self.kind {
            Kind::SwitchDead => topology.kill_switch(link).map(drop),
            Kind::OneWay => {
                let direction = Direction::BOTH[host];
                topology.impair(link, direction, self.kind.impairment()).map(drop)
            }
            Kind::Loss | Kind::Corruption | Kind::Delay => {
                topology.impair_both(link, self.kind.impairment()).map(drop)
            }
            Kind::Cable => topology.pull_cable(host, link).map(drop),
            Kind::NicDown => topology.set_nic(host, link, false),
            Kind::NicGone => topology.delete_nic(host, link),
            Kind::LinkOut => bundles[host].ask(&["link", "remove", DEVICE, &nic(link)]).map(drop),
            Kind::Killed => bundles[host].kill(),
            Kind::Halted => bundles[host].signal(Signal::SIGSTOP),
            Kind::Policy => {
                bundles[host].ask(&["policy", DEVICE, PolicyKind::ALL[self.policy].name()]).map(drop)
            }
        }
    }

    pub(super) fn end(self, topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
        let (host, link) = (self.host, self.link);
        match self.kind {
            Kind::SwitchDead => topology.revive_switch(link).map(drop),
            Kind::OneWay | Kind::Loss | Kind::Corruption | Kind::Delay => {
                topology.impair_both(link, Impairment::default()).map(drop)
            }
            Kind::Cable => topology.plug_cable(host, link).map(drop),
            Kind::NicDown => topology.set_nic(host, link, true),
            Kind::NicGone => topology.make_nic(host, link),
            Kind::LinkOut => bundles[host].ask(&["link", "add", DEVICE, &nic(link)]).map(drop),
            Kind::Killed => bundles[host].start_again(),
            Kind::Halted => bundles[host].signal(Signal::SIGCONT),
            Kind::Policy => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tabane_kit::rate::Bitrate;
    use tabane_kit::topology::{LinkPlan, Wiring};

    use super::*;

    fn plan(links: usize) -> Plan {
        Plan { wiring: Wiring::Emulator, ..Plan::two_hosts(vec![LinkPlan::shaped(Bitrate::mbit(50)); links]) }
    }

    #[test]
    fn a_seed_is_an_agenda() {
        let drawn = |seed| Agenda::draw(&plan(3), Duration::from_secs(900), 1_000, seed).planned;
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        assert_eq!(drawn(7).len(), 1_000, "none is left out");
    }

    #[test]
    fn all_kinds_come_up_where_they_are_possible() {
        let counts = |plan: &Plan| Agenda::draw(plan, Duration::from_secs(900), 1_000, 1).counts().len();
        assert_eq!(counts(&plan(2)), Kind::value_variants().len());
        let switched = Plan { wiring: Wiring::Switch, hosts: 3, ..plan(3) };
        assert_eq!(counts(&switched), Kind::value_variants().len() - 4);
    }

    #[test]
    fn one_link_is_sound_and_daemons_run_when_they_must() {
        for (seed, links) in (0..20).zip([2, 3, 4].into_iter().cycle()) {
            let mut standing: Vec<Fault> = Vec::new();
            for (_, event) in Agenda::draw(&plan(links), Duration::from_secs(60), 100, seed).events() {
                match event {
                    Event::End(fault) => standing.retain(|other| *other != fault),
                    Event::Begin(fault) => standing.push(fault),
                }
                let mut unsound: Vec<usize> =
                    standing.iter().filter(|fault| fault.kind.is_of_link()).map(|fault| fault.link).collect();
                let faults = unsound.len();
                unsound.sort_unstable();
                unsound.dedup();
                assert!(unsound.len() == faults && faults < links, "{standing:?}");
                for fault in standing.iter().filter(|fault| fault.kind.is_of_process()) {
                    let others = standing.iter().filter(|other| other.host == fault.host && *other != fault);
                    assert!(others.into_iter().all(|other| !other.kind.wants_daemon()), "{standing:?}");
                }
            }
        }
    }
}
