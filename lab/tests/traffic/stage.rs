//! What nearly every trial takes: the usual of `std`, errors, what it needs, and the lab's equipment. And what trials have in common:
//! topologies with running bundles, a clean end, a checked transfer.

use std::fmt;
pub(crate) use std::fs;
pub(crate) use std::net::{IpAddr, SocketAddr};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use anyhow::{Context, Result, bail, ensure};
pub(crate) use serde_json::Value;
pub(crate) use tabane_kit::bundle::{Options, address, address_v6, program};
pub(crate) use tabane_kit::prelude::*;
pub(crate) use tabane_kit::systemd::{Systemd, UNITS};
pub(crate) use tabane_kit::topology::address as address_of;
use tabane_kit::workload::ping_pong::RoundTrips;

pub(crate) use crate::case::Need::{self, Daemon, That, Tool};
pub(crate) use crate::case::{Case, DAEMON, IPERF, NOTHING};

/// Rate of an ordinary link: fast enough to be quick, slow enough for any machine.
pub(crate) const FAST: Bitrate = Bitrate::mbit(200);
pub(crate) const SLOW: Bitrate = Bitrate::mbit(20);

pub(crate) const LINKS: usize = 2;
pub(crate) const VICTIM: usize = 1;
pub(crate) const FILE: u64 = 8 << 20;
/// Longest wait for what is about to happen.
pub(crate) const WITHIN: Duration = Duration::from_secs(15);

/// Two hosts with links of these rates; their NICs have no addresses.
pub(crate) fn plan(rates: &[Bitrate]) -> Plan {
    let links = rates.iter().map(|rate| LinkPlan::shaped(*rate)).collect();
    Plan { addressed: false, ..Plan::two_hosts(links) }
}

pub(crate) fn options() -> Result<Options> {
    Ok(Options::new(&bundle::program(None)?))
}

/// The usual options, with further arguments of `tabane up`.
pub(crate) fn options_with(arguments: &[&str]) -> Result<Options> {
    Ok(Options { arguments: arguments.iter().map(ToString::to_string).collect(), ..options()? })
}

/// Runs `test` over bundles on all hosts of `plan`, and checks that they end cleanly.
pub(crate) fn with_bundles<T>(
    plan: Plan,
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<T>,
) -> Result<T> {
    let topology = Topology::build(plan)?;
    with_links(&topology, &topology.nics(), options, test)
}

/// The same over `links`, as after `--link`, on the hosts of `topology`.
pub(crate) fn with_links<T>(
    topology: &Topology,
    links: &[String],
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<T>,
) -> Result<T> {
    let mut bundles = Bundle::start_over(topology, links, options)?;
    let tested = test(topology, &mut bundles)?;
    Bundle::stop_all(bundles)?;
    for host in topology.hosts() {
        let devices = host.ip("-brief link")?;
        ensure!(!devices.contains(DEVICE), "{DEVICE} outlived its daemon in {}: {devices}", host.name());
    }
    Ok(tested)
}

