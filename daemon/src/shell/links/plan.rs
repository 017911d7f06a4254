//! The links of a file in place of those of the bundle: what can fail is done before anything changes.

use std::time::Duration;

use tabane_config::LinkConfig;

use super::{Links, Opened, find};
use crate::machine::Machine;
use crate::shell::Refusal;
use tabane_process::locked;
use tabane_proto::wire::cell::LINKS;

/// How long links that leave wait for those that join to be found by the peers.
const FOUND_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is to be done so that the links are those of a file.
pub(crate) struct Plan<S> {
    join: Vec<Opened<S>>,
    change: Vec<LinkConfig>,
    leave: Vec<LinkConfig>,
}

impl<M: Machine> Links<M> {
    /// Opens the links of `wanted` that are to join, and checks whether the others can change as it says.
    pub(crate) fn plan(&self, wanted: &[LinkConfig]) -> Result<Plan<M::Socket>, Refusal> {
        let present: Vec<_> =
            self.present().into_iter().filter(|link| !link.leaves).map(|link| link.config).collect();
        let in_bundle = |link: &&LinkConfig| present.iter().any(|other| other.is_same(link));
        let join: Vec<_> = wanted.iter().filter(|link| !in_bundle(link)).cloned().collect();
        let is_wanted = |link: &&LinkConfig| wanted.iter().any(|other| other.is_same(link));
        let leave: Vec<_> = present.iter().filter(|link| !is_wanted(link)).cloned().collect();
        let mut change = Vec::new();
        for old in &present {
            let Some(new) = wanted.iter().find(|link| link.is_same(old)) else { continue };
            // A slot that the file leaves open, and what the bundle has found, stay.
            let new = LinkConfig { window: old.window.clone(), ..new.clone() };
            self.check_change(old, &new)?;
            if *old != new {
                change.push(new);
            }
        }
        if present.len() + join.len() > LINKS {
            let count = present.len() + join.len();
            let why = format!("{count} links at once are too many: new ones join before old ones leave");
            return Err(Refusal::Input(format!("{why}; allowed: {LINKS}")));
        }
        let join = join.into_iter().map(|link| self.open_new(link)).collect::<Result<_, _>>()?;
        Ok(Plan { join, change, leave })
    }

    /// Carries a plan out: links change, join, and then leave.
    pub(crate) fn carry_out(&self, plan: Plan<M::Socket>) -> Result<(), Refusal> {
        let Plan { join, change, leave } = plan;
        let joins = !join.is_empty();
        for opened in join {
            self.take_in(&mut locked(&self.members), opened)?;
        }
        // Those that resume first: data finds a way.
        let (drain, other): (Vec<_>, Vec<_>) = change.into_iter().partition(|link| link.drained);
        for new in other.into_iter().chain(drain) {
            let mut members = locked(&self.members);
            let (number, member) = find(&mut members, &new)?;
            self.become_link(number, member, new)?;
        }
        if joins {
            self.await_ways(&leave)?;
        }
        leave.iter().try_for_each(|link| self.remove(link).map(drop))
    }

    /// Waits until each peer is reached over other links than those that leave, as long as that may take.
    fn await_ways(&self, leave: &[LinkConfig]) -> Result<(), Refusal> {
        let mut bits = 0;
        for link in leave {
            bits |= 1 << find(&mut locked(&self.members), link)?.0;
        }
        let deadline = self.machine.now() + FOUND_WITHIN;
        while bits != 0 && self.machine.now() < deadline && !self.may_drain(bits)? {
            self.machine.pause(LOOK_EVERY);
        }
        Ok(())
    }
}
