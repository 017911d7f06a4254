//! The keys of a link, in the order of a file: one table, from which follow what a file and `--link` may say, what is compared and
//! saved, and the reference.

use tabane_engine::reclaim;
use tabane_io::Engine;
use toml::Value;

use super::{KINDS, print_peers};
use crate::LinkConfig;
use crate::difference::{Part, Text};
use crate::form::{Form, Says};
use crate::limits::{PORT, SLOT, SLOTS, WEIGHT};
use crate::problem::{Place, quoted};
use crate::rate::RATE_ALLOWED;
use crate::rule::list;
use crate::settings::{Given, TableSettings, Typed};
use crate::units::{BITRATE_ALLOWED, INTERVAL_ALLOWED, SIZE_ALLOWED, print_interval, print_size};
use crate::window::{POLL, RING, UNIT, WINDOW_PREFIX};

/// Prefix of the name of a link of Ethernet frames, before its NIC; no NIC can be called that.
const ETHER_PREFIX: &str = "ether:";
/// What begins the names of the keys of the table `rate`.
pub(crate) const RATE_PREFIX: &str = "rate.";

/// A key of a link.
pub struct LinkKey {
    /// Its name in the table `[[link]]`, behind that of its own table.
    pub name: &'static str,
    /// What its value looks like in a file.
    pub form: Form,
    pub(crate) says: Says,
    /// What it does, as the reference says it.
    pub(crate) doc: &'static str,
    /// What is in force without it, but for one that is true or false: false.
    default: fn() -> Option<Value>,
    /// Its name behind `--link`, and which links take it there; `None`: only a file has it.
    part: Option<(&'static str, Over)>,
    /// Of one that is true or false: the field, from which follows how it is read, printed and compared.
    pub(crate) switch: Option<Switch>,
    /// Its text in comparisons of a link that stays.
    compared: Option<(Part, Text<LinkConfig>)>,
    /// Its value as a file has it, of a key that may change while its link is in a bundle; `None`: it is left out.
    pub saved: Option<fn(&LinkConfig) -> Option<Value>>,
}

/// A field of a link that is true or false.
#[derive(Clone, Copy)]
pub(crate) struct Switch {
    /// What of a bundle differs where it does.
    part: Part,
    pub(crate) get: fn(&LinkConfig) -> bool,
    pub(crate) set: fn(&mut LinkConfig, bool),
    /// What is printed beside it where it is true.
    pub(crate) beside: &'static str,
}

/// What links run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Any,
    Udp,
    Ether,
    Memory,
}

const fn key(name: &'static str, form: Form, says: Says, doc: &'static str) -> LinkKey {
    LinkKey { name, form, says, doc, default: || None, part: None, switch: None, compared: None, saved: None }
}

/// A field of a link that is true or false: its name, what it belongs to, and what is printed beside it.
macro_rules! switch {
    ($field:ident, $part:ident, $beside:literal) => {
        Some(Switch {
            part: Part::$part,
            get: |link| link.$field,
            set: |link, on| link.$field = on,
            beside: $beside,
        })
    };
}

impl LinkKey {
    /// What is in force without it.
    pub(crate) fn default(&self) -> Option<Value> {
        self.switch.map(|_| false.into()).or_else(self.default)
    }

    /// Its name behind `--link`; `None`: only a file has it.
    pub fn part(&self) -> Option<&'static str> {
        self.part.map(|(name, _)| name)
    }

    /// Its text in comparisons of a link that stays, and what of a bundle it belongs to.
    pub(crate) fn compared(&self, link: &LinkConfig) -> Option<(Part, String)> {
        let yes_or_no = |switch: Switch| if (switch.get)(link) { "yes" } else { "no" };
        let switch = self.switch.map(|switch| (switch.part, yes_or_no(switch).to_owned()));
        switch.or_else(|| self.compared.map(|(part, text)| (part, text(link))))
    }

    /// Reads what stands behind the `=` of its part.
    fn read(&self, value: &str, place: Place) -> Result<Typed, String> {
        let text = || Given::new(value.to_owned(), place.clone());
        match (self.form, self.says) {
            (_, Says::Limits(noun, limits)) => match value.parse() {
                Ok(number) => Ok(Typed::Number(Given::new(number, place))),
                Err(_) => Err(format!("{} is no {noun}; allowed: {limits}", quoted(value))),
            },
            (Form::Switch, _) => Ok(Typed::Switch(Given::new(true, place))),
            (Form::List(_), _) => Ok(Typed::List(Given::new(vec![text()], place.clone()))),
            _ => Ok(Typed::Text(text())),
        }
    }
}

/// A table of keys: above each what it does, as the reference says it; then its name, what its value looks like, and what it may be.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:literal: $form:expr, $says:expr $(, $field:ident: $value:expr)*;)+) => {
        /// The keys of a link.
        pub static LINK_KEYS: &[LinkKey] = &[$(
            LinkKey { $($field: $value,)* ..key($name, $form, $says, concat!($($doc),+).trim_ascii()) },
        )+];
    };
}

