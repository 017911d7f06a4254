//! A worker: one queue of the device, one socket per link, one bundle core, one thread.
//!
//! Only the worker connects the core with the kernel. A turn has the order that the core's head gives: what came from
//! the links goes to the device, what came from the device goes to the links, then timers run. Nothing in a turn
//! blocks or allocates; between turns the thread waits as its receive engine says (`worker/wait.rs`).
//!
//! Back-pressure: the worker reads the device whether or not the links take more, for the core's queue is fair and
//! short and the device's is neither. Only when the core takes no more, the device fills and the kernel blocks the
//! sending sockets.

mod command;
mod drain;
pub(crate) mod group;
mod links;
pub(crate) mod snapshot;
mod wait;
pub(crate) mod workers;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use tabane_engine::fragments::Fragments;
use tabane_engine::receive::{self, Moved, Receive};
use tabane_io::{AnyLink, Bounce, Interest, PIECES, Poll, ReceiveBuffer, Sent, TapQueue, Waker, now_ns, tap};
use tabane_proto::{Buffer, Bundle, Event, Instant, Outcome};

use crate::events::EventLog;
use crate::machine::device::Device;
use crate::machine::kernel_path::KernelPath;
pub(crate) use command::{Command, Files};
use drain::Drain;
use group::Protection;
use links::WatchedLink;

const RECEIVE: usize = 4;
/// Receive calls per link and turn.
const ROUNDS: usize = 8;
/// No receive call begins later in a turn than this: the core judges links and sends heartbeats between turns.
const RECEIVE_FOR: Duration = Duration::from_millis(1);
/// No frame is read from the device later in a turn than this.
const TRANSMIT_FOR: Duration = Duration::from_millis(1);
/// Batches that are sent before the device is read again.
const BATCHES: usize = 8;
/// How often the worker reads the length of a queue that is probably empty.
const IDLE_MEASURE: Duration = Duration::from_micros(250);
/// Pause after an error of the device or of epoll, before the next try.
const READ_AGAIN: Duration = Duration::from_millis(1);
/// A send buffer is changed when its limit has moved by more than a quarter.
const BUFFER_SLACK: u64 = 4;

const TAP: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

/// What a worker shares with the others, and which of them it is.
pub(crate) struct Shared {
    /// Counts from 0.
    pub(crate) number: u16,
    /// What protects the bundle besides its group keys.
    pub(crate) protection: Protection,
    pub(crate) receive: receive::Settings,
    /// Which pieces of a frame are copied before the device takes it.
    pub(crate) fragments: Fragments,
    pub(crate) device: Arc<Device>,
    /// What carries frames besides cells.
    pub(crate) kernel: Arc<KernelPath>,
    pub(crate) events: Arc<EventLog>,
}

/// A worker's state.
pub(crate) struct Worker {
    bundle: Bundle,
    queue: TapQueue,
    /// The links by number; a number without a link is free.
    links: Vec<Option<WatchedLink>>,
    /// Links that are being removed, and the channel to signal then.
    leaving: Vec<(u8, Sender<()>)>,
    poll: Poll,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    /// Buffers for the next receive call.
    lent: Vec<Buffer>,
    /// When the device is read again after an error.
    read_again: Option<Instant>,
    tap_watched: bool,
    /// The drain before a handover, if one is under way.
    drain: Option<Drain>,
    engine: Receive,
    /// The buffer into which pieces of frames are copied on their way to the device.
    bounce: Bounce,
    /// Whether more can be sent at once.
    has_left: bool,
    /// Frames that moved since the last wait.
    moved: Moved,
    shared: Shared,
    nics: Vec<String>,
}

/// What is ready, gathered so that a turn keeps its own order.
#[derive(Default, PartialEq, Eq)]
struct Ready {
    tap: bool,
    tap_failed: bool,
    waker: bool,
    readable: u16,
    writable: u16,
}

