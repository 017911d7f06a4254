//! The bundle: what the device, the ports and the clock say goes in by `handle_*`, what is to be done comes out by
//! `poll_*`. The head of the crate shows the order of the calls.

use crate::counters::Counters;
use crate::event::Event;
use crate::fdb::Fdb;
use crate::fdb::view::Learned;
use crate::gate;
use crate::group::handover::Succession;
use crate::group::peer::Peers;
use crate::link::health::{HEARTBEAT_BUSY, HEARTBEAT_QUIET, Signal};
use crate::link::heartbeat::{Control, Spoken};
use crate::link::nic::{Port, PortSettings};
use crate::policy::class::{Class, Policies};
use crate::policy::{Choice, PolicyKind, PolicyOptions};
use crate::receive::pool::{Piece, Pool};
use crate::receive::reassemble::Ready;
use crate::send::deferred::Deferred;
use crate::send::fit::{Fit, cell_that_fits};
use crate::send::lane::Lanes;
use crate::send::park::Stalled;
use crate::send::queue::FairQueue;
use crate::send::repair::Repair;
use crate::send::replicate::Copies;
use crate::send::ring::Arena;
use crate::send::transmit::Flight;
use crate::session::handshake::Handshakes;
use crate::session::security::{Rekey, Security};
use crate::time::Instant;
use crate::wire::cell::{HEADER, LINKS};
use crate::wire::hello::{Name, NodeId};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Events that are kept until someone asks.
const EVENTS: usize = 256;

/// What a bundle is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node.
    pub node: NodeId,
    /// Differs after each start.
    pub incarnation: u64,
    /// Only nodes with the same group are peers.
    pub group: u64,
    /// This node's name.
    pub name: Name,
    /// How many workers the node runs.
    pub workers: u8,
    /// Whether the device takes UDP superframes.
    pub takes_uso: bool,
    /// How cells are distributed over links.
    pub policy: PolicyKind,
    /// What policies go by.
    pub policy_options: PolicyOptions,
    /// Frames that have another policy, at most [`CLASSES_MAX`](crate::policy::class::CLASSES_MAX): the first match decides.
    pub classes: Vec<Class>,
    /// Whether lost cells are asked for and sent again.
    pub repair: bool,
    /// The ports, at most [`LINKS`].
    pub ports: Vec<PortSettings>,
    /// Cell slots of the sender's ring, a power of two and at least 256: what can wait to leave, and what is kept for
    /// repair. Less does not hold two of the longest frames when a peer takes the smallest cells only.
    pub slots: usize,
    /// Receive buffers of 64 KB.
    pub buffers: u16,
    /// What is known of where MAC addresses live: one table for all workers of the node.
    pub fdb: Arc<Fdb>,
}

/// Cells that the sender keeps. Half of them may wait: a superframe of each of 90 flows. The others have left, and can be sent
/// again: 10 Gbit/s for 5 ms.
const SLOTS: usize = 8_192;
/// In so many of the smallest cells, sealed, there is room for two of the longest frames.
const SLOTS_LEAST: usize = 256;
/// Receive buffers of 64 KB: what waits behind a gap for as long.
const BUFFERS: u16 = 128;

impl Settings {
    /// A node with one worker, no name and no group, with the default policy, repair, and room for 10 Gbit/s. Its table
    /// of addresses is small and its own.
    #[must_use]
    pub fn new(node: NodeId, incarnation: u64, ports: Vec<PortSettings>) -> Self {
        Self {
            node,
            incarnation,
            group: 0,
            name: Name::default(),
            workers: 1,
            takes_uso: true,
            policy: PolicyKind::Adaptive,
            policy_options: PolicyOptions::default(),
            classes: Vec::new(),
            repair: true,
            ports,
            slots: SLOTS,
            buffers: BUFFERS,
            fdb: Arc::new(Fdb::new(0, incarnation)),
        }
    }
}

/// One worker's whole pipeline, without its I/O.
pub struct Bundle {
    pub(crate) settings: Settings,
    pub(crate) ports: Vec<Port>,
    pub(crate) peers: Peers,
    pub(crate) learned: Learned,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<Event>,
    /// When timers ran last.
    pub(crate) polled: Instant,

