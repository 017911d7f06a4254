//! The answers to requests on the control socket. Its thread makes them, and asks the workers, which go on meanwhile.

mod change;
mod reload;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tabane_engine::fragments::Fragments;
use tabane_engine::receive::{self, Method};
use tabane_io::{Waker, netlink, now_ns};
use tabane_proto::PolicyKind;

use crate::config::fragments::print_fragments;
use crate::config::problem::{nearest, quoted};
use crate::config::{Config, LinkConfig, Security, names_window, parse_allow, parse_link};
use crate::control::{self, Request};
use crate::device::Device;
use crate::events::{Entry, EventLog};
use crate::in_force::InForce;
use crate::kernel_path::KernelPath;
use crate::key::{KEYS_MAX, Key, public};
use crate::links::Links;
use crate::refusal::Refusal;
use crate::snapshot;
use crate::status::{Health, LinkStatus, Status};
use crate::worker::Command;
use crate::workers::Workers;

/// What the answers are made from.
pub(crate) struct Requests {
    /// What the bundle does now.
    pub(crate) in_force: InForce,
    pub(crate) workers: Workers,
    pub(crate) links: Arc<Links>,
    pub(crate) device: Arc<Device>,
    pub(crate) kernel: Arc<KernelPath>,
    pub(crate) events: Arc<EventLog>,
    /// Ends the bundle.
    pub(crate) stop: Arc<Waker>,
}

impl Requests {
    /// Answers a request.
    pub(crate) fn answer(&self, request: &Request) -> Value {
        let answer = match request {
            Request::Stop => {
                // If the waker fails, SIGTERM still stops the bundle.
                let _ = self.stop.wake();
                Ok(control::done())
            }
            Request::Status => Ok(serde_json::to_value(self.status()).unwrap_or_else(|_| control::done())),
            Request::Events => Ok(json!({ "events": self.events.latest() })),
            // The control socket's thread serves followers, and the main thread hands over.
            Request::Follow | Request::Upgrade => Ok(control::done()),
            Request::Policy { policy } => self.switch_policy(policy),
            Request::Receive { engine } => self.switch_engine(engine),
            Request::Keys { keys, files } => self.change_keys(keys, files),
            Request::Allow { allow } => self.change_allow(allow.as_deref()),
            Request::LinkAdd { link } => self.link(link).and_then(|link| self.links.add(link)).map(numbered),
            Request::LinkRemove { link } => {
                self.link(link).and_then(|link| self.links.remove(&link)).map(numbered)
            }
            other => self.change(other),
        };
        match answer {
            Ok(answer) => answer,
            Err(Refusal::Input(reason)) => json!({ "error": reason }),
            Err(Refusal::Failed(reason)) => json!({ "failed": reason }),
        }
    }

    /// The link that a request means.
    fn link(&self, text: &str) -> Result<LinkConfig, Refusal> {
        parse_link(text, self.in_force.rest().ports()).map_err(Refusal::Input)
    }

    /// Switches the policy of all workers.
    fn switch_policy(&self, name: &str) -> Result<Value, Refusal> {
        let new = named("policy", name, &PolicyKind::ALL, PolicyKind::name)?;
        let old = self.set_policy(new)?;
        Ok(json!({ "old": old.name(), "new": new.name() }))
    }

    /// The same for a policy that is known; returns the old one.
    fn set_policy(&self, new: PolicyKind) -> Result<PolicyKind, Refusal> {
        self.in_force.change(|config| config.policy = new);
        let old = self.workers.ask(|answer| Command::Policy { kind: new, answer });
        if old.len() < self.workers.count() {
            return Err(Refusal::Failed("not all workers answer".to_owned()));
        }
        let old = old.first().map_or(new, |old| *old);
        if old != new {
            let detail = format!("policy {}, was {}", new.name(), old.name());
            let (old_policy, policy) = (Some(old.name().to_owned()), Some(new.name().to_owned()));
            let what = "policy".to_owned();
            self.events.keep(now_ns(), Entry { what, old_policy, policy, detail, ..Entry::default() });
        }
        Ok(old)
    }

    /// Switches the receive engine of all workers.
    fn switch_engine(&self, name: &str) -> Result<Value, Refusal> {
        let new = named("receive engine", name, &Method::ALL, Method::name)?;
        let settings = receive::Settings { method: new, ..self.in_force.rest().receive };
        let old = self.set_engine(settings)?;
        Ok(json!({ "old": old.name(), "new": new.name() }))
    }

    /// The same with its settings; returns the old one.
    fn set_engine(&self, settings: receive::Settings) -> Result<Method, Refusal> {
        let new = settings.method;
        self.in_force.change(|config| config.receive = settings);
        let old = self.workers.ask(|answer| Command::Receive { settings, answer });
        if old.len() < self.workers.count() {
            return Err(Refusal::Failed("not all workers answer".to_owned()));
        }
        let old = old.first().map_or(new, |old| *old);
        if old != new {
            let detail = format!("receive {}, was {}", new.name(), old.name());
            self.events.keep(now_ns(), Entry { what: "receive".to_owned(), detail, ..Entry::default() });
        }
        Ok(old)
    }

