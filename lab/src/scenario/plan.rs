//! What a scenario is: a file's keys by serde, every default filled in, and what follows from them.
//!
//! Hosts, links and flows count from 0 here; in files they count from 1, as the names of namespaces and NICs do.

use tabane_io::Engine;
use tabane_kit::workload::app::App;
use tabane_proto::{HashLayers, Turn};

use super::contestant::{Contestant, With};
use super::figure::Figure;
use super::trace::Trace;
use super::units::{Form, FromOne, IfGiven, Rate, Share, Size, Time, named};
use crate::prelude::*;

/// Most of each that a file may ask for, which is also what its places can be trusted with.
pub(super) const LINKS_MAX: usize = 8;
pub(super) const FLOWS_MAX: usize = 32;
pub(super) const FAULTS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) about: String,
    #[serde(rename = "in")]
    pub(super) places: Vec<Place>,
    pub(super) hosts: u8,
    /// How long nothing is sent before flows begin.
    #[serde(with = "Time")]
    pub(super) quiet: Duration,
    #[serde(with = "Time")]
    pub(super) duration: Duration,
    /// The first part of that, which counts neither for speed nor for stalls; there once the file has been read.
    #[serde(with = "IfGiven::<Time>")]
    pub(super) warm_up: Option<Duration>,
    /// Runs of each contestant in each place; run i draws its random numbers from seed + i.
    pub(super) repeats: u32,
    pub(super) seed: u64,
    pub(super) in_turn: bool,
    pub(super) random_faults: u32,
    /// Whether the kernel's netem makes the flaws of links, in place of the lab's wires.
    pub(super) netem: bool,
    /// Figures that the table has; none: the usual ones.
    pub(super) show: Vec<Figure>,
    pub(super) contestants: Vec<Contestant>,
    pub(super) bundle: BundleOptions,
    #[serde(rename = "link")]
    pub(super) links: Vec<Link>,
    #[serde(rename = "flow")]
    pub(super) flows: Vec<Flow>,
    #[serde(rename = "fault")]
    pub(super) faults: Vec<Fault>,
    #[serde(rename = "want")]
    pub(super) wants: Vec<Want>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    /// The deterministic simulator: the bundle's own code, on made-up links
    Sim,
    /// Real daemons and this machine's kernel, in network namespaces
    Namespaces,
    /// The same with Debian's kernel, in a virtual machine (see `make vm-setup`)
    Guest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct BundleOptions {
    pub(super) sealed: bool,
    pub(super) repair: bool,
    #[serde(with = "HashLayers")]
    pub(super) hash: HashLayers,
    #[serde(with = "Turn")]
    pub(super) turn: Turn,
    #[serde(with = "IfGiven::<FromOne<u8>>")]
    pub(super) primary: Option<u8>,
    pub(super) preempt: bool,
    #[serde(with = "Method")]
    pub(super) receive: Method,
    #[serde(with = "Over")]
    pub(super) over: Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Over {
    #[default]
    Udp,
    Ether(Engine),
}

/// A link between all hosts, the same in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// So many alike; 1 once the file has been read.
    #[serde(default = "one", skip_serializing)]
    pub(super) count: u8,
    /// Bits per second.
    #[serde(with = "Rate")]
    pub(super) rate: u64,
    #[serde(default, with = "Time")]
    pub(super) delay: Duration,
    #[serde(default, with = "Time")]
    pub(super) jitter: Duration,
    #[serde(default, with = "Share")]
    pub(super) loss: Share,
    #[serde(default, with = "Share")]
    pub(super) corruption: Share,
    #[serde(default = "mtu")]
    pub(super) mtu: u16,
    /// Most bytes that a NIC sends at once; `None`: as a NIC of that rate, frame by frame below 1 Gbit/s.
    #[serde(default, with = "IfGiven::<Size>")]
    pub(super) burst: Option<u64>,
    #[serde(rename = "coalesce")]
    pub(super) coalescing: Option<Coalescing>,
    pub(super) router: Option<Router>,
}