pub(crate) fn ready(bundles: &mut [Bundle<'_>], links: usize) -> Result<()> {
    bundles
        .iter_mut()
        .try_for_each(|bundle| bundle.wait_until("all links", |status| status.is_ready(1, links)).map(drop))
}

/// Sends a file of random bytes, again and again until it has been asked for the end, and checks that it arrived whole and right.
pub(crate) fn send_file(
    from: &Namespace,
    to: &Namespace,
    at: IpAddr,
    bytes: u64,
) -> Result<transfer::Outcome> {
    let source = Source::random(bytes, 1);
    let outcome = Transfer::start(from, to, SocketAddr::new(at, 0), source)?.finish()?;
    ensure!(outcome.lost.is_none(), "connection to {at} lost: {outcome:?}");
    ensure!(outcome.is_whole && outcome.bytes >= bytes, "file to {at} arrived wrong: {outcome:?}");
    Ok(outcome)
}

/// Files of so many random bytes are on their way to a host of this number, one behind the other, until they are ended.
pub(crate) fn begin(from: &Namespace, to: &Namespace, number: usize, bytes: u64) -> Result<Transfer> {
    Transfer::start(from, to, SocketAddr::new(address(number), 0), Source::random(bytes, 1))
}

/// The same in each direction between the first two hosts.
pub(crate) fn begin_both_ways(topology: &Topology, bytes: u64) -> Result<[Transfer; 2]> {
    let (one, other) = (topology.host(0), topology.host(1));
    Ok([begin(one, other, 1, bytes)?, begin(other, one, 0, bytes)?])
}

/// Waits until so many more bytes of them have arrived.
pub(crate) fn more(transfer: &Transfer, bytes: u64, within: Duration) -> Result<()> {
    let before = transfer.arrived();
    wait_for("bytes of a transfer", within, || Ok((transfer.arrived() > before + bytes).then_some(())))
}

/// A file in each direction between the first two hosts.
pub(crate) fn send_both_ways(topology: &Topology, bytes: u64) -> Result<()> {
    send_file(topology.host(0), topology.host(1), address(1), bytes)?;
    send_file(topology.host(1), topology.host(0), address(0), bytes).map(drop)
}

/// A file from the first host to the second, which arrives whole whatever happens `meanwhile`.
pub(crate) fn under_a_file(
    topology: &Topology,
    bytes: u64,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<transfer::Outcome> {
    let transfer = begin(topology.host(0), topology.host(1), 1, bytes)?;
    meanwhile()?;
    whole(transfer)
}

/// What became of a file that has to arrive whole.
pub(crate) fn whole(transfer: Transfer) -> Result<transfer::Outcome> {
    let outcome = transfer.finish()?;
    ensure!(outcome.lost.is_none() && outcome.is_whole, "{outcome:?}");
    Ok(outcome)
}

/// Waits until all bundles tell of `what` on `link`, and says when each saw it.
pub(crate) fn told(bundles: &mut [Bundle<'_>], what: &str, link: usize, since_ns: u64) -> Result<Vec<u64>> {
    let seen = |bundle: &mut Bundle<'_>| {
        let status = bundle.wait_until(what, |status| status.first_event(what, link, since_ns).is_some())?;
        Ok(status.first_event(what, link, since_ns).context("an event that has gone")?.at_ns)
    };
    bundles.iter_mut().map(seen).collect()
}

pub(crate) fn tabane(host: &Namespace, words: &str) -> Result<String> {
    process::run(host.command(bundle::program(None)?).args(words.split(' ')))
}

/// Numbered datagrams from the first host to the second, for so long or until they are ended.
pub(crate) fn datagrams(topology: &Topology, pace: Pace, lasts: Duration) -> Result<Sequence> {
    let at = SocketAddr::new(address(1), 0);
    Sequence::start(topology.host(0), topology.host(1), at, pace, lasts)
}

pub(crate) fn round_trips(topology: &Topology, lasts: Duration) -> Result<RoundTrips> {
    let at = SocketAddr::new(address(1), 0);
    let trips = ping_pong::play(topology.host(0), topology.host(1), at, Stream::Tcp, lasts)?;
    ensure!(trips.count > 10, "{} round trips", trips.count);
    Ok(trips)
}

pub(crate) fn counted(bundle: &Bundle<'_>, name: &str) -> Result<u64> {
    Ok(bundle.status()?.counter(name))
}

/// What became of numbered datagrams, all of which have to arrive once, in order and right.
pub(crate) fn all_came(flow: Sequence) -> Result<sequence::Outcome> {
    let outcome = flow.finish()?;
    let wrong = outcome.doubled + outcome.overtaken + outcome.damaged;
    ensure!(outcome.lost_at_ns.is_empty() && wrong == 0, "{outcome:?}");
    Ok(outcome)
}

/// Cells that each link has sent, to all other nodes.
pub(crate) fn cells_sent(bundle: &Bundle<'_>) -> Result<Vec<u64>> {
    let status = bundle.status()?;
    let to_all = |link: usize| -> u64 {
        let paths = status.peers.iter().filter_map(|peer| peer.paths.get(link));
        paths.map(|path| path.cells_sent).sum()
    };
    Ok((0..status.links.len()).map(to_all).collect())
}

/// Lays a cable of 200 Mbit/s between NICs of two namespaces, each with its address.
pub(crate) fn lay_cable(ends: [(&Namespace, &str, &str); 2]) -> Result<()> {
    let [(one, nic, _), (other, port, _)] = ends;
    one.ip(&format!("link add {nic} type veth peer name {port} netns {}", other.name()))?;
    for (host, nic, address) in ends {
        host.ip(&format!("address add {address} dev {nic}"))?;
        host.ip(&format!("link set {nic} up"))?;
        host.tc(&format!("qdisc add dev {nic} root tbf rate 200mbit burst 256kb limit 1mb"))?;
    }
    Ok(())
}

pub(crate) fn answered(from: &Namespace, to: impl fmt::Display, count: u32) -> Result<u32> {
    let mut ping = from.command("ping");
    ping.args(["-q", "-i", "0.005", "-s", "1400", "-W", "1", "-c", &count.to_string(), &to.to_string()]);
    let said = String::from_utf8(ping.output()?.stdout)?;
    let before = said.split(" received").next().unwrap_or_default();
    before.rsplit(' ').next().unwrap_or_default().parse().with_context(|| said.clone())
}

pub(crate) fn received(topology: &Topology) -> Result<[u64; 2]> {
    received_bytes(topology.host(1), [&nic(0), &nic(1)])
}

/// What each of the first two links brings a host `meanwhile`.
pub(crate) fn brought(host: &Namespace, meanwhile: impl FnOnce() -> Result<()>) -> Result<[u64; 2]> {
    let received = || received_bytes(host, [&nic(0), &nic(1)]);
    let before = received()?;
    meanwhile()?;
    let after = received()?;
    Ok([after[0] - before[0], after[1] - before[1]])
}
