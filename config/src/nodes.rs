//! The key of this node, and which nodes are let in.

use std::path::PathBuf;

use tabane_proto::security::PublicKey;

use super::problem::Problem;
use super::rule::Resolving;
use super::settings::Settings;
use super::{Config, Security};
use crate::key::{ALLOW_MAX, Owner, PUBLIC_ALLOWED, parse_public};

/// This node's key.
pub(super) fn take_key(key: &str, from: &mut Resolving<'_>, config: &mut Config) {
    let Some(given) = from.settings.values.get::<PathBuf>(key) else { return };
    config.fixed.node_key = from.read(given, Owner::Node);
    config.fixed.node_key_file = Some(given.value.clone());
}

/// The nodes that are let in.
pub(super) fn take_allow(key: &str, from: &mut Resolving<'_>, config: &mut Config) {
    let Some(given) = from.settings.values.get::<Vec<String>>(key) else { return };
    let keys = parse_allow(&given.value).map_err(|(what, allowed)| from.problem(given, what, allowed));
    config.live.allow = keys.ok();
}

/// The public keys that texts are.
pub fn parse_allow(texts: &[String]) -> Result<Vec<PublicKey>, (String, String)> {
    if !(1..=ALLOW_MAX).contains(&texts.len()) {
        let what = format!("{} keys are allowed", texts.len());
        return Err((what, format!("1 to {ALLOW_MAX}; without a list every node of the group is let in")));
    }
    let keys = texts.iter().map(|text| parse_public(text)).collect::<Result<_, _>>();
    keys.map_err(|what| (what, PUBLIC_ALLOWED.to_owned()))
}

/// Refuses keys of nodes where cells are not sealed: no node proves its key there, so the list would let everybody in.
pub(super) fn check_sealed(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let place = settings.values.first(&["allow", "node_key"]);
    if let Some(place) = place.filter(|_| config.security == Security::None) {
        let what = "no node proves its key where cells are not sealed";
        problems.push(Problem::new(place, what, "this with `security = \"sealed\"`"));
    }
}