    // Sending: pack.rs, schedule.rs, tx.rs, repair.rs.
    pub(crate) arena: Arena,
    pub(crate) policies: Policies,
    pub(crate) lanes: Lanes,
    pub(crate) queue: FairQueue,
    /// Frames for peers that make way for their successors.
    pub(crate) deferred: Deferred,
    /// Slots that have left the queue and have numbers, to be sent in this order.
    pub(crate) outgoing: VecDeque<u64>,
    /// What steps aside until its links take more.
    pub(crate) stalled: Stalled,
    /// Slots to be sent again, before anything new.
    pub(crate) resend: VecDeque<Repair>,
    /// Copies of cells for further links.
    pub(crate) copies: Copies,
    /// The batch that the I/O is sending.
    pub(crate) flight: Option<Flight>,
    /// Cells of another size than what links take now still have to leave.
    pub(crate) cells_change: bool,
    pub(crate) fit: Fit,
    /// Frames read, and cells that they became, since a batch was asked for.
    pub(crate) frames_between: u16,
    pub(crate) cells_between: usize,
    /// More frames are read before anything else is done.
    pub(crate) expects_frames: bool,
    /// Reused between calls: a record being copied, the slots of a batch, the links to choose from.
    pub(crate) scratch: Vec<u8>,
    pub(crate) run: Vec<u64>,
    pub(crate) choices: Vec<Choice>,
    /// Reused: peers for which something is to be done.
    pub(crate) overdue: Vec<u16>,

    // Receiving: rx.rs.
    pub(crate) pool: Pool,
    pub(crate) ready: Ready,
    /// The pieces of the frame that the I/O is delivering.
    pub(crate) delivering: Vec<Piece>,
    /// Reused: how many buffers each peer holds.
    pub(crate) holders: Vec<(usize, u16)>,

    // What nodes say to each other: membership.rs, heartbeat.rs, succession.rs.
    /// Groups besides its own that this node takes for its own.
    pub(crate) other_groups: Vec<u64>,
    pub(crate) succession: Succession,
    pub(crate) control: VecDeque<Control>,
    pub(crate) control_bytes: Vec<u8>,
    /// The control message that the I/O is sending.
    pub(crate) spoken: Option<Spoken>,
    /// This node ends.
    pub(crate) ends: bool,
    /// There is no peer, for the last one has said that it ends.
    pub(crate) was_left: bool,
    /// Nodes that were refused lately, and since when they are not told of.
    pub(crate) refused: Vec<(NodeId, Instant)>,

    // What is secret, and who is let in: sealing.rs, greeting.rs, handshake.rs.
    pub(crate) security: Option<Box<dyn Security>>,
    pub(crate) rekey: Rekey,
    pub(crate) handshakes: Handshakes,
    /// Where what leaves is sealed.
    pub(crate) sealed: Vec<u8>,
}

impl Bundle {
    /// A bundle without peers.
    ///
    /// # Panics
    /// When there is no port, there are more than [`LINKS`], there are too many classes, or the ring has too few slots.
    #[must_use]
    pub fn new(now: Instant, settings: Settings) -> Self {
        assert!((1..=LINKS).contains(&settings.ports.len()), "1 to {LINKS} ports");
        assert!(settings.slots >= SLOTS_LEAST, "a peer may take the smallest cells only");
        let cell_max = cell_that_fits(settings.ports.iter().map(|port| port.cell_max));
        Self {
            ports: settings.ports.iter().map(|port| Port::new(now, port.clone())).collect(),
            peers: Peers::new(settings.incarnation),
            learned: Learned::new(Arc::clone(&settings.fdb)),
            counters: Counters::default(),
            events: VecDeque::new(),
            polled: now,
            arena: Arena::new(cell_max, settings.slots),
            policies: Policies::new(settings.policy, settings.policy_options, &settings.classes),
            lanes: Lanes::default(),
            queue: FairQueue::default(),
            deferred: Deferred::default(),
            outgoing: VecDeque::new(),
            stalled: Stalled::default(),
            resend: VecDeque::new(),
            copies: Copies::default(),
            flight: None,
            cells_change: false,
            fit: Fit::default(),
            frames_between: 0,
            cells_between: 0,
            expects_frames: false,
            scratch: Vec::new(),
            run: Vec::new(),
            choices: Vec::new(),
            overdue: Vec::new(),
            pool: Pool::new(settings.buffers),
            ready: Ready::default(),
            delivering: Vec::new(),
            holders: Vec::new(),
            other_groups: Vec::new(),
            succession: Succession::default(),
            control: VecDeque::new(),
            spoken: None,
            control_bytes: vec![0; HEADER + crate::link::heartbeat::CONTROL_MAX],
            ends: false,
            was_left: false,
            refused: Vec::new(),
            security: None,
            rekey: Rekey::default(),
            handshakes: Handshakes::new(now),
            sealed: Vec::new(),
            settings,
        }
    }

