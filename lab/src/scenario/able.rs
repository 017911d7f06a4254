//! What a place or a contestant cannot do: one sentence each, so that nothing is left out in silence.

use tabane_kit::prerequisites::is_installed;
use tabane_kit::workload::app::App;

use super::contestant::{Contestant, With};
use super::course::{self, Condition};
use super::plan::{BundleOptions, Fault, FaultKind, Flow, FlowKind, Link, Over, Place, Quality, Scenario};
use crate::prelude::*;

pub(super) fn place_lacks(scenario: &Scenario, place: Place) -> Option<String> {
    let why = match place {
        Place::Sim => sim_lacks(scenario)?,
        Place::Namespaces => wires_lack(scenario)?,
        Place::Guest => guest_lacks(scenario).or_else(|| wires_lack(scenario))?,
    };
    Some(format!("not in `{}`: {why}", place.key()))
}

pub(super) fn contestant_lacks(scenario: &Scenario, contestant: Contestant, place: Place) -> Option<String> {
    let has = |wanted: fn(&FlowKind) -> bool| scenario.flows.iter().any(|flow| wanted(&flow.kind));
    let is_simulated =
        matches!(contestant, Contestant::BestLink | Contestant::Bundle(_, With::Nothing | With::NoRepair));
    let has_bare = scenario.flows.iter().any(|flow| flow.bare.is_some());
    let why: String = if place == Place::Sim && !is_simulated {
        "the simulator has neither TCP nor a kernel".into()
    } else if contestant == Contestant::Mptcp
        && has(|kind| matches!(kind, FlowKind::Udp | FlowKind::Quic) || kind.app().is_some())
    {
        "it carries neither datagrams, QUIC nor applications".into()
    } else if contestant == Contestant::Mptcp
        && scenario.flows.iter().any(|flow| flow.all || (flow.from, flow.to) != (0, 1))
    {
        "connections go from host 1 to host 2 alone".into()
    } else if matches!(contestant, Contestant::Kernel(_)) && scenario.hosts > 2 {
        "it is set up for 2 hosts".into()
    } else if contestant.needs_switches() && needs_emulator(scenario) && !scenario.netem {
        "it needs switches, and an emulated wire is none".into()
    } else if matches!(contestant, Contestant::Kernel(_)) && has_bare {
        "its links have no addresses of their own".into()
    } else if contestant.policy().is_none() && is_hard_on_daemons(scenario) {
        "it has no daemon".into()
    } else if scenario.has_netem(contestant) && !course::of(scenario).is_empty() {
        "flaws of netem stay as they are".into()
    } else if scenario.netem && place == Place::Namespaces {
        "netem is in the kernel of `guest`".into()
    } else {
        contestant.lacks_in(place)?
    };
    Some(format!("no {} in `{}`: {why}", contestant.key(), place.key()))
}

/// Whether links need wires with flaws in place of switches: whether more than a rate, black holes and cables is asked for.
pub(super) fn needs_emulator(scenario: &Scenario) -> bool {
    let is_flawed = |(link, condition): (usize, Condition)| {
        let own = scenario.links[link].quality();
        let router = condition.quality.router;
        let plain = Quality { rate: own.rate, router, ..Quality::default() };
        condition.quality != plain || condition.hosts.iter().any(|(kind, _)| *kind == FaultKind::OneWay)
    };
    scenario.random_faults > 0 && scenario.hosts == 2
        || scenario.links.iter().any(|link| link.coalescing.is_some())
        || course::conditions(scenario).into_iter().any(is_flawed)
}

fn is_hard_on_daemons(scenario: &Scenario) -> bool {
    let kinds = || scenario.faults.iter().map(|fault| fault.kind);
    scenario.random_faults > 0 || kinds().any(|kind| kind.is_of_process() || kind.wants_daemon())
}

