//! What a bundle should do: a model in plain words, the steps that may come, and what each of them makes of it.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest_state_machine::ReferenceStateMachine;

use super::simulated::REFUSED;

const NICS: usize = 3;
/// MTUs of NICs: usual, larger, and too small for any cell.
const MTUS: [u32; 3] = [1_500, 9_000, 400];
const MTU_LEAST: u32 = 1_280;
const POLICIES: [&str; 4] = ["adaptive", "rr", "active-backup", "weighted"];
const ENGINES: [&str; 2] = ["adaptive", "interrupt"];
const UNKNOWN: &str = "unknown";

/// A link by its NIC and, where it has one of its own, its port.
pub(crate) type Name = (usize, Option<u16>);

/// A link as the user states it. Its peers are hosts of 198.51.100.0/24; without, it looks for them by multicast.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: Name,
    rate: Option<u32>,
    weight: Option<u32>,
    pub(crate) drained: bool,
    peers: Vec<u8>,
}

/// What a file says, or what is in force. Keys, nodes and addresses are numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) policy: &'static str,
    engine: &'static str,
    primary: Option<Name>,
    keys: Vec<u8>,
    allow: Option<Vec<u8>>,
    addresses: Vec<u8>,
    classes: Vec<u16>,
    pub(crate) links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Nic {
    is_there: bool,
    carrier: bool,
    mtu: u32,
}

