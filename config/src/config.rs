//! A bundle as it will run: what of it is fixed, what can change, and its links.

use std::io::Read;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tabane_engine::fragments::Fragments;
use tabane_engine::{receive, reclaim};
use tabane_io::Engine;
use tabane_proto::security::PublicKey;
use tabane_proto::{Class, PolicyKind, PolicyOptions};
use tabane_seal::Cipher;

use crate::address::{Cidr, Peer, is_ipv6_link_local};
use crate::key::Key;
use crate::mtu::Mtu;
use crate::problem::{Place, Problem};
use crate::rate::LinkRate;
use crate::settings::Settings;
use crate::window::WindowConfig;
use crate::{file, resolve};

/// UDP port of the first worker, unless another is stated.
pub const PORT: u16 = 7420;
/// Largest configuration file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A bundle as it will run: every value checked, every default filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// What cannot change while the bundle runs.
    pub fixed: FixedConfig,
    /// What can, besides the links.
    pub live: LiveConfig,
    /// The links, 1 to 16, each of which can come, change and go while the bundle runs.
    pub links: Vec<LinkConfig>,
}

/// Most of a configuration is fixed, and most of what reads one reads that part alone: a function that takes it cannot see what changes.
impl Deref for Config {
    type Target = FixedConfig;

    fn deref(&self) -> &FixedConfig {
        &self.fixed
    }
}

/// What of a bundle cannot change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedConfig {
    /// Name of the bundle and its device, at most 15 bytes.
    pub name: String,
    pub node_key: Option<Key>,
    pub node_key_file: Option<PathBuf>,
    /// UDP port of the first worker; worker i uses `port + i`, which exists. Names the node, and links may have others.
    pub port: u16,
    pub mtu: Mtu,
    /// Whether lost cells are sent again over another link.
    pub repair: bool,
    /// Which pieces of a frame are copied before the device takes it.
    pub fragments: Fragments,
    /// Workers, and queues of the device, 1 to 64.
    pub workers: u16,
    /// What carries frames: cells alone, or the kernel path as well.
    pub data_path: DataPath,
    /// What has to put in order what that spreads over links.
    pub reorder: Reordering,
    pub security: Security,
    /// The cipher; `None`: the fastest on this processor, or what the peer demands.
    pub cipher: Option<Cipher>,
    /// Rights of the running daemon, and rights over it.
    pub access: Access,
    /// Transmit queue of the device, 1 to 10,000 frames.
    pub tx_queue_len: u32,
    /// Offloads that may be used if the kernel has them.
    pub offload: Offload,
}

/// What of a bundle can change while it runs, besides its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveConfig {
    /// Key of the group: nodes that have it are let in. Needed if cells are sealed; else it only separates groups.
    pub key: Option<Key>,
    pub key_file: Option<PathBuf>,
    /// Further group keys that are accepted, each with its file: while a group changes its key.
    pub accept_keys: Vec<(PathBuf, Key)>,
    /// Public keys of the nodes that are let in, 1 to 512; `None`: all that have the group's key.
    pub allow: Option<Vec<PublicKey>>,
    /// How cells are spread over the links.
    pub policy: PolicyKind,
    /// Options of the policies; the primary is one of the links.
    pub policy_options: PolicyOptions,
    /// Frames that have another policy, at most 64 classes: the first match decides.
    pub classes: Vec<Class>,
    pub receive: receive::Settings,
    pub addresses: Vec<Cidr>,
}

/// Rights of the running daemon, and rights over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// User that the daemon becomes; `None`: `tabane` where there is such a user, else the one who started it.
    pub user: Option<String>,
    /// Group whose members may ask the running bundle, as root and the daemon's own user may.
    pub control_group: Option<String>,
    /// Group whose members may look at it and change nothing; `None`: `tabane-watch` where there is such a group.
    pub watch_group: Option<String>,
    /// Whether the daemon gives up the rights that it needs no more. `false` lets debuggers attach.
    pub sandbox: bool,
}

tabane_proto::choices! {
    /// How cells are protected on the links.
    pub Security {
        /// Encrypted and authenticated with keys that only the group can make.
        #[default]
        Sealed = "sealed",
        /// Not at all: for dedicated networks.
        None = "none",
    }
    /// What carries the frames of the device.
    pub DataPath {
        /// Programs in the kernel, as far as machine, configuration and peers allow; cells for the rest.
        Auto = "auto",
        /// The same, and no bundle without the programs.
        Kernel = "kernel",
        /// Cells alone.
        #[default]
        User = "user",
    }
    /// What has to put frames in order that the kernel path spreads over links.
    pub Reordering {
        /// The peer's kernel, by a qdisc; a peer without one gets cells.
        #[default]
        Qdisc = "qdisc",
        /// The same where there is one; else the TCP of the receiving program, as far as it goes.
        Tcp = "tcp",
    }
}

