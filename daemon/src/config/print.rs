//! Prints a [`Config`] as the TOML file that would give it: every value, defaults included.
//!
//! `tabane check` shows this text; reading it gives the same [`Config`].

use std::fmt;

use toml::Value;

use super::classes::{primary_name, protocol_name};
use super::fragments::print_fragments;
use super::units::{print_interval, print_share, print_size};
use super::{Config, LinkConfig, LinkRate, Offload, Security, WindowConfig, cipher_name};
use tabane_io::Engine;
use tabane_proto::Class;

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "name = {}", text(&self.name))?;
        match &self.key_file {
            Some(file) => {
                writeln!(f, "key = {}  # group {:016x}", text(&file.to_string_lossy()), self.group())
            }
            None => writeln!(f, "# key: none"),
        }?;
        let accepted: Vec<_> = self.accept_keys.iter().map(|(file, _)| file.to_string_lossy()).collect();
        writeln!(f, "accept_keys = {}", list(&accepted))?;
        write!(f, "{}", self.nodes)?;
        writeln!(f, "port = {}", self.port)?;
        writeln!(f, "mtu = {}", self.mtu.toml())?;
        writeln!(f, "policy = {}", text(self.policy.name()))?;
        writeln!(f, "repair = {}", self.repair)?;
        self.print_policy_options(f)?;
        writeln!(f, "receive = {}", text(self.receive.method.name()))?;
        writeln!(f, "receive_interval = {}", text(&print_interval(self.receive.interval)))?;
        writeln!(f, "spin_share = {}", text(&print_share(self.receive.share)))?;
        writeln!(f, "fragments = {}", text(&print_fragments(&self.fragments)))?;
        writeln!(f, "workers = {}", self.workers)?;
        writeln!(f, "address = {}", list(&self.addresses))?;
        writeln!(f, "data_path = {}", text(self.data_path.name()))?;
        writeln!(f, "reorder = {}", text(self.reorder.name()))?;
        writeln!(
            f,
            "security = {}  # cells are {}",
            text(self.security.name()),
            match self.security {
                Security::Sealed => "encrypted and authenticated",
                Security::None => "neither encrypted nor authenticated",
            }
        )?;
        writeln!(f, "cipher = {}", text(cipher_name(self.cipher)))?;
        write!(f, "{}", self.access)?;
        writeln!(f, "tx_queue_len = {}", self.tx_queue_len)?;
        write!(f, "{}", self.offload)?;
        self.links.iter().try_for_each(|link| write!(f, "{link}"))?;
        self.classes.iter().try_for_each(|class| print_class(class, f))
    }
}

impl Config {
    fn print_policy_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.policy_options;
        match options.primary.and_then(|link| primary_name(&self.links, link)) {
            Some(name) => writeln!(f, "primary = {}", text(&name)),
            None => writeln!(f, "# primary: none, so that active-backup keeps the link that it has"),
        }?;
        writeln!(f, "preempt = {}", options.preempt)?;
        writeln!(f, "hash = {}", text(options.hash.name()))?;
        writeln!(f, "turn = {}", text(&options.turn.to_string()))
    }
}

fn print_class(class: &Class, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let matches = &class.matches;
    let number = |key: &str, value: Option<u16>| value.map(|value| format!("{key} = {value}"));
    let conditions = [
        number("max_size", matches.max_size),
        number("dscp", matches.dscp.map(u16::from)),
        matches.protocol.map(|protocol| format!("protocol = {}", text(protocol_name(protocol)))),
        number("port", matches.port),
    ];
    let conditions = conditions.into_iter().flatten().collect::<Vec<_>>().join(", ");
    writeln!(f, "\n[[class]]\nmatch = {{ {conditions} }}\npolicy = {}", text(class.policy.name()))
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[offload]")?;
        writeln!(f, "gso = {}", self.gso)?;
        writeln!(f, "gro = {}", self.gro)?;
        writeln!(f, "tso = {}", self.tso)?;
        writeln!(f, "uso = {}", self.uso)?;
        writeln!(f, "checksum = {}", self.checksum)
    }
}

impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[[link]]")?;
        match &self.window {
            Some(window) => write!(f, "{window}")?,
            None => self.print_network(f)?,
        }
        if self.rate == LinkRate::default() {
            writeln!(f, "# rate: measured")?;
        } else {
            writeln!(f, "rate = {}", self.rate)?;
        }
        match self.weight {
            Some(weight) => writeln!(f, "weight = {weight}"),
            None => writeln!(f, "# weight: the rate"),
        }?;
        if self.drained {
            writeln!(f, "drained = true  # data takes another link while one is up")?;
        }
        if self.protected {
            writeln!(f, "protected = true  # by the network below")?;
        }
        Ok(())
    }
}

impl LinkConfig {
    fn print_network(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "nic = {}", text(&self.nic))?;
        if let Some(ether) = self.ether {
            writeln!(f, "kind = \"ether\"  # peers are found by multicast")?;
            writeln!(f, "engine = {}", text(ether.engine.name()))?;
            let completion = text(ether.completion.name());
            return match ether.engine {
                Engine::Packet => writeln!(f, "# completion: the kernel's"),
                Engine::Auto | Engine::Xdp => writeln!(f, "completion = {completion}"),
            };
        }
        match self.local {
            Some(local) => writeln!(f, "local = {}", text(&local.to_string())),
            None if self.peers.is_empty() => writeln!(f, "# local: the IPv6 link-local address of the nic"),
            None => writeln!(f, "# local: any address of the nic"),
        }?;
        match self.port {
            Some(port) => writeln!(f, "port = {port}"),
            None => writeln!(f, "# port: the bundle's"),
        }?;
        if self.uses_multicast() {
            writeln!(f, "peers = []  # found by multicast")?;
        } else if self.peers.is_empty() {
            writeln!(f, "peers = []  # it listens: peers name this address")?;
        } else {
            writeln!(f, "peers = {}", list(&self.peers))?;
        }
        Ok(())
    }
}

impl fmt::Display for WindowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kind = \"mem\"")?;
        writeln!(f, "path = {}", text(&self.path))?;
        writeln!(f, "unit = {}", text(&print_size(self.unit)))?;
        writeln!(f, "ring = {}", text(&print_size(self.ring)))?;
        writeln!(f, "slots = {}", self.slots)?;
        match self.slot {
            Some(slot) => writeln!(f, "slot = {slot}"),
            None => writeln!(f, "# slot: the first that no process of this machine has"),
        }?;
        writeln!(f, "poll = {}", text(&print_interval(self.poll)))
    }
}

/// A TOML string, quoted as its content needs it.
fn text(content: &str) -> Value {
    Value::String(content.to_owned())
}

/// A TOML list of strings.
fn list<T: ToString>(items: &[T]) -> Value {
    Value::Array(items.iter().map(|item| text(&item.to_string())).collect())
}
