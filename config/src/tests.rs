//! Rules of the configuration, one sentence each; and that what is printed reads back.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use tabane_engine::fragments::Fragments;
use tabane_engine::receive;
use tabane_io::Engine;
use tabane_proto::{Class, HashLayers, Match, PolicyKind, PolicyOptions, Turn};

use super::*;
use crate::config::CIPHERS;
use crate::key::{Key, KeyError};
use crate::problem::Problem;

const ZERO_KEY: Key = Key([0; 32]);
/// The highest that leaves one for each of as many workers as there can be.
const PORT_MAX: u16 = u16::MAX - 63;

pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    resolve::resolve(&file::parse("tb.toml", text)?, |_, _| Ok(ZERO_KEY))
}

pub(super) fn problems(text: &str) -> Vec<String> {
    config(text).expect_err(text).iter().map(ToString::to_string).collect()
}

/// `line` in a link: one problem, in line 3.
pub(super) fn link_problem(line: &str) -> String {
    let found = problems(&format!("[[link]]\nnic = \"eth1\"\n{line}\n"));
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].clone()
}

/// What a file says before its link and behind the link's NIC, and the one sentence about it, from the line on; POLICIES stands for their
/// names.
#[rustfmt::skip]
const REFUSED: &[(&str, &str, &str)] = &[
    ("accept_keys = ['old']\n", "", "1: accept_keys: accepted besides which key?; allowed: with `key`, the one that this node speaks"),
    ("allow = ['node-secret:00']\n", "", "1: allow: `node-secret:00` is no public key of a node; allowed: `node-public:` and 64 hexadecimal digits, as `tabane genkey --node FILE` prints"),
    ("allow = []\n", "", "1: allow: 0 keys are allowed; allowed: 1 to 512; without a list every node of the group is let in"),
    ("allow = [1]\n", "", "1: allow: found a list; allowed: a list of public keys of nodes"),
    ("security = 'none'\nallow = ['PUBLIC']\n", "", "2: allow: no node proves its key where cells are not sealed; allowed: this with `security = \"sealed\"`"),
    ("fragments = '1'\n", "", "1: fragments: `1` is out of range; allowed: auto, gather, copy, or how many of the first are copied, such as \"3\", from 2 to 128"),
    ("receive_interval = '50 ns'\n", "", "1: receive_interval: unknown unit `ns`; allowed: a number and one of us, ms, from 1 us to 100 ms, such as \"32 us\""),
    ("spin_share = '200 %'\n", "", "1: spin_share: `200 %` is out of range; allowed: a whole number and %, from 0 % to 100 %, such as \"50 %\""),
    ("control_group = 'net admins'\n", "", "1: control_group: `net admins` is no name; allowed: 1 to 32 bytes without spaces, `:` and `/`"),
    ("mtu = 65522\n", "", "1: mtu: 65522 is out of range; allowed: auto, or 68 to 65521 bytes (the maximum of a TAP device)"),
    ("port = 0\n", "", "1: port: 0 is out of range; allowed: 1 to 65535"),
    ("workers = 65\n", "", "1: workers: 65 is out of range; allowed: 1 to 64"),
    ("tx_queue_len = -1\n", "", "1: tx_queue_len: -1 is out of range; allowed: 1 to 10000 frames"),
    ("name = 'sixteen-bytes-xx'\n", "", "1: name: `sixteen-bytes-xx` cannot name a device; allowed: 1 to 15 bytes without spaces, `/`, `:` and `%`, not `.` or `..`"),
    ("policy = 'adaptve'\n", "", "1: policy: `adaptve` is unknown (did you mean `adaptive`?); allowed: POLICIES"),
    ("security = 'noise'\n", "", "1: security: `noise` is unknown; allowed: sealed, none"),
    ("cipher = 'aes-256-gmc'\n", "", "1: cipher: `aes-256-gmc` is unknown (did you mean `aes-256-gcm`?); allowed: auto, aes-256-gcm, chacha20-poly1305, aegis-128l"),
    ("receive = 'bussy'\n", "", "1: receive: `bussy` is unknown (did you mean `busy`?); allowed: interrupt, timer, busy, adaptive"),
    ("primary = 'eth9'\n", "", "1: primary: `eth9` is no link of this bundle; allowed: the nic of a link (eth1)"),
    ("hash = 'layer4'\n", "", "1: hash: `layer4` is unknown (did you mean `layer2`?); allowed: layer2, layer2+3, layer3+4"),
    ("turn = 65\n", "", "1: turn: `65` is out of range; allowed: adaptive, or how many cells, from 0 (those of a superframe) to 64"),
    ("turn = -1\n", "", "1: turn: `-1` is out of range; allowed: adaptive, or how many cells, from 0 (those of a superframe) to 64"),
    ("turn = 'eight'\n", "", "1: turn: `eight` is out of range; allowed: adaptive, or how many cells, from 0 (those of a superframe) to 64"),
    ("port = 65535\nworkers = 2\n", "", "1: port: port 65535 leaves no port for each of 2 workers; allowed: ports up to 65534 with so many workers"),
    ("name = 'eth1'\n", "", "3: link.nic: `eth1` is the bundle's own device; allowed: another network interface"),
    ("address = ['10.9.0.1/24',\n'10.9.0.1/16']\n", "", "2: address: 10.9.0.1 is given twice; allowed: each address once"),
    ("", "weight = 2\n[[link]]\nnic = 'eth2'\n", "4: link: this link has no `weight`, but another has one; allowed: a weight for each link, or for none"),
    ("", "drained = true\n", "3: link.drained: all links are drained; allowed: one at least that is not"),
    ("", "[[class]]\nmatch = { protocol = 'icmp', port = 53 }\npolicy = 'rr'\n", "4: class.match.port: icmp has no ports; allowed: a port with protocol tcp or udp, or with none"),
    ("", "[[class]]\nmatch = { size = 256, port = 1 }\npolicy = 'rr'\n", "4: class.match.size: unknown key; allowed: max_size, dscp, protocol, port"),
    ("", "[[class]]\nmatch = { dscp = 64 }\npolicy = 'rr'\n", "4: class.match.dscp: 64 is out of range; allowed: 0 to 63"),
    ("", "[[class]]\npolicy = 'rr'\n", "3: class: nothing is given that frames must match; allowed: match = { … } with at least one of max_size, dscp, protocol, port"),
    ("", "[[class]]\nmatch = { port = 53 }\n", "3: class: no `policy` is given; allowed: policy = one of POLICIES"),
    ("", "local = '192.0.2.1'\npeers = ['[2001:db8::7]:7420']\n", "4: link.peers: peer [2001:db8::7]:7420 is IPv6, but 192.0.2.1 is IPv4; allowed: one family per link, for `local` and all peers"),
    ("", "local = '192.0.2.1'\npeers = ['office', '[2001:db8::7]:7420']\n", "4: link.peers: peer [2001:db8::7]:7420 is IPv6, but 192.0.2.1 is IPv4; allowed: one family per link, for `local` and all peers"),
    ("", "peers = ['https://office.example.net']\n", "3: link.peers: `https://office.example.net` is neither an address nor a name; allowed: ADDRESS or NAME, with or without :PORT, such as 198.51.100.7:7420, [2001:db8::7]:7420 or office.example.net:7420"),
    ("", "peers = ['192.0.2.7', '192.0.2.7:7420']\n", "3: link.peers: 192.0.2.7:7420 is given twice; allowed: each peer once"),
    ("", "peers = ['192.0.2.1']\nlocal = '192.0.2.1'\n", "3: link.peers: peer 192.0.2.1:7420 is this node itself; allowed: endpoints of other nodes"),
    ("", "[[link]]\nnic = 'eth1'\n", "3: link: nic `eth1` is used twice from the same address; allowed: each nic once, or with a `local` or `port` of its own each time"),
    ("", "[[link]]\nkind = 'ether'\nnic = 'eth1'\n", "3: link: nic `eth1` is used twice from the same address; allowed: each nic once, or with a `local` or `port` of its own each time"),
    ("", "[[link]]\n", "3: link: no `nic` is given; allowed: nic = \"NAME\" in each [[link]]"),
    ("", "rate = '100 MB/s'\n", "3: link.rate: unit `MB/s` counts bytes, not bits; allowed: a number and one of bit/s, kbit/s, Mbit/s, Gbit/s, from 1 kbit/s to 1000 Gbit/s, such as \"2.5 Gbit/s\""),
    ("", "rate = 5\n", "3: link.rate: found a whole number; allowed: a rate such as \"50 Mbit/s\", or { down = \"50 Mbit/s\", up = \"20 Mbit/s\" }"),
    ("", "rate = { down = '1 Mbit/s', over = '1 Mbit/s' }\n", "3: link.rate.over: unknown key; allowed: down, up"),
    ("", "kind = 'ether'\ncompletion = 'lazy'\nengine = 'packet'\n", "4: link.completion: AF_PACKET does not show when frames have left; allowed: this with engine = \"xdp\" or \"auto\""),
    ("", "kind = 'ether'\nlocal = 'fe80::1'\n", "4: link.local: Ethernet frames have no IP addresses; allowed: this with kind = \"udp\""),
    ("", "kind = 'ether'\nport = 9\n", "4: link.port: only links over UDP have a port of their own; allowed: this with kind = \"udp\""),
    ("", "kind = 'ehter'\n", "3: link.kind: `ehter` is unknown (did you mean `ether`?); allowed: udp, ether, mem"),
    ("", "engine = 'xdp'\n", "3: link.engine: only Ethernet frames have an engine; allowed: this with kind = \"ether\""),
    ("workers = 2\n", "kind = 'ether'\nengine = 'xdp'\n", "5: link.engine: AF_XDP serves one worker; allowed: `auto` or `packet`, or `workers = 1`"),
    ("", "unit = '4 KiB'\n", "3: link.unit: a NIC has no window; allowed: this with kind = \"mem\""),
    ("", "kind = 'mem'\npath = '/w'\n", "2: link.nic: a window of memory has neither NIC nor addresses; allowed: this with kind = \"udp\""),
];

