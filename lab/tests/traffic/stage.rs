//! What the trials have in common: topologies with running bundles, a clean end, a checked transfer.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};
use tabane_kit::bundle::{self, Bundle, DEVICE, Options};
use tabane_kit::netns::Namespace;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::Path;
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::workload::transfer::{self, Source, Transfer};

/// Rate of an ordinary link: fast enough to be quick, slow enough for any machine.
pub(crate) const FAST: Bitrate = Bitrate::mbit(200);
/// A tenth of it.
pub(crate) const SLOW: Bitrate = Bitrate::mbit(20);

/// Two hosts with links of these rates; their NICs have no addresses.
pub(crate) fn plan(rates: &[Bitrate]) -> Plan {
    let links = rates.iter().map(|rate| LinkPlan::shaped(*rate)).collect();
    Plan { addressed: false, ..Plan::two_hosts(links) }
}

/// The options that a trial starts from.
pub(crate) fn options() -> Result<Options> {
    Ok(Options::new(&bundle::program(None)?))
}

/// Runs `test` over bundles on all hosts of `plan`, and checks that they end cleanly.
pub(crate) fn with_bundles(
    plan: Plan,
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    let topology = Topology::build(plan)?;
    with_links(&topology, &topology.nics(), options, test)
}

/// The same over `links`, as after `--link`, on the hosts of `topology`.
pub(crate) fn with_links(
    topology: &Topology,
    links: &[String],
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    let mut bundles = Bundle::start_over(topology, links, options)?;
    test(topology, &mut bundles)?;
    for bundle in bundles {
        bundle.stop()?.success("a daemon told to stop")?;
    }
    for host in topology.hosts() {
        let devices = host.ip("-brief link")?;
        ensure!(!devices.contains(DEVICE), "{DEVICE} outlived its daemon in {}: {devices}", host.name());
    }
    Ok(())
}

/// Waits until two bundles see each other over so many links.
pub(crate) fn ready(bundles: &mut [Bundle<'_>], links: usize) -> Result<()> {
    bundles
        .iter_mut()
        .try_for_each(|bundle| bundle.wait_until("all links", |status| status.is_ready(1, links)).map(drop))
}

/// Sends one file of random bytes and checks that it arrived whole and right.
pub(crate) fn send_file(
    from: &Namespace,
    to: &Namespace,
    at: IpAddr,
    bytes: u64,
) -> Result<transfer::Outcome> {
    let source = Source::random(bytes, 1);
    let outcome = Transfer::start(from, to, SocketAddr::new(at, 0), source)?.finish()?;
    ensure!(outcome.lost.is_none(), "connection to {at} lost: {outcome:?}");
    ensure!(outcome.is_whole && outcome.bytes == bytes, "file to {at} arrived wrong: {outcome:?}");
    Ok(outcome)
}

/// Whether a sound link lost next to nothing: a queueing discipline may drop a cell that a packet socket has taken.
pub(crate) fn lost_little(link: &Path) -> bool {
    link.cells_lost * 100 < link.cells_received
}

/// Whether a sound link brought cells and lost none: what finds no room waits for it.
pub(crate) fn lost_nothing(link: &Path) -> bool {
    link.cells_received > 0 && link.cells_lost == 0
}
