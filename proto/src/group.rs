//! The group: who is there, which links join and leave, and handovers to a new process.
//!
//! Beside the path. Each step here concerns the state of a peer in all rooms, so its functions get all [`Parts`] of the node.
//!
//! ```text
//!   membership  greetings, answers, departures         hotplug    links that join and leave
//!   greeting    the same where cells are sealed        handover   a process that another replaces
//! ```

pub(crate) mod greeting;
pub(crate) mod handover;
pub(crate) mod hotplug;
pub(crate) mod membership;

use crate::group::handover::Handover;
use crate::link::Links;
use crate::outputs::Outputs;
use crate::outputs::event::Mismatch;
use crate::receive::Receiver;
use crate::send::{Around, Sender};
use crate::session::{Origin, Sessions};
use crate::settings::Settings;
use crate::time::Instant;
use crate::wire::hello::{Hello, Name};
use alloc::vec::Vec;

/// What this node's hellos say, and which nodes may be peers.
#[derive(Default)]
pub(crate) struct Group {
    group: u64,
    /// Groups besides its own whose nodes may be peers.
    others: Vec<u64>,
    name: Name,
    workers: u8,
    takes_uso: bool,
    handover: Handover,
    ends: bool,
    /// There is no peer, and the last one has said that it ends.
    was_left: bool,
}

/// The other rooms of the node.
pub(crate) struct Parts<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) links: &'a mut Links,
    pub(crate) sender: &'a mut Sender,
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) out: &'a mut Outputs,
    /// When timers ran last.
    pub(crate) polled: Instant,
}

impl Parts<'_> {
    pub(crate) fn sending(&mut self) -> (&mut Sender, Around<'_>) {
        let Self { sessions, links, sender, out, polled, .. } = self;
        (sender, Around { sessions, links, counters: &mut out.counters, now: *polled })
    }

    /// The set of links, or a size that one takes, has changed: makes cells as large as all links take.
    pub(crate) fn fit_cells(&mut self) {
        self.send_lost_again();
        self.sender.fit_cells(self.polled, self.links, self.sessions);
    }

    /// Somebody greets who is not of the group. That is news while this node has no peer.
    pub(crate) fn meet_stranger(&mut self, now: Instant, origin: Origin, hello: &Hello, mismatch: Mismatch) {
        let is_alone = self.sessions.table().iter().all(|session| !session.is_joined());
        if is_alone && hello.node != self.sessions.node() {
            self.out.events.meet(now, origin.link, origin.from, mismatch);
        }
    }

    /// Sends cells again over other links that may be lost on links that were left. Returns how many numbers were looked up.
    pub(crate) fn send_lost_again(&mut self) -> u64 {
        let (sender, mut around) = self.sending();
        sender.send_lost_again(&mut around)
    }
}

impl Group {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            group: settings.group,
            name: settings.name,
            workers: settings.workers,
            takes_uso: settings.takes_uso,
            ..Self::default()
        }
    }

    /// Changes the group that this node's hellos name, and the other groups whose nodes may be peers.
    pub(crate) fn set_groups(&mut self, group: u64, others: Vec<u64>) {
        self.group = group;
        self.others = others;
    }

    pub(crate) fn was_left(&self) -> bool {
        self.was_left
    }

    pub(crate) fn handover(&self) -> &Handover {
        &self.handover
    }

    pub(crate) fn handover_mut(&mut self) -> &mut Handover {
        &mut self.handover
    }

    /// This node's hello on a link, to a peer or to everyone.
    pub(crate) fn hello(&self, link: u8, peer: Option<u16>, sessions: &Sessions, links: &Links) -> Hello {
        let session = peer.and_then(|index| sessions.table().get(index));
        let path = peer.and_then(|index| links.paths(index)).map(|paths| &paths.outbound[link]);
        let state = &links[link];
        Hello {
            node: sessions.node(),
            incarnation: sessions.incarnation(),
            group: self.group,
            session: session.map_or(0, |session| session.session_in),
            your_session: session.map_or(0, |session| session.session_out),
            cell_max: state.settings.cell_max,
            receives: state.settings.receives.map(kilobits),
            link,
            workers: self.workers,
            takes_uso: self.takes_uso,
            leaves: !state.is_member(),
            seals: sessions.is_sealing(),
            asks: path.is_some_and(|path| path.end.endpoint.is_none() || path.end.outdated),
            pauses: self.handover.is_draining(),
            ends: self.ends,
            drains: state.settings.drained,
            name: self.name,
            kernel: state.settings.kernel.filter(|_| session.is_some() || !sessions.is_sealing()),
        }
    }
}

/// A rate in the unit of hellos.
fn kilobits(bits: u64) -> u32 {
    u32::try_from(bits.div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}
