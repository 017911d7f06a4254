//! The rules of `[[class]]`, which gives frames a policy of their own, and of the policies' options.

use super::LinkConfig;
use super::limits::{CLASSES, DSCP, FRAME_SIZE, PORT};
use super::links::link_name;
use super::problem::{Place, Problem, quoted};
use super::settings::{ClassSettings, Given, Settings};
use super::typed::{number, value, word};
use tabane_proto::{Class, HashLayers, Match, PolicyKind, PolicyOptions, Turn};

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
        turn: value(problems, settings.turn.as_ref(), Turn::ALLOWED, parse_turn).unwrap_or(default.turn),
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

/// One class as text: `max_size=`, `dscp=`, `protocol=` and `port=`, of which a frame must match those that are given, and `policy=`.
pub fn parse_class(text: &str) -> Result<Class, String> {
    const ALLOWED: &str = "max_size=, dscp=, protocol=, port=, policy=";
    let place = Place::flag(format!("class {text}"));
    let (number, word) = (None::<Given<i64>>, None::<Given<String>>);
    let mut typed = ClassSettings {
        place: place.clone(),
        max_size: number.clone(),
        dscp: number.clone(),
        port: number,
        protocol: word.clone(),
        policy: word,
    };
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = || match value.parse() {
            Ok(number) => Ok(Given::new(number, place.part(key))),
            Err(_) => Err(format!("{} is no number; allowed: {key}=N", quoted(part))),
        };
        let word = || Given::new(value.to_owned(), place.part(key));
        let twice = match key {
            "max_size" => typed.max_size.replace(number()?).is_some(),
            "dscp" => typed.dscp.replace(number()?).is_some(),
            "port" => typed.port.replace(number()?).is_some(),
            "protocol" => typed.protocol.replace(word()).is_some(),
            "policy" => typed.policy.replace(word()).is_some(),
            _ => return Err(format!("unknown part {}; allowed: {ALLOWED}", quoted(part))),
        };
        if twice {
            return Err(format!("{} is given twice; allowed: once", quoted(key)));
        }
    }
    let mut problems = Vec::new();
    match (resolve_class(&mut problems, &typed), problems.first()) {
        (Some(class), None) => Ok(class),
        (_, problem) => Err(problem.map_or_else(String::new, ToString::to_string)),
    }
}

/// A class as [`parse_class`] reads it.
pub(crate) fn print_parts(class: &Class) -> String {
    let matches = &class.matches;
    let number = |key: &str, value: Option<u16>| value.map(|value| format!("{key}={value}"));
    let parts = [
        number("max_size", matches.max_size),
        number("dscp", matches.dscp.map(u16::from)),
        matches.protocol.map(|protocol| format!("protocol={}", protocol_name(protocol))),
        number("port", matches.port),
        Some(format!("policy={}", class.policy.name())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(",")
}

/// The names of all policies, for people.
pub(crate) fn policy_names() -> String {
    PolicyKind::ALL.map(PolicyKind::name).join(", ")
}

/// The name of a protocol that a class names.
pub(super) fn protocol_name(protocol: u8) -> &'static str {
    PROTOCOLS.iter().find(|(_, number)| *number == protocol).map_or("", |(name, _)| name)
}

fn parse_turn(text: &str) -> Result<Turn, String> {
    text.parse().map_err(|_| format!("{} is out of range", quoted(text)))
}

/// The link that is named so: the one of exactly this name, else the first over the NIC.
fn named(links: &[LinkConfig], name: &str) -> Option<usize> {
    let exact = links.iter().position(|link| link_name(link) == name);
    exact.or_else(|| links.iter().position(|link| link.nic == name))
}

/// What names the primary among `links`: its NIC, where that is enough.
pub(super) fn primary_name(links: &[LinkConfig], primary: u8) -> Option<String> {
    let place = usize::from(primary);
    let link = links.get(place)?;
    let is_enough = named(links, &link.nic) == Some(place);
    Some(if is_enough { link.nic.clone() } else { link_name(link) })
}

fn primary(problems: &mut Vec<Problem>, given: &Given<String>, links: &[LinkConfig]) -> Option<u8> {
    let found = named(links, &given.value);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_as_text_reads_back() {
        for text in [
            "protocol=udp,port=53,policy=duplicate",
            "max_size=256,policy=rr",
            "max_size=1500,dscp=46,protocol=tcp,port=22,policy=hash",
        ] {
            assert_eq!(parse_class(text).map(|class| print_parts(&class)), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_class_says_why() {
        let why = |text| parse_class(text).expect_err(text);
        assert_eq!(
            why("port=53,colour=red"),
            "unknown part `colour=red`; allowed: max_size=, dscp=, protocol=, port=, policy="
        );
        assert_eq!(why("dscp=x,policy=rr"), "`dscp=x` is no number; allowed: dscp=N");
        assert_eq!(why("dscp=1,dscp=2"), "`dscp` is given twice; allowed: once");
        assert!(why("dscp=64,policy=rr").contains("64 is out of range"));
        assert!(why("policy=rr").contains("nothing is given that frames must match"));
        assert!(why("port=53").contains("no `policy` is given"));
        assert!(why("port=53,policy=adaptve").contains("did you mean `adaptive`?"));
    }
}
