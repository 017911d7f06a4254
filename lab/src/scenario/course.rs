//! What becomes of the links in the course of a run: the same steps for every place, which only carries them out.
//!
//! While several faults of a link last, each has its effect; of two that set the same thing the later one in the file
//! counts. A rate that follows a trace is such a step each [`STEP`], beneath the faults, until the flows end: then it is the
//! trace's mean again, or what is on its way would never arrive where the trace stops in a gap.

use std::collections::BTreeSet;
use std::time::Duration;

use tabane_kit::workload::transfer::ARRIVES_WITHIN;
use tabane_proto::PolicyKind;

use super::plan::{Fault, FaultKind, Quality, Router, Scenario};
use super::trace::{STEP, Trace};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) quality: Quality,
    pub(super) black_hole: bool,
    /// What is wrong at single hosts: one that is mute, has a cable out, or whose daemon does not run.
    pub(super) hosts: BTreeSet<(FaultKind, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Since the start of the flows.
    pub(super) at: Duration,
    pub(super) link: usize,
    /// Until the link changes again, or all has to have arrived.
    pub(super) lasts: Duration,
    pub(super) before: Condition,
    pub(super) after: Condition,
    /// It carries nothing any more in some direction, so that this has to be noticed.
    pub(super) is_death: bool,
    pub(super) policies: Vec<(u8, PolicyKind)>,
}

impl Condition {
    pub(super) fn at_first(scenario: &Scenario, link: usize) -> Condition {
        let quality = scenario.links[link].quality();
        Condition { quality, black_hole: false, hosts: BTreeSet::new() }
    }

    /// Whether a wire does the same to frames under the other one.
    pub(super) fn is_same_wire(&self, other: &Condition) -> bool {
        let mute = |condition: &Condition| -> Vec<u8> {
            let hosts = condition.hosts.iter().filter(|(kind, _)| *kind == FaultKind::OneWay);
            hosts.map(|(_, host)| *host).collect()
        };
        (self.quality, self.black_hole, mute(self)) == (other.quality, other.black_hole, mute(other))
    }

    fn at(scenario: &Scenario, link: usize, time: Duration) -> Condition {
        let lasts = |fault: &&Fault| fault.begins <= time && fault.ends.is_none_or(|ends| ends > time);
        let faults = faults_of(scenario, link).filter(lasts);
        let mut sound = Condition::at_first(scenario, link);
        if let Some(trace) = trace_of(scenario, link).filter(|_| time < scenario.duration) {
            let steps = u32::try_from(time.as_millis() / STEP.as_millis()).unwrap_or(u32::MAX);
            sound.quality.router = Some(trace.rate(STEP * steps));
        }
        faults.fold(sound, Condition::with)
    }

    fn with(mut self, fault: &Fault) -> Condition {
        match fault.kind {
            FaultKind::BlackHole => self.black_hole = true,
            FaultKind::Policy => {}
            FaultKind::Rate => {
                let rate = self.quality.router.as_mut().unwrap_or(&mut self.quality.rate);
                *rate = fault.rate.unwrap_or(*rate);
            }
            FaultKind::Delay => self.quality.delay += fault.delay.unwrap_or_default(),
            FaultKind::Jitter => self.quality.jitter += fault.jitter.unwrap_or_default(),
            FaultKind::Loss => self.quality.loss = fault.loss.unwrap_or_default(),
            FaultKind::Corruption => self.quality.corruption = fault.corruption.unwrap_or_default(),
            kind => drop(self.hosts.insert((kind, fault.host.unwrap_or(0)))),
        }
        self
    }
}

pub(super) fn of(scenario: &Scenario) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..scenario.links.len()).flat_map(|link| of_link(scenario, link)).collect();
    steps.sort_by_key(|step| step.at);
    steps
}

pub(super) fn conditions(scenario: &Scenario) -> Vec<(usize, Condition)> {
    let first = (0..scenario.links.len()).map(|link| (link, Condition::at_first(scenario, link)));
    first.chain(of(scenario).into_iter().map(|step| (step.link, step.after))).collect()
}

