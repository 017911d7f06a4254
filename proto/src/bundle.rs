//! The bundle: the core's public face. Input from the device, the links and the clock enters by `handle_*`, output leaves
//! by `poll_*`. The head of the crate shows the order of the calls.
//!
//! It owns the rooms and decides in which order it calls them; each room decides the rest. `incoming` handles cells that
//! arrive, `control` writes control messages, `status` shows the state.

mod control;
mod incoming;
pub(crate) mod kernel_path;
pub(crate) mod status;

use crate::group::membership::{end_expired, expire, review_keys};
use crate::group::{Group, Parts, hotplug};
use crate::link::Links;
use crate::link::health::{HEARTBEAT_BUSY, HEARTBEAT_QUIET};
use crate::link::nic::LinkSettings;
use crate::link::nic_load::NicReport;
use crate::outputs::counters::Counters;
use crate::outputs::event::{Event, Signal};
use crate::outputs::{Outputs, Spoken};
use crate::policy::class::Class;
use crate::policy::classify;
use crate::policy::gate;
use crate::policy::{PolicyKind, PolicyOptions};
use crate::receive::Receiver;
use crate::receive::deliver::Frame;
use crate::receive::pool::Buffer;
use crate::receive::reassemble::Arrival;
use crate::security::{Rekey, Security};
use crate::send::transmit::{Batch, Outcome};
use crate::send::{Around, Sender};
use crate::session::Sessions;
use crate::settings::{SLOTS_LEAST, Settings};
use crate::time::Instant;
use crate::wire::cell::LINKS;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// One worker's whole pipeline, without its I/O.
pub struct Bundle {
    sender: Sender,
    receiver: Receiver,
    links: Links,
    sessions: Sessions,
    group: Group,
    out: Outputs,
    spoken: Option<Spoken>,
    /// When timers ran last.
    polled: Instant,
    /// Reused: peers for which something is to be done.
    overdue: Vec<u16>,
}

impl Bundle {
    /// A bundle without peers.
    ///
    /// # Panics
    /// When there is no link, there are more than [`LINKS`], there are too many classes, or the ring has too few slots.
    pub fn new(now: Instant, settings: Settings) -> Self {
        assert!((1..=LINKS).contains(&settings.links.len()), "1 to {LINKS} links");
        assert!(settings.slots >= SLOTS_LEAST, "a peer may take the smallest cells only");
        Self {
            sender: Sender::new(&settings),
            receiver: Receiver::new(settings.buffers, settings.repair),
            sessions: Sessions::new(now, settings.node, settings.incarnation),
            group: Group::new(&settings),
            links: Links::new(now, settings.links, settings.repair),
            out: Outputs::default(),
            spoken: None,
            polled: now,
            overdue: Vec::new(),
        }
    }

    fn split(&mut self) -> (&mut Group, Parts<'_>) {
        let Self { sender, receiver, links, sessions, group, out, polled, .. } = self;
        (group, Parts { sessions, links, sender, receiver, out, polled: *polled })
    }

    fn sending(&mut self, now: Instant) -> (&mut Sender, Around<'_>) {
        let Self { sender, links, sessions, out, .. } = self;
        (sender, Around { sessions, links, counters: &mut out.counters, now })
    }

    /// Seals all cells from now on, and lets only the group in. The caller calls it before it reads a frame or receives a
    /// cell; later only to change the group's keys. Sessions live on with peers that have a key that is still accepted.
    pub fn set_security(&mut self, security: Box<dyn Security>, rekey: Rekey) {
        self.sessions.secure(security, rekey);
        let (_, mut parts) = self.split();
        review_keys(&mut parts);
        parts.fit_cells();
    }

    /// Writes to all memory that is set aside for cells, so that the process has it from its start, and does not find it
    /// missing under load. For a bundle without peers.
    pub fn touch_memory(&mut self) {
        self.receiver.pool_mut().touch();
        self.sender.touch_memory();
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.out.counters
    }

