//! The kernel path of a bundle: programs that carry frames in place of cells, as far as the machine, the configuration and the peers
//! allow.
//!
//! ```text
//!   open      loads the programs and the reorder qdisc, puts them in places   with all rights, once
//!   count     what crossed each path -> the core, which judges by it          the first worker, before it receives cells
//!   follow    what the core says of peers and paths -> maps                   the first worker, with each event and each 10 ms
//!   learn     behind which peer an address lives -> the programs' fdb         every worker
//!   show      what crossed each path -> status                                the control socket's thread
//! ```
//!
//! Invariants: after the rights are given up no program is loaded or placed, so a link that joins later takes cells, and with it
//! all flows to the peers that are reached there. A peer's number is that of its node as long as the process lives, for addresses in
//! the programs' fdb name it.

mod peers;
mod reason;

use std::net::{Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex};

use tabane_api::status::{KernelTraffic, PeerStatus};
use tabane_config::{Config, DataPath, FixedConfig, LinkConfig, Mtu, Reordering, Security, link_name};
use tabane_io::netlink;
use tabane_kernel::{Link, OVERHEAD, Plan, Reorder};
use tabane_proto::{Bundle, Instant, KernelEnd};

use super::medium::{IPV6_LEAST, Medium, headers};
use crate::events::EventLog;
use peers::{NODES, Peers};
use tabane_api::counters::OF_PROGRAMS;
use tabane_config::problem::BadInput;
use tabane_process::locked;

/// Ports above the workers' that are tried.
const PORTS: u16 = 64;

pub(crate) struct KernelPath {
    asked: DataPath,
    /// MTU of the device, in bytes.
    mtu: u16,
    /// The programs; or why there are none.
    programs: Result<Running, String>,
}

/// Programs at work.
struct Running {
    /// The longest packet that the programs make, in bytes.
    packet: u16,
    /// Whether flows are spread also to peers that put nothing in order.
    unordered: bool,
    /// Where each link receives, by its number.
    ends: Vec<Option<KernelEnd>>,
    state: Mutex<Peers>,
    /// Keeps the port from others: what reaches it is the programs' alone.
    _port: UdpSocket,
}

impl KernelPath {
    /// Loads the programs and puts them in their places, unless `config` has cells alone. The device is there, and will have
    /// [`Self::mtu`]; `mtu` is asked for. `beside`: the [`Self::pair`] of the process that is about to hand the bundle over.
    pub(crate) fn open(
        config: &Config,
        media: &[Medium],
        mtu: Mtu,
        beside: Option<&str>,
        events: &Arc<EventLog>,
    ) -> Result<Self, BadInput> {
        let asked = config.data_path;
        let programs = match asked {
            DataPath::User => Err(String::new()),
            _ => Running::open(config, media, mtu, beside, events),
        };
        match &programs {
            Ok(running) => {
                let links = running.ends.iter().flatten().count();
                tracing::info!(
                    links,
                    in_order = locked(&running.state).pair().is_some(),
                    "the kernel path is there"
                );
                if config.security == Security::Sealed {
                    tracing::info!("its frames are not sealed: links are said to be protected below");
                }
            }
            Err(why) if asked == DataPath::Kernel => {
                return Err(BadInput::new(format!("data_path kernel: {why}; allowed here: auto, user")));
            }
            Err(why) if asked == DataPath::Auto => {
                tracing::info!("all frames travel in cells: {why}");
            }
            Err(_) => {}
        }
        let mtu = programs.as_ref().map_or_else(|_| mtu.bytes(None), Running::mtu);
        Ok(Self { asked, mtu, programs })
    }

    /// MTU of the device, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The name of the devices that put frames in order, if there are such.
    pub(crate) fn pair(&self) -> Option<String> {
        locked(&self.programs.as_ref().ok()?.state).pair().map(str::to_owned)
    }

    /// Where a link that was there at the start receives frames of the kernel path.
    pub(crate) fn end(&self, link: usize) -> Option<KernelEnd> {
        self.programs.as_ref().ok()?.ends.get(link).copied().flatten()
    }

    /// Whether there are programs.
    pub(crate) fn is_running(&self) -> bool {
        self.programs.is_ok()
    }