#[test]
fn what_is_refused_is_one_sentence() {
    let (policies, public) = (classes::policy_names(), crate::key::public(&[1; 32]));
    for (before, behind, sentence) in REFUSED {
        let before = before.replace("PUBLIC", &public);
        let found = problems(&format!("{before}[[link]]\nnic = 'eth1'\n{behind}"));
        assert_eq!(found, [format!("tb.toml:{}", sentence.replace("POLICIES", &policies))]);
    }
    let none =
        "tb.toml: link: no link is given; allowed: 1 to 16 links, by tables [[link]] or flags --link NIC";
    assert_eq!(problems("mtu = 1500\n"), [none]);
    let many = "[[link]]\nnic = 'eth1'\n".repeat(17);
    assert!(
        problems(&many)[0].starts_with("tb.toml:33: link: 17 links are too many; allowed: 1 to 16 links")
    );
}

#[test]
fn a_link_is_enough() {
    let config = config("[[link]]\nnic = \"eth1\"\n").expect("valid");
    let link = LinkConfig { nic: "eth1".to_owned(), ..LinkConfig::default() };
    assert_eq!(config, Config { links: vec![link], ..Config::default() });
    assert_eq!(config.live.group(), 0);
}

#[test]
fn every_value_is_understood() {
    let text = "name = 'x'\nkey = 'k'\nport = 9000\nmtu = 65521\npolicy = 'rr'\nrepair = false\nworkers = 2\nsecurity = 'none'\n\
        address = ['10.9.0.1/24', 'fd00::1/64']\ntx_queue_len = 8\noffload.uso = false\nfragments = '3'\n\
        receive = 'timer'\nreceive_interval = '50us'\nspin_share = '5 %'\n\
        user = 'x'\ncontrol_group = 'wheel'\nwatch_group = 'adm'\nsandbox = false\n\
        [[link]]\nnic = 'eth1'\nlocal = '192.0.2.1'\npeers = ['198.51.100.7']\nrate = '2.5 Gbit/s'\n";
    let config = config(text).expect("valid");
    assert_eq!(
        (config.port, config.mtu, config.workers, config.tx_queue_len),
        (9000, Mtu::Stated(65_521), 2, 8)
    );
    assert_eq!((config.live.policy, config.repair), (PolicyKind::RoundRobin, false));
    assert_eq!(config.live.group(), ZERO_KEY.group());
    assert_eq!(config.offload, Offload { uso: false, ..Offload::default() });
    assert_eq!(config.fragments, Fragments::CopyFirst(3));
    let interval = Duration::from_micros(50);
    assert_eq!(config.live.receive, receive::Settings { method: receive::Method::Timer, interval, share: 5 });
    let [user, control_group, watch_group] = ["x", "wheel", "adm"].map(|name| Some(name.to_owned()));
    assert_eq!(config.access, Access { user, control_group, watch_group, sandbox: false });
    assert_eq!(config.links[0].peers, [Peer::Address("198.51.100.7:9000".parse().expect("an endpoint"))]);
    let both = Some(2_500_000_000);
    assert_eq!(config.links[0].rate, LinkRate { up: both, down: both });
    assert_eq!(config.live.addresses.len(), 2);
}