keys! {
    /// the NIC to which the link is bound; needed but for `kind = "mem"`
    "nic": Form::Text("the name of a network interface"), Says::Text("name of a network interface");

    /// where the link listens; without it the NIC's IPv6 link-local address, or any of the peers' family
    "local": Form::Text("an address of this node"), Says::Text("an address of this host, `0.0.0.0` or `::`"),
        part: Some(("local", Over::Udp));

    /// the UDP port of the first worker on this link; without it the bundle's `port`
    "port": Form::Number, Says::Limits("port", PORT),
        part: Some(("port", Over::Udp));

    /// where the other nodes listen; without any they are found by multicast, or greet this link at its `local`
    "peers": Form::List("a list such as [\"198.51.100.7:7420\"]"),
        Says::Text("list of ADDRESS:PORT or NAME:PORT, at most 1023, 16 of them names"),
        default: || Some(Value::Array(Vec::new())),
        part: Some(("peer", Over::Udp)),
        compared: Some((Part::Links, |link| print_peers(&link.peers))),
        saved: Some(|link| Some(list(&link.peers)).filter(|_| !link.peers.is_empty()));

    /// the rate, such as `"2.5 Gbit/s"`; without it the rate is measured, and `tlb` goes by the speed that the NIC says
    "rate": Form::Tables(RATE_ALLOWED), Says::Text("1 kbit/s to 1000 Gbit/s, or a table of the next two"),
        part: Some(("rate", Over::Any)),
        compared: Some((Part::Links, |link| link.rate.words())),
        saved: Some(|link| link.rate.to_string().parse().ok());

    /// what the peers are told to keep to
    "rate.down": Form::Text(BITRATE_ALLOWED), Says::Text("1 kbit/s to 1000 Gbit/s"),
        part: Some(("down", Over::Any));

    /// what leaves here keeps to it
    "rate.up": Form::Text(BITRATE_ALLOWED), Says::Text("1 kbit/s to 1000 Gbit/s"),
        part: Some(("up", Over::Any));

    /// its part under the policy `weighted`; given for every link or for none
    "weight": Form::Number, Says::Limits("weight", WEIGHT),
        part: Some(("weight", Over::Any)),
        compared: Some((Part::Links, |link| link.weight.map_or("none".to_owned(), |weight| weight.to_string()))),
        saved: Some(|link| link.weight.map(|weight| i64::from(weight).into()));

    /// a spare link: data takes another link while one is up; not all links are drained
    "drained": Form::Switch, Says::Switch,
        switch: switch!(drained, Links, "data takes another link while one is up"),
        saved: Some(|link| link.drained.then(|| true.into()));

    /// says that the network below, MACsec for one, encrypts and authenticates what this link carries: a sealed bundle takes the
    /// kernel path where it is so of all its links ([MACsec](recipes/macsec.md))
    "protected": Form::Switch, Says::Switch,
        switch: switch!(protected, Fixed, "by the network below"),
        part: Some(("protected", Over::Any));

    /// with `kind = "ether"`: AF_XDP or AF_PACKET
    "engine": Form::Text("the name of an engine"), Says::Words(|| Engine::ALL.map(Engine::name).to_vec()),
        default: || Some(Engine::default().name().into()),
        part: Some(("engine", Over::Ether));

    /// with `kind = "ether"`: how AF_XDP gets sent frames back
    "completion": Form::Text("`interrupt`, `lazy` or `adaptive`"),
        Says::Words(|| reclaim::Method::ALL.map(reclaim::Method::name).to_vec()),
        default: || Some(reclaim::Method::default().name().into()),
        part: Some(("completion", Over::Ether));

    /// UDP, Ethernet frames without IP, or memory that nodes share
    "kind": Form::Text("`udp`, `ether` or `mem`"), Says::Words(|| KINDS.to_vec()),
        default: || Some(KINDS[0].into());

    /// with `kind = "mem"`: the file or device that is shared
    "path": Form::Text("the path of a file or device"), Says::Text("an absolute path");

    /// with `kind = "mem"`: the size of a unit, a power of two
    "unit": Form::Text(SIZE_ALLOWED), Says::Text("512 B to 64 KiB"),
        default: || Some(print_size(UNIT).into()),
        part: Some(("unit", Over::Memory));

    /// with `kind = "mem"`: the size of a ring, a power of two
    "ring": Form::Text(SIZE_ALLOWED), Says::Text("128 KiB to 1 GiB"),
        default: || Some(print_size(RING).into()),
        part: Some(("ring", Over::Memory));

    /// with `kind = "mem"`: how many nodes have room
    "slots": Form::Number, Says::Limits("number of slots", SLOTS),
        default: || Some(SLOTS.low.into()),
        part: Some(("slots", Over::Memory));

    /// with `kind = "mem"`: the slot of this node; without it the first that no process of this machine has
    "slot": Form::Number, Says::Limits("slot", SLOT),
        part: Some(("slot", Over::Memory));

    /// with `kind = "mem"`: how often the window is polled while frames move
    "poll": Form::Text(INTERVAL_ALLOWED), Says::Text("a time, 1 us to 100 ms"),
        default: || Some(print_interval(POLL).into()),
        part: Some(("poll", Over::Memory));
}

