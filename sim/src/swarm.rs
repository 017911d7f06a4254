//! The swarm: draws the plan of a run from its seed: topology, impairments, faults, traffic.
//!
//! A swarm finds more than one careful mix, because each run leaves most kinds of trouble out and has much of the others. One link, the survivor, is free of faults from [`Plan::trouble_ends_at`] on; every other may stay broken for ever.
//!
//! Source: swarm testing, Groce et al., ISSTA 2012.

use crate::fault::{Fault, FaultPeriod, Where};
use crate::flow::{Flow, Pace, Sizes};
use crate::frame::Heading;
use crate::hostile::Hostility;
use crate::injector::{Injection, InjectionSettings};
use crate::random::{Random, Stream};
use crate::topology::{CableSettings, Coalesce, Link, LinkNumber, NodeNumber, NodeSettings, Topology, Way};
use core::fmt;
use core::time::Duration;
use tabane_proto::security::Rekey;
use tabane_proto::{Class, HashLayers, Match, OVERDUE_AFTER, PolicyKind, PolicyOptions, Turn};

/// Faults and traffic end before this.
pub(crate) const TROUBLE_ENDS: Duration = Duration::from_millis(300);
/// From the end of all trouble to the probes: a dead link is given up after 200 ms and comes back after 30.
const RECOVERY: Duration = Duration::from_millis(300);
/// And to these if links are new: heartbeats come before data.
const NEW_LINKS: Duration = Duration::from_millis(200);
/// The same among more than two nodes: a node that has a peer on a link greets strangers there once in a second.
const RECOVERY_AMONG_MANY: Duration = Duration::from_millis(1_100);
/// Bytes that all flows of a run put on links together: as many as take some 30 ms to compute.
const BYTES: u64 = 4_000_000;
const MEGABIT: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub struct Plan {
    pub topology: Topology,
    /// Each flow, when it begins and when it ends.
    pub flows: Vec<(Flow, Duration, Duration)>,
    pub faults: Vec<FaultPeriod>,
    pub switches: Vec<(Duration, NodeNumber, PolicyKind)>,
    /// What a stranger does.
    pub injection: Option<InjectionSettings>,
    /// What a hostile member does.
    pub hostility: Option<Hostility>,
    /// There are no faults at all: every frame has to arrive.
    pub is_faultless: bool,
    /// When loss and injection end; all faults of the survivor have ended by then.
    pub trouble_ends_at: Duration,
    pub probe_at: Duration,
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Plan);
        let is_faultless = random.chance(200_000);
        let topology = topology(&mut random, is_faultless).with(|node| node.sealed = sealed(seed));
        let flows = flows(&mut random, &topology, is_faultless);
        let faults = if is_faultless { Vec::new() } else { faults(&mut random, &topology) };
        let switches = switches(&mut random, &topology);
        let injects = !is_faultless && random.chance(300_000);
        let injection = injects.then(|| injection(&mut random));
        let injection =
            injection.map(|strangers| if sealed(seed).is_some() { strangers.hostile() } else { strangers });
        let trouble_ends_at = TROUBLE_ENDS + Duration::from_millis(random.below(20));
        let recovery = if topology.nodes.len() > 2 && !is_faultless { RECOVERY_AMONG_MANY } else { RECOVERY };
        let probe_at = trouble_ends_at + recovery + NEW_LINKS;
        let hostility = None;
        let mut plan = Self {
            topology,
            flows,
            faults,
            switches,
            injection,
            hostility,
            is_faultless,
            trouble_ends_at,
            probe_at,
        };
        crate::adversity::add(seed, &mut plan);
        plan
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (node, number) in self.topology.nodes.iter().zip(0..) {
            let NodeSettings { policy, repair, slots, buffers, gro, multicast, .. } = node;
            write!(out, "n{number} {} repair {repair} slots {slots} buffers {buffers}", policy.name())?;
            writeln!(out, " gro {gro} multicast {multicast} clock {:?}", node.clock)?;
            writeln!(out, "n{number} {:?}, sealed {:?}", node.policy_options, node.sealed)?;
            node.classes.iter().try_for_each(|class| writeln!(out, "n{number} {class:?}"))?;
            for (cable, nic) in node.cables.iter().zip(0..) {
                let (link, Way { rate, delay, jitter, loss, queue, .. }) = (cable.link, cable.down);
                write!(
                    out,
                    "n{number}p{nic} link {link}: {rate} bit/s, delay 2 x {delay:?}, jitter {jitter:?}"
                )?;
                write!(out, ", loss {loss} ppm, queue {queue} bytes, cells of {}", cable.cell_max)?;
                writeln!(out, ", interrupts {} / {:?}", cable.coalesce.frames, cable.coalesce.delay)?;
                cable.router.map_or(Ok(()), |router| writeln!(out, "n{number}p{nic} {router:?}"))?;
            }
        }
        for ((flow, begins, ends), number) in self.flows.iter().zip(0..) {
            writeln!(out, "flow {number} from {begins:?} to {ends:?}: {flow:?}")?;
        }
        for FaultPeriod { fault, begins, ends } in &self.faults {
            writeln!(out, "fault from {begins:?} to {ends:?}: {fault:?}")?;
        }
        for (at, node, kind) in &self.switches {
            writeln!(out, "n{node} has policy {kind} from {at:?}")?;
        }
        if let Some(injection) = &self.injection {
            writeln!(out, "stranger each {:?}: {:?}", injection.every, injection.choices)?;
        }
        if let Some(hostility) = &self.hostility {
            writeln!(out, "{hostility:?}")?;
        }
        write!(
            out,
            "faultless {}, trouble ends at {:?}, probes at {:?}",
            self.is_faultless, self.trouble_ends_at, self.probe_at
        )
    }
}

