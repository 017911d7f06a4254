//! The settings as typed: every value of the file or of a flag with its place, not yet checked.
//!
//! Flags are laid over a file by [`Settings::overlaid`]: a flag replaces the file's value, links and addresses
//! are appended.

use std::path::PathBuf;
use std::sync::Arc;

use super::limits::{PORT, SLOT, SLOTS, WEIGHT};
use super::problem::{Place, quoted};

/// Prefix of the name of a link of Ethernet frames, before its NIC; no NIC can be called that.
const ETHER_PREFIX: &str = "ether:";
/// Prefix of the name of a link through memory, before its path; no NIC can be called that.
pub(super) const WINDOW_PREFIX: &str = "mem:";

/// A value and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value as typed.
    pub value: T,
    /// Its place.
    pub place: Place,
}

impl<T> Given<T> {
    /// `value`, given at `place`.
    pub fn new(value: T, place: Place) -> Given<T> {
        Given { value, place }
    }

    /// A value given by a flag, for example `--mtu`.
    pub fn by_flag(value: T, flag: &str) -> Given<T> {
        Given { value, place: Place::flag(flag) }
    }
}

/// Everything a user may set, as typed. `None` and empty lists mean "not given".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The file that was read, as named by the user.
    pub file: Option<Arc<str>>,
    /// Device name.
    pub name: Option<Given<String>>,
    /// Key file, relative to the working directory.
    pub key: Option<Given<PathBuf>>,
    /// Files of further keys that are accepted.
    pub accept_keys: Vec<Given<PathBuf>>,
    /// Keys of nodes.
    pub nodes: NodeSettings,
    /// UDP port of the first worker.
    pub port: Option<Given<i64>>,
    /// MTU of the device: a number of bytes, or `auto`.
    pub mtu: Option<Given<String>>,
    /// Scheduling policy.
    pub policy: Option<Given<String>>,
    /// Repair of lost cells.
    pub repair: Option<Given<bool>>,
    /// NIC of the primary link.
    pub primary: Option<Given<String>>,
    /// Whether the primary takes over again.
    pub preempt: Option<Given<bool>>,
    /// Headers that make a flow.
    pub hash: Option<Given<String>>,
    /// How many cells a link gets in its turn under `rr`.
    pub turn: Option<Given<String>>,
    /// Frames with a policy of their own, in the order given.
    pub classes: Vec<ClassSettings>,
    /// The receive engine.
    pub receive: ReceiveSettings,
    /// Which pieces of a frame are copied before the device takes it.
    pub fragments: Option<Given<String>>,
    /// Number of workers.
    pub workers: Option<Given<i64>>,
    /// Addresses of the device, in CIDR notation.
    pub addresses: Vec<Given<String>>,
    /// What carries frames.
    pub data_path: Option<Given<String>>,
    /// What puts frames of the kernel path in order.
    pub reorder: Option<Given<String>>,
    /// How cells are protected.
    pub security: Option<Given<String>>,
    /// The cipher.
    pub cipher: Option<Given<String>>,
    /// Rights of the daemon, and over it.
    pub access: AccessSettings,
    /// Transmit queue of the device, in frames.
    pub tx_queue_len: Option<Given<i64>>,
    /// Offloads that were switched on or off.
    pub offload: OffloadSettings,
    /// Links in the order given.
    pub links: Vec<LinkSettings>,
}

/// Keys of nodes, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// File of this node's key, relative to the working directory.
    pub key: Option<Given<PathBuf>>,
    /// Public keys of the nodes that are let in; `None`: all of the group are.
    pub allow: Option<Given<Vec<String>>>,
}

impl NodeSettings {
    fn overlaid(self, flags: NodeSettings) -> NodeSettings {
        NodeSettings { key: flags.key.or(self.key), allow: flags.allow.or(self.allow) }
    }
}

/// The receive engine, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiveSettings {
    /// The engine's name.
    pub engine: Option<Given<String>>,
    /// Time between two polls of `timer`, with unit.
    pub interval: Option<Given<String>>,
    /// Part of a processor that `adaptive` may spin away, with `%`.
    pub spin_share: Option<Given<String>>,
}

