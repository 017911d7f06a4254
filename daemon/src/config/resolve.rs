//! What follows from what was typed: [`Settings`] to [`Config`], with every rule checked and every default filled in.
//!
//! A broken rule is noted and its value replaced by the default, so that one run finds all problems. Links have their
//! own rules in `links.rs`.

use std::path::{Path, PathBuf};

use super::access::resolve_access;
use super::address::CIDR_ALLOWED;
use super::classes::{resolve_classes, resolve_options};
use super::fragments::{FRAGMENTS_ALLOWED, parse_fragments};
use super::limits::{ADDRESSES, PORT, TX_QUEUE_LEN, WORKERS};
use super::links::{check_together, link_name, resolve_links};
use super::mtu::Mtu;
use super::nodes::{check_sealed, resolve_nodes};
use super::ports::Ports;
use super::problem::{Problem, in_order, quoted};
use super::settings::{Given, OffloadSettings, ReceiveSettings, Settings};
use super::typed::{number, value, word};
use super::units::{INTERVAL_ALLOWED, SHARE_ALLOWED, parse_interval, parse_share};
use super::{CIPHERS, Cidr, Config, DataPath, Offload, Reordering, Security, cipher_name};
use crate::key::{KEYS_MAX, Key, KeyError, Owner};
use tabane_engine::receive;
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};
use tabane_proto::PolicyKind;

/// Checks `settings` and fills in the defaults; `read_key` reads a key file.
pub fn resolve(
    settings: &Settings,
    read_key: impl Fn(&Path, Owner) -> Result<Key, KeyError>,
) -> Result<Config, Vec<Problem>> {
    let mut problems = Vec::new();
    let config = resolved(&mut problems, settings, read_key);
    check_together(&mut problems, settings);
    in_order(problems).map_or(Ok(config), Err)
}

/// The same for a configuration in force, whose links may have come to less than what a file has to say.
pub fn resolve_in_force(
    settings: &Settings,
    read_key: impl Fn(&Path, Owner) -> Result<Key, KeyError>,
) -> Result<Config, Vec<Problem>> {
    let mut problems = Vec::new();
    let config = resolved(&mut problems, settings, read_key);
    in_order(problems).map_or(Ok(config), Err)
}

fn resolved(
    problems: &mut Vec<Problem>,
    settings: &Settings,
    read_key: impl Fn(&Path, Owner) -> Result<Key, KeyError>,
) -> Config {
    let default = Config::default();
    let port = number(problems, settings.port.as_ref(), PORT, default.port);
    let workers = number(problems, settings.workers.as_ref(), WORKERS, default.workers);
    let links = resolve_links(problems, settings, Ports { first: port, workers });
    let group_key = |path: &Path| read_key(path, Owner::Group);
    let config = Config {
        name: name(problems, settings.name.as_ref(), default.name),
        key: settings.key.as_ref().and_then(|given| key(problems, given, group_key)),
        key_file: settings.key.as_ref().map(|key| key.value.clone()),
        accept_keys: accept_keys(problems, settings, group_key),
        nodes: resolve_nodes(problems, &settings.nodes, &read_key),
        port,
        mtu: value(problems, settings.mtu.as_ref(), Mtu::ALLOWED, str::parse).unwrap_or(default.mtu),
        policy: word(problems, settings.policy.as_ref(), &PolicyKind::ALL, PolicyKind::name, default.policy),
        repair: settings.repair.as_ref().map_or(default.repair, |given| given.value),
        policy_options: resolve_options(problems, settings, &links),
        classes: resolve_classes(problems, settings),
        receive: receive_engine(problems, &settings.receive, default.receive),
        fragments: value(problems, settings.fragments.as_ref(), FRAGMENTS_ALLOWED, parse_fragments)
            .unwrap_or(default.fragments),
        workers,
        addresses: addresses(problems, &settings.addresses),
        data_path: word(
            problems,
            settings.data_path.as_ref(),
            &DataPath::ALL,
            DataPath::name,
            default.data_path,
        ),
        reorder: word(
            problems,
            settings.reorder.as_ref(),
            &Reordering::ALL,
            Reordering::name,
            default.reorder,
        ),
        security: word(
            problems,
            settings.security.as_ref(),
            &Security::ALL,
            Security::name,
            default.security,
        ),
        cipher: word(problems, settings.cipher.as_ref(), &CIPHERS, cipher_name, default.cipher),
        access: resolve_access(problems, &settings.access),
        tx_queue_len: number(problems, settings.tx_queue_len.as_ref(), TX_QUEUE_LEN, default.tx_queue_len),
        offload: offload(&settings.offload, &default.offload),
        links,
    };
    check_ports(problems, settings, &config);
    check_own_name(problems, settings, &config);
    check_sealed(problems, &settings.nodes, &config);
    check_data_path(problems, settings, &config);
    config
}