/// In every second run cells are sealed, with new keys several times in it.
fn sealed(seed: u64) -> Option<Rekey> {
    let mut random = Random::new(seed, Stream::Security);
    let after = random.span(Duration::from_millis(80)..=Duration::from_millis(500));
    (seed % 2 == 1).then_some(Rekey { after, cells: random.pick(&[500, 10_000, u64::MAX]) })
}

fn topology(random: &mut Random, is_faultless: bool) -> Topology {
    let nodes = random.pick(&[2, 2, 2, 2, 2, 3, 3, 4]);
    let count = random.pick(&[1, 2, 2, 2, 2, 3, 3, 4]);
    let base = Link { rate: random.pick(&[50, 100, 100, 250, 1_000]) * MEGABIT, ..Link::GIGABIT };
    let unequal = random.chance(400_000);
    let links: Vec<_> = (0..count).map(|_| link(random, base, unequal, is_faultless)).collect();
    let repair = random.chance(500_000);
    let slots = slots(random, &links);
    let buffers = if is_faultless { 128 } else { random.pick(&[24, 64, 128]) };
    let (gro, multicast) = (random.chance(700_000), random.chance(700_000));
    let mut topology = Topology::new(nodes, &links)
        .with(|node| *node = NodeSettings { repair, slots, buffers, gro, multicast, ..node.clone() });
    for node in &mut topology.nodes {
        node.clock = random.span(Duration::ZERO..=Duration::from_secs(2 * 4_295));
        cross(random, &mut node.cables);
        policies(random, node);
    }
    topology
}

/// Slots of the senders' rings: half of them may wait, and must have left before the probes come.
fn slots(random: &mut Random, links: &[Link]) -> usize {
    const SLOTS: [usize; 3] = [512, 2_048, 8_192];
    let slowest = links.iter().map(|link| link.rate).min().unwrap_or(MEGABIT);
    let cell = links.iter().map(|link| link.cell_max).max().unwrap_or_default();
    let bytes = slowest / 8_000 * u64::from(RECOVERY.subsec_millis()) * 2 / 3;
    let wanted = random.pick(&SLOTS);
    let fits = |slots: &&usize| **slots <= wanted && **slots as u64 / 2 * u64::from(cell) <= bytes;
    SLOTS.iter().rev().find(fits).copied().unwrap_or(SLOTS[0])
}

