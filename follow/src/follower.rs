//! The follower: takes what is known of the fleet, and has the bundle become so.
//!
//! Every [`LOOK_EVERY`] it looks at the bundle itself. So a bundle that is started, reloaded or changed by hand has its peers
//! again soon, and what the fleet says need not be remembered by the bundle. While etcd or DNS is away, what was known last
//! stands.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tabane_api::{AskError, ask};

use crate::announce::Announcer;
use crate::cache::{Cache, Content};
use crate::fleet::Fleet;
use crate::plan::{Named, Running, Step, Wishes, plan};
use crate::{News, Said};

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The follower of one bundle.
pub struct Follower {
    bundle: String,
    /// This node's name in the fleet.
    own: String,
    wishes: Wishes,
    cache: Cache,
    content: Content,
    announcer: Option<Announcer>,
    /// Whether the bundle answered last.
    is_up: bool,
    /// What made no sense last.
    complaints: Vec<String>,
    said: Said,
}

impl Follower {
    /// Of the bundle, with what `cache` holds of the fleet at `source`.
    pub fn new(bundle: String, own: String, wishes: Wishes, cache: Cache, source: String) -> Follower {
        let mut said = Said::default();
        let mut content = cache.read().unwrap_or_else(|why| {
            said.warn("cache", &why);
            Content::default()
        });
        if content.source != source {
            content = Content { source, fleet: None, named: content.named };
        }
        Follower {
            bundle,
            own,
            wishes,
            cache,
            content,
            announcer: None,
            is_up: false,
            complaints: Vec::new(),
            said,
        }
    }

    /// Has this thread told of changes that others are to know.
    pub fn announce_by(&mut self, announcer: Announcer) {
        self.announcer = Some(announcer);
    }

    /// Follows until it is told to stop.
    pub fn run(mut self, news: &Receiver<News>) {
        loop {
            self.settle();
            match news.recv_timeout(LOOK_EVERY) {
                Ok(News::Fleet { fleet, complaints }) => self.take(fleet, complaints),
                Ok(News::Away(why)) => self.away(&why),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(News::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(announcer) = self.announcer {
            announcer.end();
        }
    }

    fn take(&mut self, fleet: Fleet, complaints: Vec<String>) {
        if self.said.over("away") {
            tracing::info!("the fleet is known again");
        }
        for complaint in complaints.iter().filter(|complaint| !self.complaints.contains(complaint)) {
            tracing::warn!("left out: {complaint}");
        }
        self.complaints = complaints;
        if self.content.fleet.as_ref() != Some(&fleet) {
            self.content.fleet = Some(fleet);
            self.keep();
        }
    }

    fn away(&mut self, why: &str) {
        let stands = match &self.content.fleet {
            Some(fleet) => {
                format!("what was known last stands, {} nodes", fleet.nodes.len().max(named(fleet)))
            }
            None => "nothing is known of the fleet yet".to_owned(),
        };
        self.said.warn("away", &format!("{why}; {stands}"));
    }

    fn settle(&mut self) {
        let running = match Running::ask(&self.bundle) {
            Ok(running) => running,
            Err(error) => return self.down(&error),
        };
        if !std::mem::replace(&mut self.is_up, true) {
            self.said.over("bundle");
            self.announce();
        }
        let Some(fleet) = &self.content.fleet else { return };
        let steps = plan(&running, fleet, &self.content.named, self.wishes, &self.own);
        let before = self.content.named.clone();
        for step in &steps {
            self.carry_out(step);
        }
        self.forget(&running, &steps);
        if self.content.named != before {
            self.keep();
        }
        for link in running.links.iter().filter(|link| !link.takes_peers()) {
            let name = link.name();
            if self.said.is_new(&name, "multicast") {
                tracing::info!("link {name} finds its peers by itself: nobody is named for it");
            }
        }
    }

    fn carry_out(&mut self, step: &Step) {
        match ask(&self.bundle, &step.request()) {
            Ok(_) => {
                tracing::info!("{step}");
                self.said.over(&step.to_string());
                match step {
                    Step::Add(added) => drop(self.content.named.insert(added.clone())),
                    Step::Remove(removed) => drop(self.content.named.remove(removed)),
                    Step::Keys(_) | Step::Allow(_) => self.announce(),
                }
            }
            Err(error) => self.said.warn(&step.to_string(), &format!("{step}: {error}")),
        }
    }

    /// Peers that somebody has taken out, or whose link is gone, are no longer this program's.
    fn forget(&mut self, running: &Running, steps: &[Step]) {
        let is_there = |named: &Named| {
            running.links.iter().any(|link| link.name() == named.link && link.has(named.peer))
        };
        self.content.named.retain(|named| is_there(named) || steps.contains(&Step::Add(named.clone())));
    }

    fn down(&mut self, error: &AskError) {
        if std::mem::replace(&mut self.is_up, false) {
            self.announce();
        }
        self.said.warn("bundle", &format!("{error}; it is followed once it is up"));
    }

    fn announce(&self) {
        if let Some(announcer) = &self.announcer {
            announcer.announce();
        }
    }

    fn keep(&mut self) {
        match self.cache.write(&self.content) {
            Ok(()) => drop(self.said.over("cache")),
            Err(why) => self.said.warn("cache", &why),
        }
    }
}

fn named(fleet: &Fleet) -> usize {
    fleet.named.values().map(BTreeSet::len).sum()
}