impl Worker {
    /// A worker over an open queue and bound links, each with the name of its NIC.
    pub(crate) fn new(
        bundle: Bundle,
        queue: TapQueue,
        links: Vec<(String, AnyLink)>,
        waker: Arc<Waker>,
        commands: Receiver<Command>,
        shared: Shared,
    ) -> std::io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&queue, TAP, Interest::Read)?;
        poll.add(&*waker, WAKER, Interest::Read)?;
        let (nics, links): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        let watched = |(number, io)| WatchedLink::watched(&poll, number, io).map(Some);
        let links = links.into_iter().enumerate().map(watched).collect::<std::io::Result<_>>()?;
        let lent = Vec::with_capacity(RECEIVE);
        let (leaving, tap_watched, has_left, drain, moved) =
            (Vec::new(), true, false, None, Moved::default());
        let read_again = None;
        let engine = Receive::new(clock(), shared.receive);
        let bounce = Bounce::new(shared.fragments.clone());
        Ok(Self {
            bundle,
            queue,
            links,
            leaving,
            poll,
            waker,
            commands,
            lent,
            read_again,
            tap_watched,
            drain,
            engine,
            bounce,
            has_left,
            moved,
            shared,
            nics,
        })
    }

    /// Waits for the command to begin, and then runs as [`Self::run`].
    pub(crate) fn run_after_command(mut self) -> std::io::Result<()> {
        if self.stand_still() { Ok(()) } else { self.run() }
    }

    /// Runs until the command to stop.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        loop {
            let (mut now, ready) = self.wait();
            if ready.tap_failed {
                if self.queue.is_gone() {
                    return Err(tap::gone());
                }
                // epoll would report the same error again at once.
                std::thread::sleep(READ_AGAIN);
            }
            if ready.waker {
                if self.obey() {
                    return Ok(());
                }
                now = clock();
            }
            self.read_again = self.read_again.filter(|again| now < *again);
            self.shared.kernel.count(now, self.shared.number, &mut self.bundle);
            now = self.receive(now, ready.readable);
            self.find_room(ready.writable);
            // A device that epoll does not watch may have frames, too.
            let may_be_readable = ready.tap || !self.tap_watched;
            now = self.transmit(now, may_be_readable && self.reads_device())?;
            if now >= self.bundle.poll_timeout(now) {
                self.bundle.handle_timeout(now);
                // Frames behind a gap that the reorder timeout has closed.
                self.deliver(now);
                self.close_left();
                self.send(now);
                self.shared.device.follow_reach(now, self.shared.number, &self.bundle);
                self.shared.device.ask_again(now);
            }
            self.record_events(now);
            self.watch_tap(now);
            if self.drain(now) {
                return Ok(());
            }
        }
    }

    /// Moves frames from the links to the device, in turns among the links; returns the present.
    fn receive(&mut self, began: Instant, readable: u16) -> Instant {
        let (mut now, mut left) = (began, readable);
        for _ in 0..ROUNDS {
            let round = left;
            for link in (0..self.links.len()).filter(|link| round & 1 << link != 0) {
                if self.receive_once(link) {
                    left &= !(1 << link);
                }
            }
            now = clock();
            if left == 0 || now.since(began) >= RECEIVE_FOR {
                break;
            }
        }
        self.bundle.handle_read(began, left);
        now
    }

    /// One receive call; returns whether nothing is left.
    fn receive_once(&mut self, link: usize) -> bool {
        let Some(state) = &mut self.links[link] else { return true };
        while self.lent.len() < RECEIVE {
            let Some(buffer) = self.bundle.lend() else { break };
            self.lent.push(buffer);
        }
        let room = self.lent.len();
        // The buffer that was freed last is still in the processor's cache.
        let mut buffers = self.lent.iter_mut().rev();
        let mut slots: [_; RECEIVE] = std::array::from_fn(|_| {
            ReceiveBuffer::new(buffers.next().map_or(&mut [], |buffer| &mut buffer[..]))
        });
        // The link's health follows errors of the socket, such as a NIC that went down.
        let came = state.io.receive(&mut slots[..room]).unwrap_or(0);
        let now = clock();
        let met: [_; RECEIVE] = std::array::from_fn(|slot| {
            let slot = &slots[slot];
            (slot.len, slot.segment, slot.from)
        });
        for (length, segment, from) in met.into_iter().take(came) {
            let Some(buffer) = self.lent.pop() else { break };
            #[expect(clippy::cast_possible_truncation, reason = "at most 16 links")]
            self.bundle.handle_datagrams(now, link as u8, from, buffer, length, segment);
        }
        self.deliver(now);
        came < room
    }

    /// Writes the complete frames to the device.
    fn deliver(&mut self, now: Instant) {
        while let Some(frame) = self.bundle.poll_frame(now) {
            self.moved.to_device += 1;
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let slices = frame.slices();
            let count = slices.len();
            for (piece, slice) in pieces.iter_mut().zip(slices) {
                *piece = IoSlice::new(slice);
            }
            let queue = &self.queue;
            if count > PIECES || self.bounce.pass(&pieces[..count], |pieces| queue.write(pieces)).is_err() {
                self.shared.device.count_refused();
            }
        }
    }

    /// Notes which links take cells again.
    fn find_room(&mut self, writable: u16) {
        for link in 0..self.links.len() {
            if writable & 1 << link != 0 {
                #[expect(clippy::cast_possible_truncation, reason = "at most 16 links")]
                self.bundle.handle_writable(link as u8);
                self.watch_room(link, false);
            }
        }
    }

    /// Moves frames from the device to the links. Reading and sending take turns, so that a frame of a sparse flow,
    /// which goes first, does not wait in the device for the core's whole queue. Returns the present.
    fn transmit(&mut self, began: Instant, mut readable: bool) -> std::io::Result<Instant> {
        let mut now = began;
        loop {
            while readable && self.bundle.wants_frames() {
                readable = self.read_frame(now)?;
            }
            self.shared.device.follow_gates(&mut self.bundle);
            let is_over = now.since(began) >= TRANSMIT_FOR;
            let expects = readable && self.bundle.takes_frames() && !is_over;
            self.bundle.expect_frames(expects);
            self.send(now);
            now = clock();
            if is_over || !(expects || self.has_left) {
                return Ok(now);
            }
        }
    }

    /// Reads one frame; `false` when there is none.
    fn read_frame(&mut self, now: Instant) -> std::io::Result<bool> {
        let mut space = self.bundle.read_space();
        let mut count = 0;
        let mut pieces: [_; PIECES] = std::array::from_fn(|_| {
            IoSliceMut::new(space.next().map_or(&mut [], |slice| {
                count += 1;
                slice
            }))
        });
        let read = self.queue.read(&mut pieces[..count]);
        drop(space);
        let read = match read {
            Err(error) if !tap::is_gone(&error) => {
                self.shared.device.count_unread(&error);
                self.read_again = Some(now + READ_AGAIN);
                return Ok(false);
            }
            read => read?,
        };
        if let Some(length) = read {
            self.moved.from_device += 1;
            self.bundle.handle_frame(now, length);
        }
        Ok(read.is_some())
    }

    /// Sends control messages first, then cells until the links are full or the device has
    /// its turn.
    fn send(&mut self, now: Instant) {
        while let Some(message) = self.bundle.poll_control(now) {
            let number = usize::from(message.link);
            let Some(link) = &mut self.links[number] else { continue };
            let to = message.to.unwrap_or(link.group);
            let sent = link.io.send(&to, &[IoSlice::new(message.bytes)], message.bytes.len());
            let outcome = self.outcome(number, sent);
            self.bundle.handle_control_sent(outcome);
            if outcome == Outcome::Full {
                self.watch_room(number, true);
            }
        }
        // Behind what programs sent, heartbeats may wait as well.
        if self.bundle.has_unsent() || self.shared.kernel.is_running() {
            self.measure(now);
        }
        self.has_left = true;
        for _ in 0..BATCHES {
            let Some(batch) = self.bundle.poll_batch(now) else {
                self.has_left = false;
                break;
            };
            let link = usize::from(batch.link);
            let mut pieces = [IoSlice::new(&[]); tabane_proto::BATCH_CELLS];
            let mut count = 0;
            for (piece, slice) in pieces.iter_mut().zip(batch.slices()) {
                *piece = IoSlice::new(slice);
                count += 1;
            }
            let sent = self.links[link]
                .as_mut()
                .map(|link| link.io.send(&batch.to, &pieces[..count], batch.segment));
            let sent = sent.unwrap_or_else(|| Sent::Refused(std::io::ErrorKind::NotConnected.into()));
            let outcome = self.outcome(link, sent);
            self.bundle.handle_sent(now, outcome);
            if outcome == Outcome::Full {
                self.watch_room(link, true);
            }
        }
        self.shared.device.follow_gates(&mut self.bundle);
    }

    /// The result of sending a run, as the core's type.
    fn outcome(&self, link: usize, sent: Sent) -> Outcome {
        let (outcome, error) = match sent {
            Sent::Done => return Outcome::Sent,
            Sent::Full => return Outcome::Full,
            Sent::Lost(error) => (Outcome::Lost, error),
            Sent::Refused(error) => (Outcome::Refused, error),
        };
        tracing::debug!(nic = self.nics[link], %error, ?outcome, "not sent");
        outcome
    }

    /// Reports to the core how full the links are, and keeps their send buffers as short as the core wants them.
    fn measure(&mut self, now: Instant) {
        let links = (0..).zip(&mut self.links);
        for (number, link) in links.filter_map(|(number, link)| Some((number, link.as_mut()?))) {
            if !self.bundle.wants_queue(number) && now.since(link.measured) < IDLE_MEASURE {
                continue;
            }
            link.measured = now;
            self.bundle.handle_queue(now, number, link.io.queued_bytes());
            let limit = self.bundle.queue_limit(number);
            if limit.abs_diff(link.send_buffer) > link.send_buffer / BUFFER_SLACK {
                link.send_buffer = limit;
                let bytes = usize::try_from(limit).unwrap_or(usize::MAX);
                if let Err(error) = link.io.set_send_buffer(bytes) {
                    tracing::warn!(nic = self.nics[usize::from(number)], %error, "the send buffer keeps its size");
                }
            }
        }
    }

    fn watch_room(&mut self, link: usize, wanted: bool) {
        let Some(state) = &mut self.links[link] else { return };
        state.wants_room = wanted;
        if state.room_watched == wanted {
            return;
        }
        let Some(watched) = state.io.watched().filter(|_| state.io.signals_room()) else { return };
        let interest = if wanted { Interest::ReadWrite } else { Interest::Read };
        match self.poll.modify(watched, link as u64, interest) {
            Ok(()) => state.room_watched = wanted,
            Err(error) => self.shared.device.count_unwatched(&error),
        }
    }

    /// Whether the device may be read now.
    fn reads_device(&self) -> bool {
        self.drain.is_none() && self.read_again.is_none() && !self.shared.device.awaits_peers()
    }

    /// Watches the device only while the core takes its frames: otherwise it would be ready all the time. What
    /// epoll watches stays registered, so that the kernel needs no memory for a change.
    fn watch_tap(&mut self, now: Instant) {
        let wanted = self.bundle.takes_frames() && self.reads_device();
        if wanted == self.tap_watched {
            return;
        }
        let interest = if wanted { Interest::Read } else { Interest::Nothing };
        match self.poll.modify(&self.queue, TAP, interest) {
            Ok(()) => self.tap_watched = wanted,
            Err(error) => {
                self.shared.device.count_unwatched(&error);
                self.read_again = Some(now + READ_AGAIN);
            }
        }
    }

    /// Records the core's events, and lets the device and the kernel path follow them.
    fn record_events(&mut self, now: Instant) {
        let mut changed = false;
        while let Some(event) = self.bundle.poll_event() {
            if !core::mem::replace(&mut changed, true) {
                self.name_twins();
            }
            self.shared.events.record(now_ns(), self.shared.number, &event, &self.nics);
            if let Event::RunsLost { link, .. } = event
                && let Some(link) = &mut self.links[usize::from(self.bundle.socket(link))]
            {
                link.io.distrust_runs();
            }
        }
        if changed {
            self.shared.device.follow_reach(now, self.shared.number, &self.bundle);
            self.shared.device.follow_peers(now, self.shared.number, &self.bundle);
            for link in self.links.iter_mut().flatten() {
                while let Some(notice) = link.io.take_notice() {
                    tracing::warn!("{notice}");
                }
            }
        }
        let (number, bundle) = (self.shared.number, &mut self.bundle);
        self.shared.kernel.follow(now, number, changed, bundle, &self.nics);
    }
}

fn clock() -> Instant {
    Instant::from_nanos(now_ns())
}
