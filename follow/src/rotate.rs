//! `--rotate`: the group takes another key, in the three rounds of `tabane key`. A round begins when every node that is
//! announced has the one before, so no two nodes are ever without a key that both know.
//!
//! ```text
//!   OLD            accept ──> OLD NEW      speak ──> NEW OLD      drop ──> NEW
//! ```
//!
//! The keys in etcd are the state. So a rotation that was interrupted goes on where it stood, and two at once cannot mix
//! theirs: each writes only over what it has read.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use tabane_config::problem::BadInput;

use crate::etcd::Etcd;
use crate::fleet::{Fleet, KEYS, group};

const ROUND: Duration = Duration::from_secs(60);
/// How often it is looked whether they have it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Makes `new` the only key of the group; `say` is told of each round. The nodes called `without` are not waited for: one that was stolen
/// announces what it likes.
pub fn rotate(
    etcd: &Etcd,
    new: &str,
    without: &[String],
    mut say: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let announced = etcd.fleet()?.0.nodes;
    if let Some(unknown) = without.iter().find(|name| !announced.contains_key(*name)) {
        let names: Vec<&str> = announced.keys().map(String::as_str).collect();
        let why = format!("--without {unknown}: nobody announces that name; announced: {}", names.join(", "));
        return Err(BadInput::new(why).into());
    }
    let read = || -> anyhow::Result<Fleet> {
        let mut fleet = etcd.fleet()?.0;
        fleet.nodes.retain(|name, _| !without.contains(name));
        Ok(fleet)
    };
    loop {
        // Read before the keys: what is written between the two is noticed when it would be overwritten.
        let revision = etcd.get(KEYS)?.map_or_else(|| "0".to_owned(), |stored| stored.revision);
        let fleet = read()?;
        let next = if fleet.keys.is_empty() {
            check_first(&fleet, new)?;
            Some((vec![new.to_owned()], "the key stands in etcd from now on"))
        } else {
            wait(read, &fleet.keys)?;
            following(&fleet.keys, new)
        };
        let Some((keys, what)) = next else { return say("every node has this key and no other") };
        if !etcd.replace_keys(&keys, &revision)? {
            bail!("somebody else has changed the keys in etcd meanwhile; start it again");
        }
        say(what)?;
        wait(read, &keys)?;
    }
}

/// The keys of the round that follows on those that are there, and what it does.
fn following(keys: &[String], new: &str) -> Option<(Vec<String>, &'static str)> {
    let others: Vec<String> = keys.iter().filter(|key| *key != new).cloned().collect();
    let new = vec![new.to_owned()];
    if others.is_empty() {
        return None;
    }
    Some(match keys.iter().position(|key| *key == new[0]) {
        None => ([others, new].concat(), "round 1: every node accepts the new key"),
        Some(0) => (new, "round 3: every node drops the others"),
        Some(_) => ([new, others].concat(), "round 2: every node speaks the new key"),
    })
}

/// The first key in etcd is one that all nodes speak already: else they would part.
fn check_first(fleet: &Fleet, new: &str) -> anyhow::Result<()> {
    let number = group(new);
    let other = fleet.nodes.iter().find(|(_, node)| node.groups.first() != number.as_ref());
    other.map_or(Ok(()), |(name, _)| {
        let allowed = "at first the key that all nodes have, so that they agree on one in etcd";
        let why = format!("{name} speaks another key than this, and etcd has none yet; allowed: {allowed}");
        Err(BadInput::new(why).into())
    })
}

/// Waits until every node that is announced has these keys.
fn wait(read: impl Fn() -> anyhow::Result<Fleet>, keys: &[String]) -> anyhow::Result<()> {
    let groups: Vec<String> = keys.iter().filter_map(|key| group(key)).collect();
    let until = Instant::now() + ROUND;
    loop {
        let fleet = read()?;
        let lagging =
            fleet.nodes.iter().filter(|(_, node)| node.groups != groups).map(|(name, _)| name.as_str());
        let lagging: Vec<&str> = lagging.collect();
        if lagging.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            let seconds = ROUND.as_secs();
            bail!(
                "after {seconds} s {} did not have the keys of this round, which stay; start it again when they follow with --keys, or `--without` those that are not to",
                lagging.join(", ")
            );
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Node;

    #[test]
    fn three_rounds_lead_to_the_new_key_from_wherever_they_stood() {
        let (old, new) = ("old".to_owned(), "new".to_owned());
        let mut keys = vec![old.clone()];
        let mut rounds = Vec::new();
        while let Some((next, _)) = following(&keys, &new) {
            rounds.push(next.clone());
            keys = next;
        }
        assert_eq!(rounds, [vec![old.clone(), new.clone()], vec![new.clone(), old], vec![new]]);
    }

    #[test]
    fn the_first_key_in_etcd_is_the_one_that_all_speak() {
        let (key, other) = ("01".repeat(32), "02".repeat(32));
        let node = Node { groups: group(&key).into_iter().collect(), ..Node::default() };
        let fleet = Fleet { nodes: [("a".to_owned(), node)].into(), ..Fleet::default() };
        assert!(check_first(&fleet, &key).is_ok());
        assert!(
            check_first(&fleet, &other)
                .is_err_and(|error| error.to_string().starts_with("a speaks another key"))
        );
    }
}
