//! The configuration file: TOML text to [`Settings`].

use std::path::{Path, PathBuf};

use super::fragments::FRAGMENTS_ALLOWED;
use super::mtu::Mtu;
use super::problem::{Place, Problem};
use super::rate::RATE_ALLOWED;
use super::settings::{
    AccessSettings, ClassSettings, Given, LinkSettings, NodeSettings, OffloadSettings, RateSettings,
    ReceiveSettings, Settings, WindowSettings,
};
use super::table::{self, Key, Section, read};
use super::units::{BITRATE_ALLOWED, INTERVAL_ALLOWED, SHARE_ALLOWED, SIZE_ALLOWED};
use tabane_proto::Turn;
use toml::de::DeValue;

/// The value of a policy, for error sentences.
const POLICY: &str = "the name of a policy";

/// Reads `text`, the content of the file that the user named `file`. A relative key path is taken from the file's
/// directory.
pub fn parse(file: &str, text: &str) -> Result<Settings, Vec<Problem>> {
    read(file, text, settings)
}

/// All keys that a file may have: those of the bundle, and of its tables `offload.`, `link.` and `class.`.
#[must_use]
pub fn keys() -> Vec<Key> {
    table::keys(settings)
}

fn settings(top: &mut Section<'_, '_>) -> Settings {
    let file = top.file();
    let key = |key| beside(&file, key);
    Settings {
        name: top.text("name", "a device name"),
        key: top.text("key", "the path of a key file").map(key),
        accept_keys: top
            .texts("accept_keys", "a list of key files such as [\"old.key\"]")
            .into_iter()
            .map(key)
            .collect(),
        nodes: nodes(top, &file),
        port: top.number("port"),
        mtu: top.take("mtu", Mtu::ALLOWED, text_or_number),
        policy: top.text("policy", POLICY),
        repair: top.switch("repair"),
        primary: top.text("primary", "the nic of a link"),
        preempt: top.switch("preempt"),
        hash: top.text("hash", "the layers that make a flow"),
        turn: top.take("turn", Turn::ALLOWED, text_or_number),
        classes: top.tables("class", "class.", "a table [[class]] for each class of frames", class),
        receive: receive(top),
        fragments: top.text("fragments", FRAGMENTS_ALLOWED),
        workers: top.number("workers"),
        addresses: top.texts("address", "a list such as [\"10.9.0.1/24\"]"),
        data_path: top.text("data_path", "the name of a data path"),
        reorder: top.text("reorder", "what puts frames in order"),
        security: top.text("security", "the name of a protection"),
        cipher: top.text("cipher", "the name of a cipher"),
        access: access(top),
        tx_queue_len: top.number("tx_queue_len"),
        offload: top.table("offload", "offload.", "a table [offload]", offload),
        links: top.tables("link", "link.", "a table [[link]] for each link", link),
        file: Some(file),
    }
}

/// A word or a whole number, as a flag has it.
fn text_or_number(value: &DeValue<'_>) -> Option<String> {
    let number = || value.as_integer().map(ToString::to_string);
    value.as_str().map(str::to_owned).or_else(number)
}

/// A key path as the file means it: relative paths start at the file's directory.
fn beside(file: &str, key: Given<String>) -> Given<PathBuf> {
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    Given::new(directory.join(key.value), key.place)
}

fn nodes(top: &mut Section<'_, '_>, file: &str) -> NodeSettings {
    let key = top.text("node_key", "the path of a node's key file").map(|key| beside(file, key));
    let allow = top.take("allow", "a list of public keys of nodes", |value| {
        let texts = value.as_array()?.iter().map(|item| Some(item.get_ref().as_str()?.to_owned()));
        texts.collect::<Option<Vec<_>>>()
    });
    NodeSettings { key, allow }
}

fn receive(top: &mut Section<'_, '_>) -> ReceiveSettings {
    ReceiveSettings {
        engine: top.text("receive", "the name of a receive engine"),
        interval: top.text("receive_interval", INTERVAL_ALLOWED),
        spin_share: top.text("spin_share", SHARE_ALLOWED),
    }
}

fn access(top: &mut Section<'_, '_>) -> AccessSettings {
    AccessSettings {
        user: top.text("user", "the name of a user"),
        control_group: top.text("control_group", "the name of a group"),
        watch_group: top.text("watch_group", "the name of a group"),
        sandbox: top.switch("sandbox"),
    }
}

fn offload(section: &mut Section<'_, '_>) -> OffloadSettings {
    OffloadSettings {
        gso: section.switch("gso"),
        gro: section.switch("gro"),
        tso: section.switch("tso"),
        uso: section.switch("uso"),
        checksum: section.switch("checksum"),
    }
}

