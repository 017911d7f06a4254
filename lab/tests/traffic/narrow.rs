//! A way between two NICs that carries shorter packets than these take: a tunnel or PPPoE behind a router. The router's ports
//! drop what is longer; what ICMP says of it, the bundle's sockets do not obey.

use tabane_kit::status::{LINK_SUSPECT, PATH_MTU};

use crate::traffic::prelude::*;
use crate::traffic::routed::{Ip, LINKS, end, lay, start};

/// The link that is narrow.
const NARROW: usize = 1;
const FILE: u64 = 8 << 20;
/// How soon the bundle has to find out.
const FOUND_WITHIN: Duration = Duration::from_secs(2);
/// For how long both links carry afterwards.
const CARRY: Duration = Duration::from_secs(1);

pub(crate) fn cases() -> Vec<Case> {
    [Ip::V4, Ip::V6]
        .into_iter()
        .flat_map(|ip| {
            let begun = move || narrow_from_the_beginning(ip);
            let later = move || narrow_in_a_transfer(ip, None);
            [
                Case::new(format!("narrow_path_over_{ip}_is_found_at_the_start"), DAEMON, begun),
                Case::new(format!("narrow_path_over_{ip}_is_found_in_a_transfer"), DAEMON, later),
            ]
        })
        .chain([Case::new("narrow_path_of_20_mbit_is_found_in_a_transfer", DAEMON, slow)])
        .collect()
}

/// The router's ports on the narrow link carry packets of so many bytes.
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
    both_carry(&hosts, || {
        send_file(&hosts[0], &hosts[1], address(1), FILE)?;
        send_file(&hosts[1], &hosts[0], address(0), FILE).map(drop)
    })?;
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
        let took = Duration::from_nanos(event.at_ns - since);
        ensure!(took <= FOUND_WITHIN, "{packet} bytes were found after {took:?}");
        println!("{ip}, {packet}: found after {took:?}");
        both_carry(&hosts, || {
            std::thread::sleep(CARRY);
            moves()
        })?;
        let status = bundles[0].status()?;
        let against = against(&status, since);
        ensure!(against.is_empty(), "when the way became narrow, {packet} bytes: {against:?}");
        ensure!(status.cell_bytes == u32::from(packet) - ip.headers(), "cells of {} B", status.cell_bytes);
    }
    whole(transfer)?;
    Bundle::stop_all(bundles)
}

/// Both links bring the second host a good part of what comes in `meanwhile`.
fn both_carry(hosts: &[Namespace], meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    let [first, second] = brought(&hosts[1], meanwhile)?;
    ensure!(first.min(second) > FILE / 5, "links carried {first} and {second} bytes");
    Ok(())
}
