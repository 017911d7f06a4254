//! Who carries the flows, and how each makes one path of the links: nobody, a bundle, or the kernel.

use std::net::{Ipv4Addr, TcpStream};

use serde::{Deserializer, Serializer};
use tabane_kit::prerequisites::TEAMNL;

use super::plan::{Place, Scenario};
use super::units::{Form, named};
use crate::prelude::*;

/// How long a path of the kernel's may take to carry its first packet; LACP needs some seconds.
const CARRIES_WITHIN: Duration = Duration::from_secs(20);
const TRY_WITHIN: Duration = Duration::from_millis(500);
/// A port on which nobody listens: the refusal shows that packets come and go.
const NOBODY: u16 = 9;
const VLAN: u16 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    /// The fastest link alone; of equally fast ones the nearest.
    BestLink,
    /// The same, with the kernel's emulator in place of the lab's.
    Netem,
    Bundle(PolicyKind, With),
    Mptcp,
    Kernel(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    Nothing,
    NoRepair,
    /// The kernel path's programs carry its frames, and the reorder qdisc puts them in order.
    Order,
    /// The same, which leaves the order to TCP.
    TcpOrder,
    Programs,
    Vlan,
}

/// Bundles with something, by their names in files; others have that of their policy.
const BUNDLES: [(&str, PolicyKind, With); 5] = [
    ("unrepaired", PolicyKind::Adaptive, With::NoRepair),
    ("daemon-order", PolicyKind::Adaptive, With::Order),
    ("daemon-tcp-order", PolicyKind::Adaptive, With::TcpOrder),
    ("kernel", PolicyKind::Hash, With::Programs),
    ("vlan", PolicyKind::Adaptive, With::Vlan),
];

const KERNEL: [&str; 7] = [
    "bond-balance-rr",
    "bond-balance-tlb",
    "bond-balance-alb",
    "bond-active-backup",
    "bond-broadcast",
    "bond-802.3ad",
    "team-roundrobin",
];

pub(super) struct Way<'a> {
    pub(super) bundles: Vec<Bundle<'a>>,
    is_ordered: bool,
}

impl Way<'_> {
    pub(super) fn pids(&self) -> Vec<u32> {
        Bundle::pids(&self.bundles)
    }

    pub(super) fn reordered(&self) -> Result<Vec<(String, u64)>> {
        let mut all = Vec::new();
        for bundle in self.bundles.iter().filter(|_| self.is_ordered) {
            let counters = bundle.status()?.counters.into_iter();
            all.extend(
                counters.filter_map(|(name, count)| Some((name.strip_prefix("kernel_")?.into(), count))),
            );
        }
        Ok(all)
    }

    pub(super) fn stop(self) -> Result<()> {
        Bundle::stop_all(self.bundles)
    }
}

named!(Contestant, Contestant::all(), Contestant::key);

