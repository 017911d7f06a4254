//! The links of the running bundle: how they join, leave, lose their NIC and get it back.
//!
//! The control socket's thread adds and removes, the main thread follows the NICs; the workers only obey. Whatever can
//! fail (a NIC that is not there, a port that is taken) is done for all workers before the first of them is told, so
//! that a failure changes nothing.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tabane_io::netlink::{self, Nic, NicEvent};
use tabane_io::{LinkError, UdpLink, UdpSpec, now_ns};
use tabane_proto::PortSettings;
use tabane_proto::wire::cell::LINKS;

use crate::askers::Askers;
use crate::config::{Config, LinkConfig};
use crate::events::{Entry, EventLog};
use crate::requests::Refusal;
use crate::worker::{Command, GROUP};

/// Receive buffer of a socket: what arrives at 10 Gbit/s while the worker is not scheduled for 5 ms.
const RECEIVE_BUFFER: usize = 7 << 20;
/// The largest UDP payload over IPv4.
pub(crate) const CELL_MOST: u16 = 65_507;

/// The links, by number.
pub(crate) struct Links {
    config: Config,
    askers: Askers,
    events: Arc<EventLog>,
    members: Mutex<Vec<Option<Member>>>,
}

/// One link.
struct Member {
    link: LinkConfig,
    /// Index of its NIC.
    nic: u32,
    /// The largest cell that the NIC takes, in bytes.
    cell_max: u16,
    /// The NIC was deleted.
    lost: bool,
    /// It is on its way out.
    leaving: bool,
}

/// What one worker needs to take a link in.
struct Share {
    socket: UdpLink,
    settings: PortSettings,
}

impl Links {
    /// The links that the bundle is started with, over these NICs.
    pub(crate) fn new(config: &Config, nics: &[Nic], askers: Askers, events: Arc<EventLog>) -> Self {
        let member = |(link, nic): (&LinkConfig, &Nic)| Some(Member::new(link.clone(), nic));
        let members = Mutex::new(config.links.iter().zip(nics).map(member).collect());
        Self { config: config.clone(), askers, events, members }
    }

    /// Takes a link in; returns its number.
    pub(crate) fn add(&self, link: LinkConfig) -> Result<u8, Refusal> {
        let mut members = self.lock();
        let same = |member: &Member| member.link.nic == link.nic && member.link.local == link.local;
        if members.iter().flatten().any(same) {
            return Err(Refusal::Input(format!("link {} is in the bundle already", link.nic)));
        }
        if link.nic == self.config.name {
            return Err(Refusal::Input(format!("{} is the bundle's own device", link.nic)));
        }
        if members.iter().flatten().count() == LINKS {
            return Err(Refusal::Input(format!("the bundle has {LINKS} links, as many as it can have")));
        }
        let nic = usable(&link).map_err(Refusal::Input)?;
        let shares = self.open(&link, &nic).map_err(Refusal::Input)?;
        let join = |Share { socket, settings }, answer| Command::Join { socket, settings, answer };
        let numbers = self.askers.ask_each(shares, join);
        let number = numbers.iter().copied().flatten().next();
        let all = numbers.len() == self.askers.count() && numbers.iter().all(|other| *other == number);
        let Some(number) = number.filter(|_| all) else {
            if let Some(port) = number {
                self.askers.ask(|answer| Command::Leave { port, answer });
            }
            return Err(Refusal::Failed(format!("not all workers took link {} in", link.nic)));
        };
        if members.len() <= usize::from(number) {
            members.resize_with(usize::from(number) + 1, || None);
        }
        self.tell("link-added", number, &link.nic, "joined the bundle");
        members[usize::from(number)] = Some(Member::new(link, &nic));
        Ok(number)
    }

    /// Takes a link out, and returns its number when its sockets are closed. `local` tells links over one NIC apart.
    pub(crate) fn remove(&self, wanted: &LinkConfig) -> Result<u8, Refusal> {
        let number = self.begin_leaving(wanted)?;
        let gone = self.askers.ask(|answer| Command::Leave { port: number, answer });
        if gone.len() < self.askers.count() {
            return Err(Refusal::Failed(format!("not all workers let link {} go", wanted.nic)));
        }
        self.lock()[usize::from(number)] = None;
        self.tell("link-removed", number, &wanted.nic, "left the bundle");
        Ok(number)
    }

