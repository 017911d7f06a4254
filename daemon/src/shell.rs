//! What the shell does with requests that change the bundle: what is in force, with the request, gives what is done and what is in force then.
//!
//! ```text
//!   Request ──> answer() ──> checked against InForce and Links ── wrong? ── one sentence, and nothing has changed
//!                  │
//!                  ├── Machine: NICs, sockets, addresses (what can fail comes first)
//!                  ├── Workers: commands
//!                  └── InForce, EventLog
//! ```
//!
//! All that it knows of the world it asks a [`Machine`]: the tests drive it over a simulated one (`shell/tests.rs`).

mod change;
pub(crate) mod in_force;
pub(crate) mod links;
mod reload;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use tabane_api::{Answer, Entry, Request};
use tabane_config::key::{KEYS_MAX, Key};
use tabane_config::problem::{nearest, quoted};
use tabane_config::{LinkConfig, LiveConfig, Security, parse_allow, parse_link};
use tabane_engine::receive::{self, Method};
use tabane_io::now_ns;
use tabane_proto::PolicyKind;

use crate::events::EventLog;
use crate::machine::{Machine, ThisMachine};
use crate::worker::Command;
use crate::worker::workers::Workers;
use in_force::InForce;
use links::Links;

pub(crate) enum Refusal {
    /// It cannot be done with this input; nothing has changed.
    Input(String),
    Failed(String),
}

/// What a bundle does, and how that changes.
pub(crate) struct Shell<M: Machine = ThisMachine> {
    /// What the bundle does now.
    pub(crate) in_force: InForce<M>,
    pub(crate) workers: Workers<M::Socket>,
    pub(crate) links: Arc<Links<M>>,
    pub(crate) events: Arc<EventLog>,
}

impl<M: Machine> Shell<M> {
    pub(crate) fn answer(&self, request: &Request) -> Result<Answer, Refusal> {
        match request {
            Request::Policy { policy } => self.switch_policy(policy),
            Request::Receive { engine } => self.switch_engine(engine),
            Request::Keys { keys } => self.change_keys(keys),
            Request::Allow { allow } => self.change_allow(allow.as_deref()),
            Request::LinkAdd { link } => self.link(link).and_then(|link| self.links.add(link)).map(numbered),
            Request::LinkRemove { link } => self.remove_link(link).map(numbered),
            other => self.change(other),
        }
    }

    fn link(&self, text: &str) -> Result<LinkConfig, Refusal> {
        parse_link(text, self.in_force.fixed.ports()).map_err(Refusal::Input)
    }

    /// Removes a link; returns the number that it had. Another link may get that, and does not become the primary by it.
    fn remove_link(&self, text: &str) -> Result<u8, Refusal> {
        let number = self.link(text).and_then(|link| self.links.remove(&link))?;
        if self.in_force.live().policy_options.primary != Some(number) {
            return Ok(number);
        }
        self.in_force.change(|live| live.policy_options.primary = None);
        self.send_classes()?;
        Ok(number)
    }

    fn switch_policy(&self, name: &str) -> Result<Answer, Refusal> {
        let new = named("policy", name, &PolicyKind::ALL, PolicyKind::name)?;
        let old = self.set_policy(new)?;
        Ok(Answer::Switched { old: old.name().to_owned(), new: new.name().to_owned() })
    }

    /// The same for a policy that is known; returns the old one.
    fn set_policy(&self, new: PolicyKind) -> Result<PolicyKind, Refusal> {
        self.in_force.change(|live| live.policy = new);
        let old = self.workers.ask_all(|answer| Command::Policy { kind: new, answer }).ok_or_else(silent)?;
        let old = old.first().map_or(new, |old| *old);
        if old != new {
            let detail = format!("policy {}, was {}", new.name(), old.name());
            let (old_policy, policy) = (Some(old.name().to_owned()), Some(new.name().to_owned()));
            let what = "policy".to_owned();
            self.events.keep(now_ns(), Entry { what, old_policy, policy, detail, ..Entry::default() });
        }
        Ok(old)
    }

    fn switch_engine(&self, name: &str) -> Result<Answer, Refusal> {
        let new = named("receive engine", name, &Method::ALL, Method::name)?;
        let settings = receive::Settings { method: new, ..self.in_force.live().receive };
        let old = self.set_engine(settings)?;
        Ok(Answer::Switched { old: old.name().to_owned(), new: new.name().to_owned() })
    }

    /// The same with its settings; returns the old one.
    fn set_engine(&self, settings: receive::Settings) -> Result<Method, Refusal> {
        let new = settings.method;
        self.in_force.change(|live| live.receive = settings);
        let old = self.workers.ask_all(|answer| Command::Receive { settings, answer }).ok_or_else(silent)?;
        let old = old.first().map_or(new, |old| *old);
        if old != new {
            self.events.tell("receive", format!("receive {}, was {}", new.name(), old.name()));
        }
        Ok(old)
    }

    fn change_keys(&self, keys: &[String]) -> Result<Answer, Refusal> {
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(Refusal::Input(format!("{} keys; allowed: 1 to {KEYS_MAX}", keys.len())));
        }
        let keys: Option<Vec<Key>> = keys.iter().map(|key| Key::from_hex(key)).collect();
        let keys = keys.ok_or_else(|| Refusal::Input("what is given is no key".to_owned()))?;
        let group = format!("{:016x}", keys[0].group());
        self.change_trust(|live| live.set_keys(&keys))?;
        self.events.tell("keys", format!("group {group}, {} further keys accepted", keys.len() - 1));
        Ok(Answer::Group { group })
    }

    /// Lets in only nodes with these keys, or all of the group.
    fn change_allow(&self, texts: Option<&[String]>) -> Result<Answer, Refusal> {
        if self.in_force.fixed.security == Security::None {
            let refusal = "no node proves its key where cells are not sealed";
            return Err(Refusal::Input(refusal.to_owned()));
        }
        let sentence = |(what, allowed)| Refusal::Input(format!("{what}; allowed: {allowed}"));
        let allow = texts.map(parse_allow).transpose().map_err(sentence)?;
        let count = allow.as_ref().map(Vec::len);
        self.change_trust(|live| live.allow = allow)?;
        let detail = match count {
            Some(count) => format!("{count} node keys allowed"),
            None => "every node of the group allowed".to_owned(),
        };
        self.events.tell("allow", detail);
        Ok(Answer::Allowed { allowed: count })
    }

    /// Changes which nodes are trusted, and gives all workers the result.
    fn change_trust(&self, change: impl FnOnce(&mut LiveConfig)) -> Result<(), Refusal> {
        self.in_force.change(change);
        let trust = self.in_force.trust();
        let all = self.workers.ask_all(|answer| Command::Trust { trust: trust.clone(), answer });
        all.map(drop).ok_or_else(silent)
    }
}

/// Some worker is too busy, or has ended.
fn silent() -> Refusal {
    Refusal::Failed("not all workers answer".to_owned())
}

fn numbered(link: u8) -> Answer {
    Answer::Link { link }
}

/// The one of `all` that has this name; `what` they are.
fn named<T: Copy>(what: &str, name: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<T, Refusal> {
    let names: Vec<&str> = all.iter().map(|one| name_of(*one)).collect();
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| {
        let near = nearest(name, &names).map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
        Refusal::Input(format!("{what} {} is unknown{near}; allowed: {}", quoted(name), names.join(", ")))
    })
}
