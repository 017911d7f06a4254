//! What the programs know of peers, and how that follows the core.

use std::sync::Arc;
use std::time::Duration;

use tabane_api::Entry;
use tabane_io::now_ns;
use tabane_kernel::layout::LINKS;
use tabane_kernel::{
    Address, AgainCounts, Counts, Order, Pace, PathState, Policy, Reorder, ReorderCounts, Seat, Traffic,
};
use tabane_proto::{
    Bundle, Carried, Choosing, Instant, KernelEnd, KernelOrder, KernelPath, KernelPeer, KernelSender,
    NeedsCells, NodeId,
};

use crate::events::EventLog;

/// Nodes that can be peers of one process on the kernel path.
pub(super) const NODES: usize = 128;
/// How often the maps follow the core when there is no event.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);
/// Counters are not read more often than this: a path may be dead after 2 ms without a frame.
const COUNT_EVERY: Duration = Duration::from_micros(250);
/// How long frames in cells are waited for before others take the kernel path.
const OPEN_WITHIN: Duration = Duration::from_millis(100);
/// What left by a path before it was given up is sent again when that was not longer ago: a path that dies in quiet is left after
/// 45 ms, and TCP goes on by itself after 200 ms.
const AGAIN_WITHIN: Duration = Duration::from_millis(100);
/// How long what one link is not known to have lost is waited for after all others have brought later frames: processors may
/// change the order of frames of one link by as much.
const GRACE: Duration = Duration::from_millis(2);
/// Most that waits for the frames of one flow, in bytes: 100 ms at 670 Mbit/s.
const HELD_MAX: u32 = 8 << 20;
/// A change of less than one part in so many of a speed, delay or hold time is none.
const PARTS: u64 = 16;
/// The speed of the link that has the largest share, in bit/s: shares are relative.
const SHARE: u64 = 1_000_000_000;

const _: () = assert!(tabane_kernel::layout::SENDERS == tabane_proto::SENDERS as usize, "one table for both");

/// The words for a reason; `None`: it passes by itself.
type Words<'a> = dyn Fn(NeedsCells) -> Option<String> + 'a;

/// The peers of this process so far, by their numbers.
pub(super) struct Peers {
    programs: tabane_kernel::KernelPath,
    /// What puts frames in order; dropped after what sends frames there.
    reorder: Option<Reorder>,
    /// Where our links receive.
    own: Vec<Option<KernelEnd>>,
    known: Vec<Known>,
    /// Nothing leaves by programs.
    held: bool,
    /// When the core is asked next.
    due: Instant,
    /// When the counters were read last.
    counted: Instant,
    /// Changes that the kernel refused.
    refused: u64,
    events: Arc<EventLog>,
}

/// A node that is a peer, or was one.
struct Known {
    node: NodeId,
    /// As the maps have it.
    is_ready: bool,
    /// Since when it is to be.
    wanted_since: Option<Instant>,
    policy: Policy,
    order: Option<KernelOrder>,
    paths: [Option<(KernelEnd, bool)>; LINKS],
    /// Where it says that it receives, where another node does: it is written again each time, until that has left.
    claimed: [Option<KernelEnd>; LINKS],
    /// Whether each path worked, when it was written.
    up: [bool; LINKS],
    paces: [Pace; LINKS],
    /// What was said last: `Ok`, frames leave by programs; or why not.
    said: Option<Result<(), String>>,
    /// Since when it is no peer.
    left: Option<Instant>,
}

