//! P0.policies: beyond the paper: round robin, load balancing and `adaptive` over 2 to 8 links, with 1 to 64 senders.
//!
//! Links are alike, as the paper's were, or one of them has a tenth of the others' rate. Simulated, processors take no time, so what
//! is left of the links' rate is the policy's doing; measured, a few cells show what it costs of the processors as well.

use tabane_proto::{PolicyKind, Turn};
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Link, Topology as Simulated};
use tabane_sim::world::World;

use super::streams::{PERIOD_SECONDS, Streams};
use crate::prelude::*;

const POLICIES: [PolicyKind; 3] = [PolicyKind::RoundRobin, PolicyKind::Tlb, PolicyKind::Adaptive];
const LINKS: [usize; 3] = [2, 4, 8];
/// Powers of two of the numbers of senders.
const DOUBLINGS: [u32; 6] = [0, 1, 2, 3, 4, 6];
/// Those that are measured, over so many links.
const MEASURED: [u32; 2] = [0, 4];
const MEASURED_LINKS: usize = 4;
const RATE: Bitrate = Bitrate::mbit(100);
const SIMULATED_RATE: Bitrate = Bitrate::mbit(20);
const FASTER: u64 = 10;
/// After a period of `tlb`, which knows then what each sender sent, so much counts.
const PERIOD: Duration = Duration::from_secs(PERIOD_SECONDS as u64);
const COUNTED: Duration = Duration::from_secs(COUNTED_SECONDS as u64);
const COUNTED_SECONDS: usize = 3;
/// Measured policies that have no period get so long to find the rates.
const WARM_UP_SECONDS: usize = 3;
const SETTLED_WITHIN: Duration = Duration::from_secs(1);
/// How much less than the best policy is still as good.
const AS_GOOD: f64 = 0.97;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Alike,
    OneSlow,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Alike, Kind::OneSlow];

    const fn words(self) -> &'static str {
        match self {
            Kind::Alike => "links alike",
            Kind::OneSlow => "links, one of a tenth of the rate",
        }
    }

    fn rates(self, links: usize, rate: Bitrate) -> Vec<Bitrate> {
        let mut rates = vec![rate; links];
        if self == Kind::OneSlow {
            rates[links - 1] = Bitrate::bits(rate.bits_per_second() / FASTER);
        }
        rates
    }
}

/// Shares of all links' rates, in percent: a row for each number of senders, a column for each policy.
type Shares = Vec<[f64; POLICIES.len()]>;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut panels, mut all) = (Vec::new(), Vec::new());
    for (links, kind, shares) in simulated()? {
        let title = format!("{links} {}", kind.words());
        outcome.grid(&format!("simulated, {title}: % of all links"), &columns(), rows(&DOUBLINGS, &shares));
        panels.push(panel(title, &shares));
        all.extend(shares);
    }
    judge(&mut outcome, &all);
    for kind in Kind::ALL {
        measure(setting, kind, &mut outcome)?;
    }
    let title = "Share of all links' rate over the number of senders, by policy, simulated";
    outcome.pictures.push(Picture::new("P0-policies", title, 2, &panels));
    Ok(outcome)
}

fn simulated() -> Result<Vec<(usize, Kind, Shares)>> {
    let _step = progress::step("simulated: all numbers of links at once");
    thread::scope(|scope| {
        let cases = LINKS.into_iter().flat_map(|links| Kind::ALL.map(|kind| (links, kind)));
        let shares = |links, kind: Kind| move || shares(&kind.rates(links, SIMULATED_RATE));
        let threads: Vec<_> =
            cases.map(|(links, kind)| (links, kind, scope.spawn(shares(links, kind)))).collect();
        let joined = threads.into_iter().map(|(links, kind, thread)| {
            let shares = thread.join().map_err(|_| anyhow!("the simulation of {links} links panicked"))?;
            Ok((links, kind, shares?))
        });
        joined.collect()
    })
}

fn shares(rates: &[Bitrate]) -> Result<Shares> {
    let of = |doubling: u32| each(POLICIES, |policy| carried(policy, rates, 1 << doubling));
    DOUBLINGS.into_iter().map(of).collect()
}

