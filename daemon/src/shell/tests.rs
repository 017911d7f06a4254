//! The shell follows its model: any steps, over a simulated machine, without waiting; a failure is shrunk to the fewest steps.

mod model;
pub(crate) mod simulated;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use proptest_state_machine::{StateMachineTest, prop_state_machine};
use tabane_api::{Answer, InForce, Origin, Told};
use tabane_config::key::public;
use tabane_config::{Config, Mtu, file, resolve};
use tabane_io::netlink::NicEvent;
use tabane_process::locked;

use super::in_force::{Filed, without_files};
use super::*;
use crate::machine::medium::Medium;
use model::{Flaw, Model, Name, Said, Step, host, nic, text};
use simulated::{Core, Simulated, start};
use tabane::edited;

const FILE: &str = "/tb0.toml";

/// A bundle over a simulated machine, and its file.
struct Bundle {
    machine: Simulated,
    shell: Shell<Simulated>,
    cores: Vec<Arc<Mutex<Core>>>,
    text: String,
}

fn toml(said: &Said, flaw: Flaw, workers: u16) -> String {
    format!("workers = {workers}\n") + &said.toml(flaw, |node| public(&Key([node; 32]).public()))
}

/// Reads a file, in which a key's path is its number.
fn read(text: &str) -> Result<Config, String> {
    let problem = |problems: Vec<_>| problems.iter().map(ToString::to_string).collect::<String>();
    let settings = file::parse(FILE, text).map_err(problem)?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
    resolve::resolve(&settings, |path, _| Ok(Key([number(path).expect("a number"); 32]))).map_err(problem)
}

/// The same with links and lists in an order that does not count.
fn in_order(mut config: Config) -> Config {
    let primary = config.live.policy_options.primary.map(|place| config.links[usize::from(place)].clone());
    config.links.sort_by_key(|link| (link.nic.clone(), link.port));
    let place = primary.and_then(|primary| config.links.iter().position(|link| *link == primary));
    config.live.policy_options.primary = place.and_then(|place| u8::try_from(place).ok());
    config.live.accept_keys.sort_by_key(|(_, key)| key.hex().to_string());
    config.live.allow.iter_mut().for_each(|allow| allow.sort_by_key(public));
    config.live.addresses.sort_by_key(ToString::to_string);
    config
}

impl Bundle {
    fn begin(
        machine: Simulated,
        config: &Config,
        filed: Filed,
        media: &[Medium],
        cores: Vec<Core>,
    ) -> Bundle {
        let cores: Vec<_> = cores.into_iter().map(|core| Arc::new(Mutex::new(core))).collect();
        let workers = start(&cores);
        let events = Arc::new(EventLog::new().expect("an eventfd"));
        let links = Links::new(machine.clone(), config, media, workers.clone(), Arc::clone(&events));
        let links = Arc::new(links);
        let in_force = in_force::InForce::new(config, filed, Arc::clone(&links));
        Bundle { machine, shell: Shell { in_force, workers, links, events }, cores, text: String::new() }
    }

