//! Hosts joined by links: every link has a NIC in each host and a switch of its own, or is a bare cable.
//!
//! ```text
//!  h1.eth1 ──tbf── s1 ──tbf── eth1.h2        Wiring::Switch: a bridge in its own namespace per link
//!  h1.eth2 ──tbf── s2 ──tbf── eth2.h2        Wiring::Cable:  h1.eth1 ── eth1.h2, two hosts only
//!                                            Wiring::Emulator: a wire with flaws in place of the bridge, two hosts
//! ```
//!
//! Each direction of each cable is shaped where it is sent: at the host's NIC and at the switch's port. A switch is
//! killed as a black hole (carrier stays, nothing comes out), a cable is pulled with loss of carrier. An emulated wire
//! is as fast as the machine until it is impaired; its host's NICs are shaped all the same.
//! Hosts and links count from 0 here; names count from 1.

mod fault;
mod link;
mod router;

pub use crate::clock::Moment;
use crate::emulator::Emulator;
use crate::machine::processors;
use crate::usual::*;
pub use link::{LinkPlan, RouterPlan};
pub use router::Pacer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    Switch,
    Cable,
    Emulator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    None,
    /// Those of each host on one of their own, in turn where there are fewer than hosts.
    Apart,
    Together,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub prefix: &'static str,
    /// Number of hosts, at least 2, at most 99.
    pub hosts: usize,
    /// The links, in the order of the hosts' NICs `eth1`, `eth2`, …; at most 99.
    pub links: Vec<LinkPlan>,
    pub wiring: Wiring,
    /// Whether NICs get an IPv4 address each; a bundle needs none, a measurement of one bare link does.
    pub addressed: bool,
    pub pinning: Pinning,
    /// Seed of what emulated wires do at random.
    pub seed: u64,
}

/// Namespaces `h1`, `h2`, … and `s1`, `s2`, … as planned; dropping it takes all of it away. One of a prefix stands at a time.
#[derive(Debug)]
pub struct Topology {
    plan: Plan,
    /// One per link, or none; they end before the namespaces in which they work.
    emulators: Vec<Emulator>,
    hosts: Vec<Namespace>,
    switches: Vec<Namespace>,
}

impl Plan {
    /// Two hosts joined by `links` through a switch each, NICs with addresses.
    pub fn two_hosts(links: Vec<LinkPlan>) -> Plan {
        Plan {
            prefix: "",
            hosts: 2,
            links,
            wiring: Wiring::Switch,
            addressed: true,
            pinning: Pinning::None,
            seed: 1,
        }
    }
}

impl Topology {
    /// Builds what is planned and waits until every link carries frames.
    pub fn build(plan: Plan) -> Result<Topology> {
        ensure!((2..=99).contains(&plan.hosts), "{} hosts: 2 to 99 are possible", plan.hosts);
        ensure!((1..=99).contains(&plan.links.len()), "{} links: 1 to 99 are possible", plan.links.len());
        ensure!(plan.wiring == Wiring::Switch || plan.hosts == 2, "a wire joins 2 hosts, not {}", plan.hosts);
        let translates = |link: &LinkPlan| link.router.is_some_and(|router| router.translates);
        let is_translated = plan.links.iter().any(translates);
        ensure!(
            !is_translated || plan.hosts == 2 && plan.addressed && plan.wiring == Wiring::Switch,
            "a router translates between 2 hosts with addresses, in the place of a switch"
        );
        let named =
            |kind: char, number: usize| Namespace::create(format!("{}{kind}{}", plan.prefix, number + 1));
        let mut hosts = (0..plan.hosts).map(|host| named('h', host)).collect::<Result<Vec<_>>>()?;
        let step = match plan.pinning {
            Pinning::None => None,
            Pinning::Apart => Some(1),
            Pinning::Together => Some(0),
        };
        if let Some(step) = step {
            let processors = processors()?;
            let places = (0..hosts.len()).map(|host| host * step % processors.len());
            hosts.iter_mut().zip(places).for_each(|(host, place)| host.pin(processors[place]));
        }
        let switches = match plan.wiring {
            Wiring::Switch | Wiring::Emulator => {
                (0..plan.links.len()).map(|link| named('s', link)).collect::<Result<Vec<_>>>()?
            }
            Wiring::Cable => Vec::new(),
        };
        let mut topology = Topology { plan, emulators: Vec::new(), hosts, switches };
        for link in 0..topology.plan.links.len() {
            link::lay(&topology, link)?;
        }
        if topology.plan.wiring == Wiring::Emulator {
            topology.emulators = link::emulate(&topology.switches, topology.plan.seed)?;
        }
        for link in 0..topology.plan.links.len() {
            link::wait_until_up(&topology, link)?;
        }
        Ok(topology)
    }

