//! The rules of `[[class]]`, which gives frames a policy of their own, and of those of the policies' options that have more than words.

use super::LinkConfig;
use super::form::{Form, Says};
use super::keys::plain;
use super::limits::{CLASSES, DSCP, FRAME_SIZE, PORT};
use super::links::link_name;
use super::problem::{Place, Problem, quoted};
use super::rule::{take_number, take_word};
use super::settings::{Given, Settings, TableSettings, Typed};
use tabane_proto::{Class, Match, PolicyKind, Turn};
use toml::Value;

/// Protocols above IP that a class can name, with their numbers (IANA, protocol numbers).
const PROTOCOLS: [(&str, u8); 7] =
    [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("sctp", 132), ("esp", 50), ("gre", 47)];
/// Protocols with ports that a class can name.
const WITH_PORTS: [u8; 2] = [6, 17];

pub(crate) struct ClassKey {
    /// Its name in the table `[[class]]`, or in its `match`.
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) says: Says,
    /// What it does, as the reference says it.
    pub(crate) doc: &'static str,
    value: fn(&Class) -> Option<Value>,
}

/// The keys of a class, in the order of a file.
pub(crate) static CLASS_KEYS: [ClassKey; 5] = [
    ClassKey {
        name: "policy",
        form: Form::Text("the name of a policy"),
        says: Says::Words(|| PolicyKind::ALL.map(PolicyKind::name).to_vec()),
        doc: "the policy of these frames",
        value: |class| Some(class.policy.name().into()),
    },
    ClassKey {
        name: "max_size",
        form: Form::Number,
        says: Says::Limits("number", FRAME_SIZE),
        doc: "frames of at most so many bytes",
        value: |class| class.matches.max_size.map(|bytes| i64::from(bytes).into()),
    },
    ClassKey {
        name: "dscp",
        form: Form::Number,
        says: Says::Limits("number", DSCP),
        doc: "IP packets with this code point",
        value: |class| class.matches.dscp.map(|code| i64::from(code).into()),
    },
    ClassKey {
        name: "protocol",
        form: Form::Text("the name of a protocol"),
        says: Says::Words(|| PROTOCOLS.map(|(name, _)| name).to_vec()),
        doc: "IP packets of this protocol",
        value: |class| class.matches.protocol.map(|protocol| protocol_name(protocol).into()),
    },
    ClassKey {
        name: "port",
        form: Form::Number,
        says: Says::Limits("number", PORT),
        doc: "TCP or UDP with this source or destination port",
        value: |class| class.matches.port.map(|port| i64::from(port).into()),
    },
];

impl ClassKey {
    /// Whether it stands in `match`.
    pub(crate) fn is_condition(&self) -> bool {
        self.name != "policy"
    }
}

/// What a class says of its frames: the conditions that it has, in their order.
pub fn conditions(class: &Class) -> impl Iterator<Item = (&'static str, Value)> {
    let conditions = CLASS_KEYS.iter().filter(|key| key.is_condition());
    conditions.filter_map(|key| Some((key.name, (key.value)(class)?)))
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
    let mut typed = TableSettings::at(Place::flag(format!("class {text}")));
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let Some(key) = CLASS_KEYS.iter().find(|key| key.name == name) else {
            let allowed = "max_size=, dscp=, protocol=, port=, policy=";
            return Err(format!("unknown part {}; allowed: {allowed}", quoted(part)));
        };
        let place = typed.place.part(name);
        let value = match (key.form, value.parse()) {
            (Form::Number, Ok(number)) => Typed::Number(Given::new(number, place)),
            (Form::Number, Err(_)) => {
                return Err(format!("{} is no number; allowed: {name}=N", quoted(part)));
            }
            _ => Typed::Text(Given::new(value.to_owned(), place)),
        };
        if typed.values.add(key.name, value).is_some() {
            return Err(format!("{} is given twice; allowed: once", quoted(name)));
        }
    }
    let mut problems = Vec::new();
    match (resolve_class(&mut problems, &typed), problems.first()) {
        (Some(class), None) => Ok(class),
        (_, problem) => Err(problem.map_or_else(String::new, ToString::to_string)),
    }
}

/// A class as [`parse_class`] reads it.
pub fn print_parts(class: &Class) -> String {
    let conditions = conditions(class).map(|(name, value)| format!("{name}={}", plain(&value)));
    let policy = format!("policy={}", class.policy.name());
    conditions.chain([policy]).collect::<Vec<_>>().join(",")
}

pub fn policy_names() -> String {
    PolicyKind::ALL.map(PolicyKind::name).join(", ")
}

pub(super) fn protocol_name(protocol: u8) -> &'static str {
    PROTOCOLS.iter().find(|(_, number)| *number == protocol).map_or("", |(name, _)| name)
}

/// Reads how many cells a link gets in its turn.
pub(super) fn parse_turn(text: &str) -> Result<Turn, String> {
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

/// The place of the primary among `links`, if one is given.
pub(super) fn resolve_primary(
    problems: &mut Vec<Problem>,
    settings: &Settings,
    links: &[LinkConfig],
) -> Option<u8> {
    let given = settings.values.get::<String>("primary")?;
    let found = named(links, &given.value);
    if found.is_none() {
        let nics: Vec<&str> = links.iter().map(|link| link.nic.as_str()).collect();
        let what = format!("{} is no link of this bundle", quoted(&given.value));
        problems.push(Problem::new(&given.place, what, format!("the nic of a link ({})", nics.join(", "))));
    }
    found.and_then(|index| u8::try_from(index).ok())
}

fn resolve_class(problems: &mut Vec<Problem>, typed: &TableSettings) -> Option<Class> {
    let (place, values) = (&typed.place, &typed.values);
    if CLASS_KEYS.iter().all(|key| !key.is_condition() || values.place(key.name).is_none()) {
        let allowed = "match = { … } with at least one of max_size, dscp, protocol, port";
        problems.push(Problem::new(place, "nothing is given that frames must match", allowed));
    }
    let given = values.get("policy");
    if given.is_none() {
        let allowed = format!("policy = one of {}", policy_names());
        problems.push(Problem::new(place, "no `policy` is given", allowed));
    }
    let protocol = values.get("protocol");
    let protocol =
        protocol.map(|given| take_word(problems, Some(given), &PROTOCOLS, |(name, _)| name, PROTOCOLS[0]).1);
    let matches = Match {
        max_size: values
            .get("max_size")
            .map(|given| take_number(problems, Some(given), FRAME_SIZE, u16::MAX)),
        dscp: values.get("dscp").map(|given| take_number(problems, Some(given), DSCP, 0)),
        protocol,
        port: values.get("port").map(|given| take_number(problems, Some(given), PORT, 1)),
    };
    if let (Some(place), Some(protocol)) = (values.place("port"), protocol)
        && !WITH_PORTS.contains(&protocol)
    {
        let what = format!("{} has no ports", protocol_name(protocol));
        problems.push(Problem::new(place, what, "a port with protocol tcp or udp, or with none"));
    }
    let policy = take_word(problems, Some(given?), &PolicyKind::ALL, PolicyKind::name, PolicyKind::default());
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
