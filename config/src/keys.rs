//! The keys of a bundle, in the order of a file: one table, from which follow what a file and flags may say, what is checked, printed,
//! compared and saved, and the reference.

use std::fmt;
use std::path::Path;

use tabane_engine::receive;
use tabane_io::tap::DEVICE_NAME_ALLOWED;
use tabane_proto::{HashLayers, PolicyKind, Turn};
use toml::Value;

use super::classes::{parse_turn, primary_name, print_parts, resolve_classes};
use super::config::{CIPHERS, cipher_name};
use super::difference::{Part, Text};
use super::form::{Form, Says};
use super::limits::{PORT, TX_QUEUE_LEN, WORKERS};
use super::links::{link_name, resolve_links};
use super::mtu::Mtu;
use super::rule::{Rule, list, number, parsed, switch, word};
use super::units::{
    FRAGMENTS_ALLOWED, INTERVAL_ALLOWED, SHARE_ALLOWED, parse_fragments, parse_interval, parse_share,
    print_fragments, print_interval, print_share,
};
use super::{Config, DataPath, Reordering, Security, resolve, rule};
use crate::key::{Key, public};

/// A key of the bundle.
pub struct Row {
    /// Its name, behind that of its table.
    pub name: &'static str,
    /// What of a bundle it belongs to.
    pub part: Part,
    /// What it may be, and how it is read and told.
    pub rule: Rule,
    /// What it does, as the reference says it.
    pub(crate) doc: &'static str,
    /// The flag of `up` of the same meaning.
    pub flag: Option<Flag>,
    /// What holds where it is not set; empty where it always is.
    pub(crate) without: &'static str,
    /// What is printed beside its value.
    beside: fn(&Config) -> Option<String>,
    /// As it is printed, where that is not as it is saved.
    printed: Option<fn(&Config) -> Option<Value>>,
    /// Its name and text in comparisons, where these are not its name and value.
    compared: Option<(&'static str, Text<Config>)>,
    /// What comparisons call the items that it may have any number of.
    pub(crate) items: fn(&Config) -> Vec<String>,
}

/// A flag of `up`.
pub struct Flag {
    /// Its name, without the two dashes.
    pub long: &'static str,
    /// What follows it.
    pub takes: Takes,
    /// What it does; `{words}` stands for the words that the key may be.
    pub help: &'static str,
}

/// What follows a flag.
pub enum Takes {
    /// A value, by its name in the help.
    Value(&'static str),
    /// Nothing: it means false.
    Off,
    /// Nothing: it means this word.
    Word(&'static str),
}

const fn row(name: &'static str, part: Part, rule: Rule, doc: &'static str) -> Row {
    Row {
        name,
        part,
        rule,
        doc,
        flag: None,
        without: "",
        beside: |_| None,
        printed: None,
        compared: None,
        items: |_| Vec::new(),
    }
}

const fn flag(long: &'static str, value: &'static str, help: &'static str) -> Option<Flag> {
    Some(Flag { long, takes: Takes::Value(value), help })
}

const fn off(long: &'static str, help: &'static str) -> Option<Flag> {
    Some(Flag { long, takes: Takes::Off, help })
}

const fn means(word: &'static str, long: &'static str, help: &'static str) -> Option<Flag> {
    Some(Flag { long, takes: Takes::Word(word), help })
}

impl Row {
    /// The line that gives it, or a comment where it is not set.
    pub(super) fn print(&self, config: &Config, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.printed.map_or_else(|| (self.rule.value)(config), |printed| printed(config));
        let name = short(self.name);
        match value {
            Some(value) => {
                let beside = (self.beside)(config).map(|text| format!("  # {text}")).unwrap_or_default();
                writeln!(f, "{name} = {value}{beside}")
            }
            None if self.without.is_empty() => Ok(()),
            None => writeln!(f, "# {name}: {}", self.without),
        }
    }

    /// Its name and text in comparisons, unless it has items alone.
    pub(super) fn compared_as(&self, config: &Config) -> Option<(&'static str, String)> {
        if let Some((name, text)) = self.compared {
            return Some((name, text(config)));
        }
        match (self.rule.value)(config) {
            Some(Value::Array(_)) => None,
            None if self.without.is_empty() => None,
            value => Some((self.name, value.as_ref().map_or_else(|| "none".to_owned(), plain))),
        }
    }

    /// What is in force without it: its default, or in words what holds then.
    pub fn default(&self) -> Option<String> {
        match (self.rule.value)(&Config::default()) {
            Some(Value::Array(_)) => None,
            Some(value) => Some(plain(&value)),
            None => {
                Some(self.without.to_owned()).filter(|text| !text.is_empty() && !text.starts_with("none"))
            }
        }
    }
}

/// The name of a key within its table.
pub(super) fn short(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A value without its quotes.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// All keys that have one value.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    KEYS.iter().chain(OFFLOADS)
}

/// The rule of a field that is the name of a user or a group, if one is stated.
macro_rules! account {
    ($($field:ident).+, $what:literal, $says:literal) => {
        parsed!($($field).+, Form::Text($what), $says, resolve::ACCOUNT_ALLOWED, resolve::parse_account, |name| {
            name.clone().map(Value::from)
        })
    };
}

/// A table of keys: above each what it does, as the reference says it; then its name, what it belongs to, its rule, and its flag.
macro_rules! keys {
    (
        $(#[$about:meta])+ $table:ident:
        $($(#[doc = $doc:literal])+ $name:literal: $part:ident, $rule:expr $(, $field:ident: $value:expr)*;)+
    ) => {
        $(#[$about])+
        pub(crate) static $table: &[Row] = &[$(
            Row { $($field: $value,)* ..row($name, Part::$part, $rule, concat!($($doc),+).trim_ascii()) },
        )+];
    };
}

keys! {
    /// The keys outside of tables.
    KEYS:

    /// names the device and the bundle
    "name": Fixed, parsed!(
        fixed.name, Form::Text("a device name"), "a device name",
        DEVICE_NAME_ALLOWED, resolve::parse_name, |name| Some(name.clone().into())
    ),
        flag: flag("name", "NAME", "Name of the device and the bundle");

    /// the key of the group, the same on every node; needed unless `security = "none"`
    "key": Trust, Rule {
        form: Form::Path("the path of a key file"),
        says: Says::Text("path of a key file"),
        take: resolve::take_key,
        value: |config| config.live.key_file.as_deref().map(path),
    },
        flag: flag("key", "FILE", "Key file, the same on every node: nodes that have it are let in, and nobody else reads or changes \
            what the links carry"),
        without: "none",
        beside: |config| Some(format!("group {:016x}", config.live.group())),
        compared: Some(("group key", |config| config.live.key.as_ref().map_or_else(|| "none".to_owned(), group)));

    /// further keys that are accepted, while a group changes its key
    "accept_keys": Trust, Rule {
        form: Form::Paths("a list of key files such as [\"old.key\"]"),
        says: Says::Text("list of key files, at most 7"),
        take: resolve::take_accept_keys,
        value: |config| Some(list(config.live.accept_keys.iter().map(|(file, _)| file.to_string_lossy()))),
    },
        items: |config| each(&config.live.accept_keys, |(_, key)| format!("accepted group key {}", group(key)));

    /// the key of this node alone; `tabane genkey --node FILE` makes it
    "node_key": Fixed, Rule {
        form: Form::Path("the path of a node's key file"),
        says: Says::Text("path of a key file"),
        take: resolve::take_node_key,
        value: |config| config.fixed.node_key_file.as_deref().filter(|_| config.fixed.node_key.is_some()).map(path),
    },
        flag: flag("node-key", "FILE", "Key file of this node alone, as `tabane genkey --node FILE` makes it: others may then let it in \
            or shut it out"),
        without: "none",
        beside: node_key,
        compared: Some(("node_key", |config| node_key(config).unwrap_or_else(|| "none".to_owned())));

    /// only nodes with these keys are let in; without it every node that has the group's key
    "allow": Trust, Rule {
        form: Form::Words("a list of public keys of nodes"),
        says: Says::Text("list of public keys, 1 to 512"),
        take: resolve::take_allow,
        value: |config| config.live.allow.as_ref().map(|keys| list(keys.iter().map(public))),
    },
        flag: flag("allow", "PUBLIC-KEY", "Let in only nodes with this public key; can be repeated"),
        without: "every node that has the key of the group",
        compared: Some(("allow", |config| {
            config.live.allow.as_ref().map_or("every node of the group", |_| "the nodes of a list").to_owned()
        })),
        items: |config| {
            each(config.live.allow.as_deref().unwrap_or_default(), |key| format!("allowed node {}", public(key)))
        };

    /// the UDP port of the first worker; the next worker has the next port
    "port": Fixed, number!(fixed.port, PORT),
        flag: flag("port", "N", "UDP port of the first worker");

    /// the MTU of the device, in bytes, whatever the links have; `auto`: 62 less than the least of the links' where programs carry
    /// frames ([the kernel path](guide.md#the-kernel-path)), else 1500
    "mtu": Fixed, parsed!(
        fixed.mtu, Form::TextOrNumber(Mtu::ALLOWED), "`auto`, or 68 to 65521",
        Mtu::ALLOWED, str::parse, |mtu| Some(mtu.toml())
    ),
        flag: flag("mtu", "BYTES", "MTU of the device: 68 to 65521, whatever the links have, or auto: what fits into their packets whole \
            where programs in the kernel carry frames, else 1500");

    /// how cells are spread over the links
    "policy": Policy, word!(live.policy, "the name of a policy", PolicyKind::ALL, PolicyKind::name),
        flag: flag("policy", "POLICY", "How cells are spread over the links: {words}");

    /// whether lost cells are sent again over another link
    "repair": Fixed, switch!(fixed.repair),
        flag: off("no-repair", "Never send a lost cell again: applications repair what a link loses");

    /// the link that `active-backup` uses while it is up; `"eth1,port=7500"` where several run over `eth1`
    "primary": Classes, Rule {
        form: Form::Text("the nic of a link"),
        says: Says::Text("the `nic` of a link"),
        // It is found once the links are known.
        take: |_, _, _| {},
        value: |config| Some(link_name(config.links.get(usize::from(config.live.policy_options.primary?))?).into()),
    },
        flag: flag("primary", "NIC", "Link that active-backup uses while it is up"),
        without: "none, so that active-backup keeps the link that it has",
        printed: Some(|config| primary_name(&config.links, config.live.policy_options.primary?).map(Value::from));

    /// whether `active-backup` returns to the primary link
    "preempt": Classes, switch!(live.policy_options.preempt),
        flag: off("no-preempt", "When the primary link has come back, active-backup stays on the other");

    /// the headers that make a flow for the policy `hash`
    "hash": Classes, word!(live.policy_options.hash, "the layers that make a flow", HashLayers::ALL, HashLayers::name),
        flag: flag("hash", "LAYERS", "What makes a flow for the policy hash: layer2, layer2+3 or layer3+4");

    /// how many cells a link gets in its turn under the policy `rr`; 0: those of a superframe
    "turn": Classes, parsed!(
        live.policy_options.turn, Form::TextOrNumber(Turn::ALLOWED), "`adaptive`, or 0 to 64",
        Turn::ALLOWED, parse_turn, |turn| Some(turn.to_string().into())
    ),
        flag: flag("turn", "CELLS", "How many cells a link gets in its turn under rr: adaptive, a number, or 0 for those of a superframe");

    /// frames that have a policy of their own
    "class": Classes, Rule {
        form: Form::Tables("a table [[class]] for each class of frames"),
        says: Says::Text("tables `[[class]]`, at most 64"),
        take: |_, from, config| config.live.classes = resolve_classes(&mut from.problems, from.settings),
        value: |_| None,
    },
        items: |config| each(&config.live.classes, |class| format!("class {}", print_parts(class)));

    /// the receive engine: how a worker waits
    "receive": Receive, word!(live.receive.method, "the name of a receive engine", receive::Method::ALL, receive::Method::name),
        flag: flag("receive", "ENGINE", "How a worker waits for frames and cells: interrupt, timer, busy or adaptive");

    /// the time between two polls of the engine `timer`
    "receive_interval": Receive, parsed!(
        live.receive.interval, Form::Text(INTERVAL_ALLOWED), "a time, 1 us to 100 ms",
        INTERVAL_ALLOWED, parse_interval, |interval| Some(print_interval(*interval).into())
    ),
        flag: flag("receive-interval", "TIME", "Time between two polls of the engine timer, such as 20us");

    /// the largest part of a processor that the engine `adaptive` may spin away, for each worker
    "spin_share": Receive, parsed!(
        live.receive.share, Form::Text(SHARE_ALLOWED), "0 % to 100 %",
        SHARE_ALLOWED, parse_share, |share| Some(print_share(*share).into())
    ),
        flag: flag("spin-share", "PERCENT", "The largest part of a processor that a worker's engine adaptive may spin away, such as 50%");

    /// how many pieces of a frame are copied into one before the device takes it
    "fragments": Fixed, parsed!(
        fixed.fragments, Form::Text(FRAGMENTS_ALLOWED), "`auto`, `gather`, `copy`, or `\"2\"` to `\"128\"`",
        FRAGMENTS_ALLOWED, parse_fragments, |fragments| Some(print_fragments(fragments).into())
    ),
        flag: flag("fragments", "WHICH", "Pieces of a frame that are copied into one before the device takes it: auto, gather (none), \
            copy (all), or how many of the first");

    /// the workers, each with a queue of the device and a thread; the same on all nodes
    "workers": Fixed, number!(fixed.workers, WORKERS),
        flag: flag("workers", "N", "Workers, each with a queue of the device and a thread");

    /// the addresses of the device
    "address": Addresses, Rule {
        form: Form::List("a list such as [\"10.9.0.1/24\"]"),
        says: Says::Text("list of addresses with prefix, at most 64"),
        take: resolve::take_addresses,
        value: |config| Some(list(&config.live.addresses)),
    },
        flag: flag("address", "CIDR", "Address of the device, such as 10.9.0.1/24; can be repeated"),
        items: |config| each(&config.live.addresses, |address| format!("address {address}"));

    /// what carries frames: cells, or programs in the kernel as far as they can; `kernel`: no bundle without them
    /// ([the kernel path](guide.md#the-kernel-path))
    "data_path": Fixed, word!(fixed.data_path, "the name of a data path", DataPath::ALL, DataPath::name),
        flag: flag("data-path", "PATH", "What carries frames: user (cells), kernel (programs in the kernel; cells for what they cannot \
            carry), or auto (the same, and cells alone where the programs cannot run)");

    /// what has to put frames in order that the kernel path spreads over links: the peer's kernel, else they travel in cells; `tcp`:
    /// who has no such kernel leaves it to the receiving TCP ([the kernel path](guide.md#the-kernel-path))
    "reorder": Fixed, word!(fixed.reorder, "what puts frames in order", Reordering::ALL, Reordering::name),
        flag: flag("reorder", "WHO", "What has to put frames in order that the kernel path spreads over links: qdisc (the peer's kernel), \
            or tcp (where that has none, the receiving program's TCP)");

    /// whether cells are encrypted and authenticated; `none` is for networks of your own; frames of the kernel path are neither, and
    /// need `none` or links that are protected below
    "security": Fixed, word!(fixed.security, "the name of a protection", Security::ALL, Security::name),
        flag: means("none", "insecure", "Neither encrypt nor authenticate: for networks of your own"),
        beside: |config| Some(format!("cells are {}", match config.security {
            Security::Sealed => "encrypted and authenticated",
            Security::None => "neither encrypted nor authenticated",
        }));

    /// the cipher; `auto` is the processor's fastest, or the one that a peer demands
    "cipher": Fixed, word!(fixed.cipher, "the name of a cipher", CIPHERS, cipher_name),
        flag: flag("cipher", "CIPHER", "Cipher of the cells: auto, aes-256-gcm, chacha20-poly1305 or aegis-128l; auto is the processor's \
            fastest, or the one that the peer demands");

    /// the user that the daemon becomes; without it `tabane`, if there is one
    "user": Fixed, account!(fixed.access.user, "the name of a user", "name of a user"),
        flag: flag("user", "NAME", "User that the daemon becomes once all is open"),
        without: "tabane, if there is one";

    /// its members may change the running bundle, but not its keys; without it `tabane-control`, if there is one
    "control_group": Fixed, account!(fixed.access.control_group, "the name of a group", "name of a group"),
        flag: flag("control-group", "NAME", "Group whose members may ask the running bundle, besides root; they may not change its keys, \
            reload it or take it over"),
        without: "none, so that only root and the daemon's user may ask";

    /// its members may look at the running bundle and change nothing; without it `tabane-watch`, if there is one
    "watch_group": Fixed, account!(fixed.access.watch_group, "the name of a group", "name of a group"),
        flag: flag("watch-group", "NAME", "Group whose members may look at the running bundle and change nothing"),
        without: "tabane-watch, if there is one";

    /// whether the daemon gives up what rights it needs no more; `false` lets debuggers attach
    "sandbox": Fixed, switch!(fixed.access.sandbox),
        flag: off("no-sandbox", "Keep all rights of the user who starts it: for debuggers, never for shared machines");

    /// the transmit queue of the device, in frames
    "tx_queue_len": Fixed, number!(fixed.tx_queue_len, TX_QUEUE_LEN);

    /// see below
    "offload": Fixed, Rule {
        form: Form::Tables("a table [offload]"),
        says: Says::Text("a table `[offload]`"),
        // Its keys are taken by themselves.
        take: |_, _, _| {},
        value: |_| None,
    };

    /// see below
    "link": Links, Rule {
        form: Form::Tables("a table [[link]] for each link"),
        says: Says::Text("tables `[[link]]`, 1 to 16"),
        take: |_, from, config| config.links = resolve_links(&mut from.problems, from.settings, config.ports()),
        value: |_| None,
    };
}

keys! {
    /// The keys of the table `[offload]`.
    OFFLOADS:

    /// many cells per send on the links (UDP_SEGMENT)
    "offload.gso": Fixed, switch!(fixed.offload.gso),
        flag: off("no-gso", "Send each cell by itself (no UDP_SEGMENT)");

    /// many cells per receive on the links (UDP_GRO)
    "offload.gro": Fixed, switch!(fixed.offload.gro),
        flag: off("no-gro", "Receive each cell by itself (no UDP_GRO)");

    /// TCP superframes on the device
    "offload.tso": Fixed, switch!(fixed.offload.tso),
        flag: off("no-tso", "No TCP superframes on the device");

    /// UDP superframes on the device
    "offload.uso": Fixed, switch!(fixed.offload.uso),
        flag: off("no-uso", "No UDP superframes on the device");

    /// unfinished checksums on the device; `tso` and `uso` need them
    "offload.checksum": Fixed, switch!(fixed.offload.checksum),
        flag: off("no-checksum", "No unfinished checksums on the device; also ends TSO and USO there");
}

fn each<T>(items: &[T], text: impl Fn(&T) -> String) -> Vec<String> {
    items.iter().map(text).collect()
}

fn path(file: &Path) -> Value {
    file.to_string_lossy().into_owned().into()
}

fn group(key: &Key) -> String {
    format!("{:016x}", key.group())
}

/// The public part of this node's key, if it has one.
fn node_key(config: &Config) -> Option<String> {
    config.fixed.node_key.as_ref().map(|key| public(&key.public()))
}
