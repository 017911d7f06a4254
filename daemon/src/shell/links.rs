//! The links of the running bundle: how they are added and removed, lose their NIC and get it back.
//!
//! The control socket's thread adds and removes links, the main thread follows the NICs. The workers only obey:
//! whatever can fail (a NIC that is not there, a port that is taken) is done for all workers before the first of them
//! gets its command, so that a failure changes nothing.

mod greeted;
mod plan;
mod set;

use std::sync::{Arc, Mutex};

use tabane_api::Entry;
use tabane_config::{Config, DataPath, EtherConfig, FixedConfig, LinkConfig, link_name};
use tabane_io::netlink::{self, Nic, NicEvent};
use tabane_io::{Engine, now_ns};
use tabane_process::locked;
use tabane_proto::wire::cell::LINKS;
use tabane_proto::{LinkSettings, NicReport};

use super::Refusal;
use crate::events::EventLog;
use crate::machine::medium::{self, Medium, mtu_least};
use crate::machine::sockets::{may_open_frames, of_worker};
use crate::machine::speeds::Speeds;
use crate::machine::{Machine, ThisMachine};
use crate::worker::Command;
use crate::worker::workers::Workers;
pub(crate) use greeted::Addresses;
use greeted::greeted;

/// The links, by number.
pub(crate) struct Links<M: Machine = ThisMachine> {
    machine: M,
    fixed: FixedConfig,
    /// Whether the process runs that resolves names of peers: the bundle was started with one.
    names_peers: bool,
    may_open_frames: bool,
    workers: Workers<M::Socket>,
    events: Arc<EventLog>,
    members: Mutex<Vec<Option<Member>>>,
    /// Known when a member's sockets are opened: locked after `members`.
    addresses: Mutex<Addresses>,
}

/// Most losses of a carrier that are told when the kernel tells of them together.
const LOSSES_TOLD: u32 = 3;

struct Member {
    link: LinkConfig,
    /// Index of its NIC; 0: there is none.
    nic: u32,
    /// The largest cell that the NIC takes, in bytes.
    cell_max: u16,
    /// How often the NIC had lost its carrier when it was looked at last.
    carrier_losses: u32,
    lost: bool,
    leaving: bool,
}

/// A link of the bundle, as it is now.
pub(crate) struct Present {
    pub(crate) number: u8,
    pub(crate) config: LinkConfig,
    /// Index of its NIC; 0: there is none.
    pub(crate) nic: u32,
    pub(crate) is_gone: bool,
    pub(crate) leaves: bool,
}

/// A link whose sockets are open, so that the workers need only take it in.
struct Opened<S> {
    link: LinkConfig,
    medium: Medium,
    shares: Vec<Share<S>>,
}

/// The socket and settings with which one worker adds a link.
struct Share<S> {
    socket: (String, S),
    settings: LinkSettings,
}

impl<M: Machine> Links<M> {
    /// The links that the bundle is started with, over these NICs or windows.
    pub(crate) fn new(
        machine: M,
        config: &Config,
        media: &[Medium],
        workers: Workers<M::Socket>,
        events: Arc<EventLog>,
    ) -> Self {
        let member = |(link, medium): (&LinkConfig, &Medium)| Some(Member::new(link.clone(), medium));
        let members = Mutex::new(config.links.iter().zip(media).map(member).collect());
        Self {
            machine,
            fixed: config.fixed.clone(),
            names_peers: config.names_peers(),
            may_open_frames: may_open_frames(config),
            workers,
            events,
            members,
            addresses: Mutex::default(),
        }
    }

    pub(crate) fn machine(&self) -> &M {
        &self.machine
    }

    /// Adds a link; returns its number.
    pub(crate) fn add(&self, link: LinkConfig) -> Result<u8, Refusal> {
        let mut members = locked(&self.members);
        let ports = self.fixed.ports();
        if members.iter().flatten().any(|member| member.link.collides(&link, ports)) {
            return Err(Refusal::Input(format!("link {} is in the bundle already", link.nic)));
        }
        if members.iter().flatten().count() == LINKS {
            return Err(Refusal::Input(format!("the bundle has {LINKS} links, as many as it can have")));
        }
        let opened = self.open_new(link)?;
        self.take_in(&mut members, opened)
    }