fn link(section: &mut Section<'_, '_>, place: Place) -> LinkSettings {
    LinkSettings {
        place,
        nic: section.text("nic", "the name of a network interface"),
        local: section.text("local", "an address of this node"),
        port: section.number("port"),
        peers: section.texts("peers", "a list such as [\"198.51.100.7:7420\"]"),
        rate: rate(section),
        weight: section.number("weight"),
        drained: section.switch("drained"),
        protected: section.switch("protected"),
        engine: section.text("engine", "the name of an engine"),
        completion: section.text("completion", "`interrupt`, `lazy` or `adaptive`"),
        kind: section.text("kind", "`udp`, `ether` or `mem`"),
        window: window(section),
    }
}

/// A rate for both directions, or a table with one for each.
fn rate(section: &mut Section<'_, '_>) -> RateSettings {
    let both = |given| RateSettings { both: Some(given), ..RateSettings::default() };
    let rate = section.text_or_table("rate", "link.rate.", RATE_ALLOWED, both, |section| RateSettings {
        both: None,
        down: section.text("down", BITRATE_ALLOWED),
        up: section.text("up", BITRATE_ALLOWED),
    });
    rate.unwrap_or_default()
}

fn window(section: &mut Section<'_, '_>) -> WindowSettings {
    WindowSettings {
        path: section.text("path", "the path of a file or device"),
        unit: section.text("unit", SIZE_ALLOWED),
        ring: section.text("ring", SIZE_ALLOWED),
        slots: section.number("slots"),
        slot: section.number("slot"),
        poll: section.text("poll", INTERVAL_ALLOWED),
    }
}

fn class(section: &mut Section<'_, '_>, place: Place) -> ClassSettings {
    let policy = section.text("policy", POLICY);
    section.table("match", "class.match.", "a table { … }", |section| ClassSettings {
        place,
        max_size: section.number("max_size"),
        dscp: section.number("dscp"),
        protocol: section.text("protocol", "the name of a protocol"),
        port: section.number("port"),
        policy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        parse("conf/tb0.toml", text).expect_err(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_keys_are_known_without_a_file() {
        let keys = keys();
        let allowed = |name: &str| keys.iter().find(|key| key.name == name).map(|key| &key.allowed[..]);
        assert_eq!(allowed("mtu"), Some(Mtu::ALLOWED));
        assert_eq!(allowed("link.nic"), Some("a string, the name of a network interface"));
        assert_eq!(allowed("class.match.port"), Some("a whole number"));
        assert_eq!(allowed("offload.uso"), Some("true or false"));
        assert_eq!(allowed("uso"), None);
        let names: Vec<_> = keys.iter().map(|key| &key.name).collect();
        let (first, again): (Vec<_>, Vec<_>) =
            names.iter().enumerate().partition(|(at, name)| !names[..*at].contains(name));
        assert!(again.is_empty() && first.len() > 30, "{names:?}");
    }

    #[test]
    fn values_carry_their_lines() {
        let text =
            "name = \"tb0\"\nkey = \"tb.key\"\n[[link]]\nnic = \"eth1\"\npeers = [\n\"::1\",\n\"::2\"]\n";
        let settings = parse("conf/tb0.toml", text).expect("well formed");
        assert_eq!(settings.name.expect("given").place.to_string(), "conf/tb0.toml:1: name");
        assert_eq!(settings.key.expect("given").value, Path::new("conf/tb.key"));
        assert_eq!(settings.links[0].peers[1].place.to_string(), "conf/tb0.toml:7: link.peers");
    }

    #[test]
    fn all_problems_are_found_at_once() {
        let text = "mut = 1500\nport = \"x\"\nworkers = 1.5\n[offload]\ngso = 1\nlro = true\n[[link]]\nnick = \"eth1\"\nrate = 5\n";
        let found = problems(text);
        assert_eq!(found.len(), 7, "{found:#?}");
        assert!(found.contains(&"conf/tb0.toml:2: port: found a string; allowed: a whole number".into()));
        assert!(
            found.contains(
                &"conf/tb0.toml:5: offload.gso: found a whole number; allowed: true or false".into()
            )
        );
        let nic = "conf/tb0.toml:8: link.nick: unknown key (did you mean `nic`?); allowed: nic, local, port, peers, rate, weight, drained, protected, engine, completion, kind, path, unit, ring, slots, slot, poll";
        assert!(found.contains(&nic.into()), "{found:#?}");
        assert!(
            found
                .iter()
                .any(|one| one.starts_with("conf/tb0.toml:1: mut: unknown key (did you mean `mtu`?); "))
        );
    }

    #[test]
    fn a_table_in_place_of_a_list_of_tables() {
        let found = problems("[link]\nnic = \"eth1\"\n");
        assert_eq!(found, ["conf/tb0.toml:1: link: found a table; allowed: a table [[link]] for each link"]);
    }

    #[test]
    fn syntax_errors_have_lines() {
        let found = problems("name = \"tb0\"\nmtu = = 5\n");
        assert!(found[0].starts_with("conf/tb0.toml:2: not TOML: "), "{found:?}");
        assert_eq!(problems("mtu = 1\nmtu = 2\n"), ["conf/tb0.toml:2: not TOML: duplicate key"]);
    }
}