    fn core(&self, number: usize) -> MutexGuard<'_, Core> {
        locked(&self.cores[number])
    }

    fn upgrade(self) -> (Bundle, Result<(), String>) {
        let (config, nics) = match self.shell.in_force.whole() {
            Ok(whole) => whole,
            Err(refusal) => return (self, Err(words(refusal))),
        };
        let config = Told::of(&config).understood().expect("it is understood");
        let filed = self.shell.in_force.filed();
        let filed =
            Filed { config: Told::of(&filed.config).understood().expect("it is understood"), ..filed };
        let medium = |(link, index): (&LinkConfig, &u32)| {
            let nic = self.machine.nic(&link.nic).filter(|nic| nic.index == *index);
            Medium::of_nic(&nic.expect("it is the one of before"), link)
        };
        let media: Vec<_> = config.links.iter().zip(&nics).map(medium).collect();
        let sockets = |number| std::mem::take(&mut self.core(number).sockets).into_values().collect();
        let core = |number: u16| Core::new(&config, &media, number, sockets(usize::from(number)));
        let cores = (0..config.workers).map(core).collect();
        let next = Bundle::begin(self.machine.clone(), &config, filed, &media, cores);
        next.tell_carriers(&media);
        (Bundle { text: self.text, ..next }, Ok(()))
    }

    fn tell_carriers(&self, media: &[Medium]) {
        for (link, medium) in (0..).zip(media) {
            let carrier = medium.carrier;
            self.shell.workers.send(|| Command::Carrier { link, carrier });
        }
    }

    fn ask(&self, request: &Request) -> Result<(), String> {
        self.shell.answer(request).map(drop).map_err(words)
    }

    fn follow(&self, event: &NicEvent) -> Result<(), String> {
        self.shell.links.follow(event);
        self.shell.links.take_back();
        Ok(())
    }

    /// As `tabane reload` does.
    fn reload(&mut self, said: &Said, flaw: Flaw, workers: u16) -> Result<(), String> {
        let text = toml(said, flaw, workers);
        let told = Told::of(&read(&text)?);
        self.ask(&Request::Reload { told, file: PathBuf::from(FILE) })?;
        self.text = text;
        Ok(())
    }

    /// As `tabane save` does.
    fn save(&mut self) -> Result<(), String> {
        let answer = self.shell.answer(&Request::Configuration).map_err(words)?;
        let Answer::Configuration(now) = answer else { panic!("another answer: {answer:?}") };
        let InForce { told, groups, .. } = *now;
        let (file, before) = (PathBuf::from(FILE), read(&self.text)?);
        let in_force = told.understood()?;
        let keys = self.shell.in_force.config().live.keys();
        let files: Vec<_> = keys.iter().map(|Key(bytes)| PathBuf::from(format!("/{}", bytes[0]))).collect();
        let edited = edited((&file, &self.text), &before, &in_force, (&groups, &files));
        let (text, _) = edited.map_err(|error| error.to_string())?;
        let told = Told::of(&read(&text)?);
        self.ask(&Request::Filed { told, file })?;
        self.text = text;
        Ok(())
    }

    fn step(mut self, step: Step, workers: u16) -> (Bundle, Result<(), String>) {
        let hex = |key: &u8| Key([*key; 32]).hex().to_string();
        let node = |node: &u8| public(&Key([*node; 32]).public());
        let peer = |name: Name, peer| (text(name), host(peer));
        let request = match step {
            Step::Policy(policy) => Request::Policy { policy: policy.to_owned() },
            Step::Engine(engine) => Request::Receive { engine: engine.to_owned() },
            Step::Add(link) => Request::LinkAdd { link: link.text() },
            Step::Remove(name) => Request::LinkRemove { link: text(name) },
            Step::Drain(name) => Request::LinkDrain { link: text(name) },
            Step::Resume(name) => Request::LinkResume { link: text(name) },
            Step::Set(name, rate, weight) => {
                let rate =
                    rate.map(|rate| rate.map_or("measured".to_owned(), |rate| format!("{rate} Mbit/s")));
                let weight =
                    weight.map(|weight| weight.map_or("none".to_owned(), |weight| weight.to_string()));
                let part = |key, value: Option<String>| value.map(|value| format!(",{key}={value}"));
                let parts = [part("rate", rate), part("weight", weight)].into_iter().flatten();
                Request::LinkSet { link: text(name) + &parts.collect::<String>() }
            }
            Step::AddPeer(name, other) => {
                let (link, peer) = peer(name, other);
                Request::PeerAdd { link, peer }
            }
            Step::RemovePeer(name, other) => {
                let (link, peer) = peer(name, other);
                Request::PeerRemove { link, peer }
            }
            Step::Keys(keys) => Request::Keys { keys: keys.iter().map(hex).collect() },
            Step::Allow(allow) => {
                Request::Allow { allow: allow.map(|allow| allow.iter().map(node).collect()) }
            }
            Step::AddClass(port) => Request::ClassAdd {
                class: format!("protocol=udp,port={port},policy=duplicate"),
                before: None,
            },
            Step::RemoveClass(number) => Request::ClassRemove { number },
            Step::Upgrade => return self.upgrade(),
            Step::Reload(said, flaw) => {
                let done = self.reload(&said, flaw, workers);
                return (self, done);
            }
            Step::Save => {
                let done = self.save();
                return (self, done);
            }
            of_a_nic => {
                let done = self.follow(&self.event(of_a_nic));
                return (self, done);
            }
        };
        let done = self.ask(&request);
        (self, done)
    }

    /// What the kernel tells of a change of a NIC, which is made.
    fn event(&self, step: Step) -> NicEvent {
        match step {
            Step::Pull(number) => self.machine.pull(&nic(number)),
            Step::Plug(number, mtu) => match self.machine.nic(&nic(number)) {
                Some(_) => {
                    self.machine.plug(&nic(number), mtu);
                    NicEvent::Missed
                }
                None => NicEvent::Changed(self.machine.plug(&nic(number), mtu)),
            },
            Step::Carrier(number, carrier) => self.machine.change(&nic(number), |nic| nic.carrier = carrier),
            Step::Mtu(number, mtu) => self.machine.change(&nic(number), |nic| nic.mtu = mtu),
            other => panic!("{other:?} is of no NIC"),
        }
    }

    /// Each worker does what is in force, over sockets of its own and no other.
    fn check_workers(&self, model: &Model, config: &Config) {
        self.shell.workers.ask(Command::Answer);
        let present = self.shell.links.present();
        let waits = |name: &Name| model.lost.contains(name);
        let open = model.in_force.links.iter().map(|link| link.name).filter(|name| !waits(name));
        let ports = |(over, port): Name| {
            (0..model.workers).map(move |worker| (nic(over), port.unwrap_or(7_420) + worker))
        };
        let mut open: Vec<_> = open.flat_map(ports).collect();
        open.sort();
        assert_eq!(self.machine.open_sockets(), open, "sockets");
        let held = present.len() * usize::from(model.workers);
        assert_eq!(
            self.machine.open_count(),
            held,
            "each link has a socket, and one without its NIC the old one"
        );
        let primary = config.live.policy_options.primary.map(|place| present[usize::from(place)].number);
        for number in 0..self.cores.len() {
            let core = self.core(number);
            let links = core.bundle.links().filter(|link| core.bundle.has_link(link.link));
            let links: Vec<_> = links.map(|link| (link.link, link.stated, link.drained)).collect();
            let wanted = present.iter().map(|link| (link.number, link.config.rate.up, link.config.drained));
            assert_eq!(links, wanted.collect::<Vec<_>>(), "links of worker {number}");
            assert_eq!(core.bundle.policy(), config.live.policy);
            assert_eq!(core.receive, config.live.receive);
            assert_eq!(core.told.0.primary, primary, "primary of worker {number}");
            assert_eq!(core.told.1, config.live.classes, "classes of worker {number}");
            assert_eq!(core.trust.keys, config.live.keys());
            assert_eq!(core.trust.allow, config.live.allow);
        }
    }
}