/// Offloads that may be used; each is left out when the kernel lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// `UDP_SEGMENT` on the links: many cells per send.
    pub gso: bool,
    /// `UDP_GRO` on the links: many cells per receive.
    pub gro: bool,
    /// TCP superframes on the device.
    pub tso: bool,
    /// UDP superframes on the device.
    pub uso: bool,
    /// Unfinished checksums on the device; TSO and USO need it.
    pub checksum: bool,
}

/// One link of the bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// Network interface the link is bound to; of a link through memory, `mem:` and the path.
    pub nic: String,
    /// Local address, or the one that stands for any of its family; `None` takes the NIC's IPv6 link-local address, or any of
    /// the peers' family.
    pub local: Option<IpAddr>,
    /// UDP port of its first worker; `None`: the bundle's. Only of links over UDP.
    pub port: Option<u16>,
    /// Where the other nodes listen: endpoints of one family, and names. Empty means multicast discovery, or, with a local
    /// address that routers forward to, that the link only listens.
    pub peers: Vec<Peer>,
    /// What it carries at most, as far as it is stated.
    pub rate: LinkRate,
    /// Its part of the traffic under `weighted`, 1 to 1,000; in a file given for each link or for none.
    pub weight: Option<u32>,
    /// Whether it is drained: data takes another link while one is up.
    pub drained: bool,
    /// Whether the network below encrypts and authenticates what it carries.
    pub protected: bool,
    /// For a link of Ethernet frames: what moves them. Such a link has neither a local address nor named peers.
    pub ether: Option<EtherConfig>,
    /// For a link through memory: its window. Such a link has neither a local address nor named peers.
    pub window: Option<WindowConfig>,
}

/// What moves the cells of a link of Ethernet frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtherConfig {
    /// AF_PACKET or AF_XDP.
    pub engine: Engine,
    /// How the kernel gives back frames that AF_XDP has sent.
    pub completion: reclaim::Method,
}

/// The UDP ports that this node uses where nothing else is stated: worker i has the i-th after that of the first, so there must be as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub first: u16,
    /// How many workers there are.
    pub workers: u16,
}

/// Those of a bundle of which nothing is stated.
impl Default for Ports {
    fn default() -> Ports {
        FixedConfig::default().ports()
    }
}

impl Ports {
    fn highest(self) -> u16 {
        u16::MAX - self.workers.saturating_sub(1)
    }

    /// Refuses a first worker's port, which `subject` has, when no port is left for each of the others.
    pub(super) fn check(self, problems: &mut Vec<Problem>, place: &Place, subject: &str, port: u16) {
        let (workers, highest) = (self.workers, self.highest());
        if port > highest {
            let what = format!("{subject} leaves no port for each of {workers} workers");
            problems.push(Problem::new(place, what, format!("ports up to {highest} with so many workers")));
        }
    }
}

impl LinkConfig {
    /// UDP port of its first worker in a bundle with these ports.
    pub fn first_port(&self, ports: Ports) -> u16 {
        self.port.unwrap_or(ports.first)
    }

    /// Whether both would receive at one place: over one NIC, from one address, at a port that is a worker's of both.
    pub fn collides(&self, other: &LinkConfig, ports: Ports) -> bool {
        let distance = self.first_port(ports).abs_diff(other.first_port(ports));
        self.nic == other.nic && self.local == other.local && distance < ports.workers
    }

    /// Whether peers are looked for by multicast: where none are named, over link-local addresses.
    pub fn uses_multicast(&self) -> bool {
        self.peers.is_empty() && self.local.is_none_or(is_ipv6_link_local)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.peers.iter().filter_map(Peer::host)
    }

    /// Whether it is the same link as another, which may have another rate, other peers, and the like.
    pub fn is_same(&self, other: &LinkConfig) -> bool {
        self.nic == other.nic && self.local == other.local && self.port == other.port
    }

    /// Whether cells take the same way as over another link of its name: a slot that one of them leaves open is no other.
    pub fn runs_over_same(&self, other: &LinkConfig) -> bool {
        let windows = match (&self.window, &other.window) {
            (Some(one), Some(two)) => {
                let bare = |window: &WindowConfig| WindowConfig { slot: None, ..window.clone() };
                let slots = one.slot.is_none() || two.slot.is_none() || one.slot == two.slot;
                slots && bare(one) == bare(two)
            }
            (one, two) => one == two,
        };
        windows && self.ether == other.ether
    }

    /// Whether its socket takes IPv4 and IPv6: where a name leaves open which its peers have.
    pub fn takes_both_families(&self) -> bool {
        self.local.is_none() && self.names().next().is_some()
    }

    /// Whether its socket takes IPv4 alone.
    pub fn is_ipv4(&self) -> bool {
        let is_first_peer_ipv4 =
            || self.peers.iter().find_map(Peer::address).is_some_and(|peer| peer.is_ipv4());
        !self.takes_both_families() && self.local.map_or_else(is_first_peer_ipv4, |local| local.is_ipv4())
    }

    /// Whether its socket reaches addresses of this family.
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.takes_both_families() || address.is_ipv4() == self.is_ipv4()
    }
}

