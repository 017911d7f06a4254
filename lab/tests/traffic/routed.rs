//! Links whose ends are named: across a router, where no multicast goes, over IPv6 and over IPv4 alone.
//!
//! ```text
//!  h1.eth1 10.1.1.1 ── 10.1.1.99 r 10.2.1.99 ── 10.2.1.1 eth1.h2
//!  h1.eth2 10.1.2.1 ── 10.1.2.99 r 10.2.2.99 ── 10.2.2.1 eth2.h2
//! ```

use std::fmt;

use tabane_kit::status::{LINK_SUSPECT, PATH_MTU};

use crate::traffic::stage::*;

pub(crate) fn cases() -> Vec<Case> {
    let narrow = [Ip::V4, Ip::V6].into_iter().flat_map(|ip| {
        let begun = move || narrow_from_the_beginning(ip);
        let later = move || narrow_in_a_transfer(ip, None);
        [
            Case::new(format!("narrow_path_over_{ip}_is_found_at_the_start"), DAEMON, begun),
            Case::new(format!("narrow_path_over_{ip}_is_found_in_a_transfer"), DAEMON, later),
        ]
    });
    let others = [
        Case::new("narrow_path_of_20_mbit_is_found_in_a_transfer", DAEMON, slow),
        Case::new("links_across_a_router_carry_die_and_return", DAEMON, routed),
    ];
    narrow.chain(others).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    V6,
}

impl Ip {
    fn headers(self) -> u32 {
        if self == Ip::V4 { 28 } else { 48 }
    }

    fn address(self, host: usize, link: usize, last: u8) -> String {
        match self {
            Ip::V4 => format!("10.{}.{}.{last}", host + 1, link + 1),
            Ip::V6 => format!("fd00:{}:{}::{last}", host + 1, link + 1),
        }
    }

    fn prefix(self) -> u8 {
        if self == Ip::V4 { 24 } else { 64 }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if *self == Ip::V4 { "ipv4" } else { "ipv6" })
    }
}

pub(crate) fn end(ip: Ip, host: usize, link: usize) -> String {
    ip.address(host, link, 1)
}

pub(crate) fn lay(ip: Ip) -> Result<([Namespace; 2], Namespace)> {
    let hosts = [Namespace::create("h1")?, Namespace::create("h2")?];
    let router = Namespace::create("r1")?;
    router.set("net/ipv4/ip_forward", "1")?;
    router.set("net/ipv6/conf/all/forwarding", "1")?;
    for (host, namespace) in hosts.iter().enumerate() {
        for link in 0..LINKS {
            let gateway = ip.address(host, link, 99);
            let [own, other] = [&end(ip, host, link), &gateway].map(|end| format!("{end}/{}", ip.prefix()));
            lay_cable([(namespace, &nic(link), &own), (&router, &format!("port{host}{link}"), &other)])?;
            if ip == Ip::V4 {
                namespace.set(&format!("net/ipv6/conf/{}/disable_ipv6", nic(link)), "1")?;
            }
            let peer = format!("{}/{}", ip.address(1 - host, link, 0), ip.prefix());
            namespace.ip(&format!("route add {peer} via {gateway} dev {}", nic(link)))?;
        }
    }
    Ok((hosts, router))
}

/// The router swallows what is for `link`, in both directions and without a word; or carries it again.
fn swallow(router: &Namespace, link: usize, swallows: bool) -> Result<u64> {
    let verb = if swallows { "add" } else { "delete" };
    let since = monotonic_ns()?;
    (0..2).try_for_each(|host| {
        router.ip(&format!("route {verb} blackhole {}/32", end(Ip::V4, host, link))).map(drop)
    })?;
    Ok(since)
}

pub(crate) fn start<'a>(
    hosts: impl IntoIterator<Item = &'a Namespace>,
    end: impl Fn(usize, usize) -> String,
) -> Result<Vec<Bundle<'a>>> {
    let options = options()?;
    let bundle = |(number, host)| {
        let link = |link| {
            format!("{},local={},peer={}", nic(link), end(number, link), endpoint(&end(1 - number, link)))
        };
        Bundle::start(host, number, &(0..LINKS).map(link).collect::<Vec<_>>(), &options)
    };
    let mut bundles = hosts.into_iter().enumerate().map(bundle).collect::<Result<Vec<_>>>()?;
    ready(&mut bundles, LINKS)?;
    Ok(bundles)
}

fn endpoint(address: &str) -> String {
    if address.contains(':') { format!("[{address}]:7420") } else { format!("{address}:7420") }
}

