//! Two sites over two uplinks: one behind routers that translate its addresses, the other with addresses of its own, which
//! have names.
//!
//! ```text
//!  a.eth1 10.1.1.1 ── 10.1.1.254 r1 203.0.1.254 ── 203.0.1.1 eth1.b
//!  a.eth2 10.1.2.1 ── 10.1.2.254 r2 203.0.2.254 ── 203.0.2.1 eth2.b
//! ```
//!
//! Site `a` is set up as docs/two-sites.md says: a table of routes for each uplink, chosen by the source address, with a
//! strict reverse path filter.

use std::collections::BTreeSet;

use tabane_kit::prerequisites::CONNTRACK;
use tabane_kit::sandbox::Hosts;
use tabane_kit::status::paths_up;

use crate::traffic::faults::within;
use crate::traffic::stage::*;

/// The longest time without a byte when routers forget all ports, in the median of the changes, and in the one that others who use the
/// CPUs have stalled.
const OUTAGE_MAX: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
const ROUNDS: usize = 3;
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Pings of a change of ports: one each 10 ms for 2 s.
const PINGS: [&str; 5] = ["-q", "-i", "0.01", "-c", "200"];

pub(crate) const NAT: &[Need] = &[Daemon, Tool(NFT), Tool(CONNTRACK), That(require_nat)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("two_sites_carry_on_when_nat_takes_other_ports", NAT, ports),
        Case::new("two_sites_behind_nat_reach_each_other_through_a_third", NAT, relayed),
        Case::new("two_uplinks_to_a_site_of_one_address_are_two_links", NAT, || one_address([7420; LINKS])),
        // Exercises: link.port =
        Case::new("two_uplinks_to_a_site_of_two_ports_are_two_links", NAT, || one_address([7420, 7430])),
        Case::new("a_peer_whose_address_and_name_change_is_back_within_5_s", NAT, renamed),
    ]
}

fn require_nat() -> Result<()> {
    translate(&Namespace::create("n1")?, "lo").context("the kernel translates no addresses")
}

struct Sites {
    /// Those behind the routers, and last the other.
    ends: Vec<Namespace>,
    routers: Vec<Namespace>,
}

fn uplink(end: usize, link: usize) -> String {
    if end == 0 { format!("10.1.{}.1", link + 1) } else { format!("203.0.{}.1", link + 1) }
}

fn gateway(end: usize, link: usize) -> String {
    format!("{}254", uplink(end, link).trim_end_matches(|digit| digit != '.'))
}

fn name(link: usize) -> String {
    format!("office-{}.example.net", link + 1)
}

fn lay(behind: &[&str]) -> Result<Sites> {
    let ends: Vec<_> =
        behind.iter().chain(&["b1"]).map(|name| Namespace::create(*name)).collect::<Result<_>>()?;
    let (public, behind) = ends.split_last().context("ends")?;
    let mut routers = Vec::new();
    for link in 0..LINKS {
        let site = &behind[link % behind.len()];
        let router = Namespace::create(format!("r{}", link + 1))?;
        router.set("net/ipv4/ip_forward", "1")?;
        for (number, (end, port)) in [(site, "in"), (public, "out")].into_iter().enumerate() {
            let [own, other] = [uplink(number, link), gateway(number, link)].map(|end| format!("{end}/24"));
            lay_cable([(end, &nic(link), &own), (&router, port, &other)])?;
        }
        policy_route(site, link)?;
        translate(&router, "out")?;
        routers.push(router);
    }
    Ok(Sites { ends, routers })
}

fn policy_route(host: &Namespace, link: usize) -> Result<()> {
    let (nic, table, from) = (nic(link), 101 + link, uplink(0, link));
    let gateway = gateway(0, link);
    host.set(&format!("net/ipv4/conf/{nic}/rp_filter"), "1")?;
    host.ip(&format!("route add default via {gateway} dev {nic} metric {table}"))?;
    host.ip(&format!("route add default via {gateway} dev {nic} table {table}"))?;
    host.ip(&format!("rule add from {from} table {table}")).map(drop)
}

fn translate(router: &Namespace, port: &str) -> Result<()> {
    nft(router, "add table ip nat")?;
    nft(router, "add chain ip nat post { type nat hook postrouting priority 100 ; }")?;
    nft(router, &format!("add rule ip nat post oifname {port} masquerade fully-random"))
}

fn nft(host: &Namespace, command: &str) -> Result<()> {
    process::run(host.command("nft").arg(command)).map(drop)
}

impl Sites {
    fn start(&self, listening: &[String]) -> Result<Vec<Bundle<'_>>> {
        let greeting: Vec<_> =
            (0..LINKS).map(|link| format!("{},peer={}:7420", nic(link), name(link))).collect();
        let options = options()?;
        [&greeting[..], listening]
            .into_iter()
            .zip(&self.ends)
            .enumerate()
            .map(|(number, (links, host))| Bundle::start(host, number, links, &options))
            .collect()
    }

    fn forget_ports(&self) -> Result<()> {
        self.routers
            .iter()
            .try_for_each(|router| process::run(router.command("conntrack").arg("-F")).map(drop))
    }
}

