//! Requests that change links and classes, and those of `reload` and `save`.

use std::sync::Arc;
use tabane_api::{self as api, Answer, Request, Told};
use tabane_config::classes::{parse_class, print_parts};
use tabane_config::key::Key;
use tabane_config::limits::CLASSES;
use tabane_config::{LinkConfig, parse_change};
use tabane_proto::Class;

use super::in_force::Filed;
use super::{Refusal, Shell, numbered, silent};
use crate::machine::Machine;
use crate::worker::Command;

impl<M: Machine> Shell<M> {
    pub(super) fn change(&self, request: &Request) -> Result<Answer, Refusal> {
        match request {
            Request::LinkDrain { link } => self.links.drain(&self.link(link)?).map(numbered),
            Request::LinkResume { link } => self.links.resume(&self.link(link)?).map(numbered),
            Request::LinkSet { link } => {
                let change = parse_change(link, self.in_force.fixed.ports()).map_err(Refusal::Input)?;
                self.links.set(change).map(changed)
            }
            Request::PeerAdd { link, peer } => {
                self.links.add_peers(&self.link_with_peer(link, peer)?).map(changed)
            }
            Request::PeerRemove { link, peer } => {
                self.links.remove_peers(&self.link_with_peer(link, peer)?).map(changed)
            }
            Request::Classes => {
                let classes = self.in_force.live().classes.iter().map(print_parts).collect();
                Ok(Answer::Classes { classes })
            }
            Request::ClassAdd { class, before } => self.add_class(class, *before),
            Request::ClassRemove { number } => self.remove_class(*number),
            Request::Configuration => Ok(self.configuration()),
            Request::Reload { told, file } => self.reload(told, file.clone()),
            Request::Filed { told, file } => {
                let config = told.understood().map_err(Refusal::Input)?;
                let origin = self.in_force.filed().origin.with_file(file.clone());
                self.in_force.file(Filed { config, origin });
                Ok(Answer::Done {})
            }
            _ => Ok(Answer::Done {}),
        }
    }

    fn link_with_peer(&self, link: &str, peer: &str) -> Result<LinkConfig, Refusal> {
        self.link(&format!("{link},peer={peer}"))
    }

    /// What is in force, without secrets: the group keys by their numbers.
    fn configuration(&self) -> Answer {
        let config = self.in_force.config();
        let groups = config.live.keys().iter().map(|key| format!("{:016x}", Key::group(key))).collect();
        let (told, origin) = (Told::of(&config).without_keys(), self.in_force.filed().origin);
        Answer::Configuration(Box::new(api::InForce { told, groups, origin }))
    }

    fn add_class(&self, text: &str, before: Option<usize>) -> Result<Answer, Refusal> {
        let class = parse_class(text).map_err(Refusal::Input)?;
        let mut classes = self.in_force.live().classes.clone();
        let place = before.map_or(classes.len(), |number| number.wrapping_sub(1));
        if place > classes.len() {
            return Err(no_such_class(place.wrapping_add(1), classes.len()));
        }
        if classes.contains(&class) {
            return Err(Refusal::Input(format!("class {} is there already", print_parts(&class))));
        }
        if !CLASSES.hold_count(classes.len() + 1) {
            return Err(Refusal::Input(format!("there are {} classes; allowed: {CLASSES}", classes.len())));
        }
        classes.insert(place, class);
        self.set_classes(classes)?;
        Ok(Answer::ClassAdded { number: place + 1 })
    }

    fn remove_class(&self, number: usize) -> Result<Answer, Refusal> {
        let mut classes = self.in_force.live().classes.clone();
        if !(1..=classes.len()).contains(&number) {
            return Err(no_such_class(number, classes.len()));
        }
        let class = classes.remove(number - 1);
        self.set_classes(classes)?;
        Ok(Answer::ClassRemoved { class: print_parts(&class) })
    }

    fn set_classes(&self, classes: Vec<Class>) -> Result<(), Refusal> {
        let list = classes.iter().map(print_parts).collect::<Vec<_>>().join("; ");
        let detail = if list.is_empty() { "no class".to_owned() } else { list };
        self.in_force.change(|live| live.classes = classes);
        self.send_classes()?;
        self.events.tell("classes", detail);
        Ok(())
    }

    /// Gives all workers the classes and the options of policies that are in force.
    pub(super) fn send_classes(&self) -> Result<(), Refusal> {
        let (options, classes) = {
            let live = self.in_force.live();
            (live.policy_options, Arc::<[Class]>::from(live.classes.clone()))
        };
        let command = |answer| Command::Classes { options, classes: Arc::clone(&classes), answer };
        self.workers.ask_all(command).map(drop).ok_or_else(silent)
    }
}

fn changed(done: Vec<String>) -> Answer {
    Answer::Changed { done }
}

fn no_such_class(number: usize, count: usize) -> Refusal {
    Refusal::Input(match count {
        0 => format!("there is no class {number}: frames have no class"),
        count => format!("there is no class {number}; allowed: 1 to {count}"),
    })
}