impl Known {
    fn new(node: NodeId) -> Self {
        Self {
            node,
            is_ready: false,
            wanted_since: None,
            policy: Policy::default(),
            order: None,
            paths: [None; LINKS],
            claimed: [None; LINKS],
            up: [false; LINKS],
            paces: [Pace::default(); LINKS],
            said: None,
            left: None,
        }
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
    pub(super) fn new(
        programs: tabane_kernel::KernelPath,
        reorder: Option<Reorder>,
        own: Vec<Option<KernelEnd>>,
        events: Arc<EventLog>,
    ) -> Self {
        let (known, due, counted) = (Vec::new(), Instant::default(), Instant::default());
        Self { programs, reorder, own, known, held: false, due, counted, refused: 0, events }
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
            let result = self.programs.set_seat(usize::try_from(sender).unwrap_or(usize::MAX), seat);
            self.note(result);
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
                let result = self.write(number, peer, may_open);
                self.note(result);
                self.say(number, peer.needs_cells, words);
            }
        }
    }

    /// An address lives behind a node.
    pub(super) fn learn(&mut self, mac: [u8; 6], node: NodeId) {
        if let Some(number) = self.number(node) {
            let result = self.programs.learn(mac, number);
            self.note(result);
        }
    }

    /// Lets nothing leave by programs, or lets the next [`Self::follow`] open them again.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        self.due = Instant::default();
        for number in (0..self.known.len()).filter(|_| held) {
            let result = self.set_ready(number, false);
            self.note(result);
        }
    }

    /// Deletes what puts frames in order.
    pub(super) fn close(&mut self) {
        self.reorder = None;
    }

    pub(super) fn shown(&self, node: &str) -> Option<Shown> {
        let number = self.known.iter().position(|known| known.node.to_string() == node)?;
        let Known { is_ready, said, .. } = &self.known[number];
        let why = said.as_ref().and_then(|said| said.as_ref().err());
        let passing = || "no path to it is up, or what the paths carry is not known yet".to_owned();
        let why = (!is_ready).then(|| why.cloned().unwrap_or_else(passing));
        Some(Shown { number, is_ready: *is_ready, why })
    }

    pub(super) fn traffic(&self, number: usize, link: usize) -> Traffic {
        self.programs.traffic(number, link)
    }

    pub(super) fn counts(&self) -> (Counts, AgainCounts, ReorderCounts) {
        let reorder = self.reorder.as_ref().map(Reorder::counts).unwrap_or_default();
        (self.programs.counts(), self.programs.again_counts(), reorder)
    }

    /// The name of what puts frames in order.
    pub(super) fn pair(&self) -> Option<&str> {
        self.reorder.as_ref().map(Reorder::name)
    }

    fn number(&mut self, node: NodeId) -> Option<usize> {
        number_of(&mut self.known, node)
    }

    /// A node is no peer any more: the programs know nothing of it, and another may have its number.
    fn take_out(&mut self, now: Instant, number: usize) {
        let known = &mut self.known[number];
        if known.left.is_none() {
            *known = Known { left: Some(now), ..Known::new(known.node) };
            let result = self.programs.set_peer(number, None);
            self.note(result);
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
        let may_open = known.is_ready || is_idle || !waits;
        if !may_open {
            self.due = now;
        }
        may_open
    }

    /// Writes what has changed of a peer. What closes comes before what opens.
    fn write(
        &mut self,
        number: usize,
        peer: &KernelPeer,
        is_ready: bool,
    ) -> Result<(), tabane_kernel::Error> {
        if !is_ready {
            self.set_ready(number, false)?;
        }
        self.set_order(number, peer.order)?;
        self.set_policy(number, peer.choosing)?;
        let of = |link: usize| peer.paths.iter().find(|path| usize::from(path.link) == link);
        let wanted: [_; LINKS] =
            std::array::from_fn(|link| of(link).map(|KernelPath { end, open, .. }| (*end, *open)));
        let opens = |wanted: Option<(KernelEnd, bool)>| wanted.is_some_and(|(_, open)| open);
        let is = |link: usize, up: bool| of(link).is_some_and(|path| path.up == up);
        let was_up = self.known[number].up;
        let given_up = (0..LINKS).filter(|link| was_up[*link] && is(*link, false));
        self.known[number].up = std::array::from_fn(|link| is(link, true));
        for opening in [false, true] {
            for (link, wanted) in wanted.iter().enumerate().filter(|(_, wanted)| opens(**wanted) == opening) {
                self.set_path(number, link, *wanted)?;
            }
        }
        let fastest = peer.paths.iter().map(|path| path.speed).max().unwrap_or(0);
        for path in peer.paths.iter().filter(|path| path.open && peer.choosing.spreads()) {
            self.set_pace(number, path, peer.choosing, fastest)?;
        }
        self.set_ready(number, is_ready && self.known[number].paths.iter().any(Option::is_some))?;
        for link in given_up {
            self.programs.send_again(number, link, AGAIN_WITHIN);
        }
        Ok(())
    }

    fn set_ready(&mut self, number: usize, is_ready: bool) -> Result<(), tabane_kernel::Error> {
        if self.known[number].is_ready != is_ready {
            self.programs.set_peer(number, Some((None, is_ready)))?;
            self.known[number].is_ready = is_ready;
        }
        Ok(())
    }

    fn set_order(&mut self, number: usize, wanted: KernelOrder) -> Result<(), tabane_kernel::Error> {
        let known = &mut self.known[number].order;
        let is_same = |known: &KernelOrder| {
            (known.links, known.incarnation) == (wanted.links, wanted.incarnation)
                && is_near(nanos(known.hold), nanos(wanted.hold))
        };
        let Some(reorder) = self.reorder.as_mut().filter(|_| !known.as_ref().is_some_and(is_same)) else {
            return Ok(());
        };
        let [.., a, b, c, d] = wanted.incarnation.to_be_bytes();
        let order = Order {
            hold: wanted.hold,
            grace: GRACE,
            held_max: HELD_MAX,
            links: wanted.links.into(),
            session: u32::from_be_bytes([a, b, c, d]),
        };
        reorder.set_order(number, &order)?;
        *known = Some(wanted);
        Ok(())
    }

    fn set_policy(&mut self, number: usize, choosing: Choosing) -> Result<(), tabane_kernel::Error> {
        let policy = match choosing {
            Choosing::Hash => Policy::Hash,
            Choosing::Earliest => Policy::Stripe,
            Choosing::Shares => Policy::Weighted,
            Choosing::Senders { newcomers, received } => Policy::Senders { newcomers, received },
        };
        if self.known[number].policy != policy {
            self.programs.set_policy(number, policy)?;
            self.known[number].policy = policy;
        }
        Ok(())
    }

    fn set_pace(
        &mut self,
        number: usize,
        path: &KernelPath,
        choosing: Choosing,
        fastest: u64,
    ) -> Result<(), tabane_kernel::Error> {
        let share = || u128::from(path.speed) * u128::from(SHARE) / u128::from(fastest.max(1));
        let rate = match choosing {
            Choosing::Shares => u64::try_from(share()).unwrap_or(SHARE),
            _ => path.speed.saturating_mul(8),
        };
        let pace = Pace { rate: (rate > 0).then_some(rate), delay: path.delay };
        let (link, known) = (usize::from(path.link), self.known[number].paces[usize::from(path.link)]);
        let [before, rate] = [known, pace].map(|pace| pace.rate.unwrap_or(0));
        if !is_near(before, rate) || !is_near(nanos(known.delay), nanos(pace.delay)) {
            self.programs.set_pace(number, link, pace)?;
            self.known[number].paces[link] = pace;
        }
        Ok(())
    }

    fn set_path(
        &mut self,
        number: usize,
        link: usize,
        wanted: Option<(KernelEnd, bool)>,
    ) -> Result<(), tabane_kernel::Error> {
        if self.known[number].paths[link] == wanted {
            return Ok(());
        }
        let own = self.own.get(link).copied().flatten();
        let state = wanted.zip(own).map(|((end, is_up), own)| PathState {
            local: Address { mac: own.mac, ip: own.address },
            remote: Address { mac: end.mac, ip: end.address },
            remote_port: end.port,
            is_up,
            pace: self.known[number].paces[link],
        });
        let is_taken = !self.programs.set_path(number, link, state)?;
        self.known[number].paths[link] = wanted.filter(|_| !is_taken);
        self.known[number].claimed[link] = wanted.filter(|_| is_taken).map(|(end, _)| end);
        Ok(())
    }

    /// Records which way frames to a peer take, when that has changed for longer than a moment.
    fn say(&mut self, number: usize, needs: Option<NeedsCells>, words: &Words<'_>) {
        let known = &mut self.known[number];
        let claimed =
            known.claimed.iter().flatten().next().filter(|_| known.paths.iter().all(Option::is_none));
        let claimed = claimed.map(|end| format!("another node receives at its address {}", end.address));
        let now = match (needs, claimed) {
            (Some(needs), _) => words(needs).map(Err),
            (None, Some(claimed)) => Some(Err(claimed)),
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
    fn note(&mut self, result: Result<(), tabane_kernel::Error>) {
        let Err(error) = result else { return };
        self.refused += 1;
        if self.refused.is_power_of_two() {
            tracing::warn!(%error, count = self.refused, "the kernel path does not follow, which is tried again");
        }
    }
}

/// Whether two values are about the same.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one.max(other) / PARTS
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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
