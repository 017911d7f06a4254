//! The hosts behind the devices: they send frames, and check the frames that arrive.
//!
//! Stands at both ends of the path. Frames wait in the queue of their node's device until the bundle takes them (`take`);
//! `deliver` checks each frame that the bundle delivers.
//!
//! Invariants that are checked: a frame that is delivered was sent, is delivered once, byte for byte but for the last
//! segment of a superframe of TCP, and behind no later frame of its flow.

mod tcp;

use crate::flow::{Flow, Pace};
use crate::frame::{Envelope, FrameId, Heading, Noise, identify, mac, without_last_segment};
use crate::hostile::HOSTILE_HOSTS;
use crate::random::Random;
use crate::traffic::tcp::Tcp;
use core::time::Duration;
use std::collections::VecDeque;
use tabane_proto::Instant;
use tabane_proto::wire::record::VNET;

/// Frames that wait in a device at most: as many as `tabane up` asks for by default.
const DEVICE_QUEUE: usize = 1_000;

/// Bytes of a message that a superframe carries, and those of Ethernet, IPv4 and TCP headers in front of them.
const MESSAGE_PART: u64 = 65_106;
const MESSAGE_HEADERS: u32 = 54;

pub type FlowNumber = usize;

/// One frame's fate.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// When the host put it into the device's queue, if there was room.
    offered: Option<Instant>,
    /// When the bundle took it, if it did.
    taken: Option<Instant>,
    /// When its addressee got it first.
    delivered: Option<Instant>,
    /// Bytes from the Ethernet header on.
    length: u32,
    /// Nodes that have it, a bit each.
    seen: u64,
    /// Bytes that it lost with its last segment.
    trimmed: usize,
}

/// A window of which nothing comes for so long is lost, as for TCP.
const STANDS_FOR: Duration = Duration::from_millis(300);

/// A flow at work.
#[derive(Debug)]
struct FlowState {
    flow: Flow,
    running: bool,
    /// By number.
    sent: Vec<Sent>,
    /// For each node, the number after the highest that it got.
    reached: Vec<u32>,
    /// The flow that carries the answers to this one.
    answers: Option<FlowNumber>,
    /// The flow whose frames this one answers.
    asked_by: Option<FlowNumber>,
    /// Frames that had been offered when timeout last ran out; of a window, those that had come or were lost.
    asked: usize,
    /// Lengths of the frames of messages that are still to be offered, and the payload that has come of messages, in bytes.
    due: VecDeque<u32>,
    came: u64,
    /// The sender, if it has a window by CUBIC.
    tcp: Option<Tcp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowResult {
    /// Frames that the device offered.
    pub offered: u64,
    /// Frames that the bundle took to send.
    pub taken: u64,
    /// Of these, frames that the addressee got (for a broadcast: that anyone got).
    pub delivered: u64,
    /// Bytes of those.
    pub delivered_bytes: u64,
    /// Frames that came without their last segment.
    pub trimmed: u64,
    /// The longest that a frame was on its way, from its device to the other.
    pub latency_max: Duration,
    /// The same for the middle one of all frames.
    pub latency_median: Duration,
}

impl FlowResult {
    /// Frames that were taken and did not arrive.
    pub fn lost(&self) -> u64 {
        self.taken - self.delivered
    }
}

/// All flows and devices.
#[derive(Debug)]
pub(crate) struct Traffic {
    noise: Noise,
    flows: Vec<FlowState>,
    /// Frames that wait in each node's device.
    waiting: Vec<VecDeque<FrameId>>,
    /// Each node's greedy flows, the next one first.
    greedy: Vec<VecDeque<FlowNumber>>,
    /// Frames that found their device full.
    pub(crate) device_full: u64,
    /// Deliveries to nodes that are not addressed: an unknown destination goes to everyone.
    pub(crate) flooded: u64,
    /// A message has come further since the last look.
    pub(crate) has_news: bool,
    /// A node whose frames nobody judges, and deliveries that were not judged.
    hostile: Option<u8>,
    pub(crate) unjudged: u64,
    /// Reused: what a delivered frame should be.
    expected: Vec<u8>,
}

impl Traffic {
    pub(crate) fn new(nodes: usize, random: Random) -> Self {
        Self {
            noise: Noise::new(random),
            flows: Vec::new(),
            waiting: vec![VecDeque::new(); nodes],
            greedy: vec![VecDeque::new(); nodes],
            device_full: 0,
            flooded: 0,
            has_news: false,
            hostile: None,
            unjudged: 0,
            expected: Vec::new(),
        }
    }