    /// The next event. The caller polls after every other call; when it does not, the oldest events are lost.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop()
    }

    /// The next gate of the device to close or open. The caller polls after it read frames and sent cells.
    pub fn poll_gate(&mut self) -> Option<gate::Change> {
        self.sender.poll_gate()
    }

    /// Changes the policy from the next batch on: no cell that waits is lost. The new policy has the options that the
    /// bundle was made with; classes keep their policies.
    pub fn set_policy(&mut self, kind: PolicyKind) {
        self.sender.set_policy(kind);
    }

    /// Changes the options of all policies, and the classes, from the next frame on. Cells that wait stay; those of a class that
    /// is gone leave by the bundle's policy.
    ///
    /// # Panics
    /// When there are too many classes.
    pub fn set_classes(&mut self, options: PolicyOptions, classes: &[Class]) {
        self.sender.set_classes(options, classes);
    }

    /// Changes the group that this node's hellos name, and the other groups whose nodes may be peers, from the next hello
    /// on. Peers that have joined stay.
    pub fn set_groups(&mut self, group: u64, others: Vec<u64>) {
        self.group.set_groups(group, others);
    }

    /// When the caller must call [`Self::handle_timeout`], at the latest.
    #[must_use]
    pub fn poll_timeout(&mut self, now: Instant) -> Instant {
        let links = self.links.all().iter().filter(|link| !link.is_vacant());
        let at = links.map(|link| link.greet_at).min().unwrap_or(now + HEARTBEAT_QUIET);
        let others = [
            self.sender.is_changing().then(|| self.polled + HEARTBEAT_BUSY),
            self.sessions.handshakes_due(),
            self.group.handover().waits_until(),
            self.sender.deferred().due(self.polled),
            self.sender.opens_at(),
            self.links.due(),
            self.receiver.due(now, &self.links),
        ];
        others.into_iter().flatten().fold(at, Instant::min)
    }

    /// Does what is due: greetings, heartbeats, judgements; gives up old gaps and repairs.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut overdue = core::mem::take(&mut self.overdue);
        let (group, mut parts) = self.split();
        let (sender, mut around) = parts.sending();
        sender.handle_timeout(now, &mut around);
        if parts.links.take_resized() {
            parts.fit_cells();
        }
        hotplug::see_off(now, &mut parts);
        group.handover_mut().end_wait(now);
        group.greet(now, &mut parts);
        parts.sessions.pass_handshakes(now);
        overdue.clear();
        parts.links.list_overdue(now, &mut overdue);
        parts.receiver.list_overdue(now, parts.links, &mut overdue);
        parts.links.send_heartbeats(now, &overdue, parts.out);
        group.renew_keys(now, &overdue, &mut parts);
        parts.links.judge(now, parts.polled, &overdue, parts.out);
        parts.receiver.ask_for_held(now, &overdue, parts.links, &mut parts.out.outbox);
        parts.receiver.give_up_gaps(now, &overdue, parts.links, &mut parts.out.counters);
        parts.sender.forget_repairs(now, &mut parts.out.counters);
        end_expired(now, &overdue, &mut parts);
        expire(now, &overdue, &mut parts);
        self.overdue = overdue;
        self.polled = now;
    }

    /// Whether the caller should read another frame before it polls the next batch.
    pub fn wants_frames(&self) -> bool {
        self.sender.wants_frames(&self.sessions) && !self.group.handover().is_waiting()
    }

    /// Whether the sender takes frames at all: not while the ring is nearly full, while the only peer pauses, or while this
    /// process waits for its peers after a handover.
    pub fn takes_frames(&self) -> bool {
        self.sender.takes_frames(&self.sessions) && !self.group.handover().is_waiting()
    }

    /// Says whether more frames can be read: then a cell that they might fill waits for them.
    pub fn expect_frames(&mut self, expected: bool) {
        self.sender.expect_frames(expected);
    }

    /// Where the caller reads the next frame into: its virtio header, then its bytes.
    pub fn read_space(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.sender.read_space()
    }

    /// A frame was read into [`Self::read_space`]: `length` bytes, virtio header included.
    pub fn handle_frame(&mut self, now: Instant, length: usize) {
        let (sender, mut around) = self.sending(now);
        sender.handle_frame(now, length, &mut around);
    }

    /// Whether cells wait to leave.
    pub fn has_unsent(&self) -> bool {
        self.sender.has_unsent()
    }

    /// The next cells to send, and their address. The caller reports the outcome by [`Self::handle_sent`].
    pub fn poll_batch(&mut self, now: Instant) -> Option<Batch<'_>> {
        let (sender, around) = self.sending(now);
        sender.poll_batch(around)
    }

    /// The outcome of the last batch.
    pub fn handle_sent(&mut self, now: Instant, outcome: Outcome) {
        let (_, mut parts) = self.split();
        parts.sender.handle_sent(now, outcome, parts.links, parts.out);
        parts.send_lost_again();
    }

    /// A link takes cells again.
    pub fn handle_writable(&mut self, link: u8) {
        self.links[link].full = false;
        self.sender.unpark();
        for index in self.sessions.table().indices() {
            self.links.ways(link).for_each(|link| self.links.catch_up(link, index, &mut self.out));
            self.receiver.catch_up(index, &mut self.out.outbox);
        }
    }

    /// The kernel reports that `queued` bytes of a link have not left.
    pub fn handle_queue(&mut self, now: Instant, link: u8, queued: usize) {
        self.links[link].queue.handle_queue(now, queued);
    }

    /// Whether a link is likely to have a queue, so that the next batches depend on it: the link was busy when the kernel
    /// was last asked, or has got many bytes since.
    pub fn wants_queue(&self, link: u8) -> bool {
        self.links[link].queue.wants_queue()
    }

    /// How many bytes may wait in a link: the size for its send buffer.
    pub fn queue_limit(&self, link: u8) -> u64 {
        self.links[link].queue.limit()
    }

    /// A buffer to receive into, or `None` when all hold cells that wait.
    pub fn lend(&mut self) -> Option<Buffer> {
        self.receiver.lend(&self.links, &mut self.out.counters)
    }

    /// The I/O has read every link from `now` on until nothing was left, but for those in `behind` (a bit each). The caller
    /// reports it before [`Self::handle_timeout`], for cells that lie unread in a socket are not missing.
    pub fn handle_read(&mut self, now: Instant, behind: u16) {
        for (number, link) in (0..).zip(self.links.all_mut()) {
            link.handle_read(now, behind & 1 << number != 0);
        }
    }

    /// The next frame for the device.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Frame<'_>> {
        let (Arrival { peer, link }, frame) = self.receiver.poll_frame(&mut self.out.counters)?;
        if let Some(mac) = classify::source(frame.head()) {
            self.sender.learn(now, mac, peer);
        }
        if self.sender.heeds_received() {
            let link = self.links.paths(peer).and_then(|paths| paths.paired_with(link));
            self.sender.handle_received(frame.head(), frame.bytes(), link);
        }
        Some(frame)
    }

    /// What the kernel says of a link's NIC: for policies. The caller asks about once a second, and when the NIC has changed.
    pub fn handle_nic(&mut self, now: Instant, link: u8, report: NicReport) {
        if let Some(state) = self.links.member_mut(link) {
            state.load.handle_report(now, report);
        }
    }

    /// A NIC has gained or lost its carrier.
    pub fn handle_carrier(&mut self, now: Instant, link: u8, carrier: bool) {
        let Some(state) = self.links.member_mut(link) else { return };
        state.carrier = carrier;
        state.full = false;
        state.greet_at = now;
        if !carrier {
            self.links.leave_all(now, link, Signal::Carrier, &mut self.out);
            self.split().1.send_lost_again();
        }
    }

    /// A link joins; returns its number, or `None` when all [`LINKS`] numbers are taken.
    pub fn add_link(&mut self, now: Instant, settings: LinkSettings) -> Option<u8> {
        hotplug::add_link(now, settings, &mut self.split().1)
    }

    /// A link leaves. Once [`Self::has_link`] is false it receives nothing more, and its socket may be closed.
    pub fn remove_link(&mut self, now: Instant, number: u8) {
        hotplug::remove_link(now, number, &mut self.split().1);
    }

    /// Another NIC replaced that of a link: the state of its paths is void.
    pub fn replace_link(&mut self, now: Instant, number: u8, settings: LinkSettings) {
        hotplug::replace_link(now, number, settings, &mut self.split().1);
    }

    /// The MTU of a link's NIC has changed, and so the largest cell. The peers get a hello at once. Cells that wait already
    /// and are too large are lost on this link ([`Outcome::Lost`]), and repaired over links that take them. A link that is
    /// too small for any cell carries nothing until it is larger again.
    pub fn resize_link(&mut self, now: Instant, number: u8, cell_max: u16) {
        hotplug::resize_link(now, number, cell_max, &mut self.split().1);
    }

    /// Greets these endpoints on a link from now on, in place of those of before: the addresses of a named peer are known, or
    /// have changed. Peers that have joined stay.
    pub fn set_greeted(&mut self, now: Instant, number: u8, endpoints: Vec<SocketAddr>) {
        let Some(link) = self.links.member_mut(number) else { return };
        link.settings.greet = endpoints;
        link.greet_at = now;
    }

    /// Whether each peer that is reached over these links, a bit each, is reached over another, too, which is not drained.
    pub fn may_drain(&self, links: u16) -> bool {
        self.links.may_drain(links)
    }

    /// Drains a link, or ends that. Data leaves over other links from the next batch on, and the peers are asked to do the same;
    /// heartbeats go on, so that the link is judged. It carries data only while no other link to a peer is up.
    pub fn drain_link(&mut self, now: Instant, number: u8, drained: bool) {
        hotplug::drain_link(now, number, drained, &mut self.split().1);
    }

    /// The user states other rates for a link, for what it sends and what it receives in bits per second, or another weight, or none.
    pub fn state_link(&mut self, now: Instant, number: u8, rates: [Option<u64>; 2], weight: Option<u32>) {
        hotplug::state_link(now, number, rates, weight, &mut self.split().1);
    }

    /// The link whose socket a number stands for: another one, where several links of a peer end at that.
    pub fn socket(&self, number: u8) -> u8 {
        if self.has_link(number) { self.links.socket(number) } else { number }
    }

    /// Whether a link has this number, also one that is leaving.
    pub fn has_link(&self, number: u8) -> bool {
        self.links.all().get(usize::from(number)).is_some_and(|link| !link.is_vacant())
    }

    /// This node ends: queues a farewell to all peers over all links. Afterwards the caller calls only [`Self::poll_control`].
    pub fn end(&mut self, now: Instant) {
        let (group, mut parts) = self.split();
        group.end(now, &mut parts);
    }

    /// Whether there is no peer because the last one has said that it ends.
    pub fn was_left(&self) -> bool {
        self.group.was_left()
    }

    /// Another process is about to replace this one: asks the peers to pause. The caller gives no more frames;
    /// [`Self::is_settled`] says when nothing is under way.
    pub fn drain(&mut self, now: Instant) {
        let (group, mut parts) = self.split();
        group.drain(now, &mut parts);
    }

    /// The replacement does not happen after all.
    pub fn resume(&mut self) {
        let (group, mut parts) = self.split();
        group.resume(&mut parts);
    }

    /// This process has replaced another one, which had so many peers: takes no frames until they have joined.
    pub fn take_over(&mut self, now: Instant, peers: usize) {
        self.links.succeed(now);
        self.group.handover_mut().take_over(now, peers);
    }

    /// Whether nothing is under way: the peers have received all that was taken from the device, all that was received from
    /// them is delivered, and they send nothing more.
    pub fn is_settled(&self, now: Instant) -> bool {
        self.group.handover().is_quiet(now) && self.receiver.is_whole() && self.is_delivered()
    }

    /// Whether the peers report that they have received all that was taken from the device.
    pub fn is_delivered(&self) -> bool {
        self.sender.is_idle() && self.links.are_received()
    }

    /// Whether this node can reach some peer that sends, or is about to.
    pub fn has_way(&self) -> bool {
        let waits = self.group.handover().is_waiting() || !self.sender.deferred().is_empty();
        waits || self.links.all_paths().any(|paths| paths.is_way(self.polled))
    }
}

#[cfg(test)]
pub(crate) mod tests;
