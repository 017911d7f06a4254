//! A file takes the place of the one in force: what differs changes, and nothing when one thing cannot.
//!
//! ```text
//!   differences ── something that cannot change? ── one sentence
//!   plan of the links: sockets are opened ── one fails? ── one sentence
//!   addresses of the device ── refused? ── given back, one sentence
//!   keys, policy, engine, links, classes: the workers obey
//! ```

use std::path::PathBuf;

use tabane_api::{Answer, Told};
use tabane_config::difference::{Difference, Part, differences};
use tabane_config::{Config, LinkConfig, LiveConfig};

use super::in_force::Filed;
use super::{Refusal, Shell};
use crate::machine::Machine;

impl<M: Machine> Shell<M> {
    /// Does what the file says; answers what has changed, a sentence each.
    pub(super) fn reload(&self, told: &Told, file: PathBuf) -> Result<Answer, Refusal> {
        let wanted = told.understood().map_err(Refusal::Input)?;
        let current = self.in_force.config();
        let found = differences(&current, &wanted);
        refuse_fixed(&found)?;
        let has = |part| found.iter().any(|difference| difference.part == part);
        let plan = self.links.plan(&wanted.links)?;
        if has(Part::Addresses) {
            let machine = self.links.machine();
            machine.set_addresses(&current.live.addresses, &wanted.live.addresses).map_err(Refusal::Input)?;
            self.in_force.change(|live| live.addresses.clone_from(&wanted.live.addresses));
        }
        if has(Part::Trust) {
            self.change_trust(|live| take_trust(live, &wanted.live))?;
        }
        if has(Part::Policy) {
            self.set_policy(wanted.live.policy)?;
        }
        if has(Part::Receive) {
            self.set_engine(wanted.live.receive)?;
        }
        self.links.carry_out(plan)?;
        self.take_classes(&wanted)?;
        let changes: Vec<String> = found.iter().map(Difference::change).collect();
        let origin = self.in_force.filed().origin.with_file(file);
        self.in_force.file(Filed { config: wanted, origin });
        let detail = if changes.is_empty() { "nothing differs".to_owned() } else { changes.join("; ") };
        self.events.tell("reloaded", detail);
        Ok(Answer::Changed { done: changes })
    }

    /// Classes and options of policies, when they differ; the primary is found among the links as they are now.
    fn take_classes(&self, wanted: &Config) -> Result<(), Refusal> {
        let primary =
            wanted.live.policy_options.primary.and_then(|place| wanted.links.get(usize::from(place)));
        let primary = primary.and_then(|link| self.number_of(link));
        let mut differs = false;
        self.in_force.change(|live| {
            let options = tabane_proto::PolicyOptions { primary, ..wanted.live.policy_options };
            differs = live.policy_options != options || live.classes != wanted.live.classes;
            live.policy_options = options;
            live.classes.clone_from(&wanted.live.classes);
        });
        if differs { self.send_classes() } else { Ok(()) }
    }

    fn number_of(&self, link: &LinkConfig) -> Option<u8> {
        let present = self.links.present();
        present.iter().find(|other| other.config.is_same(link)).map(|present| present.number)
    }
}

/// Keys and list of nodes of `wanted`.
fn take_trust(live: &mut LiveConfig, wanted: &LiveConfig) {
    live.set_keys(&wanted.keys());
    live.allow.clone_from(&wanted.allow);
}

fn refuse_fixed(found: &[Difference]) -> Result<(), Refusal> {
    let fixed: Vec<&str> =
        found.iter().filter(|one| one.part == Part::Fixed).map(|one| one.what.as_str()).collect();
    match fixed.split_last() {
        None => Ok(()),
        Some((last, others)) => {
            let keys = if others.is_empty() {
                (*last).to_owned()
            } else {
                format!("{} and {last}", others.join(", "))
            };
            Err(Refusal::Input(format!(
                "{keys} cannot change while the bundle runs, so nothing has changed; `tabane down` and `tabane up` do it"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use tabane_config::{FixedConfig, Mtu};

    use super::*;

    #[test]
    fn what_cannot_change_is_one_sentence() {
        let old = Config::default();
        let refused = |new: &Config| match refuse_fixed(&differences(&old, new)) {
            Err(Refusal::Input(why) | Refusal::Failed(why)) => why,
            Ok(()) => String::new(),
        };
        assert_eq!(refused(&old), "");
        let live = LiveConfig { policy: tabane_proto::PolicyKind::RoundRobin, ..old.live.clone() };
        assert_eq!(refused(&Config { live, ..old.clone() }), "");
        let refused = |fixed| refused(&Config { fixed, ..old.clone() });
        let one = refused(FixedConfig { mtu: Mtu::Stated(9_000), ..old.fixed.clone() });
        assert!(
            one.starts_with("mtu cannot change while the bundle runs, so nothing has changed; "),
            "{one}"
        );
        let several = refused(FixedConfig { port: 1, workers: 2, repair: false, ..old.fixed.clone() });
        assert!(several.starts_with("port, repair and workers cannot change "), "{several}");
    }
}