    /// Gives all workers other group keys.
    fn change_keys(&self, keys: &[String], files: &[PathBuf]) -> Result<Value, Refusal> {
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(Refusal::Input(format!("{} keys; allowed: 1 to {KEYS_MAX}", keys.len())));
        }
        let keys: Option<Vec<Key>> = keys.iter().map(|key| Key::from_hex(key)).collect();
        let keys = keys.ok_or_else(|| Refusal::Input("what is given is no key".to_owned()))?;
        let group = format!("{:016x}", keys[0].group());
        let detail = format!("group {group}, {} further keys accepted", keys.len() - 1);
        self.change_trust(|config| *config = config.clone().with_keys(&keys).with_key_files(files))?;
        self.events.keep(now_ns(), Entry { what: "keys".to_owned(), detail, ..Entry::default() });
        Ok(json!({ "group": group }))
    }

    /// Lets in only nodes with these keys, or all of the group.
    fn change_allow(&self, texts: Option<&[String]>) -> Result<Value, Refusal> {
        if self.in_force.rest().security == Security::None {
            let refusal = "no node proves its key where cells are not sealed";
            return Err(Refusal::Input(refusal.to_owned()));
        }
        let sentence = |(what, allowed)| Refusal::Input(format!("{what}; allowed: {allowed}"));
        let allow = texts.map(parse_allow).transpose().map_err(sentence)?;
        let count = allow.as_ref().map(Vec::len);
        self.change_trust(|config| config.nodes.allow = allow)?;
        let detail = match count {
            Some(count) => format!("{count} node keys allowed"),
            None => "every node of the group allowed".to_owned(),
        };
        self.events.keep(now_ns(), Entry { what: "allow".to_owned(), detail, ..Entry::default() });
        Ok(json!({ "allowed": count }))
    }

    /// Changes which nodes are trusted, and gives all workers the result.
    fn change_trust(&self, change: impl FnOnce(&mut Config)) -> Result<(), Refusal> {
        self.in_force.change(change);
        let trust = self.in_force.trust();
        let done = self.workers.ask(|answer| Command::Trust { trust: trust.clone(), answer });
        let all = done.len() == self.workers.count();
        all.then_some(()).ok_or_else(|| Refusal::Failed("not all workers answer".to_owned()))
    }

    /// One status from the workers' snapshots: links and peers from the first one, counters summed over all.
    fn status(&self) -> Status {
        let workers = self.workers.snapshots();
        let mut counters = snapshot::sum(workers.iter(), &self.device);
        counters.extend(self.kernel.counted().map(|(name, count)| (name.to_owned(), count)));
        let mut peers = snapshot::peers(&workers);
        self.kernel.show(&mut peers);
        let first = workers.first();
        let links = first.map_or_else(Vec::new, |first| first.links.clone());
        let config = self.in_force.config();
        let mtu = netlink::nic(&config.name).map_or(0, |device| device.mtu);
        Status {
            health: Health::default(),
            name: config.name,
            pid: std::process::id(),
            node: first.map_or_else(String::new, |first| first.node.clone()),
            policy: config.policy.name().to_owned(),
            receive: config.receive.method.name().to_owned(),
            fragments: fragments_in_force(first.map_or(&config.fragments, |first| &first.fragments)),
            data_path: self.kernel.asked().to_owned(),
            cells_because: self.kernel.refusal(),
            security: config.security.name().to_owned(),
            node_key: config.nodes.key.as_ref().map(|key| public(&key.public())),
            allow: config.nodes.allow.map(|keys| keys.iter().map(public).collect()),
            file: self.in_force.filed().origin.file.map(|file| file.display().to_string()),
            changed_by_hand: self.in_force.changed_by_hand(),
            mtu,
            cell_bytes: first.map_or(0, |first| first.cell_bytes),
            workers: config.workers.into(),
            now_ns: now_ns(),
            links: links.into_iter().map(as_its_nic_is).collect(),
            peers,
            counters,
            troubles: self.events.troubles(now_ns()),
            event_counts: self.events.counts(),
            events: self.events.latest(),
        }
        .judged()
    }
}

/// Which fragments are copied, and the measurement behind it.
fn fragments_in_force(fragments: &Fragments) -> String {
    let name = print_fragments(fragments);
    let Fragments::Auto(costs) = fragments else { return name };
    let first = |first| if first == usize::MAX { "all".to_owned() } else { format!("{first}") };
    let copies: Vec<_> =
        costs.copies().map(|(bytes, count)| format!("{} at {bytes} B", first(count))).collect();
    if copies.is_empty() { name } else { format!("{name}: {}", copies.join(", ")) }
}

/// The link with the present state of its NIC, if it has one.
fn as_its_nic_is(link: LinkStatus) -> LinkStatus {
    if names_window(&link.nic) {
        return link;
    }
    match netlink::nic(&link.nic) {
        Ok(nic) => {
            let link_local = nic.link_local.map(|address| address.to_string());
            LinkStatus { carrier: nic.carrier, mtu: nic.mtu, link_local, ..link }
        }
        Err(_) => LinkStatus { carrier: false, ..link },
    }
}

fn numbered(link: u8) -> Value {
    json!({ "link": link })
}

/// The one of `all` that has this name; `what` they are.
fn named<T: Copy>(what: &str, name: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<T, Refusal> {
    let names: Vec<&str> = all.iter().map(|one| name_of(*one)).collect();
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| {
        let near = nearest(name, &names).map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
        Refusal::Input(format!("{what} {} is unknown{near}; allowed: {}", quoted(name), names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_name() {
        let policy = |name| named("policy", name, &PolicyKind::ALL, PolicyKind::name);
        for kind in PolicyKind::ALL {
            assert!(matches!(policy(kind.name()), Ok(found) if found == kind));
        }
        let Err(Refusal::Input(why)) = policy("adaptve") else { panic!("found") };
        let names = PolicyKind::ALL.map(PolicyKind::name).join(", ");
        assert_eq!(why, format!("policy `adaptve` is unknown (did you mean `adaptive`?); allowed: {names}"));
    }
}