    /// Adds a flow, which runs from its first [`Self::emit`] on.
    pub(crate) fn add(&mut self, flow: Flow) -> FlowNumber {
        let number = self.add_one(flow);
        if let (Pace::Asking { .. } | Pace::Cubic, Some(to)) = (flow.pace, flow.to) {
            let sizes = if flow.pace == Pace::Cubic { tcp::ACKNOWLEDGEMENT } else { flow.sizes };
            let answers = Flow { from: to, to: Some(flow.from), pace: Pace::Answering, sizes, ..flow };
            let answers = self.add_one(answers);
            self.flows[number].answers = Some(answers);
            self.flows[answers].asked_by = Some(number);
        }
        number
    }

    fn add_one(&mut self, flow: Flow) -> FlowNumber {
        self.flows.push(FlowState {
            tcp: (flow.pace == Pace::Cubic).then(Tcp::new),
            flow,
            running: true,
            sent: Vec::new(),
            reached: vec![0; self.waiting.len()],
            answers: None,
            asked_by: None,
            asked: 0,
            due: VecDeque::new(),
            came: 0,
        });
        self.flows.len() - 1
    }

    /// The flow's next frames are due. Returns the node that has something to send, and when more is due.
    pub(crate) fn emit(&mut self, now: Instant, number: FlowNumber) -> Option<(u8, Option<Instant>)> {
        let state = &self.flows[number];
        let (from, pace) = (state.flow.from, state.flow.pace);
        if !self.may_send(number) {
            return None;
        }
        let again = match pace {
            Pace::Greedy => {
                self.greedy[usize::from(from)].push_back(number);
                None
            }
            Pace::Bursts { every, frames } => {
                (0..frames).for_each(|_| self.offer(now, number));
                Some(now + every)
            }
            Pace::Asking { timeout } => {
                self.ask_again(now, number);
                Some(now + timeout)
            }
            Pace::Window { frames } => {
                let state = &mut self.flows[number];
                let reached = state.flow.to.map_or(0, |to| state.reached[usize::from(to)] as usize);
                // Nothing comes any more: one frame shows what became of the others.
                let stands = core::mem::replace(&mut state.asked, reached) == reached;
                let frames = if state.sent.is_empty() { frames } else { stands.into() };
                (0..frames).for_each(|_| self.offer(now, number));
                Some(now + STANDS_FOR)
            }
            Pace::Messages { frames } => {
                self.fill_window(now, number, frames.into());
                None
            }
            Pace::Cubic => {
                self.wait_for_acknowledgements(now, number);
                Some(now + STANDS_FOR)
            }
            Pace::Answering => None,
        };
        Some((from, again))
    }

    /// A flow has a message of so many bytes to send.
    pub(crate) fn send(&mut self, number: FlowNumber, bytes: u64) {
        let state = &mut self.flows[number];
        let whole = bytes / MESSAGE_PART;
        let rest = bytes % MESSAGE_PART;
        let parts = (0..whole).map(|_| MESSAGE_PART).chain((rest > 0).then_some(rest));
        state.due.extend(parts.map(|part| u32::try_from(part).unwrap_or(u32::MAX) + MESSAGE_HEADERS));
    }

    /// Bytes that have come of a flow's messages.
    pub(crate) fn came(&self, number: FlowNumber) -> u64 {
        self.flows[number].came
    }

