//! A processor that sends packets as fast as it can, over a card and through an engine.
//!
//! Part of [`crate::device`]. A message costs a call, a copy, a checksum and its buffers; then the driver copies as its plan
//! says, and writes a descriptor for each piece. An interrupt stops all that for its time. A sender that finds no room waits
//! until an interrupt brings some back; under an engine without interrupts it waits for ever.
//!
//! Invariant: time goes from event to event; without a next event the run stands still.

use core::time::Duration;

use tabane_engine::fragments::{Costs, Fragments, Plan, Trial};
use tabane_engine::reclaim::{Cause, Counters, Method, Reclaim, Room};
use tabane_proto::Instant;

use super::card::{Card, CardSettings};

/// Longest payload of UDP over IPv4.
pub const MESSAGE_MAX: usize = 65_507;
const HEADERS: usize = 28;
const WARM_UP: usize = 4;
const TRIAL_PACKETS: usize = 200;

#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// A call of `send()`, with the protocols, whatever is sent.
    pub call: Duration,
    /// A fragment's buffer: to get, to chain and to give back.
    pub fragment: Duration,
    /// To go once over a MB (10^6 bytes) of memory: a copy, or a checksum.
    pub pass_per_megabyte: Duration,
    /// To copy a MB that is in the cache.
    pub copy_in_cache_per_megabyte: Duration,
    pub cache: usize,
    /// Buffers that the driver copies into, one after the other.
    pub bounces: usize,
    /// To read or write a register of the card.
    pub register: Duration,
    /// An interrupt, until its handler knows what has been sent.
    pub interrupt_entry: Duration,
    /// From there until the processor goes on.
    pub interrupt_exit: Duration,
    /// To go on with a sender that has waited.
    pub wake: Duration,
}

impl Processor {
    fn pass(&self, bytes: usize) -> Duration {
        self.pass_per_megabyte.mul_f64(bytes as f64 / 1e6)
    }

    /// A copy of so many bytes of a message that was just copied from the user. It is from the cache and into it if there is
    /// room for both copies of the message and for all buffers that the driver copies into, in turn.
    fn copy_again(&self, bytes: usize, message: usize) -> Duration {
        if 2 * message + self.bounces * bytes > self.cache {
            return self.pass(bytes);
        }
        self.copy_in_cache_per_megabyte.mul_f64(bytes as f64 / 1e6)
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// Header and content apart; content in one small buffer, or from a length on in clusters.
    Clusters {
        small: usize,
        /// Content of so many bytes goes into clusters.
        clusters_from: usize,
        cluster: usize,
    },
    /// All in one piece.
    Contiguous,
}

impl Layout {
    /// Bytes of each fragment, the header first.
    fn fragments(self, message: usize) -> Vec<usize> {
        match self {
            Self::Contiguous => vec![HEADERS + message],
            Self::Clusters { clusters_from, cluster, .. } => {
                let piece = if message < clusters_from { clusters_from } else { cluster };
                let pieces = (0..message).step_by(piece).map(|start| piece.min(message - start));
                core::iter::once(HEADERS).chain(pieces).collect()
            }
        }
    }