    fn open_new(&self, mut link: LinkConfig) -> Result<Opened<M::Socket>, Refusal> {
        if link.nic == self.fixed.name {
            return Err(Refusal::Input(format!("{} is the bundle's own device", link.nic)));
        }
        if link.ether.is_some() && !self.may_open_frames {
            let why =
                "the bundle was started without ether links, and has given up the packet sockets for them";
            return Err(Refusal::Input(format!("link ether:{}: {why}; start it with one", link.nic)));
        }
        if link.ether.is_some_and(|ether| ether.engine == Engine::Xdp) && self.fixed.access.sandbox {
            let why =
                "AF_XDP takes rights that the daemon has given up; allowed: engine=auto or engine=packet";
            return Err(Refusal::Input(format!("link ether:{}: {why}", link.nic)));
        }
        if self.fixed.data_path == DataPath::Kernel && self.fixed.needs_cells(&link) {
            let why = "with data_path kernel, each link of a sealed bundle has to be protected below; allowed: \
                 `protected`, where it is";
            return Err(Refusal::Input(format!("link {}: {why}", link_name(&link))));
        }
        self.check_names(&link)?;
        let medium = self.machine.medium(&link).map_err(Refusal::Input)?;
        let shares = self.open(&mut link, &medium).map_err(Refusal::Input)?;
        Ok(Opened { link, medium, shares })
    }

    /// Names are resolved by a process that is started with the bundle, or never.
    fn check_names(&self, link: &LinkConfig) -> Result<(), Refusal> {
        let Some(name) = link.names().next().filter(|_| !self.names_peers) else { return Ok(()) };
        let why = "the bundle was started without a name, and without the process that resolves names";
        Err(Refusal::Input(format!("peer {name}: {why}; allowed: an address, or start it with one")))
    }

    /// All workers take a link in; returns its number.
    fn take_in(&self, members: &mut Vec<Option<Member>>, opened: Opened<M::Socket>) -> Result<u8, Refusal> {
        let Opened { link, medium, shares } = opened;
        let add = |Share { socket, settings }, answer| Command::AddLink { socket, settings, answer };
        let numbers = self.workers.ask_each(shares, add);
        let number = numbers.iter().copied().flatten().next();
        let all = numbers.len() == self.workers.count() && numbers.iter().all(|other| *other == number);
        let Some(number) = number.filter(|_| all) else {
            if let Some(link) = number {
                self.workers.ask(|answer| Command::RemoveLink { link, answer });
            }
            return Err(Refusal::Failed(format!("not all workers took link {} in", link.nic)));
        };
        if members.len() <= usize::from(number) {
            members.resize_with(usize::from(number) + 1, || None);
        }
        let Medium { carrier, .. } = medium;
        // The worker itself watches the carrier of a window, and says when that is gone.
        if !carrier {
            self.workers.send(|| Command::Carrier { link: number, carrier });
        }
        self.record("link-added", number, &link.nic, "joined the bundle");
        members[usize::from(number)] = Some(Member::new(link, &medium));
        Ok(number)
    }

    /// Removes a link, and returns its number when its sockets are closed. `local` and `port` distinguish links over one NIC.
    pub(crate) fn remove(&self, wanted: &LinkConfig) -> Result<u8, Refusal> {
        let number = self.begin_leaving(wanted)?;
        self.let_go(number, &wanted.nic)?;
        Ok(number)
    }

    /// All workers let a link go that has begun to leave.
    fn let_go(&self, number: u8, nic: &str) -> Result<(), Refusal> {
        let gone = self.workers.ask_all(|answer| Command::RemoveLink { link: number, answer });
        // A worker that is too busy to answer in time still removes the link later.
        locked(&self.members)[usize::from(number)] = None;
        if gone.is_none() {
            return Err(Refusal::Failed(format!("not all workers have let link {nic} go yet")));
        }
        self.record("link-removed", number, nic, "left the bundle");
        Ok(())
    }

    fn begin_leaving(&self, wanted: &LinkConfig) -> Result<u8, Refusal> {
        let mut members = locked(&self.members);
        let staying = members.iter().flatten().filter(|member| !member.leaving).count();
        let (number, member) = find(&mut members, wanted)?;
        if staying == 1 {
            let (nic, name) = (&wanted.nic, &self.fixed.name);
            let why = format!("link {nic} is the last one; `tabane down {name}` ends the bundle");
            return Err(Refusal::Input(why));
        }
        member.leaving = true;
        Ok(number)
    }