/// The keys that only links over this have, in their order.
fn parts(over: Over) -> impl Iterator<Item = (&'static str, &'static LinkKey)> {
    let part = move |key: &'static LinkKey| Some((key.part.filter(|part| part.1 == over)?.0, key));
    LINK_KEYS.iter().filter_map(part)
}

/// Where the first key of a window of memory was given.
pub(super) fn of_window(typed: &TableSettings) -> Option<&Place> {
    let path = typed.values.place("path");
    path.or_else(|| parts(Over::Memory).find_map(|(_, key)| typed.values.place(key.name)))
}

/// Reads the value of `--link`: `NIC[,local=ADDRESS][,port=N][,peer=HOST:PORT]…`, `ether:NIC[,engine=ENGINE][,completion=WAY]`, or
/// `mem:PATH[,unit=SIZE][,ring=SIZE][,slots=N][,slot=N][,poll=TIME]`, each with `[,rate=RATE][,weight=N][,protected]`;
/// `down=RATE,up=RATE` may stand in place of `rate=RATE`.
pub fn parse_link_flag(text: &str) -> Result<TableSettings, String> {
    parse_link_text(text, "--link")
}

/// The same, given by whatever `means`.
pub(super) fn parse_link_text(text: &str, means: &str) -> Result<TableSettings, String> {
    let mut texts = text.split(',');
    let name = texts.next().unwrap_or_default();
    let (over, mut link) = named(name, Place::flag(format!("{means} {name}")));
    let known: Vec<_> = parts(over).chain(parts(Over::Any)).collect();
    for text in texts {
        let (part, value) = text.split_once('=').unwrap_or((text, ""));
        let is_it =
            |known: &&(&str, &LinkKey)| known.0 == if known.1.form == Form::Switch { text } else { part };
        let Some((_, key)) = known.iter().find(is_it) else {
            let takes = |(part, key): &(&str, &LinkKey)| {
                format!("{part}{}", if key.form == Form::Switch { "" } else { "=" })
            };
            let allowed = known.iter().map(takes).collect::<Vec<_>>().join(", ");
            return Err(format!("unknown part {}; allowed: {allowed}", quoted(text)));
        };
        let typed = key.read(value, link.place.part(part))?;
        if link.values.add(key.name, typed).is_some() {
            return Err(format!("{} is given twice; allowed: once", quoted(part)));
        }
    }
    Ok(link)
}

/// A link that a flag names: a NIC, `ether:` and a NIC, or `mem:` and a path.
fn named(name: &str, place: Place) -> (Over, TableSettings) {
    let (over, kind, key, name) = match (name.strip_prefix(WINDOW_PREFIX), name.strip_prefix(ETHER_PREFIX)) {
        (Some(path), _) => (Over::Memory, Some("mem"), "path", path),
        (None, Some(nic)) => (Over::Ether, Some("ether"), "nic", nic),
        (None, None) => (Over::Udp, None, "nic", name),
    };
    let mut link = TableSettings::at(place);
    let given = |text: &str| Given::new(text.to_owned(), link.place.clone());
    let (name, kind) = (given(name), kind.map(given));
    link.values.set(key, name);
    kind.into_iter().for_each(|kind| link.values.set("kind", kind));
    (over, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_flag_has_a_nic_and_parts() {
        let link =
            parse_link_flag("eth1,local=192.0.2.1,peer=198.51.100.7:7420,peer=[2001:db8::1]:9,rate=1 Gbit/s");
        let link = link.expect("well formed").values;
        let text = |key| link.get::<String>(key).map(|given| given.value.as_str());
        assert_eq!((text("nic"), text("local")), (Some("eth1"), Some("192.0.2.1")));
        assert_eq!(link.list("peers").len(), 2);
        assert_eq!(link.place("rate").expect("given").to_string(), "--link eth1: rate");
    }

    #[test]
    fn a_link_flag_names_its_mistake() {
        let why = |text| parse_link_flag(text).expect_err(text);
        let unknown =
            "unknown part `loca=1`; allowed: local=, port=, peer=, rate=, down=, up=, weight=, protected";
        assert!(why("eth1,loca=1").starts_with(unknown));
        assert!(why("eth1,protected=no").starts_with("unknown part `protected=no`"));
        assert_eq!(why("eth1,weight=x"), "`x` is no weight; allowed: 1 to 1000");
        assert_eq!(why("eth1,port=x"), "`x` is no port; allowed: 1 to 65535");
        assert_eq!(why("eth1,local=::1,local=::2"), "`local` is given twice; allowed: once");
    }
}