    /// Offers what is due of messages, as long as fewer than so many frames are on their way.
    fn fill_window(&mut self, now: Instant, number: FlowNumber, frames: usize) {
        let state = &self.flows[number];
        let reached = state.flow.to.map_or(0, |to| state.reached[usize::from(to)]);
        let room = (frames + reached as usize).saturating_sub(state.sent.len());
        (0..room.min(state.due.len())).for_each(|_| self.offer(now, number));
    }

    /// Asks the first question, or the next one when the timeout has passed without one.
    fn ask_again(&mut self, now: Instant, number: FlowNumber) {
        if self.flows[number].asked == self.flows[number].sent.len() {
            self.offer(now, number);
        }
        self.flows[number].asked = self.flows[number].sent.len();
    }

    fn may_send(&self, number: FlowNumber) -> bool {
        let state = &self.flows[number];
        state.running && state.sent.len() < usize::try_from(state.flow.frames).unwrap_or(usize::MAX)
    }

    /// Puts a flow's next frame into its device, or drops it.
    fn offer(&mut self, now: Instant, number: FlowNumber) {
        if !self.may_send(number) {
            return;
        }
        let node = usize::from(self.flows[number].flow.from);
        if self.waiting[node].len() == DEVICE_QUEUE {
            self.device_full += 1;
        } else {
            let id = self.next_id(number);
            self.sent_mut(id).offered = Some(now);
            self.waiting[node].push_back(id);
        }
    }

    fn next_id(&mut self, number: FlowNumber) -> FrameId {
        let state = &mut self.flows[number];
        let count = u32::try_from(state.sent.len()).expect("a run is short");
        let id = FrameId { flow: u16::try_from(number).expect("flows are few"), number: count };
        let drawn = || u32::try_from(state.flow.sizes.length(id)).unwrap_or(u32::MAX);
        let length = state.due.pop_front().unwrap_or_else(drawn);
        state.sent.push(Sent { length, ..Sent::default() });
        id
    }

    /// Stops a flow: frames that wait in the device are still sent.
    pub(crate) fn stop(&mut self, number: FlowNumber) {
        self.flows[number].running = false;
        let node = usize::from(self.flows[number].flow.from);
        self.greedy[node].retain(|flow| *flow != number);
    }

    /// Takes the next frame of a node's device, if there is one, and writes it to `bytes`.
    pub(crate) fn take(&mut self, node: u8, bytes: &mut Vec<u8>) -> Option<FrameId> {
        let index = usize::from(node);
        let id = self.waiting[index].pop_front().or_else(|| self.next_greedy(index))?;
        self.write(id, self.length(id), bytes);
        Some(id)
    }

    fn next_greedy(&mut self, node: usize) -> Option<FrameId> {
        let flow = self.greedy[node].pop_front()?;
        let id = self.next_id(flow);
        if self.may_send(flow) {
            self.greedy[node].push_back(flow);
        }
        Some(id)
    }

    /// How long a frame is when it is sent.
    fn length(&self, id: FrameId) -> usize {
        self.flows[usize::from(id.flow)].sent[id.number as usize].length as usize
    }

    fn is_tcp(&self, id: FrameId) -> bool {
        self.flows[usize::from(id.flow)].flow.heading == Heading::Tcp
    }

    fn write(&self, id: FrameId, length: usize, bytes: &mut Vec<u8>) {
        let flow = &self.flows[usize::from(id.flow)].flow;
        let envelope = Envelope { from: flow.from, to: flow.to, heading: flow.heading };
        self.noise.write(envelope, id, length, bytes);
    }

    /// The bundle took a frame to send.
    pub(crate) fn taken(&mut self, now: Instant, id: FrameId) {
        self.sent_mut(id).taken = Some(now);
    }

    /// The bundle dropped a frame, this one or another; returns the flow if that is greedy, which pauses until its next [`Self::emit`].
    pub(crate) fn dropped(&mut self, id: FrameId) -> Option<FlowNumber> {
        let number = usize::from(id.flow);
        let flow = self.flows[number].flow;
        self.greedy[usize::from(flow.from)].retain(|other| *other != number);
        (flow.pace == Pace::Greedy).then_some(number)
    }

    fn sent_mut(&mut self, id: FrameId) -> &mut Sent {
        &mut self.flows[usize::from(id.flow)].sent[id.number as usize]
    }