    /// The links, in the order of their numbers.
    pub(crate) fn present(&self) -> Vec<Present> {
        let members = locked(&self.members);
        let present = |(number, member): (u8, &Member)| {
            let Member { link, nic, lost, leaving, .. } = member;
            Present { number, config: link.clone(), nic: *nic, is_gone: *lost, leaves: *leaving }
        };
        numbered(&members).map(present).collect()
    }

    pub(crate) fn follow(&self, event: &NicEvent) {
        let mut members = locked(&self.members);
        for (link, member) in numbered_mut(&mut members).filter(|(_, member)| member.has_nic()) {
            let nic = match event {
                NicEvent::Changed(nic) if nic.index == member.nic => Some(nic.clone()),
                NicEvent::Gone { index, .. } if *index == member.nic => None,
                NicEvent::Address { index, .. } if *index != member.nic => continue,
                // The NIC has another address: the workers greet the peers from it.
                NicEvent::Missed | NicEvent::Address { .. } => self.machine.nic_at(member.nic),
                _ => continue,
            };
            match nic {
                Some(nic) => self.follow_nic(link, member, &nic),
                None => {
                    member.lost = true;
                    self.record(
                        "nic-gone",
                        link,
                        &member.link.nic,
                        "is gone; the link waits for one of this name",
                    );
                    self.workers.send(|| Command::Carrier { link, carrier: false });
                }
            }
        }
    }

    fn follow_nic(&self, link: u8, member: &mut Member, nic: &Nic) {
        let Medium { carrier, cell_max, carrier_losses, .. } = Medium::of_nic(nic, &member.link);
        self.workers.send(|| Command::Carrier { link, carrier });
        // Linux tells of a carrier once in a second at most, and only how it is by then: of some losses nothing is left but the count.
        // Some news of radio NICs comes without it.
        let lost = carrier_losses.saturating_sub(member.carrier_losses);
        member.carrier_losses = member.carrier_losses.max(carrier_losses);
        for _ in 0..lost.min(LOSSES_TOLD) {
            self.record("carrier-lost", link, &member.link.nic, "has lost its carrier");
        }
        if nic.mtu != 0 && cell_max != member.cell_max {
            member.cell_max = cell_max;
            self.record("nic-mtu", link, &member.link.nic, &mtu_detail(nic, cell_max, &member.link));
            self.workers.send(|| Command::Resize { link, cell_max });
        }
    }

    /// Takes NICs back that were deleted and exist again. To be called after changes of NICs and at intervals: an
    /// address may come late.
    pub(crate) fn take_back(&self) {
        let mut members = locked(&self.members);
        let lost = numbered_mut(&mut members).filter(|(_, member)| !member.leaving && member.lost);
        for (link, member) in lost {
            let opened = self
                .machine
                .medium(&member.link)
                .and_then(|medium| Ok((self.open(&mut member.link, &medium)?, medium)));
            match opened {
                Ok((shares, medium)) => {
                    let replace = |Share { socket, settings }, answer| Command::Replace {
                        link,
                        socket,
                        settings,
                        answer,
                    };
                    if self.workers.ask_each(shares, replace).len() < self.workers.count() {
                        tracing::warn!(nic = member.link.nic, "not all workers took the NIC back");
                    }
                    *member = Member::new(member.link.clone(), &medium);
                    self.workers.send(|| Command::Carrier { link, carrier: medium.carrier });
                    self.record("nic-back", link, &member.link.nic, "is back");
                }
                Err(reason) => tracing::debug!("{reason}"),
            }
        }
    }

    fn open(&self, link: &mut LinkConfig, medium: &Medium) -> Result<Vec<Share<M::Socket>>, String> {
        let wanted = link.ether;
        if self.fixed.access.sandbox && wanted.is_some_and(|ether| ether.engine != Engine::Packet) {
            tracing::info!(
                nic = link.nic,
                "AF_PACKET moves the cells: AF_XDP takes rights that the daemon has given up"
            );
            link.ether = Some(EtherConfig { engine: Engine::Packet, ..EtherConfig::default() });
        }
        let addresses = locked(&self.addresses);
        let open = |number| {
            let socket = (link.nic.clone(), self.machine.open(&self.fixed, link, number)?);
            Ok(Share { socket, settings: link_settings(link, medium, number, &addresses) })
        };
        let shares = (0..self.fixed.workers).map(open).collect();
        link.ether = wanted;
        shares
    }

