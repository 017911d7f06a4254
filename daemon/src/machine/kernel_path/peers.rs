//! What the programs know of peers, and how that follows the core.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use tabane_api::Entry;
use tabane_io::now_ns;
use tabane_kernel::{AgainCounts, Counts, ReorderCounts, Seat, Traffic};
use tabane_proto::{Bundle, Carried, Instant, KernelPeer, KernelSender, NeedsCells, NodeId};

use crate::events::EventLog;

/// Nodes that can be peers of one process on the kernel path.
pub(super) const NODES: usize = 128;
/// How often the maps follow the core when there is no event.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);
/// Counters are not read more often than this: a path may be dead after 2 ms without a frame.
const COUNT_EVERY: Duration = Duration::from_micros(250);
/// How long frames in cells are waited for before others take the kernel path.
const OPEN_WITHIN: Duration = Duration::from_millis(100);

/// The words for a reason; `None`: it passes by itself.
type Words<'a> = dyn Fn(NeedsCells) -> Option<String> + 'a;

/// The peers of this process so far, by their numbers.
pub(super) struct Peers {
    programs: tabane_kernel::KernelPath,
    known: Vec<Known>,
    /// Nothing leaves by programs.
    held: bool,
    due: Instant,
    /// When the counters were read last.
    counted: Instant,
    refused: u64,
    events: Arc<EventLog>,
}

/// A node that is a peer, or was one.
struct Known {
    node: NodeId,
    /// Since when frames to it are to leave by programs.
    wanted_since: Option<Instant>,
    /// What was said last: `Ok`, frames leave by programs; or why not.
    said: Option<Result<(), String>>,
    /// Since when it is no peer.
    left: Option<Instant>,
}

impl Known {
    fn new(node: NodeId) -> Self {
        Self { node, wanted_since: None, said: None, left: None }
    }
}

/// The number of a node, which it keeps while it is a peer: a new one, or that of the node that left first. `None`: all are peers'.
fn number_of(known: &mut Vec<Known>, node: NodeId) -> Option<usize> {
    let there = known.iter().position(|known| known.node == node);
    if there.is_none() && known.len() < NODES {
        known.push(Known::new(node));
        return Some(known.len() - 1);
    }
    there.or_else(|| {
        let left = known.iter().enumerate().filter_map(|(number, known)| Some((known.left?, number)));
        let (_, number) = left.min()?;
        known[number] = Known::new(node);
        Some(number)
    })
}

/// A peer for the status.
pub(super) struct Shown {
    pub(super) number: usize,
    pub(super) is_ready: bool,
    pub(super) why: Option<String>,
}

impl Peers {
    pub(super) fn new(programs: tabane_kernel::KernelPath, events: Arc<EventLog>) -> Self {
        let (known, due, counted) = (Vec::new(), Instant::default(), Instant::default());
        Self { programs, known, held: false, due, counted, refused: 0, events }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Hands in what has crossed the paths of all peers.
    pub(super) fn count(&mut self, now: Instant, bundle: &mut Bundle) {
        if now.since(self.counted) < COUNT_EVERY {
            return;
        }
        self.counted = now;
        bundle.handle_carried(now, |node, link| {
            let number = self.known.iter().position(|known| known.node == node)?;
            let traffic = self.programs.traffic(number, usize::from(link));
            Some(Carried {
                sent_frames: traffic.sent_frames,
                sent_bytes: traffic.sent_bytes,
                link_bytes: traffic.link_bytes,
                received_frames: traffic.received_frames,
                received_bytes: traffic.received_bytes,
                received_at: Instant::from_nanos(traffic.received_ns),
            })
        });
    }

    /// Hands in what the programs know of senders.
    pub(super) fn show_senders(&self, bundle: &mut Bundle) {
        bundle.handle_senders(self.programs.newcomers(), |sender| {
            let (Seat { peer, link }, volume) = self.programs.sender(usize::try_from(sender).ok()?)?;
            let sender = KernelSender { node: self.known.get(peer)?.node, link: u8::try_from(link).ok()? };
            Some((sender, [volume.sent, volume.received]))
        });
    }

    /// Gives senders the links that the core has given them.
    pub(super) fn move_senders(&mut self, bundle: &mut Bundle) {
        for (sender, moved) in bundle.poll_moves() {
            let seat = moved.and_then(|KernelSender { node, link }| {
                Some(Seat { peer: self.number(node)?, link: link.into() })
            });
            let done = self.programs.set_seat(usize::try_from(sender).unwrap_or(usize::MAX), seat);
            self.note(done);
        }
    }

    /// Follows what the core says of all peers that have joined. `is_idle`: no frame is on its way in cells.
    pub(super) fn follow(&mut self, now: Instant, is_idle: bool, peers: &[KernelPeer], words: &Words<'_>) {
        self.due = now + FOLLOW_EVERY;
        for number in 0..self.known.len() {
            let node = self.known[number].node;
            if peers.iter().all(|peer| peer.node != node) {
                self.take_out(now, number);
            }
        }
        for peer in peers {
            if let Some(number) = self.number(peer.node) {
                self.known[number].left = None;
                let may_open = self.may_open(now, is_idle, number, peer.needs_cells.is_none());
                let taken = self.programs.set_peer(number, peer, may_open);
                let taken = self.note(taken).flatten();
                self.say(number, peer.needs_cells, taken, words);
            }
        }
    }

    pub(super) fn learn(&mut self, mac: [u8; 6], node: NodeId) {
        if let Some(number) = self.number(node) {
            let done = self.programs.learn(mac, number);
            self.note(done);
        }
    }

    /// Lets nothing leave by programs, or lets the next [`Self::follow`] open them again.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        self.due = Instant::default();
        for number in (0..self.known.len()).filter(|_| held) {
            let done = self.programs.close_peer(number);
            self.note(done);
        }
    }