#[test]
fn keys_of_the_group_and_of_nodes_are_understood() {
    let public = crate::key::public(&[1; 32]);
    let keys = "key = 'new'\naccept_keys = ['old', '/etc/older']\nnode_key = 'mine'\n";
    let config = config(&format!("{keys}allow = ['{public}']\n[[link]]\nnic = 'eth1'\n")).expect("valid");
    let files: Vec<_> = config.live.accept_keys.iter().map(|(file, _)| file.as_path()).collect();
    assert_eq!(files, [Path::new("old"), Path::new("/etc/older")]);
    assert_eq!(config.live.keys().len(), 3);
    assert_eq!(config.node_key_file, Some(PathBuf::from("mine")));
    assert_eq!(config.live.allow, Some(vec![[1; 32]]));
}

#[test]
fn policies_have_options_and_classes_their_own() {
    let text = "policy = 'active-backup'\nprimary = 'eth2'\npreempt = false\nhash = 'layer2+3'\nturn = 1\n\
        [[link]]\nnic = 'eth1'\nweight = 1\n[[link]]\nnic = 'eth2'\nweight = 3\n\
        [[class]]\nmatch = { protocol = 'udp', port = 53 }\npolicy = 'duplicate'\n\
        [[class]]\nmatch = { dscp = 46, max_size = 256 }\npolicy = 'hash'\n";
    let config = config(text).expect("valid");
    let options =
        PolicyOptions { primary: Some(1), preempt: false, hash: HashLayers::Layer23, turn: Turn::Cells(1) };
    assert_eq!((config.live.policy, config.live.policy_options), (PolicyKind::ActiveBackup, options));
    assert_eq!(config.links[1].weight, Some(3));
    let [dns, voice] = &config.live.classes[..] else { panic!("two classes") };
    assert_eq!(dns.matches, Match { protocol: Some(17), port: Some(53), ..Match::default() });
    assert_eq!(voice.matches, Match { dscp: Some(46), max_size: Some(256), ..Match::default() });
    assert_eq!((dns.policy, voice.policy), (PolicyKind::Duplicate, PolicyKind::Hash));
}