    /// From now on no check judges frames to a node, or frames in its name.
    pub(crate) fn set_hostile(&mut self, node: u8) {
        self.hostile = Some(node);
    }

    /// Whether a flow neither begins nor ends at the hostile node.
    pub(crate) fn is_judged(&self, flow: &Flow) -> bool {
        self.hostile.is_none_or(|hostile| flow.from != hostile && flow.to != Some(hostile))
    }

    /// Whether a frame is delivered to the hostile node, or is none of those that others have sent. Where its own cells meet
    /// those of its bundle, a frame of its bundle may end up with any number.
    fn is_hostile(&self, node: u8, bytes: &[u8]) -> bool {
        let Some(hostile) = self.hostile else { return false };
        let flow = identify(bytes).and_then(|id| self.flows.get(usize::from(id.flow)));
        let source = bytes.get(VNET + 6..VNET + 12).unwrap_or_default();
        let is_its_host = source.starts_with(&HOSTILE_HOSTS) || source == mac(hostile);
        node == hostile || is_its_host || flow.is_none_or(|state| state.flow.from == hostile)
    }

    /// A node's device got a frame; its answer, or the next question, waits there now.
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        node: u8,
        bytes: &[u8],
    ) -> Result<Option<FrameId>, String> {
        if self.is_hostile(node, bytes) {
            self.unjudged += 1;
            return Ok(None);
        }
        let (id, trimmed) = self.recognise(bytes)?;
        let state = &mut self.flows[usize::from(id.flow)];
        let frame = &mut state.sent[id.number as usize];
        let bit = 1 << node;
        if frame.seen & bit != 0 {
            return Err(format!("no duplicate: node {node} got {id} again"));
        }
        frame.seen |= bit;
        let reached = &mut state.reached[usize::from(node)];
        // Frames of hosts behind a bridge that send one frame each are as many flows.
        if id.number < *reached && state.flow.heading != Heading::Bridged {
            return Err(format!("order within a flow: node {node} got {id} after number {}", *reached - 1));
        }
        // Frames of a flow keep their order: those between are lost.
        let passed = (id.number + 1).saturating_sub(*reached);
        *reached += passed;
        if state.flow.to.is_some_and(|to| to != node) {
            self.flooded += 1;
            return Ok(Some(id));
        }
        frame.delivered.get_or_insert(now);
        frame.trimmed = trimmed;
        let is_window = matches!(state.flow.pace, Pace::Window { .. });
        if let Pace::Messages { frames } = state.flow.pace {
            self.message_came(now, id, passed, frames.into());
            return Ok(Some(id));
        }
        let (next, frames) = if is_window {
            (Some(usize::from(id.flow)), passed)
        } else {
            (state.answers.or(state.asked_by), 1)
        };
        if let Some(tcp) = &mut state.tcp {
            tcp.handle_arrival(id.number);
        }
        let asked_by = state.asked_by;
        if let Some(asked) = asked_by.filter(|asked| self.flows[*asked].tcp.is_some()) {
            self.acknowledge(now, asked, id.number);
        } else if let Some(next) = next {
            (0..frames).for_each(|_| self.offer(now, next));
        }
        Ok(Some(id))
    }

    /// A frame of a message has come, the last of so many whose fate is known now: the others are lost. A segment that was taken out
    /// of it counts as come, for it is few of the bytes.
    fn message_came(&mut self, now: Instant, id: FrameId, passed: u32, window: usize) {
        let state = &mut self.flows[usize::from(id.flow)];
        let known = (id.number + 1 - passed)..id.number;
        state.due.extend(known.map(|number| state.sent[number as usize].length));
        state.came += u64::from(state.sent[id.number as usize].length - MESSAGE_HEADERS);
        self.has_news = true;
        self.fill_window(now, id.flow.into(), window);
    }