/// A router's queue behind the NICs, the same in each direction; it drops its tail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Router {
    /// Bits per second, unless it follows a trace.
    #[serde(default, with = "IfGiven::<Rate>")]
    pub(super) rate: Option<u64>,
    pub(super) trace: Option<Trace>,
    /// Time of its rate for which may wait.
    #[serde(with = "Time")]
    pub(super) queue: Duration,
    #[serde(default, rename = "nat")]
    pub(super) translates: bool,
}

impl Router {
    /// Bits per second; with a trace its mean.
    pub(super) fn rate(&self) -> u64 {
        self.trace.as_ref().map(Trace::mean).or(self.rate).unwrap_or(1)
    }

    /// Bytes that may wait, at least two of the largest Ethernet frames that are usual.
    pub(super) fn queue_bytes(&self) -> u64 {
        let bytes = u128::from(self.rate()) * self.queue.as_nanos() / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(2 * 1_514)
    }
}

/// What can change of a link while it is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quality {
    /// Bits per second.
    pub(super) rate: u64,
    /// The same of the router's queue behind it.
    pub(super) router: Option<u64>,
    pub(super) delay: Duration,
    /// The most that is added to it at random, without changing the order of frames.
    pub(super) jitter: Duration,
    pub(super) loss: Share,
    /// Share of the frames in which a bit is flipped.
    pub(super) corruption: Share,
}

/// How NICs interrupt: after so many frames, or so long after the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Coalescing {
    pub(super) frames: u16,
    #[serde(with = "Time")]
    pub(super) wait: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    pub(super) kind: FlowKind,
    #[serde(default, with = "FromOne::<u8>")]
    pub(super) from: u8,
    #[serde(default = "one", with = "FromOne::<u8>")]
    pub(super) to: u8,
    #[serde(default = "one")]
    pub(super) count: u8,
    #[serde(default)]
    pub(super) all: bool,
    /// The link over which it goes by itself, past the contestant.
    #[serde(default, with = "IfGiven::<FromOne<u8>>")]
    pub(super) bare: Option<u8>,
    #[serde(default, with = "IfGiven::<Size>")]
    pub(super) size: Option<u64>,
    /// Datagrams a second, and the payload of each.
    pub(super) pps: Option<u32>,
    pub(super) bytes: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FlowKind {
    /// A connection that sends as much as it can, with CUBIC.
    Tcp,
    /// A stream of QUIC that sends as much as it can, with CUBIC.
    Quic,
    /// A connection that sends so many bytes and ends.
    File,
    /// Datagrams at a steady pace.
    Udp,
    /// One byte there and back, again and again.
    PingPong,
    /// Clients of an application: files of nginx, PostgreSQL, Redis, and nfs-ganesha.
    WebLarge,
    WebSmall,
    Database,
    Store,
    Nfs,
}