    fn begin_leaving(&self, wanted: &LinkConfig) -> Result<u8, Refusal> {
        let mut members = self.lock();
        let staying = members.iter().flatten().filter(|member| !member.leaving).count();
        let nic = &wanted.nic;
        let is_meant = |member: &Member| {
            member.link.nic == *nic && wanted.local.is_none_or(|local| member.link.local == Some(local))
        };
        let mut meant = (0u8..)
            .zip(members.iter_mut())
            .filter_map(|(number, member)| Some((number, member.as_mut()?)))
            .filter(|(_, member)| is_meant(member));
        let refusal = match (meant.next(), meant.next()) {
            (Some((number, member)), None) if staying > 1 && !member.leaving => {
                member.leaving = true;
                return Ok(number);
            }
            (Some((_, member)), None) if member.leaving => format!("link {nic} is on its way out already"),
            (Some(_), None) => {
                format!("link {nic} is the last one; `tabane down {}` ends the bundle", self.config.name)
            }
            (Some(_), Some(_)) => {
                format!("there are several links over {nic}; say which: {nic},local=ADDRESS")
            }
            (None, _) => {
                let names = members.iter().flatten().map(|member| member.link.nic.as_str());
                format!(
                    "link {nic} is not in the bundle; there are: {}",
                    names.collect::<Vec<_>>().join(", ")
                )
            }
        };
        Err(Refusal::Input(refusal))
    }

    /// The links as they are, in the order of their numbers, laid over the configuration that the bundle was started
    /// with; and the index of each one's NIC.
    pub(crate) fn in_force(&self) -> Result<(Config, Vec<u32>), Refusal> {
        let members = self.lock();
        if let Some(lost) = members.iter().flatten().find(|member| member.lost || member.leaving) {
            let nic = &lost.link.nic;
            return Err(Refusal::Input(format!(
                "the NIC of link {nic} is gone; `tabane link remove` takes it out"
            )));
        }
        let present = || members.iter().flatten();
        let mut config = self.config.clone();
        let primary = config.policy_options.primary.and_then(|port| members.get(usize::from(port))?.as_ref());
        let number = primary.and_then(|primary| present().position(|member| member.nic == primary.nic));
        config.policy_options.primary = number.and_then(|number| u8::try_from(number).ok());
        config.links = present().map(|member| member.link.clone()).collect();
        Ok((config, present().map(|member| member.nic).collect()))
    }

    /// A NIC has changed.
    pub(crate) fn follow(&self, event: &NicEvent) {
        let mut members = self.lock();
        let present =
            (0u8..).zip(members.iter_mut()).filter_map(|(number, member)| Some((number, member.as_mut()?)));
        for (port, member) in present.filter(|(_, member)| !member.leaving && !member.lost) {
            let nic = match event {
                NicEvent::Changed(nic) if nic.index == member.nic => Some(nic.clone()),
                NicEvent::Gone { index, .. } if *index == member.nic => None,
                NicEvent::Address { index, .. } if *index != member.nic => continue,
                // At another address the peers are greeted anew.
                NicEvent::Missed | NicEvent::Address { .. } => {
                    netlink::nic(&member.link.nic).ok().filter(|nic| nic.index == member.nic)
                }
                _ => continue,
            };
            match nic {
                Some(nic) => self.follow_nic(port, member, &nic),
                None => {
                    member.lost = true;
                    self.tell(
                        "nic-gone",
                        port,
                        &member.link.nic,
                        "is gone; the link waits for one of this name",
                    );
                    self.askers.tell(|| Command::Carrier { port, carrier: false });
                }
            }
        }
    }

    /// The NIC of a link is now like this.
    fn follow_nic(&self, port: u8, member: &mut Member, nic: &Nic) {
        let carrier = nic.admin_up && nic.carrier;
        self.askers.tell(|| Command::Carrier { port, carrier });
        let cell_max = cell_max(nic, &member.link);
        if nic.mtu != 0 && cell_max != member.cell_max {
            member.cell_max = cell_max;
            self.tell("nic-mtu", port, &member.link.nic, &format!("has an MTU of {} bytes now", nic.mtu));
            self.askers.tell(|| Command::Resize { port, cell_max });
        }
    }