    fn memory(self, fragment: usize) -> usize {
        match self {
            Self::Contiguous => fragment,
            Self::Clusters { small, cluster, .. } => {
                if fragment <= small {
                    small
                } else {
                    small + cluster
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub processor: Processor,
    pub layout: Layout,
    pub room: Room,
    pub card: CardSettings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    Message,
    /// The packets' headers, each with the same piece of memory, as long as the content that is thrown away: what
    /// protocols cost alone.
    Dummy,
}

#[derive(Clone, Debug)]
pub struct Load {
    pub reclaim: Method,
    pub fragments: Fragments,
    pub payload: Payload,
    pub message: usize,
    pub packets: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time between two packets; `None` when the sender waits for ever.
    pub interval: Option<Duration>,
    pub message: usize,
    pub packets: usize,
    /// Part of the time, up to the last event, in which the processor was at work, 0 to 1.
    pub busy: f64,
    pub counters: Counters,
}

impl Sent {
    /// Thousands of packets per second; none under a sender that waits for ever.
    pub fn kpps(&self) -> f64 {
        self.interval.map_or(0.0, |interval| 1e-3 / interval.as_secs_f64())
    }

    pub fn mbit(&self) -> f64 {
        self.kpps() * self.message as f64 * 8.0 / 1e3
    }
}

impl Machine {
    pub fn send(&self, load: &Load) -> Sent {
        let mut run = Run::new(self, load);
        while run.card.departures().len() < load.packets && run.step() {}
        let departures = run.card.departures();
        let counted = departures.get(load.packets / WARM_UP..load.packets);
        let interval = counted.and_then(|counted| {
            let time = counted.last()?.since(*counted.first()?);
            Some(time / u32::try_from(counted.len() - 1).unwrap_or(u32::MAX).max(1))
        });
        let idle = run.idle.as_secs_f64() / run.now.since(Instant::default()).as_secs_f64();
        let counters = run.engine.counters();
        Sent { interval, message: load.message, packets: departures.len(), busy: 1.0 - idle, counters }
    }

    /// The benchmark at start, from which [`Fragments::Auto`] chooses.
    pub fn costs(&self, reclaim: Method) -> Costs {
        let mut costs = Costs::default();
        for trial in Costs::trials() {
            if let Some(took) = self.send(&Load::of(trial, reclaim)).interval {
                costs.record(trial, took);
            }
        }
        costs
    }
}

impl Load {
    fn of(trial: Trial, reclaim: Method) -> Self {
        Self {
            reclaim,
            fragments: Fragments::CopyFirst(trial.first),
            payload: Payload::Message,
            message: trial.bytes.min(MESSAGE_MAX),
            packets: TRIAL_PACKETS,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// The system call, up to the driver.
    Call(Instant),
    /// The driver, up to the card.
    Drive(Instant),
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    Enters(Instant),
    Leaves(Instant),
}

struct Run<'a> {
    processor: &'a Processor,
    now: Instant,
    passes: u32,
    /// Of the packet: bytes of the message and of its fragments, and the memory that it takes.
    message: usize,
    fragments: Vec<usize>,
    packet: Room,
    plan: Plan,
    /// Bytes of each piece that the card reads, and of the memory that it holds.
    pieces: Vec<(usize, usize)>,
    engine: Reclaim<()>,
    card: Card,
    task: Task,
    handler: Option<Handler>,
    idle: Duration,
}

impl<'a> Run<'a> {
    fn new(machine: &'a Machine, load: &Load) -> Self {
        let fragments = machine.layout.fragments(load.message);
        let memory = |bytes: &usize| machine.layout.memory(*bytes);
        let (plan, pieces) = match load.payload {
            Payload::Message => {
                let plan = load.fragments.plan(&fragments);
                let (copied, gathered) = fragments.split_at(plan.copied);
                let bounce = (!copied.is_empty()).then_some((plan.copied_bytes, plan.copied_bytes));
                let pieces = bounce.into_iter().chain(gathered.iter().map(|bytes| (*bytes, memory(bytes))));
                (plan, pieces.collect())
            }
            Payload::Dummy => {
                let plan = Fragments::ScatterGather.plan(&[HEADERS, load.message]);
                (plan, vec![(HEADERS, memory(&HEADERS)), (load.message, 0)])
            }
        };
        let packet = Room { descriptors: plan.descriptors, bytes: fragments.iter().map(memory).sum() };
        let mut run = Self {
            processor: &machine.processor,
            passes: if machine.card.sums { 1 } else { 2 },
            now: Instant::default(),
            message: load.message,
            fragments,
            packet,
            plan,
            pieces,
            engine: Reclaim::new(load.reclaim, machine.room),
            card: Card::new(machine.card),
            task: Task::Wait,
            handler: None,
            idle: Duration::ZERO,
        };
        run.call(Duration::ZERO);
        run
    }

    fn step(&mut self) -> bool {
        let task = match self.task {
            Task::Call(until) | Task::Drive(until) => Some(until),
            Task::Wait => None,
        };
        let handler = self.handler.map(|(Handler::Enters(until) | Handler::Leaves(until))| until);
        let Some(next) = [self.card.next(), handler, task].into_iter().flatten().min() else { return false };
        if self.task == Task::Wait && self.handler.is_none() {
            self.idle += next.since(self.now);
        }
        self.now = next;
        if self.card.next() == Some(next) {
            self.card.finish(next);
        } else if handler == Some(next) {
            self.handle();
        } else {
            self.work();
        }
        self.check_for_an_interrupt();
        true
    }

    fn call(&mut self, late: Duration) {
        if !self.engine.admits(self.packet) {
            self.task = Task::Wait;
            return;
        }
        let Processor { call, fragment, .. } = *self.processor;
        let buffers = fragment * u32::try_from(self.fragments.len()).unwrap_or(u32::MAX);
        // Copied from the user, and summed up unless the card does that.
        let took = call + buffers + self.processor.pass(self.message) * self.passes;
        self.task = Task::Call(self.now + late + took);
    }

    fn work(&mut self) {
        match self.task {
            Task::Call(_) => self.drive(),
            Task::Drive(_) => {
                let last = self.pieces.len() - 1;
                for (place, (bytes, memory)) in self.pieces.iter().enumerate() {
                    self.engine.post((), *memory);
                    self.card.post(self.now, *bytes, place == last);
                }
                self.call(Duration::ZERO);
            }
            Task::Wait => {}
        }
    }

    /// The driver: takes back what has been sent, copies, and writes each descriptor's address and a start.
    fn drive(&mut self) {
        let register = self.processor.register;
        let mut took = register * 2 * u32::try_from(self.plan.descriptors).unwrap_or(u32::MAX);
        took += self.processor.copy_again(self.plan.copied_bytes, self.message);
        if self.engine.asks_at_send() {
            took += register;
            self.engine.reclaim(Cause::Send, self.card.outstanding()).for_each(drop);
        }
        self.task = Task::Drive(self.now + took);
    }

    fn check_for_an_interrupt(&mut self) {
        let is_due = self.engine.interrupts() && self.engine.posted() > self.card.outstanding();
        if self.handler.is_some() || !is_due {
            return;
        }
        let Processor { interrupt_entry, interrupt_exit, .. } = *self.processor;
        self.handler = Some(Handler::Enters(self.now + interrupt_entry));
        if let Task::Call(until) | Task::Drive(until) = &mut self.task {
            *until = *until + interrupt_entry + interrupt_exit;
        }
    }

    fn handle(&mut self) {
        match self.handler {
            Some(Handler::Enters(_)) => {
                self.engine.reclaim(Cause::Interrupt, self.card.outstanding()).for_each(drop);
                self.handler = Some(Handler::Leaves(self.now + self.processor.interrupt_exit));
            }
            _ => {
                self.handler = None;
                if self.task == Task::Wait {
                    self.call(self.processor.wake);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::oc48;

    fn send(reclaim: Method, message: usize) -> Sent {
        let (fragments, payload) = (Fragments::ScatterGather, Payload::Message);
        oc48::FREEBSD.send(&Load { reclaim, fragments, payload, message, packets: 1_000 })
    }

    #[test]
    fn content_lies_in_one_small_buffer_or_in_clusters() {
        let layout = oc48::FREEBSD.layout;
        assert_eq!(layout.fragments(64), [28, 64]);
        assert_eq!(layout.fragments(213), [28, 213]);
        assert_eq!(layout.fragments(5_000), [28, 2_048, 2_048, 904]);
        assert_eq!(oc48::LINUX.layout.fragments(5_000), [5_028]);
    }

    #[test]
    fn lazy_stalls_where_the_processor_is_faster_than_the_card_and_adaptive_does_not() {
        let lazy = send(Method::Lazy, MESSAGE_MAX);
        assert!(lazy.interval.is_none() && lazy.packets < 100, "{lazy:?}");
        let adaptive = send(Method::Adaptive(oc48::MARKS), MESSAGE_MAX);
        assert_eq!((adaptive.packets, adaptive.counters.interrupts > 0), (1_000, true));
        let short = send(Method::Lazy, 64);
        assert_eq!((short.packets, short.counters.interrupts), (1_000, 0));
    }

    #[test]
    fn the_processor_idles_only_while_it_waits_for_the_line() {
        let busy = |message| {
            let (fragments, payload) = (Fragments::ScatterGather, Payload::Message);
            let reclaim = Method::Adaptive(oc48::MARKS);
            oc48::LINUX.send(&Load { reclaim, fragments, payload, message, packets: 1_000 }).busy
        };
        let (short, long) = (busy(64), busy(MESSAGE_MAX));
        assert!(short > 0.999, "the line is faster: {short}");
        assert!(long > 0.5 && long < 0.99, "the line is slower: {long}");
    }

    #[test]
    fn what_was_chosen_at_start_is_never_slower() {
        let method = Method::Adaptive(oc48::MARKS);
        let auto = Fragments::Auto(Box::new(oc48::FREEBSD.costs(method)));
        for message in [128, 1_024, 4_096, 16_384, MESSAGE_MAX] {
            let of = |fragments: &Fragments| {
                let fragments = fragments.clone();
                let load =
                    Load { reclaim: method, fragments, payload: Payload::Message, message, packets: 1_000 };
                oc48::FREEBSD.send(&load).kpps()
            };
            let others = [Fragments::ScatterGather, Fragments::CopyFirst(4), Fragments::CopyAll];
            for other in others {
                // A copy that gains less than a twenty-fifth is not taken (`tabane_engine::fragments`).
                assert!(of(&auto) >= 0.96 * of(&other), "{message} bytes, {other:?}");
            }
        }
    }
}