    /// Why all frames travel in cells, where more is asked for.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.programs.as_ref().err().filter(|_| self.asked != DataPath::User).cloned()
    }

    pub(crate) fn asked(&self) -> &'static str {
        self.asked.name()
    }

    /// Tells the core of the first worker what programs have carried so far: before cells are received, for what came between two of
    /// them shows that the path was not silent.
    pub(crate) fn count(&self, now: Instant, worker: u16, bundle: &mut Bundle) {
        let Ok(running) = &self.programs else { return };
        if worker == 0 {
            locked(&running.state).count(now, bundle);
        }
    }

    /// Tells the programs what the core of a worker has learned and, if it is the first one, how it judges peers and paths: at
    /// once when something has `changed`. `nics`: the names of the links' NICs.
    pub(crate) fn follow(
        &self,
        now: Instant,
        worker: u16,
        changed: bool,
        bundle: &mut Bundle,
        nics: &[String],
    ) {
        let Ok(running) = &self.programs else { return };
        let mut state = locked(&running.state);
        if worker == 0 && (changed || state.is_due(now)) {
            state.show_senders(bundle);
            let peers = bundle.kernel_peers(now, running.packet, running.unordered);
            state.follow(now, bundle.is_delivered(), &peers, &|needs| {
                reason::words(needs, nics, bundle.policy(), running.packet)
            });
            state.move_senders(bundle);
        }
        while let Some((mac, node)) = bundle.poll_learned() {
            state.learn(mac, node);
        }
    }

    /// Lets no frame leave by programs, or lets them leave again: another process is about to take the bundle over, and what the
    /// device holds is for that one. Frames of peers are received on.
    pub(crate) fn hold(&self, held: bool) {
        if let Ok(running) = &self.programs {
            locked(&running.state).hold(held);
        }
    }

    /// Takes away what would outlive the process.
    pub(crate) fn close(&self) {
        if let Ok(running) = &self.programs {
            locked(&running.state).close();
        }
    }

    /// Adds to the status of peers what the programs carry.
    pub(crate) fn show(&self, peers: &mut [PeerStatus]) {
        let Ok(running) = &self.programs else { return };
        let state = locked(&running.state);
        for peer in peers {
            let Some(shown) = state.shown(&peer.node) else {
                peer.cells_because = Some(format!("{NODES} other nodes have been peers of this process"));
                continue;
            };
            (peer.kernel_path, peer.cells_because) = (shown.is_ready, shown.why);
            for path in &mut peer.paths {
                let link = usize::try_from(path.link).unwrap_or(usize::MAX);
                let is_there = running.ends.get(link).is_some_and(Option::is_some);
                path.kernel = is_there.then(|| traffic(&state.traffic(shown.number, link)));
            }
        }
    }

    /// What the programs did not carry, what was sent again, and what the qdisc did: name and count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let running = self.programs.as_ref();
        let (counts, again, ordered) =
            running.map(|running| locked(&running.state).counts()).unwrap_or_default();
        let names = OF_PROGRAMS.into_iter().flatten().map(|(name, _)| *name);
        let counts = counts.iter().chain(again.iter()).chain(ordered.iter());
        names.zip(counts.map(|(_, count)| count).collect::<Vec<_>>())
    }
}

impl Running {
    fn open(
        config: &Config,
        media: &[Medium],
        mtu: Mtu,
        beside: Option<&str>,
        events: &Arc<EventLog>,
    ) -> Result<Self, String> {
        tabane_kernel::available().map_err(|error| error.to_string())?;
        if let Some(link) = config.unprotected() {
            let nic = link_name(link);
            return Err(format!(
                "cells are to be sealed, and nothing is said to protect {nic} (protected = true)"
            ));
        }
        let port = reserve(config).map_err(|error| format!("no port of UDP is free: {error}"))?;
        let number = port.local_addr().map_err(|error| error.to_string())?.port();
        let device = netlink::nic(&config.name).map_err(|error| error.to_string())?;
        let reorder = reorder(config, beside);
        let orders = reorder.is_some();
        let plan = Plan { device: device.index, mac: device.mac, port: number, peers: NODES };
        let mut programs =
            tabane_kernel::KernelPath::attach(&plan, reorder).map_err(|error| refused(&error))?;
        let (mut ends, mut least) = (Vec::new(), u32::MAX);
        for (link, medium) in config.links.iter().zip(media) {
            let taken = |end: &KernelEnd| Some(end.mac) == medium.mac;
            let mac = medium.mac.filter(|mac| *mac != [0; 6] && medium.index != 0);
            let mac = mac.filter(|_| !ends.iter().flatten().any(taken));
            let end = mac.map(|mac| KernelEnd { mac, address: link_local(mac), port: number, orders });
            if let Some(end) = end {
                let mtu = link_mtu(link, medium);
                least = least.min(mtu);
                let there = Link { ifindex: medium.index, mtu, end };
                programs
                    .add_link(ends.len(), there)
                    .map_err(|error| format!("link {}: {error}", link.nic))?;
            }
            ends.push(end);
        }
        let whole = least.saturating_sub(OVERHEAD);
        let is_whole = whole >= IPV6_LEAST && ends.iter().all(Option::is_some);
        // The largest MTU whose frames fit into the links' packets.
        let whole = is_whole.then(|| u16::try_from(whole).unwrap_or(u16::MAX));
        let packet = u32::from(mtu.bytes(whole)) + OVERHEAD;
        Ok(Self {
            packet: u16::try_from(packet).unwrap_or(u16::MAX),
            unordered: config.reorder == Reordering::Tcp,
            ends,
            state: Mutex::new(Peers::new(programs, Arc::clone(events))),
            _port: port,
        })
    }

