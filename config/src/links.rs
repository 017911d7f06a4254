//! The rules of links: which addresses go together, and which links would be the same link twice.
//!
//! A link without peers finds them by multicast hellos, which exist on IPv6 link-local addresses only; with another local
//! address it waits for peers that name it. A link without a local address that names a peer takes both families.

pub mod keys;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use super::address::{LOCAL_ALLOWED, PEER_ALLOWED, Peer, family, parse_local, parse_peer};
use super::limits::{LINKS, NAMES, PEERS, PORT, WEIGHT};
use super::problem::{Place, Problem, quoted};
use super::rate::resolve_rate;
use super::rule::{take_number, take_value, take_word};
use super::settings::{Settings, TableSettings};
use super::window::resolve_window;
use super::{EtherConfig, LinkConfig, LinkRate, Ports};
use keys::{LINK_KEYS, parse_link_text};
use tabane_engine::reclaim;
use tabane_io::Engine;
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};

/// The kinds of links; UDP over a NIC by default.
const KINDS: [&str; 3] = ["udp", "ether", "mem"];

/// Checks the links of `settings`; `ports` complete peers that name none.
pub(super) fn resolve_links(
    problems: &mut Vec<Problem>,
    settings: &Settings,
    ports: Ports,
) -> Vec<LinkConfig> {
    if !check_count(problems, settings) {
        return Vec::new();
    }
    let mut links: Vec<LinkConfig> = Vec::new();
    let several = settings.values.get::<i64>("workers").is_some_and(|workers| workers.value > 1);
    for typed in &settings.links {
        let engine = typed.values.get::<String>("engine");
        if let Some(given) = engine.filter(|given| several && given.value == Engine::Xdp.name()) {
            let what = "AF_XDP serves one worker";
            problems.push(Problem::new(&given.place, what, "`auto` or `packet`, or `workers = 1`"));
        }
        let Some(link) = resolve_link(problems, typed, ports) else { continue };
        if let Some(before) = links.iter().find(|before| before.collides(&link, ports)) {
            problems.push(collision(&typed.place, before, &link, ports));
        }
        links.push(link);
    }
    links
}

/// One link as text, as after `--link`; `ports` complete peers that name none.
pub fn parse_link(text: &str, ports: Ports) -> Result<LinkConfig, String> {
    let mut problems = Vec::new();
    let link = resolve_link(&mut problems, &parse_link_text(text, "link")?, ports);
    match (link, problems.first()) {
        (Some(link), None) => Ok(link),
        (_, problem) => Err(problem.map_or_else(String::new, ToString::to_string)),
    }
}

/// Two links would receive at one place.
fn collision(place: &Place, before: &LinkConfig, link: &LinkConfig, ports: Ports) -> Problem {
    let (nic, workers) = (quoted(&link.nic), ports.workers);
    let (first, second) = (before.first_port(ports), link.first_port(ports));
    if first == second {
        let what = format!("nic {nic} is used twice from the same address");
        return Problem::new(place, what, "each nic once, or with a `local` or `port` of its own each time");
    }
    let what = format!("ports {first} and {second} of nic {nic} are too near to each other");
    Problem::new(place, what, format!("a port for each of {workers} workers from each of them on"))
}

/// How people name a link: by its NIC, or the path of its window, and by its local address and port, if it has them.
pub fn link_name(link: &LinkConfig) -> String {
    let kind = if link.ether.is_some() { "ether:" } else { "" };
    let local = link.local.map(|local| format!(",local={local}")).unwrap_or_default();
    let port = link.port.map(|port| format!(",port={port}")).unwrap_or_default();
    format!("{kind}{}{local}{port}", link.nic)
}

pub fn print_peers(peers: &[Peer]) -> String {
    let names = peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if names.is_empty() { "none".to_owned() } else { names }
}

/// What changes of a link while it is in the bundle; `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The link that is meant, by its NIC, and by its local address where several links use that NIC.
    pub link: LinkConfig,
    pub rate: Option<LinkRate>,
    /// Its weight, or `None` from now on.
    pub weight: Option<Option<u32>>,
    pub peers: Option<Vec<Peer>>,
}