impl Contestant {
    pub(super) fn all() -> Vec<Contestant> {
        let policies = PolicyKind::ALL.into_iter().map(|policy| Contestant::Bundle(policy, With::Nothing));
        let bundles = policies.chain(BUNDLES.map(|(_, policy, with)| Contestant::Bundle(policy, with)));
        let further = [Contestant::Mptcp, Contestant::Netem];
        let kernel = KERNEL.map(Contestant::Kernel);
        [Contestant::BestLink].into_iter().chain(bundles).chain(further).chain(kernel).collect()
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Contestant::BestLink => "best-link",
            Contestant::Netem => "netem",
            Contestant::Bundle(policy, with) => {
                BUNDLES.iter().find(|known| known.2 == with).map_or(policy.name(), |known| known.0)
            }
            Contestant::Mptcp => "mptcp",
            Contestant::Kernel(key) => key,
        }
    }

    pub(super) const fn policy(self) -> Option<PolicyKind> {
        if let Contestant::Bundle(policy, _) = self { Some(policy) } else { None }
    }

    pub(super) fn has(self, with: With) -> bool {
        matches!(self, Contestant::Bundle(_, own) if own == with)
    }

    fn is_by_programs(self) -> bool {
        matches!(self, Contestant::Bundle(_, With::Order | With::TcpOrder | With::Programs))
    }

    pub(super) const fn is_alone(self) -> bool {
        matches!(self, Contestant::BestLink | Contestant::Netem)
    }

    pub(super) const fn uses_bare_links(self) -> bool {
        self.policy().is_none() && !matches!(self, Contestant::Kernel(_))
    }

    /// Whether it has the switches of the links joined, or pass on what they do not by themselves.
    pub(super) fn needs_switches(self) -> bool {
        let needy = ["bond-balance-tlb", "bond-balance-alb", "bond-802.3ad"];
        matches!(self, Contestant::Kernel(key) if needy.contains(&key))
    }

    pub(super) const fn stream(self) -> Stream {
        if matches!(self, Contestant::Mptcp) { Stream::Mptcp } else { Stream::Tcp }
    }

    pub(super) fn lacks_in(self, place: Place) -> Option<String> {
        match self {
            Contestant::Kernel(_) | Contestant::Netem | Contestant::Bundle(_, With::Vlan | With::Order)
                if place == Place::Namespaces =>
            {
                Some("it is compared in `guest`, whose kernel has it".into())
            }
            _ => None,
        }
    }

    pub(super) fn modules(self) -> &'static [&'static str] {
        match self {
            Contestant::Netem => &["sch_netem"],
            Contestant::Bundle(_, With::Vlan) => &["8021q"],
            Contestant::Kernel("team-roundrobin") => &["team_mode_roundrobin"],
            Contestant::Kernel(_) => &["bonding"],
            _ => &[],
        }
    }

    pub(super) fn tools(self) -> &'static [Tool] {
        match self {
            Contestant::Kernel("team-roundrobin") => &[TEAMNL],
            _ => &[],
        }
    }

    pub(super) fn address(self, scenario: &Scenario, host: u8) -> IpAddr {
        let number = usize::from(host);
        match self {
            Contestant::BestLink | Contestant::Netem => address(scenario.best_link(), number).into(),
            Contestant::Mptcp => address(0, number).into(),
            Contestant::Kernel(_) => bonding::address(number).into(),
            Contestant::Bundle(_, With::Vlan) => Ipv4Addr::new(10, 78, 0, host + 1).into(),
            Contestant::Bundle(..) => bundle::address(number),
        }
    }

    pub(super) fn start<'a>(
        self,
        topology: &'a Topology,
        scenario: &Scenario,
        daemon: &Path,
    ) -> Result<Way<'a>> {
        let is_ordered = self.has(With::Order);
        let mut way = Way { bundles: Vec::new(), is_ordered };
        match self {
            Contestant::BestLink | Contestant::Netem => {}
            Contestant::Mptcp => bonding::announce_subflows(topology)?,
            Contestant::Kernel(key) => {
                start_kernels(topology, key)?;
                wait_until_it_carries(topology, self.address(scenario, 1))?;
            }
            Contestant::Bundle(..) => {
                let over = scenario.bundle.over;
                let nics = topology.nics();
                let link = |host, (number, nic): (usize, &String)| {
                    let way = over.link(nic);
                    // Nobody is found through a router: the first host names the other, which listens.
                    match scenario.translates(number).then(|| address(number, 1)) {
                        Some(other) if host == 0 => format!("{way},peer={other}"),
                        Some(own) => format!("{way},local={own}"),
                        None => way,
                    }
                };
                let links = |host| nics.iter().enumerate().map(|nic| link(host, nic)).collect();
                way.bundles = Bundle::start_each(topology, links, &self.options(scenario, daemon))?;
            }
        }
        if self.is_by_programs() {
            Bundle::wait_for_programs(&mut way.bundles)?;
        }
        if self.has(With::Vlan) {
            for (host, number) in topology.hosts().iter().zip(0..) {
                add_vlan(host, self.address(scenario, number))?;
            }
        }
        Ok(way)
    }

    fn options(self, scenario: &Scenario, daemon: &Path) -> bundle::Options {
        let own = scenario.bundle;
        let policy = self.policy().unwrap_or_default();
        let (turn, primary) = (own.turn.to_string(), own.primary.map(|link| nic(link.into())));
        let mut words = vec!["--policy", policy.name(), "--receive", own.receive.name()];
        words.extend((!own.repair || self.has(With::NoRepair)).then_some("--no-repair"));
        match policy {
            PolicyKind::Hash => words.extend(["--hash", own.hash.name()]),
            PolicyKind::RoundRobin => words.extend(["--turn", &turn]),
            PolicyKind::ActiveBackup => {
                words.extend(primary.iter().flat_map(|nic| ["--primary", nic]));
                words.extend((!own.preempt).then_some("--no-preempt"));
            }
            _ => {}
        }
        if self.is_by_programs() {
            words.extend(["--data-path", "kernel"]);
        }
        if self.has(With::TcpOrder) {
            words.extend(["--reorder", "tcp"]);
        }
        let arguments = words.into_iter().map(str::to_owned).collect();
        let is_sealed = own.sealed && !self.is_by_programs();
        let protection = if is_sealed { Protection::LabKey } else { Protection::None };
        bundle::Options { arguments, protection, ..bundle::Options::new(daemon) }
    }
}

fn start_kernels(topology: &Topology, key: &str) -> Result<()> {
    match key.split_once('-').unwrap_or_default() {
        ("team", _) => bonding::team(topology),
        (_, "802.3ad") => bonding::lacp(topology),
        (_, mode @ ("balance-tlb" | "balance-alb")) => bonding::balancing(topology, mode),
        (_, mode) => bonding::bond(topology, mode),
    }
}

fn wait_until_it_carries(topology: &Topology, to: IpAddr) -> Result<()> {
    let at = SocketAddr::new(to, NOBODY);
    wait_for("a path that carries packets", CARRIES_WITHIN, || {
        let answer = topology.host(0).enter(|| TcpStream::connect_timeout(&at, TRY_WITHIN))?;
        let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        Ok(answer.is_err_and(refused).then_some(()))
    })
}

fn add_vlan(host: &Namespace, own: IpAddr) -> Result<()> {
    let name = format!("{DEVICE}.{VLAN}");
    host.ip(&format!("link add link {DEVICE} name {name} type vlan id {VLAN}"))?;
    host.ip(&format!("address add {own}/24 dev {name}"))?;
    host.ip(&format!("link set {name} up")).map(drop)
}

/// As in files, also in what a guest hands over.
impl Serialize for Contestant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        <Contestant as Form>::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Contestant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Contestant, D::Error> {
        <Contestant as Form>::deserialize(deserializer)
    }
}