fn endpoints(bundle: &Bundle<'_>) -> Result<Vec<String>> {
    Ok(bundle.status()?.peers[0].paths.iter().map(|path| path.endpoint.clone()).collect())
}

fn ports() -> Result<()> {
    let sites = lay(&["a1"])?;
    let hosts = Hosts::begin()?;
    let (names, ends): (Vec<_>, Vec<_>) = (0..LINKS).map(|link| (name(link), uplink(1, link))).unzip();
    let entries: Vec<_> = names.iter().map(String::as_str).zip(ends.iter().map(String::as_str)).collect();
    hosts.set(&entries)?;
    let listening: Vec<_> =
        (0..LINKS).map(|link| format!("{},local={}", nic(link), uplink(1, link))).collect();
    let mut bundles = sites.start(&listening)?;
    ready(&mut bundles, LINKS)?;
    for (link, endpoint) in endpoints(&bundles[0])?.iter().enumerate() {
        ensure!(*endpoint == format!("{}:7420", uplink(1, link)), "{endpoint} in place of {}", name(link));
    }
    let (a, b) = (&sites.ends[0], &sites.ends[1]);
    send_file(a, b, address(1), FILE)?;
    send_file(b, a, address(0), FILE)?;
    let (mut outages, mut lost) = (Vec::new(), Vec::new());
    for way in [(0, 1), (1, 0)].repeat(ROUNDS) {
        let (outage, pings) = change_ports(&sites, &bundles, way)?;
        outages.push(outage);
        lost.push(pings);
    }
    println!("ports change: outages {outages:?}, pings lost {lost:?}");
    lost.sort_unstable();
    ensure!(lost[ROUNDS] == 0, "pings lost: {lost:?}");
    within("no byte for", outages, OUTAGE_MAX)?;
    ready(&mut bundles, LINKS)?;
    Bundle::stop_all(bundles)
}

