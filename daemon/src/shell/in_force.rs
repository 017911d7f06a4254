//! The configuration in force: what the bundle does now, and what of it its file does not say.
//!
//! ```text
//!   commands, reload ── change() ──>  InForce: fixed and live    ──┐
//!                 links::Links:  each link as it is now ───────────┴── config() ──> status, handover, reload, save
//!                                   the file as it was read last ───── changed_by_hand()
//! ```
//!
//! Invariant: each value has one place, here or in [`Links`]; who tells of it asks [`InForce::config`].

use std::sync::{Arc, Mutex, MutexGuard};

use tabane_api::Origin;
use tabane_config::difference::{Difference, differences};
use tabane_config::{Config, FixedConfig, LiveConfig};
use tabane_process::locked;

use super::Refusal;
use super::links::{Links, Present};
use crate::machine::{Machine, ThisMachine};
use crate::worker::group::Trust;

/// The configuration in force.
pub(crate) struct InForce<M: Machine = ThisMachine> {
    links: Arc<Links<M>>,
    pub(crate) fixed: FixedConfig,
    /// Here the primary is the number of a link, not its place.
    live: Mutex<LiveConfig>,
    filed: Mutex<Filed>,
}

/// What the file says.
#[derive(Clone, Debug)]
pub(crate) struct Filed {
    /// The file, as it was read last, with the flags over it.
    pub(crate) config: Config,
    /// Which file that is.
    pub(crate) origin: Origin,
}

impl<M: Machine> InForce<M> {
    /// Of a bundle that has begun with `config`, over `links`.
    pub(crate) fn new(config: &Config, filed: Filed, links: Arc<Links<M>>) -> Self {
        let Config { fixed, live, .. } = config.clone();
        Self { links, fixed, live: Mutex::new(live), filed: Mutex::new(filed) }
    }

    /// All of it, without links that are on their way out.
    pub(crate) fn config(&self) -> Config {
        let present: Vec<_> = self.links.present().into_iter().filter(|link| !link.leaves).collect();
        self.over(&present)
    }

    /// The same for another process, which can take a bundle over only while it is whole; and the index of each link's NIC.
    pub(crate) fn whole(&self) -> Result<(Config, Vec<u32>), Refusal> {
        let present = self.links.present();
        if let Some(lost) = present.iter().find(|link| link.is_gone || link.leaves) {
            let nic = &lost.config.nic;
            return Err(Refusal::Input(format!(
                "the NIC of link {nic} is gone; `tabane link remove` takes it out"
            )));
        }
        Ok((self.over(&present), present.iter().map(|link| link.nic).collect()))
    }

    /// With these links: the primary is one of them, by its place.
    fn over(&self, present: &[Present]) -> Config {
        let mut live = self.live().clone();
        let primary = live.policy_options.primary;
        let place = primary.and_then(|primary| present.iter().position(|link| link.number == primary));
        live.policy_options.primary = place.and_then(|place| u8::try_from(place).ok());
        let links = present.iter().map(|link| link.config.clone()).collect();
        Config { fixed: self.fixed.clone(), live, links }
    }

    /// What can change, besides the links, to be read.
    pub(crate) fn live(&self) -> MutexGuard<'_, LiveConfig> {
        locked(&self.live)
    }

    /// Notes what the workers do from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut LiveConfig)) {
        change(&mut self.live());
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::of(&self.live())
    }

    pub(crate) fn filed(&self) -> Filed {
        locked(&self.filed).clone()
    }

    /// The file says something else now, or another file does.
    pub(crate) fn file(&self, filed: Filed) {
        *locked(&self.filed) = filed;
    }

    /// What is in force and not in the file, a short sentence each.
    pub(crate) fn changed_by_hand(&self) -> Vec<String> {
        let filed = self.filed();
        differences(&filed.config, &self.config()).iter().map(Difference::beside_file).collect()
    }
}

/// The same, as another process is told of it: without the files of its keys.
#[cfg(test)]
pub(crate) fn without_files(config: &Config) -> Config {
    let mut config = config.clone();
    config.live.set_keys(&config.live.keys());
    config.fixed.node_key_file = None;
    config
}