    /// MTU of the device whose frames become the longest packets.
    fn mtu(&self) -> u16 {
        self.packet - u16::try_from(OVERHEAD).unwrap_or(0)
    }
}

/// What puts frames in order that come over several links, where there can be such and the kernel has it.
fn reorder(config: &Config, beside: Option<&str>) -> Option<Reorder> {
    if config.links.len() < 2 {
        return None;
    }
    let reorder = Reorder::attach(&config.name, NODES, beside)
        .inspect_err(|error| tracing::info!("peers do not spread frames over links: {error}"))
        .ok()?;
    if let Err(error) = reorder.spread() {
        tracing::warn!("frames in order may be disordered again by processors: {error}");
    }
    Some(reorder)
}

fn refused(error: &tabane_kernel::Error) -> String {
    if error.is_permission() {
        return "no right to load programs, which takes CAP_BPF and CAP_NET_ADMIN".to_owned();
    }
    error.to_string()
}

/// A socket that has the first free port above the workers', for IPv4 and IPv6. Nobody reads it: the programs take what peers send
/// there, and the rest is not the bundle's.
fn reserve(config: &FixedConfig) -> std::io::Result<UdpSocket> {
    let first = config.port.saturating_add(config.workers);
    let ports = first..=first.saturating_add(PORTS);
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for port in ports {
        match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn link_mtu(link: &LinkConfig, medium: &Medium) -> u32 {
    u32::from(medium.cell_max) + headers(link)
}

/// The link-local address that a NIC has by default (RFC 4291, appendix A). No packet is sent by the stack from it or to it, so
/// the NIC need not have it.
fn link_local([a, b, c, d, e, f]: [u8; 6]) -> Ipv6Addr {
    let word = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f))
}

fn traffic(traffic: &tabane_kernel::Traffic) -> KernelTraffic {
    KernelTraffic {
        frames_sent: traffic.sent_frames,
        bytes_sent: traffic.sent_bytes,
        frames_received: traffic.received_frames,
        bytes_received: traffic.received_bytes,
    }
}

#[cfg(test)]
mod tests {
    use tabane_config::{Ports, parse_link};

    use super::*;

    #[test]
    fn a_nic_has_the_address_of_its_mac() {
        assert_eq!(link_local([0x52, 0x54, 0, 0x12, 0x34, 0x56]).to_string(), "fe80::5054:ff:fe12:3456");
    }

    #[test]
    fn what_cannot_have_programs_says_why() {
        let open = |data_path, security| {
            let links = vec![parse_link("eth1", Ports::default()).expect("a link")];
            let config = Config {
                fixed: FixedConfig {
                    name: "no-such".to_owned(),
                    data_path,
                    security,
                    ..FixedConfig::default()
                },
                links,
                ..Config::default()
            };
            let events = Arc::new(EventLog::new().expect("an eventfd"));
            KernelPath::open(&config, &[], Mtu::Stated(1_500), None, &events)
        };
        let user = open(DataPath::User, Security::None).expect("no programs are asked for");
        assert_eq!((user.refusal(), user.is_running()), (None, false));
        let sealed = open(DataPath::Auto, Security::Sealed).expect("cells do");
        let unprotected = || "nothing is said to protect eth1".to_owned();
        let why =
            tabane_kernel::available().err().map_or_else(unprotected, |not_built| not_built.to_string());
        assert!(sealed.refusal().is_some_and(|refusal| refusal.contains(&why)), "{:?}", sealed.refusal());
        let nowhere = open(DataPath::Kernel, Security::None).err().expect("no such device");
        assert!(nowhere.to_string().ends_with("; allowed here: auto, user"), "{nowhere}");
    }

    #[test]
    fn two_bundles_have_two_ports() {
        let config = FixedConfig { port: 47_420, ..FixedConfig::default() };
        let ports = [reserve(&config), reserve(&config)]
            .map(|socket| socket.expect("free").local_addr().expect("bound").port());
        assert_ne!(ports[0], ports[1]);
        assert!(ports[0] > config.port);
    }
}