#[test]
fn the_examples_of_pages_are_understood() {
    let pages = [include_str!("../../docs/guide.md"), include_str!("../../docs/two-sites.md")];
    let blocks = pages.iter().flat_map(|page| page.split("```toml\n").skip(1));
    let files: Vec<_> = blocks.filter_map(|block| block.split("```").next()).collect();
    let files: Vec<_> = files.into_iter().filter(|file| file.contains("[[link]]")).collect();
    assert_eq!(files.len(), 4);
    for file in files {
        assert_eq!(config(file).err(), None, "{file}");
    }
}

#[test]
fn frames_leave_as_they_are_where_links_are_protected_or_nothing_is_sealed() {
    let with = |top: &str, last: &str| {
        let both = "[[link]]\nnic = 'eth1'\nprotected = true\n[[link]]\nnic = 'eth2'\n";
        config(&format!("data_path = 'kernel'\n{top}\n{both}{last}"))
    };
    assert_eq!(with("security = 'none'", "").expect("valid").unprotected(), None);
    assert_eq!(with("", "protected = true").expect("valid").unprotected(), None);
    let found = with("", "").expect_err("eth2");
    assert!(found[0].to_string().contains("nothing protects link eth2; allowed: `user`"), "{found:?}");
}

#[test]
fn a_link_may_be_drained_and_not_all() {
    let two = "[[link]]\nnic = 'eth1'\ndrained = true\n[[link]]\nnic = 'eth2'\n";
    let drained: Vec<_> = config(two).expect("valid").links.iter().map(|link| link.drained).collect();
    assert_eq!(drained, [true, false]);
    let settings = file::parse("tb.toml", "[[link]]\nnic = 'eth1'\ndrained = true\n").expect("well formed");
    let in_force = resolve::resolve_in_force(&settings, |_, _| Ok(ZERO_KEY));
    assert!(in_force.is_ok_and(|config| config.links[0].drained), "it may come to that");
}

#[test]
fn all_broken_rules_are_reported() {
    assert_eq!(problems("mtu = 1\nport = 0\npolicy = 'x'\n[[link]]\nnic = 'a/b'\nrate = '1'\n").len(), 5);
}