/// Rights of the daemon, and over it, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// User that the daemon becomes.
    pub user: Option<Given<String>>,
    /// Group whose members may ask it.
    pub control_group: Option<Given<String>>,
    /// Group whose members may look at it.
    pub watch_group: Option<Given<String>>,
    /// Whether it gives up what it needs no more.
    pub sandbox: Option<Given<bool>>,
}

/// Offloads as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffloadSettings {
    /// UDP segmentation on the links.
    pub gso: Option<Given<bool>>,
    /// UDP receive coalescing on the links.
    pub gro: Option<Given<bool>>,
    /// TCP superframes on the device.
    pub tso: Option<Given<bool>>,
    /// UDP superframes on the device.
    pub uso: Option<Given<bool>>,
    /// Unfinished checksums on the device.
    pub checksum: Option<Given<bool>>,
}

/// One class of frames as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// The `[[class]]` line.
    pub place: Place,
    /// Largest frame, in bytes.
    pub max_size: Option<Given<i64>>,
    /// Differentiated services code point.
    pub dscp: Option<Given<i64>>,
    /// Protocol above IP, by name.
    pub protocol: Option<Given<String>>,
    /// Source or destination port.
    pub port: Option<Given<i64>>,
    /// Its policy.
    pub policy: Option<Given<String>>,
}

impl ClassSettings {
    /// Whether it has no condition.
    pub fn is_empty(&self) -> bool {
        self.max_size.is_none() && self.dscp.is_none() && self.protocol.is_none() && self.port.is_none()
    }
}

/// One link as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The `[[link]]` line or the `--link` flag.
    pub place: Place,
    /// Network interface.
    pub nic: Option<Given<String>>,
    /// Local address.
    pub local: Option<Given<String>>,
    /// UDP port of its first worker.
    pub port: Option<Given<i64>>,
    /// Endpoints of the other nodes, or their names.
    pub peers: Vec<Given<String>>,
    /// Its rate.
    pub rate: RateSettings,
    /// Its part of the traffic.
    pub weight: Option<Given<i64>>,
    /// Whether it is drained.
    pub drained: Option<Given<bool>>,
    /// Whether the network below protects it.
    pub protected: Option<Given<bool>>,
    /// What moves the cells of a link of Ethernet frames.
    pub engine: Option<Given<String>>,
    /// How the kernel gives back frames that AF_XDP has sent.
    pub completion: Option<Given<String>>,
    /// What the link runs over: `udp`, `ether` or `mem`.
    pub kind: Option<Given<String>>,
    /// The window of a link through memory.
    pub window: WindowSettings,
}

/// The rates of a link, each with unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateSettings {
    /// Of both directions.
    pub both: Option<Given<String>>,
    /// Of what it receives.
    pub down: Option<Given<String>>,
    /// Of what it sends.
    pub up: Option<Given<String>>,
}

/// The window of a link through memory, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowSettings {
    /// File or device.
    pub path: Option<Given<String>>,
    /// Size of a unit, with unit of measure.
    pub unit: Option<Given<String>>,
    /// Size of a ring.
    pub ring: Option<Given<String>>,
    /// Nodes that it has room for.
    pub slots: Option<Given<i64>>,
    /// This node's slot.
    pub slot: Option<Given<i64>>,
    /// How often it is polled.
    pub poll: Option<Given<String>>,
}

impl WindowSettings {
    /// What is given first.
    pub(super) fn any(&self) -> Option<&Place> {
        let texts = [&self.path, &self.unit, &self.ring, &self.poll].into_iter().flatten();
        let numbers = [&self.slots, &self.slot].into_iter().flatten();
        texts.map(|given| &given.place).chain(numbers.map(|given| &given.place)).next()
    }
}