/// A bundle, its file and its machine.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) workers: u16,
    pub(crate) in_force: Said,
    pub(crate) file: Said,
    nics: [Nic; NICS],
    /// Links that wait for their NIC.
    pub(crate) lost: BTreeSet<Name>,
    /// Whether the last step was refused.
    pub(crate) is_refused: bool,
}

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Policy(&'static str),
    Engine(&'static str),
    Add(Link),
    Remove(Name),
    Drain(Name),
    Resume(Name),
    /// A rate and a weight, as far as they are to change; within, `None` takes them away.
    Set(Name, Option<Option<u32>>, Option<Option<u32>>),
    AddPeer(Name, u8),
    RemovePeer(Name, u8),
    Keys(Vec<u8>),
    Allow(Option<Vec<u8>>),
    AddClass(u16),
    RemoveClass(usize),
    /// The user writes another file, and it is read.
    Reload(Said, Flaw),
    Save,
    Upgrade,
    Pull(usize),
    /// A NIC comes, with this MTU. The kernel may fail to tell that another one went.
    Plug(usize, u32),
    Carrier(usize, bool),
    Mtu(usize, u32),
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Flaw {
    None,
    /// It has something that cannot change while the bundle runs.
    Fixed,
    /// The device cannot have an address.
    Address,
    /// It does not hold to the rules.
    Wrong,
}

pub(crate) fn nic(number: usize) -> String {
    format!("eth{number}")
}

pub(crate) fn text(name: Name) -> String {
    let port = name.1.map(|port| format!(",port={port}")).unwrap_or_default();
    nic(name.0) + &port
}

pub(crate) fn host(number: u8) -> String {
    format!("198.51.100.{number}:7420")
}

impl Link {
    /// As after `--link`.
    pub(crate) fn text(&self) -> String {
        let mut text = text(self.name);
        let rate = self.rate.map(|rate| format!(",rate={rate} Mbit/s"));
        let weight = self.weight.map(|weight| format!(",weight={weight}"));
        text.extend(rate.into_iter().chain(weight));
        text.extend(self.peers.iter().map(|peer| format!(",peer={}", host(*peer))));
        text
    }

    fn write(&self, file: &mut String) -> std::fmt::Result {
        writeln!(file, "[[link]]  # the user's words\nnic = '{}'", nic(self.name.0))?;
        self.name.1.map_or(Ok(()), |port| writeln!(file, "port = {port}"))?;
        self.rate.map_or(Ok(()), |rate| writeln!(file, "rate = '{rate} Mbit/s'"))?;
        self.weight.map_or(Ok(()), |weight| writeln!(file, "weight = {weight}"))?;
        let peers: Vec<String> = self.peers.iter().copied().map(host).collect();
        writeln!(file, "drained = {}\npeers = {peers:?}", self.drained)
    }
}

impl Said {
    /// As a file; `node` is the public key of a node.
    pub(crate) fn toml(&self, flaw: Flaw, node: impl Fn(u8) -> String) -> String {
        let mut file = String::new();
        self.write(&mut file, flaw, node).expect("a string takes all");
        file
    }

    fn write(&self, file: &mut String, flaw: Flaw, node: impl Fn(u8) -> String) -> std::fmt::Result {
        let paths: Vec<String> = self.keys.iter().map(|key| format!("/{key}")).collect();
        writeln!(file, "name = 'tb0'\nkey = {:?}\naccept_keys = {:?}", paths[0], &paths[1..])?;
        if let Some(allow) = &self.allow {
            writeln!(file, "allow = {:?}", allow.iter().copied().map(node).collect::<Vec<_>>())?;
        }
        writeln!(file, "policy = '{}'\nreceive = '{}'", self.policy, self.engine)?;
        self.primary.map_or(Ok(()), |name| writeln!(file, "primary = '{}'", text(name)))?;
        let mut addresses: Vec<_> = self.addresses.iter().map(|host| format!("10.9.0.{host}/24")).collect();
        match flaw {
            Flaw::None => {}
            Flaw::Fixed => writeln!(file, "mtu = 3000")?,
            Flaw::Address => addresses.push(REFUSED.to_owned()),
            Flaw::Wrong => writeln!(file, "polcy = 'rr'")?,
        }
        writeln!(file, "address = {addresses:?}")?;
        self.links.iter().try_for_each(|link| link.write(file))?;
        self.classes.iter().try_for_each(|port| {
            writeln!(file, "[[class]]\nmatch = {{ protocol = 'udp', port = {port} }}\npolicy = 'duplicate'")
        })
    }

    /// The link that a name means: the one of exactly this name, else the only one over the NIC.
    fn find(&self, name: Name) -> Option<usize> {
        let exact = self.links.iter().position(|link| link.name == name);
        let mut over = (0..).zip(&self.links).filter(|(_, link)| link.name.0 == name.0 && name.1.is_none());
        exact.or_else(|| match (over.next(), over.next()) {
            (Some((only, _)), None) => Some(only),
            _ => None,
        })
    }

    fn is_valid(&self) -> bool {
        let weights = self.links.iter().filter(|link| link.weight.is_some()).count();
        (weights == 0 || weights == self.links.len()) && !self.links.iter().all(|link| link.drained)
    }

    /// The same with links and keys in an order that does not count.
    pub(crate) fn in_order(mut self) -> Said {
        self.links.sort_by_key(|link| link.name);
        self.keys[1..].sort_unstable();
        self.allow.iter_mut().for_each(|allow| allow.sort_unstable());
        self.addresses.sort_unstable();
        self
    }
}

impl Model {
    fn is_usable(&self, nic: usize) -> bool {
        self.nics[nic].is_there && self.nics[nic].mtu >= MTU_LEAST
    }

    fn serves(&self, link: &Link) -> bool {
        let is_dark = self.lost.contains(&link.name) || !self.nics[link.name.0].carrier;
        !is_dark && self.is_usable(link.name.0) && !link.drained
    }

    /// NICs as they are now: links wait for theirs, or have it again.
    fn follow(&mut self, nic: usize, went: bool) {
        let over: Vec<Name> =
            self.in_force.links.iter().map(|link| link.name).filter(|name| name.0 == nic).collect();
        if went {
            self.lost.extend(&over);
        }
        if self.is_usable(nic) {
            self.lost.retain(|name| name.0 != nic);
        }
    }

    /// Does a step; `None`: it is refused, and what has changed until then is void.
    fn step(&mut self, step: &Step) -> Option<()> {
        let said = &mut self.in_force;
        match step {
            Step::Policy(policy) => said.policy = Some(policy).filter(|policy| **policy != UNKNOWN)?,
            Step::Engine(engine) => said.engine = Some(engine).filter(|engine| **engine != UNKNOWN)?,
            Step::Keys(keys) => said.keys.clone_from(keys),
            Step::Allow(allow) => said.allow.clone_from(allow),
            Step::AddClass(port) => {
                (!said.classes.contains(port)).then(|| said.classes.push(*port))?;
            }
            Step::RemoveClass(number) => {
                let place = number.checked_sub(1).filter(|place| *place < said.classes.len())?;
                said.classes.remove(place);
            }
            Step::Reload(wanted, flaw) => self.reload(wanted, *flaw)?,
            Step::Save => {
                said.is_valid().then_some(())?;
                self.file = self.in_force.clone();
            }
            Step::Upgrade => self.lost.is_empty().then_some(())?,
            Step::Pull(nic) => {
                self.nics[*nic].is_there = false;
                self.follow(*nic, true);
            }
            Step::Plug(nic, mtu) => {
                self.nics[*nic] = Nic { is_there: true, carrier: true, mtu: *mtu };
                self.follow(*nic, true);
            }
            Step::Carrier(nic, carrier) => {
                self.nics[*nic].carrier = *carrier;
            }
            Step::Mtu(nic, mtu) => {
                self.nics[*nic].mtu = *mtu;
                self.follow(*nic, false);
            }
            of_a_link => self.step_of_link(of_a_link)?,
        }
        Some(())
    }

    fn step_of_link(&mut self, step: &Step) -> Option<()> {
        let usable = (0..NICS).map(|nic| self.is_usable(nic)).collect::<Vec<_>>();
        let serving: Vec<Name> =
            self.in_force.links.iter().filter(|link| self.serves(link)).map(|link| link.name).collect();
        let said = &mut self.in_force;
        let (Step::Remove(name)
        | Step::Drain(name)
        | Step::Resume(name)
        | Step::Set(name, ..)
        | Step::AddPeer(name, _)
        | Step::RemovePeer(name, _)
        | Step::Add(Link { name, .. })) = step
        else {
            unreachable!("{step:?} is of no link");
        };
        if let Step::Add(link) = step {
            let is_new = said.links.iter().all(|other| other.name != *name);
            return (is_new && usable[name.0]).then(|| said.links.push(link.clone()));
        }
        let place = said.find(*name)?;
        let count = said.links.len();
        let link = &mut said.links[place];
        match step {
            Step::Remove(_) => {
                (count > 1).then_some(())?;
                let gone = said.links.remove(place).name;
                self.lost.remove(&gone);
                said.primary = said.primary.filter(|primary| *primary != gone);
            }
            Step::Drain(_) => {
                let others = serving.iter().any(|name| *name != link.name);
                (!link.drained && others).then(|| link.drained = true)?;
            }
            Step::Resume(_) => link.drained.then(|| link.drained = false)?,
            Step::Set(_, rate, weight) => {
                link.rate = rate.unwrap_or(link.rate);
                link.weight = weight.unwrap_or(link.weight);
            }
            Step::AddPeer(_, peer) => {
                (!link.peers.is_empty() && !link.peers.contains(peer)).then(|| link.peers.push(*peer))?;
            }
            Step::RemovePeer(_, peer) => {
                let is_there = link.peers.len() > 1 && link.peers.contains(peer);
                is_there.then(|| link.peers.retain(|other| other != peer))?;
            }
            _ => {}
        }
        Some(())
    }

    fn reload(&mut self, wanted: &Said, flaw: Flaw) -> Option<()> {
        (flaw == Flaw::None).then_some(())?;
        for link in &wanted.links {
            match self.in_force.links.iter().find(|old| old.name == link.name) {
                // The socket stays, which is of one family.
                Some(old) => (old.peers.is_empty() == link.peers.is_empty()).then_some(())?,
                None => self.is_usable(link.name.0).then_some(())?,
            }
        }
        (self.in_force, self.file) = (wanted.clone(), wanted.clone());
        self.lost.retain(|name| wanted.links.iter().any(|link| link.name == *name));
        Some(())
    }
}

fn names() -> impl Strategy<Value = Name> {
    (0..NICS, option::weighted(0.2, select(vec![7_500, 7_600])))
}

/// Those over the last NIC name their peers.
fn links() -> impl Strategy<Value = Link> {
    let rate = option::weighted(0.3, select(vec![5, 50]));
    let weight = option::weighted(0.2, 1..4_u32);
    let peers = (subsequence(vec![1, 2, 3], 1..3), prop::bool::weighted(0.9));
    (names(), rate, weight, prop::bool::weighted(0.2), peers).prop_map(
        |(name, rate, weight, drained, (peers, is_usual))| {
            let names_peers = (name.0 == NICS - 1) == is_usual;
            Link { name, rate, weight, drained, peers: if names_peers { peers } else { Vec::new() } }
        },
    )
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    subsequence(vec![1, 2, 3], 1..3)
}

fn allowed() -> impl Strategy<Value = Option<Vec<u8>>> {
    option::of(subsequence(vec![1, 2, 3], 1..3))
}

fn files() -> impl Strategy<Value = Said> {
    let lists =
        (keys(), allowed(), subsequence(vec![1, 2], 0..=2), subsequence(vec![53, 54], 0..=2).prop_shuffle());
    let links = (vec(links(), 1..4), option::of(1..4_u32));
    let primary = option::of(any::<prop::sample::Index>());
    let said = (select(POLICIES.to_vec()), select(ENGINES.to_vec()), lists, links, primary);
    said.prop_map(|(policy, engine, (keys, allow, addresses, classes), (mut links, weight), primary)| {
        let mut seen = BTreeSet::new();
        links.retain(|link| seen.insert(link.name));
        links.iter_mut().for_each(|link| link.weight = weight);
        links[0].drained = false;
        let primary = primary.map(|index| index.get(&links).name);
        Said { policy, engine, primary, keys, allow, addresses, classes, links }
    })
}

fn other_files(model: &Model) -> impl Strategy<Value = Said> + use<> {
    let valid = if model.in_force.is_valid() { &model.in_force } else { &model.file };
    let (now, old) = (valid.clone(), model.file.clone());
    let changed = (files(), 0..6_u8).prop_map(move |(other, what)| {
        let mut said = now.clone();
        match what {
            0 => said.policy = other.policy,
            1 => said.classes = other.classes,
            2 => said.allow = other.allow,
            3 => said.keys = other.keys,
            4 => said.addresses = other.addresses,
            _ => (said.links, said.primary) = (other.links, other.primary),
        }
        said
    });
    prop_oneof![2 => changed, 1 => files(), 1 => Just(old)]
}

fn steps(model: &Model) -> BoxedStrategy<Step> {
    let flaws = prop_oneof![
        6 => Just(Flaw::None), 1 => Just(Flaw::Fixed), 1 => Just(Flaw::Address), 1 => Just(Flaw::Wrong)
    ];
    let set = (names(), option::of(option::of(select(vec![5, 50]))), option::of(option::of(1..4_u32)));
    let set = set.prop_filter("something changes", |(_, rate, weight)| rate.is_some() || weight.is_some());
    prop_oneof![
        1 => select([&POLICIES[..], &[UNKNOWN]].concat()).prop_map(Step::Policy),
        1 => select([&ENGINES[..], &[UNKNOWN]].concat()).prop_map(Step::Engine),
        4 => links().prop_map(|link| Step::Add(Link { drained: false, ..link })),
        3 => names().prop_map(Step::Remove),
        2 => names().prop_map(Step::Drain),
        2 => names().prop_map(Step::Resume),
        2 => set.prop_map(|(name, rate, weight)| Step::Set(name, rate, weight)),
        1 => (Just((NICS - 1, None)), 1..4_u8).prop_map(|(name, peer)| Step::AddPeer(name, peer)),
        1 => (Just((NICS - 1, None)), 1..4_u8).prop_map(|(name, peer)| Step::RemovePeer(name, peer)),
        1 => keys().prop_map(Step::Keys),
        1 => allowed().prop_map(Step::Allow),
        1 => select(vec![53, 54, 55]).prop_map(Step::AddClass),
        1 => (0..3_usize).prop_map(Step::RemoveClass),
        5 => (other_files(model), flaws).prop_map(|(said, flaw)| Step::Reload(said, flaw)),
        2 => Just(Step::Save),
        2 => Just(Step::Upgrade),
        3 => (0..NICS).prop_map(Step::Pull),
        4 => (0..NICS, select(MTUS.to_vec())).prop_map(|(nic, mtu)| Step::Plug(nic, mtu)),
        1 => (0..NICS, any::<bool>()).prop_map(|(nic, carrier)| Step::Carrier(nic, carrier)),
        1 => (0..NICS, select(MTUS.to_vec())).prop_map(|(nic, mtu)| Step::Mtu(nic, mtu)),
    ]
    .boxed()
}

impl ReferenceStateMachine for Model {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        let usual = Nic { is_there: true, carrier: true, mtu: MTUS[0] };
        let model = move |(workers, said): (u16, Said)| Model {
            workers,
            in_force: said.clone(),
            file: said,
            nics: [usual; NICS],
            lost: BTreeSet::new(),
            is_refused: false,
        };
        (1..3_u16, files()).prop_map(model).boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Step> {
        steps(model)
    }

    fn apply(model: Model, step: &Step) -> Model {
        let mut next = model.clone();
        match next.step(step) {
            Some(()) => Model { is_refused: false, ..next },
            None => Model { is_refused: true, ..model },
        }
    }

    fn preconditions(model: &Model, step: &Step) -> bool {
        match step {
            Step::Pull(nic) | Step::Carrier(nic, _) | Step::Mtu(nic, _) => model.nics[*nic].is_there,
            _ => true,
        }
    }
}