#[test]
fn an_unusable_key_is_named_with_its_line() {
    let settings = file::parse("tb.toml", "key = '/k'\n[[link]]\nnic = 'eth1'\n").expect("well formed");
    let found =
        resolve::resolve(&settings, |path, _| Err(KeyError::NotAKey(path.to_owned()))).expect_err("no key");
    assert_eq!(
        found[0].to_string(),
        "tb.toml:1: key: /k does not hold a key; \
         allowed: a readable file with one line of 64 hexadecimal digits, as `tabane genkey FILE` writes it"
    );
}

fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = (1..=223_u8, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| IpAddr::from([a, b, c, d]));
    let v6 = any::<[u16; 7]>().prop_map(|low| {
        let [b, c, d, e, f, g, h] = low;
        IpAddr::V6(Ipv6Addr::new(0x2001, b, c, d, e, f, g, h))
    });
    prop_oneof![v4, v6]
}

fn cidr() -> impl Strategy<Value = Cidr> {
    (address(), 0..=32_u8).prop_map(|(address, prefix)| Cidr { address, prefix })
}

/// Stated for both directions, for each, for one or for none.
fn rate() -> impl Strategy<Value = LinkRate> {
    let rate = || option::of(1_000..=1_000_000_000_000_u64);
    let equal = rate().prop_map(|rate| LinkRate { up: rate, down: rate });
    prop_oneof![equal, (rate(), rate()).prop_map(|(up, down)| LinkRate { up, down })]
}

/// Windows whose path is still to be chosen.
fn window() -> impl Strategy<Value = WindowConfig> {
    let sizes = (9..=16_u32, 17..=30_u32);
    (sizes, 2..=256_u16, option::of(0..2_u16), 1..=100_000_u64).prop_map(
        |((unit, ring), slots, slot, poll)| {
            let (unit, ring, poll) = (1 << unit, 1 << ring, Duration::from_micros(poll));
            WindowConfig { path: String::new(), unit, ring, slots, slot, poll }
        },
    )
}

/// Links with NICs of their own, or windows; a local address appears with peers of its family only.
fn links() -> impl Strategy<Value = Vec<LinkConfig>> {
    let peers = btree_map(address(), 1..=PORT_MAX, 0..4);
    let link = (
        (option::of(address()), option::weighted(0.2, 1..=PORT_MAX)),
        (peers, btree_map("[a-z0-9_]{1,9}(-?[a-z0-9]{1,9}){0,2}\\.[a-z]{2,5}\\.?", 1..=PORT_MAX, 0..3)),
        rate(),
        option::weighted(0.8, 1..=1_000_u32),
        option::weighted(0.2, window()),
        option::weighted(0.2, proptest::sample::select(&[Engine::Auto, Engine::Packet][..])),
    );
    btree_map("[a-z]{1,15}", link, 1..=16).prop_map(|links| {
        let weigh = links.values().all(|(_, _, _, weight, ..)| weight.is_some());
        let last = links.keys().next_back().cloned();
        let links =
            links.into_iter().map(|(nic, ((local, port), (peers, names), rate, weight, window, engine))| {
                let drained = rate.up.is_some() && last.as_ref() != Some(&nic);
                let protected = rate.down.is_some();
                let weight = weight.filter(|_| weigh);
                let alike = LinkConfig { nic, rate, weight, drained, protected, ..LinkConfig::default() };
                if let Some(window) = window {
                    let window = WindowConfig { path: format!("/dev/shm/{}", alike.nic), ..window };
                    return LinkConfig { nic: format!("mem:{}", window.path), window: Some(window), ..alike };
                }
                if let Some(engine) = engine {
                    let ether = EtherConfig { engine, ..EtherConfig::default() };
                    return LinkConfig { ether: Some(ether), ..alike };
                }
                let first = local.or(peers.keys().next().copied());
                let ours = |peer: &IpAddr| {
                    Some(*peer) != local && first.map(|one| one.is_ipv4()) == Some(peer.is_ipv4())
                };
                let addresses = peers.into_iter().filter(|(peer, _)| ours(peer)).map(SocketAddr::from);
                let names = names.into_iter().map(|(host, port)| Peer::Name { host, port });
                let peers: Vec<_> = addresses.map(Peer::Address).chain(names).collect();
                let local = local.filter(|_| !peers.is_empty());
                LinkConfig { local, port, peers, ..alike }
            });
        links.collect()
    })
}