    pub fn host(&self, number: usize) -> &Namespace {
        &self.hosts[number]
    }

    pub fn hosts(&self) -> &[Namespace] {
        &self.hosts
    }

    /// The switch of `link`, or what stands in its place.
    pub fn switch(&self, link: usize) -> &Namespace {
        &self.switches[link]
    }

    /// Has arrivals at all NICs wait until some are handed over together, as a NIC that moderates its interrupts does; each switch's
    /// ports do it for the NICs behind them. Links have to have rates.
    pub fn moderate(&self) -> Result<()> {
        for (switch, plan) in self.switches.iter().zip(&self.plan.links) {
            (0..self.hosts.len()).try_for_each(|host| plan.moderate_port(switch, &port_name(host)))?;
        }
        Ok(())
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The hosts' NICs, one per link: the same names in each host.
    pub fn nics(&self) -> Vec<String> {
        (0..self.plan.links.len()).map(nic).collect()
    }

    /// A picture of two hosts for people.
    pub fn drawing(&self) -> String {
        draw(&self.plan)
    }
}

pub fn nic(link: usize) -> String {
    format!("eth{}", link + 1)
}

fn port_name(host: usize) -> String {
    format!("port{}", host + 1)
}

/// Address of `host` on the bare `link`: 10.1.LINK.HOST, a network of 24 bits per link.
pub fn address(link: usize, host: usize) -> Ipv4Addr {
    let octet = |number: usize| u8::try_from(number + 1).expect("a plan has at most 99 hosts and links");
    Ipv4Addr::new(10, 1, octet(link), octet(host))
}

fn draw(plan: &Plan) -> String {
    let mut picture = frame('┌', '┐');
    for (link, link_plan) in plan.links.iter().enumerate() {
        let hosts = if link == 0 { ["h1", "h2"] } else { ["  ", "  "] };
        picture.push_str(&row(hosts, &nic(link), &middle(link, link_plan)));
    }
    picture.push_str(&frame('└', '┘'));
    picture
}

fn row(hosts: [&str; 2], nic: &str, middle: &str) -> String {
    format!("  │ {} ├ {nic:<5}{middle}{nic:>5} ┤ {} │\n", hosts[0], hosts[1])
}

fn frame(left: char, right: char) -> String {
    format!("  {left}────{right}{:36}{left}────{right}\n", "")
}

/// What lies between the NICs, 24 characters wide.
fn middle(link: usize, plan: &LinkPlan) -> String {
    format!("{:─^24}", format!("[ s{} · {} ]", link + 1, rate(plan)))
}

fn rate(plan: &LinkPlan) -> String {
    plan.rate.map_or_else(|| "unshaped".to_string(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Bitrate;

    #[test]
    fn two_hosts_and_two_switches() {
        let plan =
            Plan::two_hosts(vec![LinkPlan::shaped(Bitrate::gbit(1)), LinkPlan::shaped(Bitrate::mbit(100))]);
        let expected = "  ┌────┐                                    ┌────┐
  │ h1 ├ eth1 ───[ s1 · 1 Gbit/s ]──── eth1 ┤ h2 │
  │    ├ eth2 ──[ s2 · 100 Mbit/s ]─── eth2 ┤    │
  └────┘                                    └────┘
";
        assert_eq!(draw(&plan), expected);
    }
}
