//! The rules of `[[class]]`, which gives frames a policy of their own, and of the policies' options.

use super::LinkConfig;
use super::limits::{CLASSES, DSCP, FRAME_SIZE, PORT};
use super::problem::{Problem, quoted};
use super::settings::{ClassSettings, Given, Settings};
use super::typed::{number, word};
use tabane_proto::{Class, HashLayers, Match, PolicyKind, PolicyOptions};

/// Protocols above IP that a class can name, with their numbers (IANA, protocol numbers).
const PROTOCOLS: [(&str, u8); 7] =
    [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("sctp", 132), ("esp", 50), ("gre", 47)];
/// Protocols with ports that a class can name.
const WITH_PORTS: [u8; 2] = [6, 17];

/// Checks the options of the policies; the primary is one of `links`.
pub(super) fn resolve_options(
    problems: &mut Vec<Problem>,
    settings: &Settings,
    links: &[LinkConfig],
) -> PolicyOptions {
    let default = PolicyOptions::default();
    PolicyOptions {
        primary: settings.primary.as_ref().and_then(|given| primary(problems, given, links)),
        preempt: settings.preempt.as_ref().map_or(default.preempt, |given| given.value),
        hash: word(problems, settings.hash.as_ref(), &HashLayers::ALL, HashLayers::name, default.hash),
    }
}

/// Checks the classes of `settings`.
pub(super) fn resolve_classes(problems: &mut Vec<Problem>, settings: &Settings) -> Vec<Class> {
    let typed = &settings.classes;
    if let Some(last) = typed.last().filter(|_| !CLASSES.hold_count(typed.len())) {
        let what = format!("{} classes are too many", typed.len());
        problems.push(Problem::new(&last.place, what, CLASSES.to_string()));
        return Vec::new();
    }
    typed.iter().filter_map(|class| resolve_class(problems, class)).collect()
}

/// The names of all policies, for people.
pub(crate) fn policy_names() -> String {
    PolicyKind::ALL.map(PolicyKind::name).join(", ")
}

/// The name of a protocol that a class names.
pub(super) fn protocol_name(protocol: u8) -> &'static str {
    PROTOCOLS.iter().find(|(_, number)| *number == protocol).map_or("", |(name, _)| name)
}

fn primary(problems: &mut Vec<Problem>, given: &Given<String>, links: &[LinkConfig]) -> Option<u8> {
    let found = links.iter().position(|link| link.nic == given.value);
    if found.is_none() {
        let nics: Vec<&str> = links.iter().map(|link| link.nic.as_str()).collect();
        let what = format!("{} is no link of this bundle", quoted(&given.value));
        problems.push(Problem::new(&given.place, what, format!("the nic of a link ({})", nics.join(", "))));
    }
    found.and_then(|index| u8::try_from(index).ok())
}

fn resolve_class(problems: &mut Vec<Problem>, typed: &ClassSettings) -> Option<Class> {
    if typed.is_empty() {
        let allowed = "match = { … } with at least one of max_size, dscp, protocol, port";
        problems.push(Problem::new(&typed.place, "nothing is given that frames must match", allowed));
    }
    if typed.policy.is_none() {
        let allowed = format!("policy = one of {}", policy_names());
        problems.push(Problem::new(&typed.place, "no `policy` is given", allowed));
    }
    let protocol = typed
        .protocol
        .as_ref()
        .map(|given| word(problems, Some(given), &PROTOCOLS, |(name, _)| name, PROTOCOLS[0]).1);
    let matches = Match {
        max_size: typed.max_size.as_ref().map(|given| number(problems, Some(given), FRAME_SIZE, u16::MAX)),
        dscp: typed.dscp.as_ref().map(|given| number(problems, Some(given), DSCP, 0)),
        protocol,
        port: typed.port.as_ref().map(|given| number(problems, Some(given), PORT, 1)),
    };
    if let (Some(port), Some(protocol)) = (&typed.port, protocol)
        && !WITH_PORTS.contains(&protocol)
    {
        let what = format!("{} has no ports", protocol_name(protocol));
        problems.push(Problem::new(&port.place, what, "a port with protocol tcp or udp, or with none"));
    }
    let given = typed.policy.as_ref()?;
    let policy = word(problems, Some(given), &PolicyKind::ALL, PolicyKind::name, PolicyKind::default());
    Some(Class { matches, policy })
}
