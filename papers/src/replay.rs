//! What parallel programs exchange, replayed by ranks on simulated nodes: the steps that real ranks follow
//! ([`crate::workload::ranks`]) too.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_proto::Instant;
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::traffic::FlowNumber;
use tabane_sim::world::World;

use crate::workload::exchange::{Class, Kernel, Step};

const SETTLED_WITHIN: Duration = Duration::from_secs(2);
const KNOWN_WITHIN: Duration = Duration::from_millis(50);
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// Iterations take so long altogether, at least, before any counts and while they count: bundles learn the rates of their links first.
const WARM_UP: Duration = Duration::from_millis(30);
const COUNTED: Duration = Duration::from_millis(15);

pub(super) fn speed(kernel: Kernel, class: Class, nodes: u8, links: &[Link]) -> Result<f64> {
    let mut world = World::new(1, &Topology::new(nodes, links).with_repair(), None);
    world.settle(SETTLED_WITHIN)?;
    // As after ARP: each node knows where all addresses live.
    for node in 0..nodes {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, KNOWN_WITHIN) });
    }
    world.run_for(KNOWN_WITHIN)?;
    let ranks = (0..nodes).map(|rank| Rank::new(kernel.steps(class, nodes.into(), rank.into()))).collect();
    let mut exchange = Exchange { world, ranks, flows: BTreeMap::new() };
    let cold = exchange.repeat(1)?;
    let warm = exchange.repeat(times(WARM_UP, cold))?;
    Ok(1.0 / exchange.repeat(times(COUNTED, warm))?.as_secs_f64())
}

fn times(least: Duration, one: Duration) -> u32 {
    u32::try_from(least.as_nanos().div_ceil(one.as_nanos().max(1))).unwrap_or(u32::MAX)
}

struct Exchange {
    world: World<'static>,
    ranks: Vec<Rank>,
    flows: BTreeMap<(usize, usize), FlowNumber>,
}

struct Rank {
    steps: Vec<Step>,
    /// Steps that are done, and times that all are to be done again.
    done: usize,
    again: u32,
    taken: BTreeMap<usize, u64>,
    busy_until: Option<Instant>,
}

impl Rank {
    fn new(steps: Vec<Step>) -> Rank {
        let done = steps.len();
        Rank { steps, done, again: 0, taken: BTreeMap::new(), busy_until: None }
    }

    fn next(&mut self) -> Option<Step> {
        if self.done == self.steps.len() && self.again > 0 {
            (self.done, self.again) = (0, self.again - 1);
        }
        self.steps.get(self.done).copied()
    }
}

impl Exchange {
    fn repeat(&mut self, times: u32) -> Result<Duration> {
        let since = self.world.now();
        self.ranks.iter_mut().for_each(|rank| rank.again = times);
        loop {
            for number in 0..self.ranks.len() {
                while let Some(step) = self.ranks[number].next() {
                    if !self.follow(number, step) {
                        break;
                    }
                    self.ranks[number].done += 1;
                }
            }
            let is_done = |rank: &Rank| rank.again == 0 && rank.done == rank.steps.len();
            if self.ranks.iter().all(is_done) {
                return Ok(self.world.now().since(since) / times);
            }
            let computed = self.ranks.iter().filter_map(|rank| rank.busy_until).min();
            let until = computed.unwrap_or(self.world.now() + SILENCE_MAX);
            let some_came = self.world.run_until_some_came(until)?;
            ensure!(some_came || computed.is_some(), "ranks wait for messages that do not come");
        }
    }

    fn follow(&mut self, number: usize, step: Step) -> bool {
        match step {
            Step::Send(to, bytes) => {
                let flow = self.flow(number, to);
                self.world.send(flow, bytes as u64);
                true
            }
            Step::Receive(from, bytes) => {
                let flow = self.flow(from, number);
                let taken = self.ranks[number].taken.entry(from).or_default();
                let is_there = self.world.came(flow) >= *taken + bytes as u64;
                *taken += if is_there { bytes as u64 } else { 0 };
                is_there
            }
            Step::Compute(time) => {
                let now = self.world.now();
                let busy = &mut self.ranks[number].busy_until;
                busy.get_or_insert(now + time);
                busy.take_if(|until| *until <= now).is_some()
            }
        }
    }

    fn flow(&mut self, from: usize, to: usize) -> FlowNumber {
        let node = |rank| u8::try_from(rank).unwrap_or(u8::MAX);
        let start = || self.world.start(Flow::messages(node(from), node(to)));
        *self.flows.entry((from, to)).or_insert_with(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(links: usize) -> f64 {
        let bytes = (1 << 20) * 4 * 3 / 16;
        8.0 * f64::from(bytes) * speed(Kernel::Is, Class::W, 4, &vec![Link::FAST_ETHERNET; links]).unwrap()
    }

    #[test]
    fn large_messages_fill_the_links() {
        let [one, two] = [1, 2].map(bits);
        assert!((0.8e8..1e8).contains(&one) && (1.6e8..2e8).contains(&two), "{one} and {two} bit/s");
    }

    #[test]
    fn ranks_that_compute_take_their_time() {
        let speed = speed(Kernel::Ep, Class::W, 2, &[Link::GIGABIT]).unwrap();
        assert!((45.0..50.0).contains(&speed), "20 ms, and three sums: {speed} per second");
    }
}
