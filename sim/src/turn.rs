//! One turn of a node's worker, in the order that the head of `tabane_proto` demands.
//!
//! ```text
//!   sockets ─> handle_datagrams, poll_frame ─> device
//!   device  ─> handle_queue, handle_frame; handle_timeout, poll_frame; poll_control, poll_batch ─> links
//! ```
//!
//! A turn takes no time, unless a fault makes the worker slow ([`crate::worker`]). It goes on until nothing is left to do, as a
//! worker's turns follow each other without a pause while its device can be read.
//!
//! Invariants that are checked: a turn comes to an end, brings few control messages and no cell that is too long for its
//! link, and leaves a timer that lies in the future.

use crate::agenda::Event;
use crate::node::Node;
use crate::socket::Train;
use crate::surroundings::Surroundings;
use crate::table;
use crate::worker::Begins;
use tabane_proto::{Instant, Outcome};

/// The most rounds of one turn.
const ROUNDS: usize = 4_096;
/// Control messages of one round: a few for each link of each peer.
const CONTROL_MAX: usize = 1_024;

impl Node {
    pub(crate) fn turn(&mut self, world: &mut Surroundings<'_>) {
        if self.is_paused() || !self.is_due(world) {
            return;
        }
        let now = self.clock(world.agenda.now);
        self.close_sockets(world);
        self.tell_changes(now);
        self.receive(world, now);
        let mut rounds = 0;
        while self.round(world, now) {
            rounds += 1;
            if rounds > ROUNDS {
                return world.violated(self.number, "a turn comes to an end");
            }
        }
        self.compare(world);
        self.arm_timer(world, now);
    }

    /// Whether the worker begins a turn now; if not, an event will wake it.
    fn is_due(&mut self, world: &mut Surroundings<'_>) -> bool {
        let begins = self.worker.cause(world.agenda.now);
        if let Begins::At(at) = begins {
            world.agenda.push(at, Event::Wake(self.number));
        }
        begins == Begins::Now
    }

    /// Reports carriers and writable sockets to the bundle.
    fn tell_changes(&mut self, now: Instant) {
        for nic in self.nics() {
            let Some(number) = self.number(nic) else { continue };
            if let Some(carrier) = self.socket(nic).carrier.take() {
                self.bundle.handle_carrier(now, number, carrier);
            }
            if core::mem::take(&mut self.socket(nic).writable) {
                self.bundle.handle_writable(number);
            }
        }
    }

    /// Hands datagrams of the sockets to the bundle, and its frames to the device.
    fn receive(&mut self, world: &mut Surroundings<'_>, now: Instant) {
        let (mut total, mut behind) = (0, 0);
        for nic in self.nics() {
            let Some(number) = self.number(nic) else { continue };
            let mut datagrams = 0;
            behind |= 1 << number;
            while datagrams < self.worker.reads_at_once()
                && let Some(train) = self.sockets[usize::from(nic)].next_train(self.settings.gro)
            {
                datagrams += train.datagrams;
                self.receive_train(world, now, (nic, number), &train);
            }
            total += datagrams;
            if self.sockets[usize::from(nic)].waiting() == 0 {
                behind &= !(1 << number);
            }
        }
        self.bundle.handle_read(now, behind);
        self.deliver(world, now);
        if let Some(at) = self.worker.has_read(world.agenda.now, total) {
            world.agenda.push(at, Event::Wake(self.number));
        }
    }

    fn receive_train(
        &mut self,
        world: &mut Surroundings<'_>,
        now: Instant,
        (nic, number): (u8, u8),
        train: &Train,
    ) {
        let mut lent = self.bundle.lend();
        if lent.is_none() {
            self.deliver(world, now);
            lent = self.bundle.lend();
        }
        let place = self.place(nic);
        let arrivals = self.sockets[usize::from(nic)].take(train);
        let Some(mut buffer) = lent else {
            world.network.losses.no_buffer += train.datagrams as u64;
            return;
        };
        let mut filled = 0;
        for arrival in arrivals {
            let end = filled + arrival.bytes.len();
            buffer[filled..end].copy_from_slice(&arrival.bytes);
            filled = end;
            world.received(place, arrival);
        }
        self.tally.cells_received += train.datagrams as u64;
        self.bundle.handle_datagrams(now, number, train.from.endpoint(), buffer, train.length, train.segment);
    }

    /// Hands the frames that are ready to the device.
    fn deliver(&mut self, world: &mut Surroundings<'_>, now: Instant) {
        while let Some(frame) = self.bundle.poll_frame(now) {
            self.frame.clear();
            frame.slices().for_each(|slice| self.frame.extend_from_slice(slice));
            self.tally.frames_delivered += 1;
            world.delivered(self.number, &self.frame);
        }
    }