impl Config {
    pub fn lowest_port(&self) -> u16 {
        let links = self.links.iter().filter_map(|link| link.port);
        links.fold(self.port, u16::min)
    }

    /// A link over which no frame may leave as it is.
    pub fn unprotected(&self) -> Option<&LinkConfig> {
        self.links.iter().find(|link| self.needs_cells(link))
    }

    /// Reads the file, if one is given, lays `flags` over it, checks everything and reads the key.
    pub fn load(file: Option<&Path>, flags: Settings) -> Result<Config, Vec<Problem>> {
        match file {
            Some(path) => Config::read_text(path, &read(path, &path.display().to_string())?, flags),
            None => Config::checked(&flags),
        }
    }

    /// The same of `text`, the content of the file at `path`.
    pub fn read_text(path: &Path, text: &str, flags: Settings) -> Result<Config, Vec<Problem>> {
        Config::checked(&file::parse(&path.display().to_string(), text)?.overlaid(flags))
    }

    fn checked(settings: &Settings) -> Result<Config, Vec<Problem>> {
        let config = resolve::resolve(settings, Key::read)?;
        config.check_key(settings).map_or(Ok(config), |problem| Err(vec![problem]))
    }

    /// Requires the group's key, unless the user says that cells are not to be sealed.
    fn check_key(&self, settings: &Settings) -> Option<Problem> {
        const ALLOWED: &str = "a key file that `tabane genkey FILE` has made, the same on every node, or `--insecure` \
             (`security = \"none\"`) on networks of your own";
        let key = if settings.file.is_some() { "key" } else { "--key" };
        let place = Place { file: settings.file.clone(), line: None, key: key.to_owned() };
        let lacks = self.security == Security::Sealed && self.live.key.is_none();
        lacks.then(|| Problem::new(&place, "no key is given", ALLOWED))
    }

    pub fn names_peers(&self) -> bool {
        self.links.iter().any(|link| link.names().next().is_some())
    }
}

impl Access {
    /// What a configuration file says of it.
    pub fn read(path: &Path) -> Result<Access, Vec<Problem>> {
        let name = path.display().to_string();
        resolve::resolve_access(&file::parse(&name, &read(path, &name)?)?)
    }
}

impl FixedConfig {
    pub fn ports(&self) -> Ports {
        Ports { first: self.port, workers: self.workers }
    }

    /// Whether frames may not leave over a link as they are: they are to be sealed, and nothing below protects them.
    pub fn needs_cells(&self, link: &LinkConfig) -> bool {
        self.security == Security::Sealed && !link.protected
    }
}

impl LiveConfig {
    /// All group keys, first the one that this node sends with; none without a key.
    pub fn keys(&self) -> Vec<Key> {
        self.key.iter().chain(self.accept_keys.iter().map(|(_, key)| key)).cloned().collect()
    }

    /// Other keys take their place, the first of which this node sends with; their files are not known.
    pub fn set_keys(&mut self, keys: &[Key]) {
        self.key = keys.first().cloned();
        self.key_file = None;
        self.accept_keys = keys.iter().skip(1).map(|key| (PathBuf::new(), key.clone())).collect();
    }

    /// The number of the group on the wire: from the key, or 0 without one.
    pub fn group(&self) -> u64 {
        self.key.as_ref().map_or(0, Key::group)
    }
}

impl Default for FixedConfig {
    fn default() -> FixedConfig {
        FixedConfig {
            name: "tb0".to_owned(),
            node_key: None,
            node_key_file: None,
            port: PORT,
            mtu: Mtu::default(),
            repair: true,
            fragments: Fragments::default(),
            workers: 1,
            data_path: DataPath::default(),
            reorder: Reordering::default(),
            security: Security::default(),
            cipher: None,
            access: Access::default(),
            tx_queue_len: 1_000,
            offload: Offload::default(),
        }
    }
}

impl Default for Access {
    fn default() -> Access {
        Access { user: None, control_group: None, watch_group: None, sandbox: true }
    }
}

impl Default for Offload {
    fn default() -> Offload {
        Offload { gso: true, gro: true, tso: true, uso: true, checksum: true }
    }
}

/// What `cipher` may be.
pub(crate) const CIPHERS: [Option<Cipher>; 4] =
    [None, Some(Cipher::Aes256Gcm), Some(Cipher::ChaCha20Poly1305), Some(Cipher::Aegis128L)];

/// The name of a choice of a cipher in files and flags.
pub(crate) fn cipher_name(cipher: Option<Cipher>) -> &'static str {
    cipher.map_or("auto", Cipher::name)
}

/// The text of the file at `path`, which the user named `file`.
pub fn read(path: &Path, file: &str) -> Result<String, Vec<Problem>> {
    let place = Place { file: Some(file.into()), ..Place::default() };
    let problem = |what: String, allowed: &str| vec![Problem::new(&place, what, allowed)];
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|source| source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| problem(format!("cannot be read: {error}"), "a readable TOML file"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(problem("the file is too large".to_owned(), "at most 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| problem("the file is not text".to_owned(), "TOML in UTF-8"))
}
