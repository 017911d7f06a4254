//! A machine that is simulated, and workers that are a core each: what the shell acts upon in tests.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_config::{Cidr, Config, FixedConfig, LinkConfig};
use tabane_io::Waker;
use tabane_io::netlink::{Nic, NicEvent};
use tabane_process::locked;
use tabane_proto::{Bundle, Class, Instant, NodeId, Outcome, PolicyOptions, Settings};

use crate::machine::Machine;
use crate::machine::medium::Medium;
use crate::shell::links::{Addresses, link_settings};
use crate::worker::Command;
use crate::worker::group::{Protection, Trust};
use crate::worker::workers::Workers;

/// An address that the simulated machine refuses to its device.
pub(crate) const REFUSED: &str = "10.9.255.255/24";
/// A link that was removed is gone by then.
const GONE_WITHIN: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

/// The NICs, the sockets that are open, and the time.
#[derive(Clone, Default)]
pub(crate) struct Simulated(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    nics: BTreeMap<String, Nic>,
    made: u32,
    open: Vec<(u32, u16)>,
    passed: Duration,
}

/// An open socket: the index of its NIC and its port.
pub(crate) struct Socket {
    machine: Simulated,
    place: (u32, u16),
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut world = locked(&self.machine.0);
        let found = world.open.iter().position(|place| *place == self.place);
        world.open.swap_remove(found.expect("it is open"));
    }
}

impl Simulated {
    /// Another NIC comes, in place of one of this name if there is one.
    pub(crate) fn plug(&self, name: &str, mtu: u32) -> Nic {
        let mut world = locked(&self.0);
        world.made += 1;
        let nic = Nic {
            name: name.to_owned(),
            index: world.made,
            mtu,
            admin_up: true,
            carrier: true,
            operational: true,
            mac: Some([2, 0, 0, 0, 0, 1]),
            ..Nic::default()
        };
        world.nics.insert(name.to_owned(), nic.clone());
        nic
    }

    pub(crate) fn pull(&self, name: &str) -> NicEvent {
        let nic = locked(&self.0).nics.remove(name).expect("it is there");
        NicEvent::Gone { index: nic.index, name: nic.name }
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Nic)) -> NicEvent {
        let mut world = locked(&self.0);
        let nic = world.nics.get_mut(name).expect("it is there");
        change(nic);
        NicEvent::Changed(nic.clone())
    }

    /// The sockets that are open, by the names of their NICs; those over NICs that are gone are left out.
    pub(crate) fn open_sockets(&self) -> Vec<(String, u16)> {
        let world = locked(&self.0);
        let name = |index| world.nics.values().find(|nic| nic.index == index).map(|nic| nic.name.clone());
        let mut open: Vec<_> =
            world.open.iter().filter_map(|(index, port)| Some((name(*index)?, *port))).collect();
        open.sort();
        open
    }

    pub(crate) fn nic(&self, name: &str) -> Option<Nic> {
        locked(&self.0).nics.get(name).cloned()
    }

    pub(crate) fn open_count(&self) -> usize {
        locked(&self.0).open.len()
    }
}

impl Machine for Simulated {
    type Socket = Socket;

    fn medium(&self, link: &LinkConfig) -> Result<Medium, String> {
        let nic = self.nic(&link.nic).ok_or_else(|| format!("link {}: no such NIC", link.nic))?;
        let medium = Medium::of_nic(&nic, link);
        if medium.cell_max == 0 { Err(format!("link {}: too small", link.nic)) } else { Ok(medium) }
    }

    fn nic_at(&self, index: u32) -> Option<Nic> {
        locked(&self.0).nics.values().find(|nic| nic.index == index).cloned()
    }

    fn open(&self, config: &FixedConfig, link: &mut LinkConfig, worker: u16) -> Result<Socket, String> {
        let nic = self.nic(&link.nic).ok_or("no such NIC")?;
        let place = (nic.index, link.first_port(config.ports()) + worker);
        let mut world = locked(&self.0);
        if world.open.contains(&place) {
            return Err(format!("link {}: port {} is taken", link.nic, place.1));
        }
        world.open.push(place);
        Ok(Socket { machine: self.clone(), place })
    }

    fn set_addresses(&self, _old: &[Cidr], new: &[Cidr]) -> Result<(), String> {
        let refused = new.iter().find(|address| address.to_string() == REFUSED);
        refused.map_or(Ok(()), |address| Err(format!("address {address}: refused")))
    }