    fn record(&self, what: &str, link: u8, nic: &str, happened: &str) {
        let (what, nic, detail) = (what.to_owned(), Some(nic.to_owned()), format!("{nic} {happened}"));
        self.events.keep(now_ns(), Entry { what, link: Some(link.into()), nic, detail, ..Entry::default() });
    }
}

impl Links {
    /// Tells the workers how fast the links' NICs are, and what they have carried.
    pub(crate) fn report_nics(&self, speeds: &Speeds) {
        let members = locked(&self.members);
        let nics: Vec<_> = numbered(&members).filter(|(_, member)| member.has_nic()).collect();
        let speeds = speeds.of(nics.iter().map(|(_, member)| member.link.nic.clone()).collect());
        let report = |((link, member), speed): (&(u8, &Member), Option<u64>)| {
            let counted = netlink::nic_statistics(member.nic).ok()?;
            Some((*link, NicReport { speed, sent: counted.tx_bytes, received: counted.rx_bytes }))
        };
        let reports: Arc<[_]> = nics.iter().zip(speeds).filter_map(report).collect();
        self.workers.send(|| Command::Nics(Arc::clone(&reports)));
    }
}

impl Member {
    fn new(link: LinkConfig, medium: &Medium) -> Self {
        let Medium { index: nic, cell_max, carrier_losses, .. } = *medium;
        Self { link, nic, cell_max, carrier_losses, lost: false, leaving: false }
    }

    /// Whether it stays and runs over a NIC that is there.
    fn has_nic(&self) -> bool {
        self.link.window.is_none() && !self.leaving && !self.lost
    }
}

fn numbered(members: &[Option<Member>]) -> impl Iterator<Item = (u8, &Member)> {
    (0..).zip(members).filter_map(|(number, member)| Some((number, member.as_ref()?)))
}

fn numbered_mut(members: &mut [Option<Member>]) -> impl Iterator<Item = (u8, &mut Member)> {
    (0..).zip(members).filter_map(|(number, member)| Some((number, member.as_mut()?)))
}

/// The member that is meant, and its number; one that is on its way out is not.
fn find<'m>(members: &'m mut [Option<Member>], wanted: &LinkConfig) -> Result<(u8, &'m mut Member), Refusal> {
    let nic = &wanted.nic;
    let names: Vec<_> = members.iter().flatten().map(|member| member.link.nic.clone()).collect();
    let is_exact = members.iter().flatten().any(|member| member.link.is_same(wanted));
    let is_meant = |member: &Member| {
        let at = wanted.local.is_none_or(|local| member.link.local == Some(local))
            && wanted.port.is_none_or(|port| member.link.port == Some(port));
        let is_named = if is_exact { member.link.is_same(wanted) } else { member.link.nic == *nic && at };
        is_named && (member.link.ether.is_some() || wanted.ether.is_none())
    };
    let mut meant = numbered_mut(members).filter(|(_, member)| is_meant(member));
    Err(Refusal::Input(match (meant.next(), meant.next()) {
        (Some((number, member)), None) if !member.leaving => return Ok((number, member)),
        (Some(_), None) => format!("link {nic} is on its way out already"),
        (Some(_), Some(_)) => {
            format!("there are several links over {nic}; say which: {nic},local=ADDRESS or {nic},port=N")
        }
        (None, _) => format!("link {nic} is not in the bundle; there are: {}", names.join(", ")),
    }))
}

/// The detail of the event `nic-mtu`.
fn mtu_detail(nic: &Nic, cell_max: u16, link: &LinkConfig) -> String {
    let mtu = nic.mtu;
    if cell_max > 0 {
        return format!("has an MTU of {mtu} bytes now");
    }
    let least = mtu_least(link);
    format!("has an MTU of {mtu} bytes now, too small for cells; the link is not used until it has {least}")
}

/// The settings of a link for worker `number`'s core.
pub(crate) fn link_settings(
    link: &LinkConfig,
    medium: &Medium,
    number: u16,
    addresses: &Addresses,
) -> LinkSettings {
    LinkSettings {
        cell_max: medium.cell_max,
        headers: u16::try_from(medium::headers(link)).unwrap_or_default(),
        greet: of_worker(greeted(link, addresses), number),
        multicast: link.uses_multicast(),
        rate: link.rate.up,
        receives: link.rate.down,
        weight: link.weight,
        drained: link.drained,
        kernel: None,
    }
}

#[cfg(test)]
mod tests;
