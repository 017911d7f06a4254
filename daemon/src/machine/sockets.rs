//! The sockets of links, and their seats at windows of memory: they are opened here, or taken over from another process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use anyhow::Context;
use tabane_config::address::GROUP;
use tabane_config::{Config, EtherConfig, FixedConfig, LinkConfig, WindowConfig};
use tabane_io::{AnyLink, Engine, EtherLink, EtherSpec, MemLink, MemSpec, RECEIVE_BUFFER, UdpLink, UdpSpec};

/// The sockets and seats of all links, by worker; and the configuration with the slots that were chosen.
pub(crate) fn bind_all(config: &Config) -> Result<(Config, Vec<Vec<AnyLink>>), String> {
    let mut links = config.links.clone();
    let mut of_worker = |number| links.iter_mut().map(|link| bind(config, link, number)).collect();
    let bound = (0..config.workers).map(&mut of_worker).collect::<Result<_, _>>()?;
    Ok((Config { links, ..config.clone() }, bound))
}

/// Worker `number`'s socket or seat of a link. The first worker chooses a free slot if none is configured, and
/// the others take the same.
pub(crate) fn bind(config: &FixedConfig, link: &mut LinkConfig, number: u16) -> Result<AnyLink, String> {
    if let Some(window) = &mut link.window {
        let opened = MemLink::open(&seat(config, window, number)?).map_err(|error| error.to_string())?;
        window.slot = Some(opened.slot());
        return Ok(opened.into());
    }
    if link.ether.is_some() {
        return EtherLink::open(&ether(config, link, number)).map(noted).map_err(|error| error.to_string());
    }
    UdpLink::bind(&spec(config, link, number)).map(noted).map_err(|error| error.to_string())
}

/// Worker `number`'s socket or seat of a link, which another process has opened.
pub(crate) fn adopt(
    config: &FixedConfig,
    link: &LinkConfig,
    number: u16,
    file: OwnedFd,
) -> anyhow::Result<AnyLink> {
    if let Some(window) = &link.window {
        let seat = seat(config, window, number).map_err(anyhow::Error::msg)?;
        return Ok(MemLink::adopt(file, &seat)?.into());
    }
    if link.ether.is_some() {
        return Ok(noted(EtherLink::adopt(file, &ether(config, link, number))?));
    }
    UdpLink::adopt(file, &spec(config, link, number)).map(noted).context("a link's socket")
}

fn seat(config: &FixedConfig, window: &WindowConfig, number: u16) -> Result<MemSpec, String> {
    let shape = window.shape(config.workers).map_err(|error| error.to_string())?;
    Ok(MemSpec {
        path: window.path.clone().into(),
        shape,
        channel: number,
        slot: window.slot,
        port: config.port + number,
        poll: window.poll,
    })
}

fn ether(config: &FixedConfig, link: &LinkConfig, number: u16) -> EtherSpec {
    let EtherConfig { mut engine, completion } = link.ether.unwrap_or_default();
    if engine == Engine::Auto && config.workers > 1 {
        engine = Engine::Packet;
        if number == 0 {
            tracing::info!(
                nic = link.nic,
                "AF_PACKET moves the cells: AF_XDP serves one worker, and there are more"
            );
        }
    }
    EtherSpec {
        nic: link.nic.clone(),
        port: config.port + number,
        engine,
        completion,
        receive_buffer: RECEIVE_BUFFER,
        send_buffer: RECEIVE_BUFFER,
    }
}

/// What the socket of worker `number` is over UDP.
pub(crate) fn spec(config: &FixedConfig, link: &LinkConfig, number: u16) -> UdpSpec {
    let any = link.is_ipv4().then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    UdpSpec {
        nic: link.nic.clone(),
        local: link.local.or(any),
        both_families: link.takes_both_families(),
        port: link.first_port(config.ports()) + number,
        gso: config.offload.gso,
        gro: config.offload.gro,
        receive_buffer: RECEIVE_BUFFER,
        send_buffer: RECEIVE_BUFFER,
        multicast: link.uses_multicast().then_some(GROUP),
    }
}

/// The socket, when what it lacks has been logged.
fn noted(mut bound: impl tabane_io::Link + Into<AnyLink>) -> AnyLink {
    while let Some(notice) = bound.take_notice() {
        tracing::warn!("{notice}");
    }
    bound.into()
}

/// Where worker `number` of the peers listens whose first worker listens at these endpoints. A peer whose ports end before has
/// no such worker.
pub(crate) fn of_worker(endpoints: Vec<SocketAddr>, number: u16) -> Vec<SocketAddr> {
    let moved = |mut endpoint: SocketAddr| {
        endpoint.set_port(endpoint.port().checked_add(number)?);
        Some(endpoint)
    };
    endpoints.into_iter().filter_map(moved).collect()
}

/// Whether a bundle can add links of Ethernet frames while it runs: one that was started without any has given up the
/// packet sockets for them, which could read all traffic of a NIC.
pub(crate) fn may_open_frames(config: &Config) -> bool {
    !config.access.sandbox || config.links.iter().any(|link| link.ether.is_some())
}