fn words(refusal: Refusal) -> String {
    match refusal {
        Refusal::Input(why) => why,
        Refusal::Failed(why) => panic!("it has failed: {why}"),
    }
}

impl StateMachineTest for Bundle {
    type SystemUnderTest = Bundle;
    type Reference = Model;

    fn init_test(model: &Model) -> Bundle {
        let machine = Simulated::default();
        (0..3).for_each(|number| drop(machine.plug(&nic(number), 1_500)));
        let text = toml(&model.file, Flaw::None, model.workers);
        let config = read(&text).expect("a file");
        let media = config.links.iter().map(|link| machine.medium(link));
        let media: Vec<Medium> = media.collect::<Result<_, _>>().expect("they are usable");
        let open =
            |link: &LinkConfig, number| machine.open(&config, &mut link.clone(), number).expect("a socket");
        let sockets = |number| config.links.iter().map(|link| open(link, number)).collect();
        let cores = (0..config.workers).map(|number| Core::new(&config, &media, number, sockets(number)));
        let cores = cores.collect();
        let filed = Filed { config: config.clone(), origin: Origin::of_file(PathBuf::from(FILE)) };
        Bundle { text, ..Bundle::begin(machine, &config, filed, &media, cores) }
    }

    fn apply(bundle: Bundle, model: &Model, step: Step) -> Bundle {
        let (bundle, done) = bundle.step(step, model.workers);
        match (&done, model.is_refused) {
            (Ok(()), true) => panic!("it is done, although it should be refused"),
            (Err(why), false) => panic!("it is refused: {why}"),
            _ => bundle,
        }
    }

    fn check_invariants(bundle: &Bundle, model: &Model) {
        let config = bundle.shell.in_force.config();
        // In force may be what a file cannot say.
        let text = toml(&model.in_force, Flaw::None, model.workers);
        let settings = file::parse(FILE, &text).expect("well formed");
        let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let wanted =
            resolve::resolve_in_force(&settings, |path, _| Ok(Key([number(path).expect("one"); 32])));
        let wanted = without_files(&wanted.expect("a configuration"));
        assert_eq!(in_order(without_files(&config)), in_order(wanted), "in force");
        assert_eq!(config.mtu, Mtu::Auto);
        let by_hand = bundle.shell.in_force.changed_by_hand();
        let is_as_filed = model.in_force.clone().in_order() == model.file.clone().in_order();
        assert_eq!(by_hand.is_empty(), is_as_filed, "changed by hand: {by_hand:?}");
        let told = Told::of(&config).understood();
        assert_eq!(told.expect("another process understands it"), without_files(&config));
        let lost: Vec<_> = bundle.shell.links.present().into_iter().filter(|link| link.is_gone).collect();
        assert_eq!(lost.len(), model.lost.len(), "links that wait for their NIC");
        bundle.check_workers(model, &config);
    }
}

prop_state_machine! {
    #[test]
    fn a_bundle_is_as_its_model_after_any_steps(sequential 1..24 => Bundle);
}

#[test]
fn policies_are_found_by_name() {
    let policy = |name| named("policy", name, &PolicyKind::ALL, PolicyKind::name);
    for kind in PolicyKind::ALL {
        assert!(matches!(policy(kind.name()), Ok(found) if found == kind));
    }
    let Err(Refusal::Input(why)) = policy("adaptve") else { panic!("found") };
    let names = PolicyKind::ALL.map(PolicyKind::name).join(", ");
    assert_eq!(why, format!("policy `adaptve` is unknown (did you mean `adaptive`?); allowed: {names}"));
}