/// One link: mostly as good as the others.
fn link(random: &mut Random, base: Link, unequal: bool, is_faultless: bool) -> Link {
    let micros = Duration::from_micros;
    let slower = if unequal { random.within(1..=10) } else { 1 };
    // Before a bundle knows a nic's rate it hands it 64 KB and a batch. On less than 50 Mbit/s that takes longer than a
    // heartbeat may be late.
    let rate = (base.rate / slower).max(if is_faultless { 50 } else { 20 } * MEGABIT);
    let queue_micros = random.pick(&[2_000, 10_000, 50_000]);
    let delay = random.pick(&[micros(10), micros(50), micros(100), micros(500), micros(3_000)]);
    let loss = random.pick(&[0, 0, 0, 0, 100, 1_000, 10_000, 100_000]);
    let jitter = random.pick(&[Duration::ZERO, Duration::ZERO, micros(20), micros(200), delay]);
    // A delay that varies by more than the time after which cells are overdue is a fault: only time tells late from lost.
    let jitter_max = if is_faultless { OVERDUE_AFTER / 2 } else { Duration::MAX };
    Link {
        rate,
        delay,
        jitter: jitter.min(jitter_max),
        changes: Duration::ZERO,
        loss: if is_faultless { 0 } else { loss },
        switch_queue: if is_faultless { u64::MAX } else { (rate / 8_000_000 * queue_micros).max(64_000) },
        coalesce: random.pick(&[
            Coalesce::NONE,
            Coalesce { frames: 16, delay: micros(100) },
            Coalesce { frames: 64, delay: micros(500) },
        ]),
        cell_max: if rate < 100 * MEGABIT {
            1_452
        } else {
            random.pick(&[1_452, 1_452, 1_232, 4_000, 8_952])
        },
        router: None,
    }
}

/// How a node distributes cells: `adaptive` as often as all others together.
fn policies(random: &mut Random, node: &mut NodeSettings) {
    node.policy = policy(random);
    let nics = node.cables.len() as u64;
    let primary = random.chance(700_000).then(|| u8::try_from(random.below(nics)).unwrap_or_default());
    let preempt = random.chance(500_000);
    let hash = random.pick(&HashLayers::ALL);
    let turn = random.pick(&[Turn::Adaptive, Turn::Superframe, Turn::Cells(1), Turn::Cells(8)]);
    node.policy_options = PolicyOptions { primary, preempt, hash, turn };
    if random.chance(300_000) {
        node.classes = (0..random.within(1..=3)).map(|_| class(random)).collect();
    }
    if random.chance(500_000) {
        node.cables.iter_mut().for_each(|cable| cable.weight = Some(random.pick(&[1, 2, 3, 10, 1_000])));
    }
}

fn policy(random: &mut Random) -> PolicyKind {
    if random.chance(500_000) { PolicyKind::Adaptive } else { random.pick(&PolicyKind::ALL) }
}

fn class(random: &mut Random) -> Class {
    let matches = match random.below(3) {
        0 => Match { max_size: Some(random.pick(&[60, 256, 1_514])), ..Match::default() },
        1 => Match { protocol: Some(17), ..Match::default() },
        _ => Match::default(),
    };
    Class { matches, policy: random.pick(&PolicyKind::ALL) }
}

/// Some plans change policies while frames are on their way.
fn switches(random: &mut Random, topology: &Topology) -> Vec<(Duration, NodeNumber, PolicyKind)> {
    let count = if random.chance(300_000) { random.within(1..=6) } else { 0 };
    let nodes = topology.nodes.len() as u64;
    let switch = |random: &mut Random| {
        let node = u8::try_from(random.below(nodes)).unwrap_or_default();
        (random.span(Duration::ZERO..=TROUBLE_ENDS), node, random.pick(&PolicyKind::ALL))
    };
    (0..count).map(|_| switch(random)).collect()
}

/// Some plans plug cables into other nics than at the other nodes.
fn cross(random: &mut Random, cables: &mut [CableSettings]) {
    if random.chance(200_000) {
        for index in (1..cables.len()).rev() {
            cables.swap(index, random.index(index + 1));
        }
    }
}

