//! What follows from what was typed: [`Settings`] to [`Config`], with every rule checked and every default filled in.
//!
//! Each key has its rule in the table of `keys.rs`; what keys say together is checked here. A broken rule is noted and its value
//! replaced by the default, so that one run finds all problems. Links have their own rules in `links.rs`.

use std::path::{Path, PathBuf};

use super::address::CIDR_ALLOWED;
use super::classes::resolve_primary;
use super::keys::rows;
use super::limits::ADDRESSES;
use super::links::{check_together, link_name};
use super::problem::{Problem, in_order, quoted};
use super::rule::Resolving;
use super::settings::{Given, Settings};
use super::{Access, Cidr, Config, DataPath, Security};
use crate::key::{ALLOW_MAX, KEYS_MAX, Key, KeyError, Owner, PUBLIC_ALLOWED, parse_public};
use tabane_io::tap::is_device_name;
use tabane_proto::security::PublicKey;

/// Checks `settings` and fills in the defaults; `read_key` reads a key file.
pub fn resolve(
    settings: &Settings,
    read_key: impl Fn(&Path, Owner) -> Result<Key, KeyError>,
) -> Result<Config, Vec<Problem>> {
    resolved(settings, &read_key, check_together)
}

/// The same for a configuration in force, whose links may have come to less than what a file has to say.
pub fn resolve_in_force(
    settings: &Settings,
    read_key: impl Fn(&Path, Owner) -> Result<Key, KeyError>,
) -> Result<Config, Vec<Problem>> {
    resolved(settings, &read_key, |_, _| {})
}

/// What a file says of the rights of the daemon, and over it; its other keys are not checked.
pub(super) fn resolve_access(settings: &Settings) -> Result<Access, Vec<Problem>> {
    const KEYS: [&str; 4] = ["user", "control_group", "watch_group", "sandbox"];
    let read_key = |path: &Path, _| Err(KeyError::Told(path.to_owned()));
    let mut from = Resolving { settings, problems: Vec::new(), read_key: &read_key };
    let mut config = Config::default();
    rows()
        .filter(|row| KEYS.contains(&row.name))
        .for_each(|row| (row.rule.take)(row.name, &mut from, &mut config));
    in_order(from.problems).map_or(Ok(config.fixed.access), Err)
}

fn resolved(
    settings: &Settings,
    read_key: &dyn Fn(&Path, Owner) -> Result<Key, KeyError>,
    check_together: impl FnOnce(&mut Vec<Problem>, &Settings),
) -> Result<Config, Vec<Problem>> {
    let mut from = Resolving { settings, problems: Vec::new(), read_key };
    let mut config = Config::default();
    for row in rows() {
        (row.rule.take)(row.name, &mut from, &mut config);
    }
    let problems = &mut from.problems;
    config.live.policy_options.primary = resolve_primary(problems, settings, &config.links);
    check_ports(problems, settings, &config);
    check_own_name(problems, settings, &config);
    check_sealed(problems, settings, &config);
    check_data_path(problems, settings, &config);
    check_together(problems, settings);
    in_order(from.problems).map_or(Ok(config), Err)
}

pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let refused = || format!("{} cannot name a device", quoted(text));
    is_device_name(text).then(|| text.to_owned()).ok_or_else(refused)
}

/// What [`parse_account`] takes, for error sentences.
pub(super) const ACCOUNT_ALLOWED: &str = "1 to 32 bytes without spaces, `:` and `/`";

/// Reads the name of a user or a group; whether there is one is checked when the bundle starts.
pub(super) fn parse_account(text: &str) -> Result<Option<String>, String> {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '/');
    let is_name = (1..=32).contains(&text.len()) && !text.contains(forbidden);
    is_name.then(|| Some(text.to_owned())).ok_or_else(|| format!("{} is no name", quoted(text)))
}

pub(super) fn take_key(key: &str, from: &mut Resolving<'_>, config: &mut Config) {
    let Some(given) = from.settings.values.get::<PathBuf>(key) else { return };
    config.live.key = from.read(given, Owner::Group);
    config.live.key_file = Some(given.value.clone());
}

/// The key of this node alone.
pub(super) fn take_node_key(key: &str, from: &mut Resolving<'_>, config: &mut Config) {
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

/// Keys beside the one that is spoken.
pub(super) fn take_accept_keys(key: &str, from: &mut Resolving<'_>, config: &mut Config) {
    let values = &from.settings.values;
    let given = values.list(key);
    if let Some(first) = given.first().filter(|_| values.place("key").is_none()) {
        let what = "accepted besides which key?";
        from.problem(first, what, "with `key`, the one that this node speaks");
    }
    if let Some(last) = given.last().filter(|_| given.len() >= KEYS_MAX) {
        let what = format!("{} keys are too many", given.len());
        from.problem(last, what, format!("at most {}", KEYS_MAX - 1));
    }
    for given in given {
        let file = Given::new(PathBuf::from(&given.value), given.place.clone());
        let key = from.read(&file, Owner::Group);
        config.live.accept_keys.extend(key.map(|key| (file.value, key)));
    }
}

pub(super) fn take_addresses(key: &str, from: &mut Resolving<'_>, config: &mut Config) {
    let given = from.settings.values.list(key);
    if let Some(last) = given.last().filter(|_| !ADDRESSES.hold_count(given.len())) {
        let what = format!("{} addresses are too many", given.len());
        from.problem(last, what, ADDRESSES.to_string());
        return;
    }
    for given in given {
        match given.value.parse::<Cidr>() {
            Ok(cidr) if config.live.addresses.iter().any(|before| before.address == cidr.address) => {
                let what = format!("{} is given twice", cidr.address);
                from.problem(given, what, "each address once");
            }
            Ok(cidr) => config.live.addresses.push(cidr),
            Err(what) => from.problem(given, what, CIDR_ALLOWED),
        }
    }
}

/// Refuses keys of nodes where cells are not sealed: no node proves its key there, so the list would let everybody in.
pub(super) fn check_sealed(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let place = settings.values.first(&["allow", "node_key"]);
    if let Some(place) = place.filter(|_| config.security == Security::None) {
        let what = "no node proves its key where cells are not sealed";
        problems.push(Problem::new(place, what, "this with `security = \"sealed\"`"));
    }
}

/// Worker i uses the i-th port after `port`: the last one must exist.
fn check_ports(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    if let Some(place) = settings.values.first(&["port", "workers"]) {
        config.ports().check(problems, place, &format!("port {}", config.port), config.port);
    }
}

/// Frames of the kernel path are not sealed.
fn check_data_path(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let bare = config.unprotected().filter(|_| config.data_path == DataPath::Kernel);
    if let (Some(place), Some(link)) = (settings.values.place("data_path"), bare) {
        let what = format!(
            "the kernel path carries frames as they are, cells are to be sealed, and nothing protects link {}",
            link_name(link)
        );
        let allowed = "`user` or `auto`, or `security = \"none\"`, or `protected = true` for each link whose network \
             encrypts and authenticates";
        problems.push(Problem::new(place, what, allowed));
    }
}

/// The bundle's own device cannot be one of its links.
fn check_own_name(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let nics = settings.links.iter().filter_map(|link| link.values.get::<String>("nic"));
    for nic in nics.filter(|nic| nic.value == config.name) {
        let what = format!("{} is the bundle's own device", quoted(&nic.value));
        problems.push(Problem::new(&nic.place, what, "another network interface"));
    }
}