/// All ports change in the middle of a transfer: the longest time without a byte of it, and how many pings were lost.
fn change_ports(
    sites: &Sites,
    bundles: &[Bundle<'_>],
    (from, to): (usize, usize),
) -> Result<(Duration, u64)> {
    let before = endpoints(&bundles[1])?;
    let transfer = begin(&sites.ends[from], &sites.ends[to], to, FILE)?;
    let mut command = sites.ends[0].command("ping");
    let pings = Process::start({
        command.args(PINGS).arg(address(1).to_string());
        command
    })?;
    more(&transfer, FILE, BACK_WITHIN)?;
    let since = monotonic_ns()?;
    sites.forget_ports()?;
    let told = wait_for("other ports", BACK_WITHIN, || {
        let now = endpoints(&bundles[1])?;
        Ok(now.iter().zip(&before).all(|(now, before)| now != before).then_some(()))
    });
    let pings = pings.wait(2 * BACK_WITHIN)?;
    let outcome = whole(transfer)?;
    told?;
    let lost = pings.output.lines().find_map(|line| {
        let (sent, rest) = line.split_once(" packets transmitted, ")?;
        let received = rest.split_once(" received")?.0;
        Some(sent.trim().parse::<u64>().ok()? - received.parse::<u64>().ok()?)
    });
    let gap = outcome.gaps.longest_within(since, since + 2_000_000_000).length;
    Ok((gap, lost.with_context(|| pings.last_words())?))
}

/// The second site has one NIC with one address, and a link at each of these ports. Data takes both uplinks of the first one, there and
/// back, and a dead uplink costs no byte.
fn one_address(ports: [u16; LINKS]) -> Result<()> {
    let sites = lay(&["a1"])?;
    let (a, b) = (&sites.ends[0], &sites.ends[1]);
    // Both routers lead to one network.
    b.ip("link add wan0 type bridge")?;
    for link in 0..LINKS {
        let (nic, outside) = (nic(link), format!("203.0.1.25{}", 3 + link));
        b.ip(&format!("address flush dev {nic}"))?;
        b.ip(&format!("link set {nic} master wan0"))?;
        sites.routers[link].ip("address flush dev out")?;
        sites.routers[link].ip(&format!("address add {outside}/24 dev out"))?;
    }
    b.ip("link set wan0 up")?;
    b.ip(&format!("address add {}/24 dev wan0", uplink(1, 0)))?;
    let greeting = [0, 1].map(|link| format!("{},peer={}:{}", nic(link), uplink(1, 0), ports[link]));
    let listening: BTreeSet<_> =
        ports.iter().map(|port| format!("wan0,local={},port={port}", uplink(1, 0))).collect();
    let listening: Vec<_> = listening.into_iter().collect();
    let options = options()?;
    let mut bundles =
        vec![Bundle::start(a, 0, &greeting, &options)?, Bundle::start(b, 1, &listening, &options)?];
    ready(&mut bundles, LINKS)?;
    for (from, to) in [(0, 1), (1, 0)] {
        let transfer = begin(&sites.ends[from], &sites.ends[to], to, FILE)?;
        more(&transfer, FILE, BACK_WITHIN)?;
        let (since, ways) = (monotonic_ns()?, [uplink(0, from), uplink(1, 0)]);
        let swallow = |verb| -> Result<()> {
            ways.iter().try_for_each(|way| {
                sites.routers[from].ip(&format!("route {verb} blackhole {way}/32")).map(drop)
            })
        };
        swallow("add")?;
        told(&mut bundles, LINK_DOWN, from, since)?;
        more(&transfer, FILE, BACK_WITHIN)?;
        swallow("delete")?;
        let gap = whole(transfer)?.gaps.longest_within(since, since + 1_000_000_000).length;
        let sent: Vec<_> =
            bundles[from].status()?.peers[0].paths.iter().map(|path| path.bytes_sent).collect();
        ensure!(sent.iter().all(|bytes| *bytes > FILE / 10), "bytes by each uplink: {sent:?}");
        println!("uplink {from} of two to one address dies: outage {gap:?}");
        ready(&mut bundles, LINKS)?;
    }
    Bundle::stop_all(bundles)
}

/// Two sites that are both behind routers reach each other through the third, which forwards packets within the bundle.
fn relayed() -> Result<()> {
    let sites = lay(&["a1", "c1"])?;
    let [a, c, b] = &sites.ends[..] else { anyhow::bail!("three ends") };
    let (options, relay) = (options()?, 2);
    let greeting = |link: usize| [format!("{},peer={}:7420", nic(link), uplink(1, link))];
    let listening: Vec<_> =
        (0..LINKS).map(|link| format!("{},local={}", nic(link), uplink(1, link))).collect();
    let mut bundles = [
        Bundle::start(a, 0, &greeting(0), &options)?,
        Bundle::start(c, 1, &greeting(1), &options)?,
        Bundle::start(b, relay, &listening, &options)?,
    ];
    for (bundle, peers) in bundles.iter_mut().zip([1, 1, 2]) {
        bundle.wait_until("its peers", |status| {
            status.peers.iter().filter(|peer| paths_up(peer) == 1).count() == peers
        })?;
    }
    b.set("net/ipv4/ip_forward", "1")?;
    for scope in ["all", DEVICE] {
        b.set(&format!("net/ipv4/conf/{scope}/send_redirects"), "0")?;
    }
    for (site, other) in [(a, 1), (c, 0)] {
        site.ip(&format!("route add {} via {} dev {DEVICE}", address(other), address(relay)))?;
    }
    send_file(a, c, address(1), FILE)?;
    send_file(c, a, address(0), FILE)?;
    Bundle::stop_all(bundles)
}

fn renamed() -> Result<()> {
    let sites = lay(&["a1"])?;
    let hosts = Hosts::begin()?;
    // The second site does not know its addresses beforehand.
    let listening: Vec<_> = (0..LINKS).map(|link| format!("{},local=0.0.0.0", nic(link))).collect();
    let mut bundles = sites.start(&listening)?;
    bundles[0].wait_until("names that nobody knows", |status| {
        status.events.iter().filter(|event| event.what == "name-failed").count() == LINKS
    })?;
    let entries = |ends: &[String]| -> Result<()> {
        let names: Vec<_> = (0..LINKS).map(name).collect();
        // An address of the other family that leads nowhere does no harm.
        let nowhere = names.iter().map(|name| (name.as_str(), "2001:db8::1"));
        let ends = names.iter().map(String::as_str).zip(ends.iter().map(String::as_str));
        hosts.set(&nowhere.chain(ends).collect::<Vec<_>>())
    };
    let mut ends: Vec<_> = (0..LINKS).map(|link| uplink(1, link)).collect();
    entries(&ends)?;
    back(&bundles[0], &ends, "names became known")?;
    let (a, b) = (&sites.ends[0], &sites.ends[1]);
    send_file(a, b, address(1), FILE)?;
    // All addresses of the second site change; the connection lives on.
    let transfer = begin(a, b, 1, FILE)?;
    more(&transfer, FILE, BACK_WITHIN)?;
    for (link, end) in ends.iter_mut().enumerate() {
        let other = format!("203.0.{}.99", link + 1);
        b.ip(&format!("address del {end}/24 dev {}", nic(link)))?;
        b.ip(&format!("address add {other}/24 dev {}", nic(link)))?;
        *end = other;
    }
    entries(&ends)?;
    back(&bundles[0], &ends, "addresses changed with their names")?;
    more(&transfer, FILE, BACK_WITHIN)?;
    whole(transfer)?;
    ready(&mut bundles, LINKS)?;
    // The process that takes over resolves the names, too.
    bundles[0].upgrade()?;
    back(&bundles[0], &ends, "another process took over")?;
    Bundle::stop_all(bundles)
}

/// Waits until all paths of a bundle lead to `ends` and work, which has to be soon.
fn back(bundle: &Bundle<'_>, ends: &[String], what: &str) -> Result<()> {
    let wanted: Vec<_> = ends.iter().map(|end| format!("{end}:7420")).collect();
    wait_for(what, BACK_WITHIN, || {
        let status = bundle.status()?;
        let paths = status.peers.iter().flat_map(|peer| &peer.paths).map(|path| &path.endpoint);
        Ok((status.is_ready(1, LINKS) && paths.eq(&wanted)).then_some(()))
    })
}