fn name(problems: &mut Vec<Problem>, given: Option<&Given<String>>, default: String) -> String {
    let Some(given) = given else { return default };
    if !is_device_name(&given.value) {
        let what = format!("{} cannot name a device", quoted(&given.value));
        problems.push(Problem::new(&given.place, what, DEVICE_NAME_ALLOWED));
    }
    given.value.clone()
}

fn key(
    problems: &mut Vec<Problem>,
    given: &Given<PathBuf>,
    read_key: impl Fn(&Path) -> Result<Key, KeyError>,
) -> Option<Key> {
    read_key(&given.value)
        .inspect_err(|error| problems.push(Problem::new(&given.place, error.to_string(), KeyError::ALLOWED)))
        .ok()
}

fn accept_keys(
    problems: &mut Vec<Problem>,
    settings: &Settings,
    read_key: impl Fn(&Path) -> Result<Key, KeyError>,
) -> Vec<(PathBuf, Key)> {
    let given = &settings.accept_keys;
    if let (Some(first), None) = (given.first(), &settings.key) {
        let what = "accepted besides which key?";
        problems.push(Problem::new(&first.place, what, "with `key`, the one that this node speaks"));
    }
    if let Some(last) = given.last().filter(|_| given.len() >= KEYS_MAX) {
        let what = format!("{} keys are too many", given.len());
        problems.push(Problem::new(&last.place, what, format!("at most {}", KEYS_MAX - 1)));
    }
    let read = |given: &Given<PathBuf>| Some((given.value.clone(), key(problems, given, &read_key)?));
    given.iter().filter_map(read).collect()
}

fn addresses(problems: &mut Vec<Problem>, given: &[Given<String>]) -> Vec<Cidr> {
    if let Some(last) = given.last().filter(|_| !ADDRESSES.hold_count(given.len())) {
        let what = format!("{} addresses are too many", given.len());
        problems.push(Problem::new(&last.place, what, ADDRESSES.to_string()));
        return Vec::new();
    }
    let mut addresses: Vec<Cidr> = Vec::new();
    for given in given {
        match given.value.parse::<Cidr>() {
            Ok(cidr) if addresses.iter().any(|before| before.address == cidr.address) => {
                let what = format!("{} is given twice", cidr.address);
                problems.push(Problem::new(&given.place, what, "each address once"));
            }
            Ok(cidr) => addresses.push(cidr),
            Err(what) => problems.push(Problem::new(&given.place, what, CIDR_ALLOWED)),
        }
    }
    addresses
}

fn receive_engine(
    problems: &mut Vec<Problem>,
    given: &ReceiveSettings,
    default: receive::Settings,
) -> receive::Settings {
    let (all, name) = (&receive::Method::ALL, receive::Method::name);
    let method = word(problems, given.engine.as_ref(), all, name, default.method);
    let interval = value(problems, given.interval.as_ref(), INTERVAL_ALLOWED, parse_interval);
    let share = value(problems, given.spin_share.as_ref(), SHARE_ALLOWED, parse_share);
    let (interval, share) = (interval.unwrap_or(default.interval), share.unwrap_or(default.share));
    receive::Settings { method, interval, share }
}

fn offload(given: &OffloadSettings, default: &Offload) -> Offload {
    let switch = |given: &Option<Given<bool>>, default| given.as_ref().map_or(default, |given| given.value);
    Offload {
        gso: switch(&given.gso, default.gso),
        gro: switch(&given.gro, default.gro),
        tso: switch(&given.tso, default.tso),
        uso: switch(&given.uso, default.uso),
        checksum: switch(&given.checksum, default.checksum),
    }
}

/// Worker i uses the i-th port after `port`: the last one must exist.
fn check_ports(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let place = settings.port.as_ref().or(settings.workers.as_ref()).map(|given| &given.place);
    if let Some(place) = place {
        config.ports().check(problems, place, &format!("port {}", config.port), config.port);
    }
}

/// Frames of the kernel path are not sealed.
fn check_data_path(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let bare = config.unprotected().filter(|_| config.data_path == DataPath::Kernel);
    if let (Some(given), Some(link)) = (&settings.data_path, bare) {
        let what = format!(
            "the kernel path carries frames as they are, cells are to be sealed, and nothing protects link {}",
            link_name(link)
        );
        let allowed = "`user` or `auto`, or `security = \"none\"`, or `protected = true` for each link whose network \
             encrypts and authenticates";
        problems.push(Problem::new(&given.place, what, allowed));
    }
}

/// The bundle's own device cannot be one of its links.
fn check_own_name(problems: &mut Vec<Problem>, settings: &Settings, config: &Config) {
    let nics = settings.links.iter().filter_map(|link| link.nic.as_ref());
    for nic in nics.filter(|nic| nic.value == config.name) {
        let what = format!("{} is the bundle's own device", quoted(&nic.value));
        problems.push(Problem::new(&nic.place, what, "another network interface"));
    }
}
