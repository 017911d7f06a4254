//! One case over one wire, as often as there are rounds.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::case::Case;
use tabane_kit::counters;
use tabane_kit::report::Samples;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, address, nic};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::ping_pong;
use tabane_kit::workload::sequence::{Pace, Sequence};

/// The datagrams: 4 Mbit/s, which the slowest wire carries.
const PACE: Pace = Pace { per_second: 2_000, bytes: 200 };

/// Who emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// The lab, in user space.
    Emulator,
    /// The kernel, at the ports of a switch.
    Netem,
}

/// What was measured over one wire, in some rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Median round trip of one byte in each round, in milliseconds.
    pub(super) rtt_ms: Vec<f64>,
    /// Payload of one TCP connection in each round, in Mbit/s.
    pub(super) mbps: Vec<f64>,
    /// TCP segments sent again in all of them.
    pub(super) retransmits: u64,
    /// Datagrams sent.
    pub(super) sent: u64,
    /// Of these, lost.
    pub(super) lost: u64,
}

impl Wire {
    /// Name for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Wire::Emulator => "the lab's wire",
            Wire::Netem => "netem",
        }
    }

    fn wiring(self) -> Wiring {
        match self {
            Wire::Emulator => Wiring::Emulator,
            Wire::Netem => Wiring::Switch,
        }
    }

    /// Makes both directions of the link do what `case` says, to single frames.
    fn impair(self, topology: &Topology, case: &Case) -> Result<()> {
        match self {
            Wire::Emulator => topology.impair_both(0, case.impairment()).map(drop)?,
            Wire::Netem => {
                for port in ["port1", "port2"] {
                    topology.switch(0).tc(&format!("qdisc add dev {port} root netem {}", case.netem()))?;
                }
            }
        }
        topology
            .hosts()
            .iter()
            .try_for_each(|host| host.ip(&format!("link set {} gso_max_segs 1", nic(0))).map(drop))
    }
}

impl Figures {
    /// Median of the round trips of all rounds, in milliseconds.
    pub(super) fn median_rtt_ms(&self) -> f64 {
        Samples::new("ms", self.rtt_ms.clone()).median()
    }

    /// Median of the throughputs of all rounds, in Mbit/s.
    pub(super) fn median_mbps(&self) -> f64 {
        Samples::new("Mbit/s", self.mbps.clone()).median()
    }

    /// Percent of the datagrams that were lost.
    pub(super) fn lost_percent(&self) -> f64 {
        self.lost as f64 / self.sent as f64 * 100.0
    }

    /// Measures `case` over `wire` once more.
    pub(super) fn add_round(&mut self, case: &Case, wire: Wire, seconds: u32, seed: u64) -> Result<()> {
        let wiring = wire.wiring();
        let topology = Topology::build(Plan { wiring, seed, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
        wire.impair(&topology, case)?;
        let (client, server) = (topology.host(0), topology.host(1));
        let at = SocketAddr::new(address(0, 1).into(), 0);
        let duration = Duration::from_secs(seconds.into());
        let trips = ping_pong::play(client, server, at, Stream::Tcp, duration).context("round trips")?;
        self.rtt_ms.push(trips.p50_us / 1e3);
        let datagrams =
            Sequence::start(client, server, at, PACE, duration)?.outcome().context("datagrams")?;
        self.sent += datagrams.sent;
        self.lost += datagrams.lost_at_ns.len() as u64;
        let _server = Server::start(server, Stream::Tcp)?;
        let resent = counters::protocol(client, "Tcp", "RetransSegs")?;
        self.mbps.push(Flow::tcp(at.ip(), seconds).run(client)?.gbps * 1e3);
        self.retransmits += counters::protocol(client, "Tcp", "RetransSegs")? - resent;
        Ok(())
    }
}
