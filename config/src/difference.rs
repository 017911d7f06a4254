//! How one configuration differs from another, key by key, with a short sentence for each.

use super::keys::rows;
use super::links::keys::LINK_KEYS;
use super::links::link_name;
use super::{Config, LinkConfig};

/// What of a bundle differs, as far as it takes another step to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What cannot change while the bundle runs.
    Fixed,
    Policy,
    /// Options of the policies, and classes.
    Classes,
    Receive,
    /// Group keys, and which nodes are let in.
    Trust,
    Addresses,
    Links,
}

/// What comparisons say of a configuration or of a link.
pub type Text<T> = fn(&T) -> String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub part: Part,
    /// The key, or what is there in one of the two alone.
    pub what: String,
    /// As the first configuration has it; `None`: not at all.
    old: Option<String>,
    /// As the second one has it.
    new: Option<String>,
}

impl Difference {
    /// The second configuration is in force, the first is the file's.
    pub fn beside_file(&self) -> String {
        let what = &self.what;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => format!("{what} {new}, in the file {old}"),
            (None, _) => format!("{what}, not in the file"),
            (Some(_), None) => format!("no {what}, which is in the file"),
        }
    }

    /// The second configuration has taken the place of the first.
    pub fn change(&self) -> String {
        let what = &self.what;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => format!("{what} {new}, was {old}"),
            (None, _) => format!("{what} added"),
            (Some(_), None) => format!("{what} removed"),
        }
    }
}

/// What differs between `old` and `new`: values in the order of the table of keys, then items of lists, then links.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let mut found = Vec::new();
    for row in rows() {
        if let (Some((what, old)), Some((_, new))) = (row.compared_as(old), row.compared_as(new))
            && old != new
        {
            found.push(change(row.part, what, old, new));
        }
    }
    for row in rows() {
        compare_items(&mut found, row.part, &(row.items)(old), &(row.items)(new));
    }
    compare_links(&mut found, old, new);
    found
}

/// What differs between a link as it was and as it is.
pub fn link_differences(old: &LinkConfig, new: &LinkConfig) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_link(&mut found, old, new);
    found
}

fn change(part: Part, what: impl Into<String>, old: String, new: String) -> Difference {
    Difference { part, what: what.into(), old: Some(old), new: Some(new) }
}

fn compare_items(found: &mut Vec<Difference>, part: Part, old: &[String], new: &[String]) {
    let before = found.len();
    for item in old.iter().filter(|item| !new.contains(item)) {
        found.push(Difference { part, what: item.clone(), old: Some(String::new()), new: None });
    }
    for item in new.iter().filter(|item| !old.contains(item)) {
        found.push(Difference { part, what: item.clone(), old: None, new: Some(String::new()) });
    }
    if part == Part::Classes && old != new && found.len() == before {
        found.push(change(part, "order of classes", old.join("; "), new.join("; ")));
    }
}

fn compare_links(found: &mut Vec<Difference>, old: &Config, new: &Config) {
    let part = Part::Links;
    for link in old.links.iter().filter(|link| !new.links.iter().any(|other| other.is_same(link))) {
        let what = format!("link {}", link_name(link));
        found.push(Difference { part, what, old: Some(String::new()), new: None });
    }
    for link in &new.links {
        match old.links.iter().find(|other| other.is_same(link)) {
            Some(before) => compare_link(found, before, link),
            None => {
                let what = format!("link {}", link_name(link));
                found.push(Difference { part, what, old: None, new: Some(String::new()) });
            }
        }
    }
}