fn sim_lacks(scenario: &Scenario) -> Option<String> {
    let loses_nics = |fault: &Fault| matches!(fault.kind, FaultKind::NicDown | FaultKind::NicGone);
    if is_hard_on_daemons(scenario) || scenario.faults.iter().any(loses_nics) {
        return Some("the simulator has neither daemons nor NICs of a kernel".into());
    }
    let conditions = course::conditions(scenario);
    if conditions.iter().any(|(_, condition)| condition.quality.corruption.per_million > 0) {
        return Some(
            "the simulator flips no bits; `loss` comes to the same, for a corrupted cell is dropped".into(),
        );
    }
    let (own, usual) = (scenario.bundle, BundleOptions::default());
    if (own.receive, own.over) != (usual.receive, usual.over) {
        return Some(
            "the simulator's processors take no time, so `receive` and `over` say nothing there".into(),
        );
    }
    if scenario.flows.iter().any(|flow| flow.kind == FlowKind::Quic) {
        return Some("the simulator has no QUIC".into());
    }
    if scenario.flows.iter().any(|flow| flow.kind.app().is_some()) {
        return Some("the simulator has no applications".into());
    }
    if (0..scenario.links.len()).any(|link| scenario.translates(link)) {
        return Some("the simulator's routers translate no addresses".into());
    }
    if scenario.flows.iter().any(|flow| flow.bare.is_some_and(|link| !competes(scenario, flow, link))) {
        let what = "it knows a bare flow only as one of TCP that competes at a link's router, one for each direction";
        return Some(what.into());
    }
    meets_others(scenario).then(|| {
        "its sources do not slow down as TCP does, so that several hosts that send to one would only fill its queues"
            .into()
    })
}

fn competes(scenario: &Scenario, flow: &Flow, link: u8) -> bool {
    let meets = |other: &&Flow| other.bare == Some(link) && other.to == flow.to;
    let alone = scenario.flows.iter().filter(meets).count() == 1 && flow.count == 1 && !flow.all;
    alone && flow.kind == FlowKind::Tcp && scenario.links[usize::from(link)].router.is_some()
}

fn meets_others(scenario: &Scenario) -> bool {
    let greedy = |flow: &&Flow| flow.bare.is_none() && matches!(flow.kind, FlowKind::Tcp | FlowKind::File);
    let greedy: Vec<&Flow> = scenario.flows.iter().filter(greedy).collect();
    let is_mesh = scenario.hosts > 2 && greedy.iter().any(|flow| flow.all);
    is_mesh
        || greedy.iter().any(|flow| greedy.iter().any(|other| other.to == flow.to && other.from != flow.from))
}

fn wires_lack(scenario: &Scenario) -> Option<String> {
    let apps = scenario.flows.iter().filter_map(|flow| flow.kind.app());
    let lacking = apps.flat_map(App::tools).find(|tool| !is_installed(tool.program));
    if let Some(Tool { program, package }) = lacking {
        return Some(format!("`{program}` is not installed ({package})"));
    }
    if (0..scenario.links.len()).any(|link| scenario.translates(link)) {
        return routers_lack(scenario);
    }
    (scenario.hosts > 2 && needs_emulator(scenario)).then(|| {
        format!(
            "a wire with delay, jitter, loss, corruption, coalescing, a changed rate or a dead direction joins 2 hosts, \
             not {}",
            scenario.hosts
        )
    })
}

fn routers_lack(scenario: &Scenario) -> Option<String> {
    let dies = course::conditions(scenario)
        .into_iter()
        .any(|(link, condition)| condition.black_hole && scenario.translates(link));
    let why = if scenario.hosts > 2 {
        "it joins 2 hosts"
    } else if needs_emulator(scenario) {
        "it is a kernel's, and has neither delay, jitter, loss, corruption nor coalescing"
    } else if scenario.bundle.over != Over::Udp {
        "it routes IP alone"
    } else if dies {
        "it is no switch that can be made a black hole"
    } else {
        let missing = || format!("`{}` is not installed ({})", NFT.program, NFT.package);
        return (!is_installed(NFT.program)).then(missing);
    };
    Some(format!("a router with `nat`: {why}"))
}

