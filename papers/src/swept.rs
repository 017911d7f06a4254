//! `tabane probe sweep` between two hosts of this machine, beside what is simulated.

use tabane_engine::fragments::Fragments;
use tabane_engine::reclaim::Method;

use crate::device::exchange::{self, Machines};
use crate::device::oc48;
use crate::device::sender::{Load, Machine, Payload, Sent};
use crate::prelude::*;

const SECONDS: &str = "0.5";

pub(super) struct Swept {
    /// Thousands of messages per second.
    pub(super) kpps: Samples,
    pub(super) mbit: Samples,
    /// Share of this machine's processors that was busy, both hosts' work together.
    pub(super) cpu: Samples,
}

impl Swept {
    pub(super) fn megabytes(&self) -> Samples {
        Samples::new("MB/s", self.mbit.values().iter().map(|mbit| mbit / 8.0).collect())
    }
}

/// Measures every combination of `flags` over the bare link, in the order of the probe's report.
pub(super) fn sweep(setting: &Setting, topology: &Topology, flags: &[&str]) -> Result<Vec<Swept>> {
    through(setting, topology, address(0, 1).into(), flags)
}

pub(super) fn through(
    setting: &Setting,
    topology: &Topology,
    there: IpAddr,
    flags: &[&str],
) -> Result<Vec<Swept>> {
    let mut swept = Vec::new();
    for _ in 0..setting.rounds {
        add_round(&mut swept, setting, topology, there, flags)?;
    }
    Ok(swept)
}

pub(super) fn add_round(
    swept: &mut Vec<Swept>,
    setting: &Setting,
    topology: &Topology,
    there: IpAddr,
    flags: &[&str],
) -> Result<()> {
    let flags: Vec<&str> = flags.iter().copied().chain(["--seconds", SECONDS]).collect();
    let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
    let report = probe.measure(&["sweep", &there.to_string()], &flags)?;
    probe.stop()?;
    let rows = report["rows"].as_array().context("rows")?;
    swept.resize_with(rows.len(), || Swept {
        kpps: Samples::new("kpps", Vec::new()),
        mbit: Samples::new("Mbit/s", Vec::new()),
        cpu: Samples::new("%", Vec::new()),
    });
    for (own, row) in swept.iter_mut().zip(rows) {
        let figure = |name| row[name].as_f64().with_context(|| format!("no {name} in {row}"));
        own.kpps.push(figure("kpps")?);
        own.mbit.push(figure("mbit")?);
        own.cpu.push(100.0 * figure("cpu")?);
    }
    Ok(())
}

pub(super) fn sweep_ethernet(setting: &Setting, mtu: u32, flags: &[&str]) -> Result<Vec<Swept>> {
    sweep(setting, &ethernet_hosts(2, mtu)?, flags)
}

/// So many hosts on gigabit Ethernet as P3 had it beside its device: one link, and NICs that neither segment nor merge.
pub(super) fn ethernet_hosts(count: usize, mtu: u32) -> Result<Topology> {
    let link = LinkPlan { mtu, ..LinkPlan::shaped(Bitrate::gbit(1)) };
    let topology = Topology::build(Plan { hosts: count, ..Plan::two_hosts(vec![link]) })?;
    for host in topology.hosts() {
        let mut ethtool = host.command("ethtool");
        process::run(ethtool.args(["-K", &nic(0), "tso", "off", "gso", "off", "gro", "off"]))?;
    }
    Ok(topology)
}

// Runs of the simulated machines, and when a figure of theirs counts as a published one.

pub(super) const ADAPTIVE: Method = Method::Adaptive(oc48::MARKS);
const PACKETS: usize = 2_000;
const MESSAGES: usize = 200;
/// What "about" leaves to a machine that is made up: a third to both sides.
const ABOUT: f64 = 1.0 / 3.0;

pub(super) fn is_about(own: f64, published: f64) -> bool {
    (own / published - 1.0).abs() <= ABOUT
}

pub(super) fn send(machine: &Machine, reclaim: Method, fragments: &Fragments, message: usize) -> Sent {
    load(machine, reclaim, fragments, Payload::Message, message)
}

pub(super) fn send_dummy(machine: &Machine, message: usize) -> Sent {
    load(machine, ADAPTIVE, &Fragments::ScatterGather, Payload::Dummy, message)
}

fn load(machine: &Machine, reclaim: Method, fragments: &Fragments, payload: Payload, message: usize) -> Sent {
    machine.send(&Load { reclaim, fragments: fragments.clone(), payload, message, packets: PACKETS })
}

/// A figure of a run that is the same each time.
pub(super) fn one(unit: &'static str, value: f64) -> Samples {
    Samples::new(unit, vec![value])
}

pub(super) fn gain(own: f64, base: f64) -> f64 {
    100.0 * (own / base - 1.0)
}

pub(super) fn exchange(
    machines: &Machines,
    message: usize,
    mtu: usize,
    connections: usize,
    rounds: usize,
) -> Samples {
    let run =
        |seed| machines.exchange(&exchange::Load { message, mtu, connections, messages: MESSAGES, seed });
    Samples::new("MB/s", (0..rounds as u64).map(run).collect())
}
