//! Prints a [`Config`] as the TOML file that would give it: every value, defaults included.
//!
//! `tabane check` shows this text; reading it gives the same [`Config`].

use std::fmt;

use toml::Value;

use super::classes::conditions;
use super::keys::{KEYS, OFFLOADS};
use super::links::keys::LINK_KEYS;
use super::rule::list;
use super::units::{print_interval, print_size};
use super::{Config, LinkConfig, LinkRate, WindowConfig};
use tabane_io::Engine;
use tabane_proto::Class;

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        KEYS.iter().try_for_each(|row| row.print(self, f))?;
        writeln!(f, "\n[offload]")?;
        OFFLOADS.iter().try_for_each(|row| row.print(self, f))?;
        self.links.iter().try_for_each(|link| write!(f, "{link}"))?;
        self.live.classes.iter().try_for_each(|class| print_class(class, f))
    }
}

fn print_class(class: &Class, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let conditions: Vec<_> = conditions(class).map(|(name, value)| format!("{name} = {value}")).collect();
    let (conditions, policy) = (conditions.join(", "), text(class.policy.name()));
    writeln!(f, "\n[[class]]\nmatch = {{ {conditions} }}\npolicy = {policy}")
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
        for key in LINK_KEYS {
            if let Some(switch) = key.switch.filter(|switch| (switch.get)(self)) {
                writeln!(f, "{} = true  # {}", key.name, switch.beside)?;
            }
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