/// Those of the link, and of daemons, which concern every link.
fn faults_of(scenario: &Scenario, link: usize) -> impl Iterator<Item = &Fault> {
    scenario.faults.iter().filter(move |fault| fault.link.is_none_or(|own| own == link))
}

fn trace_of(scenario: &Scenario, link: usize) -> Option<&Trace> {
    scenario.links[link].router.as_ref().and_then(|router: &Router| router.trace.as_ref())
}

fn of_link(scenario: &Scenario, link: usize) -> Vec<Step> {
    let faults = || faults_of(scenario, link);
    let rates =
        || (0..).map(|step| STEP * step).take_while(|at| *at < scenario.duration).chain([scenario.duration]);
    let rates = trace_of(scenario, link).into_iter().flat_map(|_| rates());
    let times: BTreeSet<Duration> =
        faults().flat_map(|fault| [Some(fault.begins), fault.ends]).flatten().chain(rates).collect();
    let mut before = Condition::at_first(scenario, link);
    let ends = times.iter().skip(1).copied().chain([scenario.duration + ARRIVES_WITHIN]).collect::<Vec<_>>();
    let step = |(at, ends): (Duration, Duration)| {
        let after = Condition::at(scenario, link, at);
        let is_death = faults().any(|fault| fault.kind.is_death() && fault.begins == at);
        let lasts = ends.saturating_sub(at);
        let begins = faults().filter(|fault| link == 0 && fault.begins == at);
        let policies = begins.filter_map(|fault| Some((fault.host.unwrap_or(0), fault.policy?))).collect();
        let step = Step { at, link, lasts, before: before.clone(), after: after.clone(), is_death, policies };
        before = after;
        step
    };
    times.into_iter().zip(ends).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const TEXT: &str = r#"
        [[link]]
        rate = "1 Gbit/s"
        delay = "1 ms"
        count = 2
        [[flow]]
        kind = "tcp"
        [[fault]]
        kind = "delay"
        link = 2
        delay = "20 ms"
        begins = "1 s"
        ends = "3 s"
        [[fault]]
        kind = "cable"
        link = 2
        host = 2
        begins = "2 s"
        ends = "3 s"
        [[fault]]
        kind = "black-hole"
        link = 1
        begins = "2500 ms"
    "#;

    #[test]
    fn faults_of_a_link_add_up_and_end() {
        let scenario = file::parse("test", TEXT).unwrap();
        let steps = of(&scenario);
        let seen: Vec<_> = steps.iter().map(|step| (step.at.as_millis(), step.link, step.is_death)).collect();
        assert_eq!(seen, [(1000, 1, false), (2000, 1, true), (2500, 0, true), (3000, 1, false)]);
        assert_eq!(steps[1].after.quality.delay, Duration::from_millis(21));
        assert_eq!(steps[1].after.hosts, BTreeSet::from([(FaultKind::Cable, 1)]));
        assert!(steps[2].after.black_hole && !steps[2].before.black_hole);
        assert_eq!(steps[3].after, Condition::at_first(&scenario, 1));
    }

    #[test]
    fn a_trace_that_stops_in_a_gap_leaves_its_mean() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gap.trace");
        std::fs::write(&path, "1\n".repeat(50) + "1000\n").unwrap();
        let router = format!("router = {{ trace = {path:?}, queue = \"50 ms\" }}\ncount = 2");
        let text = format!("duration = \"3500 ms\"\n{}", TEXT.replace("count = 2", &router));
        let scenario = file::parse("test", &text).unwrap();
        let mean = scenario.links[0].quality().router.unwrap();
        for link in 0..2 {
            let steps = of(&scenario).into_iter().filter(|step| step.link == link);
            let rates = steps.map(|step| (step.at, step.after.quality.router.unwrap())).collect::<Vec<_>>();
            let [.., (_, within), (at, last)] = rates[..] else { panic!("{rates:?}") };
            assert!(within < mean / 100, "no gap: {rates:?}");
            assert_eq!((at, last), (scenario.duration, mean));
        }
    }
}