    /// Finds the frame that has exactly these bytes, or has them without its last segment; returns how long that is.
    fn recognise(&mut self, bytes: &[u8]) -> Result<(FrameId, usize), String> {
        let id = identify(bytes).filter(|id| {
            let flow = self.flows.get(usize::from(id.flow));
            flow.and_then(|flow| flow.sent.get(id.number as usize)).is_some_and(|sent| sent.taken.is_some())
        });
        let Some(id) = id else {
            return Err(format!("no corruption: {} bytes that nobody sent", bytes.len()));
        };
        let mut expected = core::mem::take(&mut self.expected);
        let length = self.length(id);
        let trimmed = without_last_segment(length).filter(|_| self.is_tcp(id));
        let arrived = trimmed.filter(|trimmed| bytes.len() == VNET + trimmed).unwrap_or(length);
        self.write(id, arrived, &mut expected);
        let differs = expected.iter().zip(bytes).position(|(one, other)| one != other);
        let lengths = (expected.len(), bytes.len());
        self.expected = expected;
        match differs {
            Some(at) => Err(format!("no corruption: {id} differs from byte {at} on")),
            None if lengths.0 != lengths.1 => Err(format!("no corruption: {id} is {lengths:?} bytes long")),
            None => Ok((id, length - arrived)),
        }
    }

    /// The hosts drop the frames that wait in the devices.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting.iter_mut().for_each(VecDeque::clear);
    }

    /// Numbers of all flows, with what they are.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (FlowNumber, &Flow)> {
        self.flows.iter().map(|state| &state.flow).enumerate()
    }

    /// The figures of a flow's frames that were taken from `since` on.
    pub(crate) fn result(&self, number: FlowNumber, since: Instant) -> FlowResult {
        let state = &self.flows[number];
        let mut result = FlowResult { offered: state.sent.len() as u64, ..FlowResult::default() };
        let mut latencies = Vec::new();
        for frame in &state.sent {
            let Some(taken) = frame.taken.filter(|taken| *taken >= since) else { continue };
            result.taken += 1;
            let Some(delivered) = frame.delivered else { continue };
            result.delivered += 1;
            result.delivered_bytes += u64::from(frame.length) - frame.trimmed as u64;
            result.trimmed += u64::from(frame.trimmed > 0);
            latencies.push(delivered.since(frame.offered.unwrap_or(taken)));
        }
        latencies.sort_unstable();
        result.latency_max = latencies.last().copied().unwrap_or_default();
        result.latency_median = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
        result
    }

    /// Bytes of a flow that its addressee got in a span of time.
    pub(crate) fn delivered_between(&self, number: FlowNumber, from: Instant, until: Instant) -> u64 {
        let state = &self.flows[number];
        let is_within = |frame: &&Sent| frame.delivered.is_some_and(|at| (from..until).contains(&at));
        let delivered = state.sent.iter().filter(is_within);
        delivered.map(|frame| u64::from(frame.length) - frame.trimmed as u64).sum()
    }

    /// The longest time between two deliveries of a flow, or from the last one until `until`, of which a part lies between
    /// `from` and `until`.
    pub(crate) fn longest_pause(&self, number: FlowNumber, from: Instant, until: Instant) -> Duration {
        let deliveries = self.flows[number].sent.iter().filter_map(|frame| frame.delivered);
        let mut longest = Duration::ZERO;
        let mut last = from;
        for at in deliveries.filter(|at| *at <= until).chain([until]) {
            if at >= from {
                longest = longest.max(at.since(last));
            }
            last = at;
        }
        longest
    }

    /// How long each question of a flow that was asked from `since` on waited for its answer: answers come in the order
    /// of the questions that were delivered.
    pub(crate) fn round_trips(&self, number: FlowNumber, since: Instant) -> Vec<Duration> {
        let Some(answers) = self.flows[number].answers else { return Vec::new() };
        let questions = self.flows[number].sent.iter().filter(|question| question.delivered.is_some());
        let trips = questions.zip(&self.flows[answers].sent);
        let trip = |(question, answer): (&Sent, &Sent)| {
            let asked = question.offered.filter(|asked| *asked >= since)?;
            Some(answer.delivered?.since(asked))
        };
        trips.filter_map(trip).collect()
    }
}