    fn now(&self) -> std::time::Instant {
        // The simulated time is a part of the past that is long enough.
        static BEGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        *BEGIN.get_or_init(std::time::Instant::now) + locked(&self.0).passed
    }

    fn pause(&self, time: Duration) {
        locked(&self.0).passed += time;
    }
}

/// A worker without a device: a core, the sockets of its links, and what it was told last.
pub(crate) struct Core {
    pub(crate) bundle: Bundle,
    pub(crate) sockets: BTreeMap<u8, Socket>,
    pub(crate) told: (PolicyOptions, Vec<Class>),
    pub(crate) trust: Trust,
    pub(crate) receive: tabane_engine::receive::Settings,
    protection: Protection,
    number: u16,
    now: Instant,
}

impl Core {
    /// Worker `number` of a bundle with `config` over these sockets.
    pub(crate) fn new(config: &Config, media: &[Medium], number: u16, sockets: Vec<Socket>) -> Core {
        let settings = |(link, medium)| link_settings(link, medium, number, &Addresses::new());
        let links = config.links.iter().zip(media).map(settings).collect();
        let settings = Settings {
            policy: config.live.policy,
            policy_options: config.live.policy_options,
            classes: config.live.classes.clone(),
            slots: 256,
            buffers: 1,
            ..Settings::new(NodeId::new([2, 0, 0, 0, 0, 1], config.port), 1, links)
        };
        let mut core = Core {
            bundle: Bundle::new(Instant::default(), settings),
            sockets: (0..).zip(sockets).collect(),
            told: (config.live.policy_options, config.live.classes.clone()),
            trust: Trust::of(&config.live),
            receive: config.live.receive,
            protection: Protection::of(config),
            number,
            now: Instant::default(),
        };
        core.protection.apply(&mut core.bundle, &core.trust);
        core
    }

    fn obey(&mut self, command: Command<Socket>) {
        if let Command::Classes { options, classes, .. } = &command {
            self.told = (*options, classes.to_vec());
        }
        let Some(command) = command.tell_core(&mut self.bundle, self.now, self.number) else { return };
        match command {
            Command::AddLink { socket: (_, socket), settings, answer } => {
                let number = self.bundle.add_link(self.now, settings);
                self.sockets.extend(number.map(|number| (number, socket)));
                let _ = answer.send(number);
            }
            Command::Replace { link, socket: (_, socket), settings, answer } => {
                self.bundle.replace_link(self.now, link, settings);
                self.sockets.insert(link, socket);
                let _ = answer.send(());
            }
            Command::RemoveLink { link, answer } => {
                self.bundle.remove_link(self.now, link);
                self.pass_until_gone(link);
                self.sockets.remove(&link);
                let _ = answer.send(());
            }
            Command::Receive { settings, answer } => {
                let old = std::mem::replace(&mut self.receive, settings);
                let _ = answer.send(old.method);
            }
            Command::Trust { trust, answer } => {
                self.protection.apply(&mut self.bundle, &trust);
                self.trust = trust;
                let _ = answer.send(());
            }
            Command::Answer(answer) => drop(answer.send(())),
            _ => panic!("the shell asks for what these tests have no use for"),
        }
    }

    fn pass_until_gone(&mut self, link: u8) {
        let end = self.now + GONE_WITHIN;
        while self.bundle.has_link(link) {
            assert!(self.now < end, "link {link} does not leave");
            self.now = self.now + STEP;
            self.bundle.handle_timeout(self.now);
            while self.bundle.poll_control(self.now).is_some() {
                self.bundle.handle_control_sent(Outcome::Sent);
            }
        }
    }
}

/// Starts a thread for each of `cores`; it ends when nobody can tell it anything any more.
pub(crate) fn start(cores: &[Arc<Mutex<Core>>]) -> Workers<Socket> {
    let start = |core: &Arc<Mutex<Core>>| {
        let (commands, receiver): (_, Receiver<Command<Socket>>) = channel();
        let core = Arc::clone(core);
        std::thread::spawn(move || {
            for command in receiver {
                locked(&core).obey(command);
            }
        });
        (commands, Arc::new(Waker::new().expect("an eventfd")))
    };
    Workers::new(cores.iter().map(start))
}