impl LinkSettings {
    /// A link that a flag names: a NIC, `ether:` and a NIC, or `mem:` and a path.
    fn named(name: &str, place: &Place) -> LinkSettings {
        let given = |value: &str| Some(Given::new(value.to_owned(), place.clone()));
        let (path, ether) = (name.strip_prefix(WINDOW_PREFIX), name.strip_prefix(ETHER_PREFIX));
        LinkSettings {
            nic: if path.is_none() { given(ether.unwrap_or(name)) } else { None },
            kind: path.and_then(|_| given("mem")).or_else(|| ether.and_then(|_| given("ether"))),
            window: WindowSettings { path: path.and_then(given), ..WindowSettings::default() },
            local: None,
            port: None,
            peers: Vec::new(),
            rate: RateSettings::default(),
            weight: None,
            drained: None,
            protected: None,
            engine: None,
            completion: None,
            place: place.clone(),
        }
    }
}

impl Settings {
    /// These settings with `flags` laid over them.
    #[must_use]
    pub fn overlaid(mut self, mut flags: Settings) -> Settings {
        self.addresses.append(&mut flags.addresses);
        self.links.append(&mut flags.links);
        Settings {
            file: self.file.or(flags.file),
            name: flags.name.or(self.name),
            key: flags.key.or(self.key),
            accept_keys: self.accept_keys,
            nodes: self.nodes.overlaid(flags.nodes),
            port: flags.port.or(self.port),
            mtu: flags.mtu.or(self.mtu),
            policy: flags.policy.or(self.policy),
            repair: flags.repair.or(self.repair),
            primary: flags.primary.or(self.primary),
            preempt: flags.preempt.or(self.preempt),
            hash: flags.hash.or(self.hash),
            turn: flags.turn.or(self.turn),
            classes: self.classes,
            receive: self.receive.overlaid(flags.receive),
            fragments: flags.fragments.or(self.fragments),
            workers: flags.workers.or(self.workers),
            addresses: self.addresses,
            data_path: flags.data_path.or(self.data_path),
            reorder: flags.reorder.or(self.reorder),
            security: flags.security.or(self.security),
            cipher: flags.cipher.or(self.cipher),
            access: self.access.overlaid(flags.access),
            tx_queue_len: flags.tx_queue_len.or(self.tx_queue_len),
            offload: self.offload.overlaid(flags.offload),
            links: self.links,
        }
    }
}

impl ReceiveSettings {
    fn overlaid(self, flags: ReceiveSettings) -> ReceiveSettings {
        ReceiveSettings {
            engine: flags.engine.or(self.engine),
            interval: flags.interval.or(self.interval),
            spin_share: flags.spin_share.or(self.spin_share),
        }
    }
}

impl AccessSettings {
    fn overlaid(self, flags: AccessSettings) -> AccessSettings {
        AccessSettings {
            user: flags.user.or(self.user),
            control_group: flags.control_group.or(self.control_group),
            watch_group: flags.watch_group.or(self.watch_group),
            sandbox: flags.sandbox.or(self.sandbox),
        }
    }
}

impl OffloadSettings {
    fn overlaid(self, flags: OffloadSettings) -> OffloadSettings {
        OffloadSettings {
            gso: flags.gso.or(self.gso),
            gro: flags.gro.or(self.gro),
            tso: flags.tso.or(self.tso),
            uso: flags.uso.or(self.uso),
            checksum: flags.checksum.or(self.checksum),
        }
    }
}

/// Reads the value of `--link`: `NIC[,local=ADDRESS][,port=N][,peer=HOST:PORT]…`, `ether:NIC[,engine=ENGINE][,completion=WAY]`, or
/// `mem:PATH[,unit=SIZE][,ring=SIZE][,slots=N][,slot=N][,poll=TIME]`, each with `[,rate=RATE][,weight=N][,protected]`;
/// `down=RATE,up=RATE` may stand in place of `rate=RATE`.
pub fn parse_link_flag(text: &str) -> Result<LinkSettings, String> {
    parse_link_text(text, "--link")
}