/// A change of a link as text: the link, `rate=` with a rate or `measured`, or `down=` and `up=`, `weight=` with a number or `none`,
/// `peer=` for each of its peers. `ports` complete peers that name none.
pub fn parse_change(text: &str, ports: Ports) -> Result<LinkChange, String> {
    const NO_RATE: &str = "rate=measured";
    const NO_WEIGHT: &str = "weight=none";
    let has = |start: &str| text.split(',').skip(1).any(|part| part.starts_with(start));
    let stated = text.split(',').filter(|part| ![NO_RATE, NO_WEIGHT].contains(part));
    let link = parse_link(&stated.collect::<Vec<_>>().join(","), ports)?;
    let has_rate = ["rate=", "down=", "up="].into_iter().any(has);
    if !has_rate && !["weight=", "peer="].into_iter().any(has) {
        let allowed = "rate=, down=, up=, weight=, peer=";
        return Err(format!("nothing is to change of link {}; allowed: {allowed}", link.nic));
    }
    Ok(LinkChange {
        rate: has_rate.then_some(link.rate),
        weight: has("weight=").then_some(link.weight),
        peers: has("peer=").then(|| link.peers.clone()),
        link,
    })
}

fn check_count(problems: &mut Vec<Problem>, settings: &Settings) -> bool {
    let count = settings.links.len();
    if LINKS.hold_count(count) {
        return true;
    }
    let place = settings.links.last().map(|link| link.place.clone());
    let place = place.unwrap_or_else(|| match &settings.file {
        Some(file) => Place { file: Some(file.clone()), line: None, key: "link".to_owned() },
        None => Place::flag("--link"),
    });
    let what = if count == 0 { "no link is given".to_owned() } else { format!("{count} links are too many") };
    problems.push(Problem::new(&place, what, format!("{LINKS}, by tables [[link]] or flags --link NIC")));
    false
}

/// Weights are relative, so all links have one or none has; and data needs a link that is not drained. While a bundle runs, links may
/// come to less: one by one.
pub(super) fn check_together(problems: &mut Vec<Problem>, settings: &Settings) {
    if let Some(last) =
        settings.links.last().filter(|_| settings.links.iter().all(|link| is_on(link, "drained")))
    {
        let place = last.values.place("drained").unwrap_or(&last.place);
        problems.push(Problem::new(place, "all links are drained", "one at least that is not"));
    }
    let has = |link: &&TableSettings| link.values.place("weight").is_some();
    let without = settings.links.iter().find(|link| !has(link));
    if let (Some(without), Some(_)) = (without, settings.links.iter().find(has)) {
        let what = "this link has no `weight`, but another has one";
        problems.push(Problem::new(&without.place, what, "a weight for each link, or for none"));
    }
}

/// The link, or `None` when it has no usable nic or path.
fn resolve_link(problems: &mut Vec<Problem>, typed: &TableSettings, ports: Ports) -> Option<LinkConfig> {
    let values = &typed.values;
    let kind = take_word(problems, values.get("kind"), &KINDS, |kind| kind, KINDS[0]);
    let mut refuse = |places: &mut dyn Iterator<Item = &Place>, what: &str, kind: &str| {
        problems
            .extend(places.map(|place| Problem::new(place, what, format!("this with kind = \"{kind}\""))));
    };
    if kind != "ether" {
        let places = &mut ["engine", "completion"].into_iter().filter_map(|key| values.place(key));
        refuse(places, "only Ethernet frames have an engine", "ether");
    }
    if kind != "udp" {
        let place = &mut values.place("port").into_iter();
        refuse(place, "only links over UDP have a port of their own", "udp");
    }
    if kind == "mem" {
        return resolve_window_link(problems, typed);
    }
    refuse(&mut keys::of_window(typed).into_iter(), "a NIC has no window", "mem");
    let nic = nic(problems, typed);
    if kind == "ether" {
        return resolve_ether_link(problems, typed, nic);
    }
    let local = take_value(problems, values.get("local"), LOCAL_ALLOWED, parse_local);
    let alike = alike(problems, typed);
    let port = values.get("port").map(|given| {
        let port = take_number(problems, Some(given), PORT, ports.first);
        ports.check(problems, &given.place, &format!("port {port}"), port);
        port
    });
    let ports = Ports { first: port.unwrap_or(ports.first), ..ports };
    let peers = peers(problems, typed, ports);
    check_families(problems, typed, local, &peers);
    check_not_itself(problems, typed, local, &peers, ports.first);
    Some(LinkConfig { nic: nic?, local, port, peers, ..alike })
}

fn resolve_ether_link(
    problems: &mut Vec<Problem>,
    typed: &TableSettings,
    nic: Option<String>,
) -> Option<LinkConfig> {
    let values = &typed.values;
    if let Some(place) = values.first(&["local", "peers"]) {
        let what = "Ethernet frames have no IP addresses";
        problems.push(Problem::new(place, what, "this with kind = \"udp\""));
    }
    let alike = alike(problems, typed);
    let ways = &reclaim::Method::ALL;
    let ether = EtherConfig {
        engine: take_word(problems, values.get("engine"), &Engine::ALL, Engine::name, Engine::default()),
        completion: take_word(
            problems,
            values.get("completion"),
            ways,
            reclaim::Method::name,
            reclaim::Method::default(),
        ),
    };
    if let Some(place) = values.place("completion").filter(|_| ether.engine == Engine::Packet) {
        let what = "AF_PACKET does not show when frames have left";
        problems.push(Problem::new(place, what, "this with engine = \"xdp\" or \"auto\""));
    }
    Some(LinkConfig { nic: nic?, ether: Some(ether), ..alike })
}