fn guest_lacks(scenario: &Scenario) -> Option<String> {
    if scenario.links.iter().any(|link| link.router.as_ref().is_some_and(|router| router.trace.is_some())) {
        return Some("no trace is followed there".into());
    }
    let coalesces = |link: &Link| link.coalescing.is_some();
    scenario.links.iter().any(coalesces).then(|| {
        "an emulated processor takes longer to wake up than frames wait in a NIC, so coalescing says nothing there"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::*;

    fn scenario(more: &str) -> Scenario {
        let text = "hosts = 3\n[[link]]\nrate = \"1 Gbit/s\"\n";
        parse("test", &format!("{text}{more}")).unwrap()
    }

    const TCP: &str = "[[flow]]\nkind = \"tcp\"\n";
    const LOSS: &str = "[[fault]]\nkind = \"loss\"\nlink = 1\nloss = \"1 %\"\nbegins = \"1 s\"\n";
    const HOLE: &str = "[[fault]]\nkind = \"black-hole\"\nlink = 1\nbegins = \"1 s\"\n";

    #[test]
    fn a_flaw_at_any_time_needs_a_wire_and_a_wire_joins_two() {
        let [lossy, dead] = [LOSS, HOLE].map(|fault| scenario(&format!("{TCP}{fault}")));
        assert!(needs_emulator(&lossy) && !needs_emulator(&dead));
        assert_eq!(place_lacks(&dead, Place::Namespaces), None);
        assert!(
            place_lacks(&lossy, Place::Namespaces).is_some_and(|why| why.contains("joins 2 hosts, not 3"))
        );
        assert_eq!(place_lacks(&lossy, Place::Sim), None);
    }

    #[test]
    fn the_simulator_has_no_quic_and_nobody_who_slows_down() {
        let quic = scenario("[[flow]]\nkind = \"quic\"\n");
        assert_eq!(
            place_lacks(&quic, Place::Sim).as_deref(),
            Some("not in `sim`: the simulator has no QUIC")
        );
        let other = |from: u8| scenario(&format!("{TCP}[[flow]]\nkind = \"tcp\"\nfrom = {from}\n"));
        assert_eq!(place_lacks(&other(1), Place::Sim), None);
        assert!(place_lacks(&other(3), Place::Sim).is_some_and(|why| why.contains("do not slow down")));
    }

    #[test]
    fn engines_say_nothing_in_the_simulator() {
        for engines in ["receive = \"busy\"", "over = \"xdp\""] {
            let scenario = scenario(&format!("{TCP}[bundle]\n{engines}\n"));
            assert!(place_lacks(&scenario, Place::Sim).is_some(), "{engines}");
            assert_eq!(place_lacks(&scenario, Place::Namespaces), None);
        }
    }

    #[test]
    fn who_has_no_daemon_cannot_lose_it() {
        let killed = scenario(&format!("{TCP}[[fault]]\nkind = \"killed\"\nbegins = \"1 s\"\n"));
        assert!(place_lacks(&killed, Place::Sim).is_some_and(|why| why.contains("neither daemons")));
        assert_eq!(place_lacks(&killed, Place::Namespaces), None);
        assert!(contestant_lacks(&killed, Contestant::BestLink, Place::Namespaces).is_some());
    }

    #[test]
    fn mptcp_is_for_connections_from_the_first_host_to_the_second() {
        let lacks = |more: &str, place| contestant_lacks(&scenario(more), Contestant::Mptcp, place);
        assert_eq!(lacks(TCP, Place::Namespaces), None);
        assert!(lacks(TCP, Place::Sim).is_some());
        assert!(lacks("[[flow]]\nkind = \"udp\"\n", Place::Namespaces).is_some());
        assert!(lacks("[[flow]]\nkind = \"tcp\"\nto = 3\n", Place::Namespaces).is_some());
    }
}