    /// Deletes what puts frames in order.
    pub(super) fn close(&mut self) {
        self.programs.close();
    }

    pub(super) fn shown(&self, node: &str) -> Option<Shown> {
        let number = self.known.iter().position(|known| known.node.to_string() == node)?;
        let is_ready = self.programs.is_ready(number);
        let why = self.known[number].said.as_ref().and_then(|said| said.as_ref().err());
        let passing = || "no path to it is up, or what the paths carry is not known yet".to_owned();
        let why = (!is_ready).then(|| why.cloned().unwrap_or_else(passing));
        Some(Shown { number, is_ready, why })
    }

    pub(super) fn traffic(&self, number: usize, link: usize) -> Traffic {
        self.programs.traffic(number, link)
    }

    pub(super) fn counts(&self) -> (Counts, AgainCounts, ReorderCounts) {
        self.programs.counts()
    }

    /// The name of what puts frames in order.
    pub(super) fn pair(&self) -> Option<&str> {
        self.programs.pair()
    }

    fn number(&mut self, node: NodeId) -> Option<usize> {
        number_of(&mut self.known, node)
    }

    /// A node is no peer any more: the programs know nothing of it, and another may have its number.
    fn take_out(&mut self, now: Instant, number: usize) {
        let known = &mut self.known[number];
        if known.left.is_none() {
            *known = Known { left: Some(now), ..Known::new(known.node) };
            let done = self.programs.remove_peer(number);
            self.note(done);
        }
    }

    /// Whether frames to a peer may take the kernel path. They do not overtake those that are on their way in cells, unless some always are.
    fn may_open(&mut self, now: Instant, is_idle: bool, number: usize, is_wanted: bool) -> bool {
        let known = &mut self.known[number];
        if !is_wanted || self.held {
            known.wanted_since = None;
            return false;
        }
        let waits = now.since(*known.wanted_since.get_or_insert(now)) < OPEN_WITHIN;
        let may_open = self.programs.is_ready(number) || is_idle || !waits;
        if !may_open {
            self.due = now;
        }
        may_open
    }

    /// Records which way frames to a peer take, when that has changed for longer than a moment.
    fn say(&mut self, number: usize, needs: Option<NeedsCells>, taken: Option<Ipv6Addr>, words: &Words<'_>) {
        let known = &mut self.known[number];
        let taken = taken.map(|address| format!("another node receives at its address {address}"));
        let now = match (needs, taken) {
            (Some(needs), _) => words(needs).map(Err),
            (None, Some(taken)) => Some(Err(taken)),
            (None, None) => Some(Ok(())),
        };
        let Some(now) = now else { return };
        if self.held || known.said.as_ref() == Some(&now) {
            return;
        }
        let detail = match &now {
            Ok(()) => "frames take the kernel path".to_owned(),
            Err(why) => format!("frames travel in cells: {why}"),
        };
        known.said = Some(now);
        let (what, peer) = ("data-path".to_owned(), Some(known.node.to_string()));
        self.events.keep(now_ns(), Entry { what, peer, detail, ..Entry::default() });
    }

    /// What the kernel refuses is written again the next time, and logged at each power of two.
    fn note<T>(&mut self, result: Result<T, tabane_kernel::Error>) -> Option<T> {
        let error = match result {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        self.refused += 1;
        if self.refused.is_power_of_two() {
            tracing::warn!(%error, count = self.refused, "the kernel path does not follow, which is tried again");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u16) -> NodeId {
        NodeId::new([2, 0, 0, 0, 0, 1], number)
    }

    #[test]
    fn any_number_of_nodes_come_and_go_and_peers_keep_their_numbers() {
        let mut known = Vec::new();
        let stays = number_of(&mut known, node(0));
        for coming in 1..=1_000 {
            let number = number_of(&mut known, node(coming)).expect("others have left");
            assert!(Some(number) != stays && known[number].node == node(coming));
            known[number].left = Some(Instant::from_nanos(coming.into()));
        }
        assert_eq!((known.len(), number_of(&mut known, node(0))), (NODES, stays));
        let longest = known.iter().filter_map(|known| known.left.map(|left| (left, known.node))).min();
        let given = number_of(&mut known, node(1)).expect("others have left");
        assert!(known.iter().all(|known| Some(known.node) != longest.map(|(_, node)| node)), "{given}");
        known.iter_mut().for_each(|known| known.left = None);
        assert_eq!(number_of(&mut known, node(2_000)), None, "all are peers");
    }
}