fn resolve_window_link(problems: &mut Vec<Problem>, typed: &TableSettings) -> Option<LinkConfig> {
    if let Some(place) = typed.values.first(&["nic", "local", "peers"]) {
        let what = "a window of memory has neither NIC nor addresses";
        problems.push(Problem::new(place, what, "this with kind = \"udp\""));
    }
    let alike = alike(problems, typed);
    let window = resolve_window(problems, &typed.place, &typed.values)?;
    Some(LinkConfig { nic: window.link_name(), window: Some(window), ..alike })
}

fn is_on(typed: &TableSettings, key: &str) -> bool {
    typed.values.get(key).is_some_and(|given| given.value)
}

/// What links of all kinds have, without a name.
fn alike(problems: &mut Vec<Problem>, typed: &TableSettings) -> LinkConfig {
    let mut link = LinkConfig {
        rate: resolve_rate(problems, &typed.values),
        weight: typed.values.get("weight").map(|given| take_number(problems, Some(given), WEIGHT, 1)),
        ..LinkConfig::default()
    };
    for key in LINK_KEYS {
        key.switch.into_iter().for_each(|switch| (switch.set)(&mut link, is_on(typed, key.name)));
    }
    link
}

fn nic(problems: &mut Vec<Problem>, typed: &TableSettings) -> Option<String> {
    let Some(nic) = typed.values.get::<String>("nic") else {
        problems.push(Problem::new(&typed.place, "no `nic` is given", "nic = \"NAME\" in each [[link]]"));
        return None;
    };
    if !is_device_name(&nic.value) {
        let what = format!("{} cannot name a network interface", quoted(&nic.value));
        problems.push(Problem::new(&nic.place, what, DEVICE_NAME_ALLOWED));
        return None;
    }
    Some(nic.value.clone())
}

fn peers(problems: &mut Vec<Problem>, typed: &TableSettings, ports: Ports) -> Vec<Peer> {
    let given = typed.values.list("peers");
    if let Some(last) = given.last().filter(|_| !PEERS.hold_count(given.len())) {
        let what = format!("{} peers are too many", given.len());
        problems.push(Problem::new(&last.place, what, PEERS.to_string()));
        return Vec::new();
    }
    let mut peers = Vec::new();
    for given in given {
        let parse = |text: &str| parse_peer(text, ports.first);
        let Some(peer) = take_value(problems, Some(given), PEER_ALLOWED, parse) else { continue };
        ports.check(problems, &given.place, &format!("peer {peer}"), peer.port());
        if peers.contains(&peer) {
            problems.push(Problem::new(&given.place, format!("{peer} is given twice"), "each peer once"));
        } else {
            peers.push(peer);
        }
    }
    let names = peers.iter().filter_map(Peer::host).count();
    if let Some(last) = given.last().filter(|_| !NAMES.hold_count(names)) {
        let what = format!("{names} names of peers are too many");
        problems.push(Problem::new(&last.place, what, format!("{NAMES} for each link")));
    }
    peers
}

/// One socket speaks one family, unless a name leaves open which.
fn check_families(problems: &mut Vec<Problem>, typed: &TableSettings, local: Option<IpAddr>, peers: &[Peer]) {
    if local.is_none() && peers.iter().any(|peer| peer.host().is_some()) {
        return;
    }
    let endpoints = || peers.iter().filter_map(Peer::address);
    let Some(first) = local.or(endpoints().next().map(|peer| peer.ip())) else { return };
    let Some(other) = endpoints().find(|peer| peer.is_ipv4() != first.is_ipv4()) else { return };
    let place = typed.values.first(&["peers"]).unwrap_or(&typed.place);
    let what = format!("peer {other} is {}, but {first} is {}", family(other.ip()), family(first));
    problems.push(Problem::new(place, what, "one family per link, for `local` and all peers"));
}

fn check_not_itself(
    problems: &mut Vec<Problem>,
    typed: &TableSettings,
    local: Option<IpAddr>,
    peers: &[Peer],
    port: u16,
) {
    let own = local.map(|local| Peer::Address(SocketAddr::new(local, port)));
    let Some(own) = own.filter(|own| peers.contains(own)) else { return };
    let place = typed.values.first(&["peers"]).unwrap_or(&typed.place);
    problems.push(Problem::new(place, format!("peer {own} is this node itself"), "endpoints of other nodes"));
}
