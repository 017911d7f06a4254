//! What is compared: a contender over some links of one rate, and how long it is watched.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::contender::Contender;
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan};

/// Rate of the guest's links: a software-emulated machine fills four of them.
const GUEST_MBPS: u32 = 100;
/// Rates of this machine's links, two of each.
const HOST_MBPS: [u32; 2] = [1000, 2500];
/// Those who can run on this machine's kernel.
const ON_HOST: [Contender; 4] =
    [Contender::Single, Contender::Mptcp, Contender::Aggligator, Contender::Adaptive];
/// Who is compared on the host only: it is no part of a kernel, and slow in a machine that is emulated.
const ONLY_ON_HOST: [Contender; 1] = [Contender::Aggligator];

/// One contender in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) contender: Contender,
    /// Number of links, at least 1.
    pub(super) links: u8,
    /// Rate of each, in Mbit/s.
    pub(super) mbps: u32,
}

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Seconds of each flow that is as fast as it can.
    pub(super) seconds: u32,
    /// How long a pulled cable stays out.
    pub(super) cable: Duration,
    /// How long a switch is a black hole: as a rule longer than LACP takes to notice.
    pub(super) black_hole: Duration,
}

impl Timing {
    /// Flows of `seconds`.
    pub(super) const fn full(seconds: u32) -> Timing {
        Timing { seconds, cable: Duration::from_secs(2), black_hole: Duration::from_secs(4) }
    }

    /// Does it work, not how well.
    pub(super) const fn quick() -> Timing {
        Timing { seconds: 2, cable: Duration::from_secs(1), black_hole: Duration::from_secs(1) }
    }
}

/// The cases of the guest: one link alone, then `wanted` over each number of `links`.
pub(super) fn in_guest(wanted: &[Contender], links: &[u8]) -> Vec<Case> {
    let case = |contender, links| Case { contender, links, mbps: GUEST_MBPS };
    let alone = wanted.contains(&Contender::Single).then(|| case(Contender::Single, 1));
    let many = |links: &u8| {
        let links = *links;
        let several = |each: &&Contender| **each != Contender::Single && !ONLY_ON_HOST.contains(*each);
        wanted.iter().filter(several).map(move |each| case(*each, links))
    };
    alone.into_iter().chain(links.iter().flat_map(many)).collect()
}

/// The cases of this machine.
pub(super) fn on_host(wanted: &[Contender]) -> Vec<Case> {
    let links = |contender| if contender == Contender::Single { 1 } else { 2 };
    let able = || ON_HOST.into_iter().filter(|each| wanted.contains(each));
    let of_rate = |mbps| able().map(move |contender| Case { contender, links: links(contender), mbps });
    HOST_MBPS.into_iter().flat_map(of_rate).collect()
}

impl Case {
    /// Two hosts with a switch per link.
    pub(super) fn plan(self, seed: u64) -> Plan {
        let links = vec![LinkPlan::paced(Bitrate::mbit(self.mbps.into())); self.links.into()];
        Plan { seed, addressed: self.contender.uses_bare_links(), ..Plan::two_hosts(links) }
    }

    /// The link that dies: the last one, so that whoever prefers the first is spared.
    pub(super) const fn victim(self) -> usize {
        self.links as usize - 1
    }

    /// Name of the case in the file.
    pub(super) fn key(self) -> String {
        format!("{}x{}.{}", self.links, self.mbps, self.contender.key())
    }
}

/// For people.
impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} over {} x {} Mbit/s", self.contender.label(), self.links, self.mbps)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn one_link_alone_is_measured_once() {
        let cases = in_guest(Contender::value_variants(), &[2, 4]);
        let several = Contender::value_variants().len() - ONLY_ON_HOST.len() - 1;
        assert_eq!(cases.len(), 1 + 2 * several);
        assert_eq!(cases.iter().filter(|case| case.links == 1).count(), 1);
    }

    #[test]
    fn the_host_has_whom_its_kernel_can_run() {
        let keys: Vec<String> =
            on_host(&[Contender::Adaptive, Contender::Team]).into_iter().map(Case::key).collect();
        assert_eq!(keys, ["2x1000.adaptive", "2x2500.adaptive"]);
    }
}