/// Without faults, flows begin when everyone knows everyone, and among more than two nodes no receiver is overloaded.
fn flows(random: &mut Random, topology: &Topology, is_faultless: bool) -> Vec<(Flow, Duration, Duration)> {
    let nodes = u64::try_from(topology.nodes.len()).unwrap_or_default();
    let gentle = is_faultless && nodes > 2;
    let count = random.within(1..=6);
    let flow = |random: &mut Random| {
        let from = u8::try_from(random.below(nodes)).unwrap_or_default();
        let to = u8::try_from((u64::from(from) + random.within(1..=nodes - 1)) % nodes).unwrap_or_default();
        let heading = random.pick(&[
            Heading::Tcp,
            Heading::Tcp,
            Heading::Ipv4,
            Heading::Ipv6,
            Heading::Vlan,
            Heading::Bare,
        ]);
        let sizes = random.pick(&[
            Sizes::Mixed,
            Sizes::Mixed,
            Sizes::UpTo(3_000),
            Sizes::Fixed(65_160),
            Sizes::Fixed(1_514),
            Sizes::Fixed(60),
        ]);
        let pace = if gentle { gentle_pace(random, sizes) } else { pace(random) };
        let frames = u32::try_from(BYTES / count / sizes.average() as u64).unwrap_or(u32::MAX).min(1_500);
        let broadcast = random.chance(50_000);
        let to = (!broadcast).then_some(to);
        let begins = Duration::from_millis(if is_faultless { 100 } else { 10 } + random.below(100));
        (Flow { from, to, heading, sizes, pace, frames }, begins, TROUBLE_ENDS)
    };
    (0..count).map(|_| flow(random)).collect()
}

fn pace(random: &mut Random) -> Pace {
    match random.below(4) {
        0 => Pace::Greedy,
        1 => Pace::Asking { timeout: Duration::from_millis(20) },
        2 => Pace::Bursts {
            every: random.span(Duration::from_millis(1)..=Duration::from_millis(50)),
            frames: random.pick(&[2, 10, 100]),
        },
        _ => Pace::Bursts {
            every: random.span(Duration::from_micros(20)..=Duration::from_millis(3)),
            frames: 1,
        },
    }
}

/// At most 2 Mbit/s.
fn gentle_pace(random: &mut Random, sizes: Sizes) -> Pace {
    let bits = sizes.average() as u64 * 8;
    let least = Duration::from_micros(bits / 2);
    Pace::Bursts { every: random.span(least..=2 * least), frames: 1 }
}

fn faults(random: &mut Random, topology: &Topology) -> Vec<FaultPeriod> {
    let links = u64::try_from(topology.nodes[0].cables.len()).unwrap_or_default();
    let survivor = random.below(links);
    let count = random.pick(&[0, 1, 1, 1, 2, 2, 3, 5]);
    let period = |random: &mut Random| {
        let fault = fault(random, links, u64::try_from(topology.nodes.len()).unwrap_or_default());
        let begins = random.span(Duration::ZERO..=TROUBLE_ENDS * 3 / 4);
        let lasts = random.span(Duration::from_millis(1)..=TROUBLE_ENDS);
        let ends = (begins + lasts).min(TROUBLE_ENDS);
        let may_stay = fault.link().is_some_and(|link| u64::from(link) != survivor);
        let stays = may_stay && random.chance(300_000);
        FaultPeriod { fault, begins, ends: (!stays).then_some(ends) }
    };
    (0..count).map(|_| period(random)).collect()
}

fn fault(random: &mut Random, links: u64, nodes: u64) -> Fault {
    let link: LinkNumber = u8::try_from(random.below(links)).unwrap_or_default();
    let node = u8::try_from(random.below(nodes)).unwrap_or_default();
    let at: Where = random.chance(600_000).then_some(node);
    match random.below(18) {
        0..4 => Fault::BlackHole(link, at),
        4..6 => Fault::Mute(link, at),
        6..8 => Fault::Deaf(link, at),
        8..11 => Fault::NoCarrier(link, at),
        11..13 => Fault::Loss(link, random.pick(&[1_000, 20_000, 300_000])),
        13..15 => Fault::Removed(link, node),
        15..17 => Fault::Pause(node),
        _ => Fault::Restart(node),
    }
}

fn injection(random: &mut Random) -> InjectionSettings {
    let every = random.span(Duration::from_micros(200)..=Duration::from_millis(5));
    let choices = (0..random.within(1..=4)).map(|_| random.pick(&Injection::ALL)).collect();
    InjectionSettings { every, choices }
}