    /// From now on cells are sealed, and only the group is let in. To be called before any frame is read and any cell is
    /// heard; later only to change the group's keys. Sessions live on with whoever has one that is still accepted.
    pub fn set_security(&mut self, security: Box<dyn Security>, rekey: Rekey) {
        self.security = Some(security);
        self.rekey = rekey;
        self.sealed.resize(crate::session::seal::SEALED_MAX, 0);
        self.review_keys();
        self.fit_cells();
    }

    /// Writes to all memory that is set aside for cells. So the process has from its start what it will ever need for
    /// them, and none of it is first found missing under load. For a bundle without peers.
    pub fn touch_memory(&mut self) {
        self.pool.touch();
        self.arena.touch();
    }

    /// What is counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The next event. To be asked after every other call; a log that is not read loses the oldest.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next gate of the device that is to be closed or opened. To be asked after frames were read and cells sent.
    pub fn poll_gate(&mut self) -> Option<gate::Change> {
        self.queue.poll_gate()
    }

    pub(crate) fn log(&mut self, event: Event) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Changes how cells are distributed, from the next batch on: no cell that waits is lost. The policy goes by the
    /// options that the bundle was made with; classes keep theirs.
    pub fn set_policy(&mut self, kind: PolicyKind) {
        self.policies.set(kind);
    }

    /// Changes which group this node says it is of, and of which others it takes nodes for peers, from the next hello on.
    /// Peers that have joined stay.
    pub fn set_groups(&mut self, group: u64, others: Vec<u64>) {
        self.settings.group = group;
        self.other_groups = others;
    }

    /// A NIC has gained or lost its carrier.
    pub fn handle_carrier(&mut self, now: Instant, port: u8, carrier: bool) {
        let Some(state) = self.ports.get_mut(usize::from(port)).filter(|port| port.is_member()) else {
            return;
        };
        state.carrier = carrier;
        state.full = false;
        state.greet_at = now;
        if carrier {
            return;
        }
        for index in self.peers.indices() {
            self.leave_link(now, index, port, Signal::Carrier);
        }
    }

    /// When [`Self::handle_timeout`] is to be called, at the latest.
    #[must_use]
    pub fn poll_timeout(&mut self, now: Instant) -> Instant {
        let ports = self.ports.iter().filter(|port| !port.is_vacant());
        let mut at = ports.map(|port| port.greet_at).min().unwrap_or(now + HEARTBEAT_QUIET);
        if self.cells_change {
            at = at.min(self.polled + HEARTBEAT_BUSY);
        }
        at = self.handshakes.due().map_or(at, |due| at.min(due));
        at = self.succession.waits_until().map_or(at, |until| at.min(until));
        at = self.deferred.due(self.polled).map_or(at, |until| at.min(until));
        self.peers.due(now, self.settings.repair).map_or(at, |due| at.min(due))
    }

    /// Does what is due: greetings, heartbeats, judgements, gaps and repairs that are given up.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.learned.tend(now);
        self.step_back();
        self.refit_cells();
        self.see_off(now);
        self.end_wait(now);
        self.greet(now);
        self.pass_handshakes(now);
        let mut overdue = core::mem::take(&mut self.overdue);
        self.peers.list_overdue(now, self.settings.repair, &mut overdue);
        self.beat(now, &overdue);
        self.renew_keys(now, &overdue);
        self.judge(now, &overdue);
        self.give_up_gaps(now, &overdue);
        self.forget_repairs(now);
        self.end_lapsed(now, &overdue);
        self.expire(now, &overdue);
        self.overdue = overdue;
        self.polled = now;
    }
}