/// Something that goes wrong with a link or a daemon for a while. Times count from the start of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// Of kinds that concern a link.
    #[serde(default, with = "IfGiven::<FromOne<usize>>")]
    pub(super) link: Option<usize>,
    #[serde(with = "Time")]
    pub(super) begins: Duration,
    /// `None`: it lasts until the end.
    #[serde(default, with = "IfGiven::<Time>")]
    pub(super) ends: Option<Duration>,
    /// Of kinds that concern one host; `None`: the first.
    #[serde(default, with = "IfGiven::<FromOne<u8>>")]
    pub(super) host: Option<u8>,
    /// Of the kind of the same name, as are the others.
    #[serde(default, with = "IfGiven::<Rate>")]
    pub(super) rate: Option<u64>,
    #[serde(default, with = "IfGiven::<Time>")]
    pub(super) delay: Option<Duration>,
    #[serde(default, with = "IfGiven::<Time>")]
    pub(super) jitter: Option<Duration>,
    #[serde(default, with = "IfGiven::<Share>")]
    pub(super) loss: Option<Share>,
    #[serde(default, with = "IfGiven::<Share>")]
    pub(super) corruption: Option<Share>,
    #[serde(default, with = "IfGiven::<PolicyKind>")]
    pub(super) policy: Option<PolicyKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    /// Nothing passes, carrier stays.
    BlackHole,
    /// Nothing passes that a host sends.
    OneWay,
    Cable,
    /// In place of the link's own.
    Rate,
    /// On top of the link's own, as jitter.
    Delay,
    Jitter,
    /// In place of the link's own, as corruption.
    Loss,
    Corruption,
    NicDown,
    /// The NIC of a host vanishes, and comes back under another index.
    NicGone,
    LinkOut,
    Killed,
    /// The daemon of a host does not get to run.
    Halted,
    /// It gets another policy, which stays.
    Policy,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Want {
    /// One verdict of this name judges all that is meant; `None`: there is one for each.
    pub(super) name: Option<String>,
    pub(super) figure: Figure,
    /// The flow; `None`: each that has the figure.
    #[serde(default, with = "IfGiven::<FromOne<usize>>")]
    pub(super) flow: Option<usize>,
    /// Whose; `None`: everyone's but the best link's.
    pub(super) contestant: Option<Contestant>,
    /// Where; `None`: wherever it ran.
    #[serde(rename = "in")]
    pub(super) place: Option<Place>,
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
    /// Most that the figure may differ from the base's.
    pub(super) apart: Option<f64>,
    #[serde(default)]
    pub(super) every_run: bool,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            about: String::new(),
            places: vec![Place::Sim, Place::Namespaces],
            hosts: 2,
            quiet: Duration::ZERO,
            duration: Duration::from_secs(4),
            warm_up: None,
            repeats: 3,
            seed: 1,
            in_turn: false,
            random_faults: 0,
            netem: false,
            show: Vec::new(),
            contestants: vec![Contestant::BestLink, Contestant::Bundle(PolicyKind::Adaptive, With::Nothing)],
            bundle: BundleOptions::default(),
            links: Vec::new(),
            flows: Vec::new(),
            faults: Vec::new(),
            wants: Vec::new(),
        }
    }
}

const fn one() -> u8 {
    1
}

const fn mtu() -> u16 {
    1_500
}

/// As the TOML file that would give it: every value, defaults included. `tabane-lab run FILE --check` shows it, and a report keeps it.
impl fmt::Display for Scenario {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&toml::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// The name of a value in files, which is that on the command line, too.
fn key(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

impl Place {
    pub(super) fn key(self) -> String {
        key(&self)
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Place::Sim => "simulated",
            Place::Namespaces => "measured",
            Place::Guest => "guest",
        }
    }
}

named!(Over, [Over::Udp, Over::Ether(Engine::Packet), Over::Ether(Engine::Xdp)], Over::key);

impl Over {
    const fn key(self) -> &'static str {
        match self {
            Over::Udp => "udp",
            Over::Ether(Engine::Packet) => "packet",
            Over::Ether(Engine::Xdp | Engine::Auto) => "xdp",
        }
    }

    pub(super) fn link(self, nic: &str) -> String {
        match self {
            Over::Udp => nic.to_string(),
            Over::Ether(engine) => format!("ether:{nic},engine={}", engine.name()),
        }
    }
}

impl Default for BundleOptions {
    fn default() -> BundleOptions {
        BundleOptions {
            sealed: true,
            repair: true,
            hash: HashLayers::default(),
            turn: Turn::default(),
            primary: None,
            preempt: true,
            receive: Method::default(),
            over: Over::default(),
        }
    }
}

impl FlowKind {
    pub(super) const fn app(self) -> Option<App> {
        match self {
            FlowKind::WebLarge => Some(App::WebLarge),
            FlowKind::WebSmall => Some(App::WebSmall),
            FlowKind::Database => Some(App::Database),
            FlowKind::Store => Some(App::Store),
            FlowKind::Nfs => Some(App::Files),
            _ => None,
        }
    }
}

impl FaultKind {
    pub(super) const fn is_death(self) -> bool {
        matches!(self, FaultKind::BlackHole | FaultKind::OneWay | FaultKind::Cable)
            || matches!(self, FaultKind::NicDown | FaultKind::NicGone)
    }