    /// Takes NICs back that were gone. To be asked after changes of NICs, and now and then: an address may come late.
    pub(crate) fn take_back(&self) {
        let mut members = self.lock();
        let present =
            (0u8..).zip(members.iter_mut()).filter_map(|(number, member)| Some((number, member.as_mut()?)));
        for (port, member) in present.filter(|(_, member)| !member.leaving && member.lost) {
            let opened = usable(&member.link).and_then(|nic| Ok((self.open(&member.link, &nic)?, nic)));
            match opened {
                Ok((shares, nic)) => {
                    let replace = |Share { socket, settings }, answer| Command::Replace {
                        port,
                        socket,
                        settings,
                        answer,
                    };
                    if self.askers.ask_each(shares, replace).len() < self.askers.count() {
                        tracing::warn!(nic = nic.name, "not all workers took the NIC back");
                    }
                    *member = Member::new(member.link.clone(), &nic);
                    self.askers.tell(|| Command::Carrier { port, carrier: nic.carrier });
                    self.tell("nic-back", port, &nic.name, "is back");
                }
                Err(reason) => tracing::debug!("{reason}"),
            }
        }
    }

    /// Opens the link's sockets for all workers.
    fn open(&self, link: &LinkConfig, nic: &Nic) -> Result<Vec<Share>, String> {
        let open = |number| {
            let socket = bind(&self.config, link, number)?;
            Ok(Share { socket, settings: port_settings(link, nic, number) })
        };
        (0..self.config.workers).map(open).collect()
    }

    fn tell(&self, what: &str, link: u8, nic: &str, happened: &str) {
        let (what, nic, detail) = (what.to_owned(), Some(nic.to_owned()), format!("{nic} {happened}"));
        self.events.keep(now_ns(), Entry { what, link: Some(link.into()), nic, detail, ..Entry::default() });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn new(link: LinkConfig, nic: &Nic) -> Self {
        let cell_max = cell_max(nic, &link);
        Self { link, nic: nic.index, cell_max, lost: false, leaving: false }
    }
}

/// The NIC of a link, which has to be up; else why it cannot be used.
pub(crate) fn usable(link: &LinkConfig) -> Result<Nic, String> {
    let name = &link.nic;
    let Ok(nic) = netlink::nic(name) else {
        let names = netlink::nic_names().unwrap_or_default().join(", ");
        return Err(format!("link {name}: no such NIC; there are: {names}"));
    };
    if !nic.admin_up {
        return Err(format!("link {name}: the NIC is down; `ip link set {name} up` raises it"));
    }
    Ok(nic)
}

/// The largest cell that fits into one packet of a NIC.
pub(crate) fn cell_max(nic: &Nic, link: &LinkConfig) -> u16 {
    const UDP: u32 = 8;
    const IPV4: u32 = 20;
    const IPV6: u32 = 40;
    let ipv4 =
        link.local.is_some_and(|local| local.is_ipv4()) || link.peers.iter().any(|peer| peer.is_ipv4());
    let headers = UDP + if ipv4 { IPV4 } else { IPV6 };
    u16::try_from(nic.mtu.saturating_sub(headers)).unwrap_or(u16::MAX).min(CELL_MOST)
}

/// Worker `number`'s socket of a link.
pub(crate) fn bind(config: &Config, link: &LinkConfig, number: u16) -> Result<UdpLink, String> {
    UdpLink::bind(&spec(config, link, number)).map(noted).map_err(|error| error.to_string())
}

/// Worker `number`'s socket of a link, which another process has bound.
pub(crate) fn adopt(
    config: &Config,
    link: &LinkConfig,
    number: u16,
    socket: OwnedFd,
) -> Result<UdpLink, LinkError> {
    UdpLink::adopt(socket, &spec(config, link, number)).map(noted)
}

fn spec(config: &Config, link: &LinkConfig, number: u16) -> UdpSpec {
    UdpSpec {
        nic: link.nic.clone(),
        local: link.local,
        port: config.port + number,
        gso: config.offload.gso,
        gro: config.offload.gro,
        receive_buffer: RECEIVE_BUFFER,
        send_buffer: RECEIVE_BUFFER,
        multicast: multicast(link).then_some(GROUP),
    }
}

/// The socket, when what it lacks has been logged.
fn noted(mut bound: UdpLink) -> UdpLink {
    while let Some(notice) = tabane_io::Link::take_notice(&mut bound) {
        tracing::warn!("{notice}");
    }
    bound
}

/// What worker `number`'s core has to know of a link.
pub(crate) fn port_settings(link: &LinkConfig, nic: &Nic, number: u16) -> PortSettings {
    let greet = |peer: &std::net::SocketAddr| std::net::SocketAddr::new(peer.ip(), peer.port() + number);
    PortSettings {
        cell_max: cell_max(nic, link),
        greet: link.peers.iter().map(greet).collect(),
        multicast: multicast(link),
        rate: link.rate,
        weight: link.weight,
    }
}

/// Whether peers are looked for by multicast: where none are named.
fn multicast(link: &LinkConfig) -> bool {
    link.peers.is_empty()
}