    /// Reads, serves the timer, sends; returns whether there was anything to do.
    fn round(&mut self, world: &mut Surroundings<'_>, now: Instant) -> bool {
        self.tell_queues(world, now);
        let read = self.read_device(world, now);
        let due = self.bundle.poll_timeout(now) <= now;
        if due {
            self.bundle.handle_timeout(now);
            // Frames that waited behind a gap that was given up.
            self.deliver(world, now);
        }
        let spoke = self.send_control(world, now);
        // When something was read, another round follows.
        self.bundle.expect_frames(read);
        let sent = self.send_batches(world, now);
        while let Some(event) = self.bundle.poll_event() {
            world.log(self.number, event);
        }
        read || due || spoke || sent
    }

    /// Reports to the bundle how much waits in each nic, and sets the send buffers as the bundle wants them.
    fn tell_queues(&mut self, world: &mut Surroundings<'_>, now: Instant) {
        for nic in self.nics() {
            let Some(number) = self.number(nic) else { continue };
            let cable = world.network.cable(self.place(nic));
            let queued = usize::try_from(cable.up.queued(world.agenda.now)).unwrap_or(usize::MAX);
            self.bundle.handle_queue(now, number, queued);
            cable.set_send_buffer(self.bundle.queue_limit(number));
        }
    }

    /// Reads frames as long as the bundle wants them; returns whether there was one.
    fn read_device(&mut self, world: &mut Surroundings<'_>, now: Instant) -> bool {
        let mut any = false;
        while self.bundle.wants_frames() {
            let Some(id) = world.traffic.take(self.number, &mut self.frame) else { break };
            table::put_frame(&mut self.bundle, &self.frame);
            let before = *self.bundle.counters();
            self.bundle.handle_frame(now, self.frame.len());
            let after = self.bundle.counters();
            let peers = after.frames_sent - before.frames_sent;
            let dropped = peers == 0 || after.drop_queue_full > before.drop_queue_full;
            world.offered(self.number, id, self.frame.len(), peers, dropped);
            any = true;
        }
        any
    }

    /// Sends control messages; returns whether there were any.
    fn send_control(&mut self, world: &mut Surroundings<'_>, now: Instant) -> bool {
        let mut messages = 0;
        let Self { bundle, sockets, number: node, .. } = self;
        while let Some(message) = bundle.poll_control(now) {
            messages += 1;
            let nic = (0..).zip(&*sockets).find(|(_, socket)| socket.number == Some(message.link));
            let Some((nic, _)) = nic else { continue };
            let from = crate::cable::Place { node: *node, nic };
            let outcome = world.send_control(from, message.to, message.bytes);
            bundle.handle_control_sent(outcome);
        }
        if messages > CONTROL_MAX {
            world.violated(self.number, "control messages are bounded");
        }
        messages > 0
    }

    /// Sends batches; returns whether there were any.
    fn send_batches(&mut self, world: &mut Surroundings<'_>, now: Instant) -> bool {
        let mut any = false;
        while let Some(batch) = self.bundle.poll_batch(now) {
            self.batch.clear();
            batch.slices().for_each(|slice| self.batch.extend_from_slice(slice));
            let (nic, to, segment) = (batch.link, batch.to, batch.segment);
            let cable = self.cable_at(nic);
            if cable
                .is_some_and(|cable| segment > usize::from(self.settings.cables[usize::from(cable)].cell_max))
            {
                world.violated(self.number, "cells fit their link");
            }
            let outcome = match cable {
                Some(cable) => world.send(self.place(cable), to, &self.batch, segment),
                None => Outcome::Refused,
            };
            if matches!(outcome, Outcome::Sent | Outcome::Lost) {
                self.tally.data_cells_sent += self.batch.len().div_ceil(segment) as u64;
            }
            self.bundle.handle_sent(now, outcome);
            any = true;
        }
        any
    }

    /// Puts in the timer event for when the bundle wants it.
    fn arm_timer(&mut self, world: &mut Surroundings<'_>, now: Instant) {
        let due = self.bundle.poll_timeout(now);
        if due <= now {
            return world.violated(self.number, "a timer that was served lies in the future");
        }
        let at = world.agenda.now + due.since(now);
        if self.timer_at.is_none_or(|armed| at < armed) {
            self.timer_at = Some(at);
            world.agenda.push(at, Event::Timer(self.number));
        }
    }
}