fn carried(policy: PolicyKind, rates: &[Bitrate], senders: u32) -> Result<f64> {
    let links: Vec<Link> =
        rates.iter().map(|rate| Link { rate: rate.bits_per_second(), ..Link::GIGABIT }).collect();
    let topology = Simulated::new(2, &links).with_repair().with(|node| {
        node.policy = policy;
        // Round robin is dealt packet by packet, as in the paper.
        node.policy_options.turn = Turn::Cells(1);
        node.cables.iter_mut().for_each(|cable| cable.sends = Some(cable.up.rate));
    });
    let mut world = World::new(1, &topology, None);
    world.settle(SETTLED_WITHIN)?;
    let flows: Vec<_> = (0..senders).map(|_| world.start(Flow::bulk(0, 1))).collect();
    world.run_for(PERIOD)?;
    let since = world.now();
    world.run_for(COUNTED)?;
    let bits: f64 = flows.iter().map(|flow| world.goodput(*flow, since)).sum();
    Ok(100.0 * bits / rates.iter().map(|rate| rate.bits_per_second() as f64).sum::<f64>())
}

fn columns() -> [&'static str; POLICIES.len()] {
    POLICIES.map(PolicyKind::name)
}

fn rows(doublings: &[u32], shares: &[[f64; POLICIES.len()]]) -> Vec<(String, Vec<Option<f64>>)> {
    let row = |(doubling, shares): (&u32, &[f64; POLICIES.len()])| {
        (senders(*doubling), shares.iter().copied().map(Some).collect())
    };
    doublings.iter().zip(shares).map(row).collect()
}

fn senders(doubling: u32) -> String {
    if doubling == 0 { "1 sender".to_string() } else { format!("{} senders", 1 << doubling) }
}

fn panel(title: String, shares: &Shares) -> Panel {
    let line = |(place, policy): (usize, &PolicyKind)| {
        let points = DOUBLINGS.iter().zip(shares).map(|(x, shares)| (f64::from(*x), shares[place]));
        Line::own(policy.name(), place, points.collect())
    };
    let lines = POLICIES.iter().enumerate().map(line).collect();
    Panel { title, x: "senders, as powers of two", y: "% of all links", lines }
}

fn judge(outcome: &mut Outcome, all: &Shares) {
    for (place, policy) in POLICIES.iter().enumerate() {
        let lost = all.iter().map(|shares| {
            let best = shares.iter().copied().fold(0.0, f64::max);
            shares[place] / best
        });
        let least = lost.fold(f64::INFINITY, f64::min);
        outcome.finding(
            &format!("simulated: {policy} is never slower than another policy"),
            least >= AS_GOOD,
            format!("at its worst it carries {:.0} % of what the best one does", 100.0 * least),
        );
    }
}

/// What this machine carries, with the shares of its processors.
fn measure(setting: &Setting, kind: Kind, outcome: &mut Outcome) -> Result<()> {
    let rates = kind.rates(MEASURED_LINKS, RATE);
    let whole: f64 = rates.iter().map(|rate| rate.mbps()).sum();
    let links = rates.iter().map(|rate| LinkPlan::paced(*rate)).collect();
    let topology = Topology::build(Plan::two_hosts(links))?;
    let (mut shares, mut busy) = (Vec::new(), Vec::new());
    for doubling in MEASURED {
        let seen = each(POLICIES, |policy| {
            let _step = progress::step(&format!("{}: {}, {policy}", kind.words(), senders(doubling)));
            // As in the simulation, what `tlb` does after its first period counts; the others have none.
            let learns = if policy == PolicyKind::Tlb { PERIOD_SECONDS } else { WARM_UP_SECONDS };
            let streams = Streams { senders: 1 << doubling, seconds: learns + COUNTED_SECONDS, interval: 1 };
            streams.over_bundles(setting, &topology, policy.name())
        })?;
        shares.push(seen.each_ref().map(|seen| {
            let mbit = seen.mbit();
            let counted = mbit.values()[mbit.values().len() - COUNTED_SECONDS..].to_vec();
            100.0 * Samples::new("Mbit/s", counted).median() / whole
        }));
        busy.push(seen.each_ref().map(|seen| seen.busy));
    }
    let of = format!("measured, {MEASURED_LINKS} {}", kind.words());
    outcome.grid(&format!("{of}: % of all links"), &columns(), rows(&MEASURED, &shares));
    outcome.grid(&format!("{of}: CPU, %"), &columns(), rows(&MEASURED, &busy));
    Ok(())
}