/// The same link in two configurations. A slot that one of them leaves open is no difference.
fn compare_link(found: &mut Vec<Difference>, old: &LinkConfig, new: &LinkConfig) {
    let name = link_name(new);
    let mut compare = |part, key: &str, texts: [String; 2]| {
        let [old, new] = texts;
        if old != new {
            found.push(change(part, format!("link {name}: {key}"), old, new));
        }
    };
    if !old.runs_over_same(new) {
        compare(Part::Fixed, "kind", ["another".to_owned(), "this".to_owned()]);
    }
    for key in LINK_KEYS {
        if let (Some((part, old)), Some((_, new))) = (key.compared(old), key.compared(new)) {
            compare(part, key.name, [old, new]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::{LinkRate, Mtu, Ports, file, parse_link, resolve};
    use tabane_proto::PolicyKind;

    fn config(text: &str) -> Config {
        let settings = file::parse("tb.toml", text).expect("well formed");
        resolve::resolve(&settings, |_, _| Ok(Key([1; 32]))).expect("valid")
    }

    fn found(old: &Config, new: &Config) -> Vec<String> {
        differences(old, new).iter().map(Difference::beside_file).collect()
    }

    const LINKS: &str = "[[link]]\nnic = 'eth1'\n[[link]]\nnic = 'eth2'\nrate = '1 Gbit/s'\n";

    #[test]
    fn what_is_equal_does_not_differ() {
        let text = format!("key = 'k'\npolicy = 'rr'\naddress = ['10.9.0.1/24']\n{LINKS}");
        assert_eq!(differences(&config(&text), &config(&text)), []);
        let slot = |slot| {
            let link = parse_link(&format!("mem:/dev/shm/tb0{slot}"), Ports::default()).expect("a link");
            Config { links: vec![link], ..Config::default() }
        };
        assert_eq!(differences(&slot(""), &slot(",slot=1")), [], "the first free slot");
        assert_eq!(found(&slot(",slot=0"), &slot(",slot=1")).len(), 1);
    }

    #[test]
    fn each_difference_is_a_sentence() {
        let old = config(&format!("address = ['10.9.0.1/24']\n{LINKS}"));
        let mut new = old.clone();
        (new.live.policy, new.live.addresses) = (PolicyKind::RoundRobin, Vec::new());
        new.links[1].rate = LinkRate::default();
        new.links[1].drained = true;
        new.links[0] = parse_link("eth3,peer=198.51.100.7", Ports::default()).expect("a link");
        assert_eq!(
            found(&old, &new),
            [
                "policy rr, in the file adaptive",
                "no address 10.9.0.1/24, which is in the file",
                "no link eth1, which is in the file",
                "link eth3, not in the file",
                "link eth2: rate measured, in the file 1 Gbit/s",
                "link eth2: drained yes, in the file no",
            ]
        );
        let changes: Vec<_> = differences(&old, &new).iter().map(Difference::change).collect();
        assert_eq!(
            changes[..3],
            ["policy rr, was adaptive", "address 10.9.0.1/24 removed", "link eth1 removed"]
        );
        let parts: Vec<_> = differences(&old, &new).iter().map(|difference| difference.part).collect();
        assert_eq!(parts[..3], [Part::Policy, Part::Addresses, Part::Links]);
    }

    #[test]
    fn classes_differ_by_what_they_say_and_by_their_order() {
        let [dns, voice] = ["{ protocol = 'udp', port = 53 }", "{ dscp = 46 }"]
            .map(|matches| format!("[[class]]\nmatch = {matches}\npolicy = 'duplicate'\n"));
        let with = |classes: &[&String]| {
            let classes: String = classes.iter().map(|class| class.as_str()).collect();
            config(&format!("{classes}{LINKS}"))
        };
        assert_eq!(
            found(&with(&[&voice]), &with(&[&voice, &dns])),
            ["class protocol=udp,port=53,policy=duplicate, not in the file"]
        );
        assert!(found(&with(&[&dns, &voice]), &with(&[&voice, &dns]))[0].starts_with("order of classes "));
    }

    #[test]
    fn what_cannot_change_is_told_apart() {
        let old = config(LINKS);
        let mut new = old.clone();
        (new.fixed.port, new.fixed.mtu, new.fixed.offload.gso) = (7500, Mtu::Stated(9000), false);
        new.links[0].protected = true;
        let fixed: Vec<_> = differences(&old, &new).into_iter().map(|one| (one.part, one.what)).collect();
        let keys = ["port", "mtu", "offload.gso", "link eth1: protected"];
        assert_eq!(fixed, keys.map(|key| (Part::Fixed, key.to_owned())));
        let ether = parse_link("ether:eth1", Ports::default()).expect("a link");
        let kinds = differences(&old, &Config { links: vec![ether, old.links[1].clone()], ..old.clone() });
        assert_eq!(kinds.iter().map(|kind| kind.part).collect::<Vec<_>>(), [Part::Fixed]);
    }
}