fn routed() -> Result<()> {
    let (hosts, router) = lay(Ip::V4)?;
    let mut bundles = start(&hosts, |host, link| end(Ip::V4, host, link))?;
    for (number, bundle) in bundles.iter().enumerate() {
        for link in &bundle.status()?.peers[0].paths {
            ensure!(link.endpoint == endpoint(&end(Ip::V4, 1 - number, link.link as usize)), "{link:?}");
        }
    }
    both_carry(&hosts)?;
    let transfer = begin(&hosts[0], &hosts[1], 1, FILE)?;
    told(&mut bundles, LINK_DOWN, VICTIM, swallow(&router, VICTIM, true)?)?;
    more(&transfer, FILE / 4, Duration::from_secs(5))?;
    told(&mut bundles, LINK_UP, VICTIM, swallow(&router, VICTIM, false)?)?;
    whole(transfer)?;
    ready(&mut bundles, LINKS)?;
    both_carry(&hosts)?;
    Bundle::stop_all(bundles)
}

fn both_carry(hosts: &[Namespace]) -> Result<()> {
    for (from, to) in [(0, 1), (1, 0)] {
        let file = || send_file(&hosts[from], &hosts[to], address(to), FILE).map(drop);
        let [one, other] = brought(&hosts[to], file)?;
        ensure!(one.min(other) > FILE / 5, "links carried {one} and {other} of {FILE} bytes to host {to}");
    }
    Ok(())
}

// A way between two NICs that carries shorter packets than these take: a tunnel or PPPoE behind a router. The router's ports drop
// what is longer; what ICMP says of it, the bundle's sockets do not obey.

const NARROW: usize = 1;
const CARRY: Duration = Duration::from_secs(1);

fn narrow(router: &Namespace, packet: u16) -> Result<u64> {
    let since = monotonic_ns()?;
    (0..2).try_for_each(|host| router.ip(&format!("link set port{host}{NARROW} mtu {packet}")).map(drop))?;
    Ok(since)
}

/// What a bundle holds against its links since then.
fn against(status: &Status, since_ns: u64) -> Vec<String> {
    let kinds = [LINK_DOWN, LINK_SUSPECT];
    let events = (0..LINKS).flat_map(|link| kinds.map(|kind| (kind, link)));
    let events = events.flat_map(|(kind, link)| status.events_of(kind, link, since_ns));
    events.map(|event| format!("{}: {}", event.what, event.detail)).collect()
}

fn narrow_from_the_beginning(ip: Ip) -> Result<()> {
    const PACKET: u16 = 1_400;
    let (hosts, router) = lay(ip)?;
    let since = narrow(&router, PACKET)?;
    let mut bundles = start(&hosts, |host, link| end(ip, host, link))?;
    let cell = u32::from(PACKET) - ip.headers();
    for bundle in &mut bundles {
        let fits =
            |status: &Status| status.cell_bytes == cell && status.peers[0].paths[NARROW].mtu == Some(PACKET);
        bundle.wait_until("cells that fit", fits)?;
    }
    both_carry(&hosts)?;
    for bundle in &bundles {
        let against = against(&bundle.status()?, since);
        ensure!(against.is_empty(), "{against:?}");
    }
    Bundle::stop_all(bundles)
}

/// On a slow path heartbeats are rare, and they are all that comes until the path's MTU is found.
fn slow() -> Result<()> {
    narrow_in_a_transfer(Ip::V4, Some("rate 20mbit burst 4kb limit 250kb"))
}

/// `routers`: what the router's ports send at, if not as fast as the NICs.
fn narrow_in_a_transfer(ip: Ip, routers: Option<&str>) -> Result<()> {
    let (hosts, router) = lay(ip)?;
    if let Some(shape) = routers {
        for port in (0..2).flat_map(|host| (0..LINKS).map(move |link| format!("port{host}{link}"))) {
            router.tc(&format!("qdisc change dev {port} root tbf {shape}"))?;
        }
    }
    let mut bundles = start(&hosts, |host, link| end(ip, host, link))?;
    let transfer = begin(&hosts[0], &hosts[1], 1, FILE)?;
    let moves = || more(&transfer, FILE, Duration::from_secs(20));
    moves()?;
    for packet in [1_400, 1_280] {
        let since = narrow(&router, packet)?;
        let found = |status: &Status| status.first_event(PATH_MTU, NARROW, since).is_some();
        bundles[0].wait_until("the path's MTU", found)?;
        let status = bundles[0].status()?;
        let event = status.first_event(PATH_MTU, NARROW, since).context("it was there")?;
        ensure!(event.detail.contains(&format!("packets of {packet} bytes")), "{}", event.detail);
        let [first, second] = brought(&hosts[1], || {
            std::thread::sleep(CARRY);
            moves()
        })?;
        ensure!(first.min(second) > FILE / 5, "links carried {first} and {second} bytes");
        let status = bundles[0].status()?;
        let against = against(&status, since);
        ensure!(against.is_empty(), "when the way became narrow, {packet} bytes: {against:?}");
        ensure!(status.cell_bytes == u32::from(packet) - ip.headers(), "cells of {} B", status.cell_bytes);
    }
    whole(transfer)?;
    Bundle::stop_all(bundles)
}