    pub(super) const fn is_of_host(self) -> bool {
        matches!(self, FaultKind::OneWay | FaultKind::Cable | FaultKind::NicDown | FaultKind::NicGone)
            || self.wants_daemon()
            || self.is_of_process()
    }

    pub(super) const fn is_of_process(self) -> bool {
        matches!(self, FaultKind::Killed | FaultKind::Halted)
    }

    pub(super) const fn wants_daemon(self) -> bool {
        matches!(self, FaultKind::LinkOut | FaultKind::Policy)
    }

    pub(super) const fn is_of_daemon(self) -> bool {
        self.is_of_process() || matches!(self, FaultKind::Policy)
    }
}

impl Link {
    /// What it is like when nothing is wrong.
    pub(super) fn quality(&self) -> Quality {
        let Link { rate, delay, jitter, loss, corruption, .. } = *self;
        Quality { rate, router: self.router.as_ref().map(Router::rate), delay, jitter, loss, corruption }
    }
}

impl Flow {
    pub(super) fn file_bytes(&self) -> u64 {
        self.size.unwrap_or(1)
    }

    pub(super) fn per_second(&self) -> u32 {
        self.pps.unwrap_or(1_000)
    }

    pub(super) fn payload(&self) -> u16 {
        self.bytes.unwrap_or(200)
    }

    pub(super) fn pairs(&self, hosts: u8) -> Vec<(u8, u8)> {
        let all = || (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        let pairs = if self.all {
            all().filter(|(from, to)| from != to).collect()
        } else {
            vec![(self.from, self.to)]
        };
        pairs.into_iter().flat_map(|pair| (0..self.count).map(move |_| pair)).collect()
    }
}

impl Quality {
    /// Bits per second, whoever limits them.
    pub(super) fn pace(&self) -> u64 {
        self.router.unwrap_or(self.rate).min(self.rate)
    }
}

impl Scenario {
    pub(super) fn warm_up(&self) -> Duration {
        self.warm_up.unwrap_or(self.duration / 4)
    }

    pub(super) fn has_netem(&self, contestant: Contestant) -> bool {
        self.netem || contestant == Contestant::Netem
    }

    /// The fastest link, and of those the nearest.
    pub(super) fn best_link(&self) -> usize {
        let worth = |link: &usize| {
            let quality = self.links[*link].quality();
            (quality.pace(), std::cmp::Reverse(quality.delay), std::cmp::Reverse(*link))
        };
        (0..self.links.len()).max_by_key(worth).unwrap_or_default()
    }

    pub(super) fn translates(&self, link: usize) -> bool {
        self.links[link].router.as_ref().is_some_and(|router| router.translates)
    }

    /// What is played one after the other: everything at once, or each flow alone, with its number.
    pub(super) fn turns(&self) -> Vec<(Option<usize>, Scenario)> {
        if !self.in_turn {
            return vec![(None, self.clone())];
        }
        let alone = |flow: &Flow| Scenario { flows: vec![*flow], ..self.clone() };
        self.flows.iter().enumerate().map(|(number, flow)| (Some(number), alone(flow))).collect()
    }

    pub(super) fn mbps_of_links(&self, flow: &Flow) -> f64 {
        let senders = if flow.all { self.hosts } else { 1 };
        let links =
            self.links.iter().zip(0_u8..).filter(|(_, link)| flow.bare.is_none_or(|bare| bare == *link));
        links.map(|(link, _)| link.quality().pace() as f64 / 1e6).sum::<f64>() * f64::from(senders)
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count > 1 {
            write!(out, "{} x ", self.count)?;
        }
        if self.all {
            write!(out, "{} all→all", key(&self.kind))?;
        } else {
            write!(out, "{} {}→{}", key(&self.kind), self.from + 1, self.to + 1)?;
        }
        self.bare.map_or(Ok(()), |link| write!(out, ", bare over link {}", link + 1))
    }
}