/// The same, given by whatever `means`.
pub(super) fn parse_link_text(text: &str, means: &str) -> Result<LinkSettings, String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let mut link = LinkSettings::named(name, &Place::flag(format!("{means} {name}")));
    let in_memory = link.nic.is_none();
    let over_ip = link.kind.is_none();
    let over_ether = !in_memory && !over_ip;
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let place = link.place.part(key);
        let given = Given::new(value.to_owned(), place.clone());
        let number = |what, allowed| match value.parse() {
            Ok(number) => Ok(Given::new(number, place.clone())),
            Err(_) => Err(format!("{} is no {what}; allowed: {allowed}", quoted(value))),
        };
        let twice = match key {
            "rate" => link.rate.both.replace(given).is_some(),
            "down" => link.rate.down.replace(given).is_some(),
            "up" => link.rate.up.replace(given).is_some(),
            "protected" if part == key => {
                let given = Given::new(true, place.clone());
                link.protected.replace(given).is_some()
            }
            "weight" => link.weight.replace(number("weight", WEIGHT)?).is_some(),
            "local" if over_ip => link.local.replace(given).is_some(),
            "port" if over_ip => link.port.replace(number("port", PORT)?).is_some(),
            "peer" if over_ip => {
                link.peers.push(given);
                false
            }
            "engine" if over_ether => link.engine.replace(given).is_some(),
            "completion" if over_ether => link.completion.replace(given).is_some(),
            "unit" if in_memory => link.window.unit.replace(given).is_some(),
            "ring" if in_memory => link.window.ring.replace(given).is_some(),
            "poll" if in_memory => link.window.poll.replace(given).is_some(),
            "slots" if in_memory => link.window.slots.replace(number("number of slots", SLOTS)?).is_some(),
            "slot" if in_memory => link.window.slot.replace(number("slot", SLOT)?).is_some(),
            _ => {
                let parts = match () {
                    () if in_memory => "unit=, ring=, slots=, slot=, poll=, ",
                    () if over_ip => "local=, port=, peer=, ",
                    () => "engine=, completion=, ",
                };
                return Err(format!(
                    "unknown part {}; allowed: {parts}rate=, down=, up=, weight=, protected",
                    quoted(part)
                ));
            }
        };
        if twice {
            return Err(format!("{} is given twice; allowed: once", quoted(key)));
        }
    }
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_flag_has_a_nic_and_parts() {
        let link =
            parse_link_flag("eth1,local=192.0.2.1,peer=198.51.100.7:7420,peer=[2001:db8::1]:9,rate=1 Gbit/s");
        let link = link.expect("well formed");
        assert_eq!(link.nic.expect("given").value, "eth1");
        assert_eq!(link.local.expect("given").value, "192.0.2.1");
        assert_eq!(link.peers.len(), 2);
        assert_eq!(link.rate.both.expect("given").place.to_string(), "--link eth1: rate");
    }

    #[test]
    fn a_link_flag_names_its_mistake() {
        let why = |text| parse_link_flag(text).expect_err(text);
        assert_eq!(
            why("eth1,loca=1"),
            "unknown part `loca=1`; allowed: local=, port=, peer=, rate=, down=, up=, weight=, protected"
        );
        assert!(why("eth1,protected=no").starts_with("unknown part `protected=no`"));
        assert_eq!(why("eth1,weight=x"), "`x` is no weight; allowed: 1 to 1000");
        assert_eq!(why("eth1,port=x"), "`x` is no port; allowed: 1 to 65535");
        assert_eq!(why("eth1,local=::1,local=::2"), "`local` is given twice; allowed: once");
    }

    #[test]
    fn flags_replace_values_and_extend_lists() {
        let file = Settings {
            mtu: Some(Given::by_flag("1500".to_owned(), "file")),
            port: Some(Given::by_flag(7420, "file")),
            links: vec![parse_link_flag("eth1").expect("a link")],
            ..Settings::default()
        };
        let flags = Settings {
            mtu: Some(Given::by_flag("9000".to_owned(), "--mtu")),
            links: vec![parse_link_flag("eth2").expect("a link")],
            ..Settings::default()
        };
        let both = file.overlaid(flags);
        assert_eq!(both.mtu.map(|mtu| mtu.value).as_deref(), Some("9000"));
        assert_eq!(both.port.map(|port| port.value), Some(7420));
        assert_eq!(both.links.len(), 2);
    }
}