/// Policies, with a primary by its place among the links.
fn policies() -> impl Strategy<Value = (PolicyKind, PolicyOptions, Vec<Class>)> {
    let kind = || prop::sample::select(&PolicyKind::ALL[..]);
    let hash = prop::sample::select(&HashLayers::ALL[..]);
    let turn = prop_oneof![
        Just(Turn::Adaptive),
        Just(Turn::Superframe),
        (1..=Turn::CELLS_MAX).prop_map(Turn::Cells),
    ];
    let options = (option::of(0..16_u8), any::<bool>(), hash, turn)
        .prop_map(|(primary, preempt, hash, turn)| PolicyOptions { primary, preempt, hash, turn });
    let ends = (14..=u16::MAX, option::of(1..=u16::MAX));
    let above = (option::of(0..64_u8), option::of(prop::sample::select(&[6, 17][..])));
    let class = (ends, above, kind()).prop_map(|((max_size, port), (dscp, protocol), policy)| Class {
        matches: Match { max_size: Some(max_size), dscp, protocol, port },
        policy,
    });
    (kind(), options, vec(class, 0..4))
}

fn any_config() -> impl Strategy<Value = Config> {
    let numbers = (1..=65_000_u16, 68..=65_521_u16, 1..=64_u16, 1..=10_000_u32);
    let method = prop::sample::select(&receive::Method::ALL[..]);
    let receive = (method, 1..=100_000_u64, 0..=100_u8).prop_map(|(method, micros, share)| {
        receive::Settings { method, interval: Duration::from_micros(micros), share }
    });
    let fragments = prop_oneof![
        Just(Fragments::default()),
        Just(Fragments::ScatterGather),
        Just(Fragments::CopyAll),
        (2..=128_usize).prop_map(Fragments::CopyFirst),
    ];
    let words = ("[A-Z][!-$&-.0-9;-~]{0,14}", option::of("/[ -~]{1,30}"), policies(), receive, fragments);
    let names = || option::of("[!-.0-9;-~]{1,32}");
    let access = (names(), names(), names(), any::<bool>());
    let addresses = vec(cidr(), 0..4).prop_filter("distinct", |cidrs| {
        (1..cidrs.len()).all(|at| cidrs[..at].iter().all(|before| before.address != cidrs[at].address))
    });
    (numbers, words, access, addresses, any::<[bool; 7]>(), links()).prop_map(
        |(numbers, words, access, addresses, switches, links)| {
            let (port, bytes, workers, tx_queue_len) = numbers;
            let mtu = if bytes % 4 == 0 { Mtu::Auto } else { Mtu::Stated(bytes) };
            let [sealed, repair, gso, gro, tso, uso, checksum] = switches;
            let (name, key_file, (policy, mut policy_options, classes), receive, fragments) = words;
            policy_options.primary = policy_options.primary.filter(|link| usize::from(*link) < links.len());
            let offload = Offload { gso, gro, tso, uso, checksum };
            let key = key_file.is_some().then_some(ZERO_KEY);
            let accept_keys = key.iter().map(|key| (PathBuf::from("old.key"), key.clone())).collect();
            let key_file = key_file.map(PathBuf::from);
            let node_key_file = key_file.clone().filter(|_| sealed);
            let node_key = node_key_file.as_ref().map(|_| ZERO_KEY);
            let allow = (sealed && repair).then(|| vec![[1; 32], ZERO_KEY.public()]);
            let cipher = CIPHERS[usize::from(port) % CIPHERS.len()];
            let security = if sealed { Security::Sealed } else { Security::None };
            let data_paths = if sealed { &[DataPath::Auto, DataPath::User][..] } else { &DataPath::ALL };
            let data_path = data_paths[usize::from(bytes) % data_paths.len()];
            let reorder = Reordering::ALL[usize::from(bytes) % 2];
            let (user, control_group, watch_group, sandbox) = access;
            let access = Access { user, control_group, watch_group, sandbox };
            let fixed = FixedConfig {
                name,
                node_key,
                node_key_file,
                port,
                mtu,
                repair,
                fragments,
                workers,
                data_path,
                reorder,
                security,
                cipher,
                access,
                tx_queue_len,
                offload,
            };
            let live = LiveConfig {
                key,
                key_file,
                accept_keys,
                allow,
                policy,
                policy_options,
                classes,
                receive,
                addresses,
            };
            Config { fixed, live, links }
        },
    )
}

proptest! {
    #[test]
    fn a_printed_config_reads_back(want in any_config()) {
        let text = want.to_string();
        prop_assert_eq!(config(&text), Ok(want), "{}", text);
    }
}
