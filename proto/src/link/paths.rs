//! The paths to one peer, in both directions.

use crate::link::health::LATELY;
use crate::link::inbound::{self, Inbound};
use crate::link::outbound::{Outbound, Standing};
use crate::time::Instant;
use crate::wire::cell::LINKS;
use crate::wire::hello::NodeId;
use crate::wire::numbered::Numbered;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

/// No flow is shared with a link whose cells come later than this, compared with the nearest link's.
pub const FAR: Duration = Duration::from_millis(100);
/// Nor, once that was so, with one whose cells come later than this: queues make ways longer for a while.
const STAYS_FAR: Duration = Duration::from_millis(75);
/// A link whose cells come no later than this is near.
pub(crate) const NEAR: Duration = Duration::from_millis(10);
/// A link holds a cell that comes so much later than its cells usually do.
const HELD_AFTER: Duration = Duration::from_millis(30);
/// A peer that has joined counts as one that can be reached for so long, and until something comes from it heartbeats to it are quick.
const RISES_WITHIN: Duration = Duration::from_millis(250);

/// By which links a flow goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Near,
    Far,
    /// By those that are near, once all has arrived that it sent by the others.
    Returns,
}

impl Reach {
    /// Which of some links a flow may use; of each: whether it is far, and its skew. Where none is of the kind, it uses the others.
    pub(crate) fn of(
        self,
        links: impl Iterator<Item = (bool, Duration)> + Clone,
    ) -> impl Fn((bool, Duration)) -> bool {
        let wants_far = self == Self::Far;
        let is_far = links.clone().any(|(is_far, _)| is_far == wants_far) == wants_far;
        let skews = links.filter(|link| link.0 == is_far).map(|(_, skew)| skew);
        let most = skews.min().unwrap_or_default() + FAR;
        move |link| link.0 == is_far && link.1 <= most
    }
}

#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) node: NodeId,
    /// The way to it, by our link.
    pub(crate) outbound: Numbered<Vec<Outbound>>,
    /// For each of our links, the peer's number of its link that ends there.
    pub(crate) paired: Numbered<Vec<Option<u8>>>,
    /// The way from it, by its link.
    pub(crate) inbound: Numbered<Vec<Inbound>>,
    /// Where our numbers of it begin, once it has given us a session number.
    first: Option<u64>,
    /// When it gave us its session number.
    joined_at: Instant,
    pub(super) heartbeat_at: Instant,
    /// Counts how often heartbeats to it were made.
    pub(super) turn: usize,
    /// The serial number of the last heartbeat to it.
    pub(super) serial: u16,
    /// `sent_at` and `serial` of the latest heartbeat that was obeyed.
    pub(super) latest_report: Option<(u32, u16)>,
    /// It names the probes that it has received.
    pub(super) names_probes: bool,
    pub(super) judge_at: Instant,
    /// Its number is in `Links::touched`.
    pub(super) touched: bool,
}

impl Paths {
    /// Of a peer that has not given us a session number. Its own numbers begin at `first`.
    pub(super) fn new(now: Instant, node: NodeId, first: u64, links: usize) -> Self {
        Self {
            node,
            outbound: Numbered((0..links).map(|_| Outbound::new(now)).collect()),
            paired: Numbered(alloc::vec![None; links]),
            inbound: Numbered((0..LINKS).map(|_| Inbound::new(now, first)).collect()),
            first: None,
            joined_at: now,
            heartbeat_at: now,
            turn: 0,
            serial: 0,
            latest_report: None,
            names_probes: false,
            judge_at: now,
            touched: true,
        }
    }

    /// The peer has given us a session number: ours begin at `first`.
    pub(crate) fn join(&mut self, now: Instant, first: u64) {
        self.first = Some(first);
        self.joined_at = now;
        self.outbound.iter_mut().for_each(|path| path.begin(first));
    }

    /// One more path, whose numbers begin where those of all paths of the session did.
    pub(super) fn add_link(&mut self, now: Instant) {
        let mut path = Outbound::new(now);
        if let Some(first) = self.first {
            path.begin(first);
        }
        self.outbound.push(path);
        self.paired.push(None);
    }

    /// Our link that ends at this one of the peer's.
    pub(crate) fn paired_with(&self, link: u8) -> Option<u8> {
        (0..).zip(&*self.paired).find(|(_, paired)| **paired == Some(link)).map(|(own, _)| own)
    }

    pub(super) fn is_joined(&self) -> bool {
        self.first.is_some()
    }

    /// Whether some link to it is up, or might be.
    pub(crate) fn is_reachable(&self) -> bool {
        self.is_joined() && self.outbound.iter().any(|path| path.standing != Standing::Down)
    }

    /// Whether anything can be sent to it.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_joined() && self.outbound.iter().any(|path| path.is_up())
    }

    /// Whether it can be reached and sends, or has just joined.
    pub(crate) fn is_way(&self, now: Instant) -> bool {
        self.has_just_joined(now) || self.links_receiving() != 0 && self.is_reached()
    }

    /// Whether it has just joined, and nothing has come from it.
    pub(crate) fn is_rising(&self, now: Instant) -> bool {
        self.has_just_joined(now) && self.links_receiving() == 0
    }

    /// Whether its links have not had the time to prove themselves.
    fn has_just_joined(&self, now: Instant) -> bool {
        self.is_joined() && now.since(self.joined_at) < RISES_WITHIN
    }

    /// A cell of it has come now. If it was silent on all links before, it did not run, and that is no fault of the slower ones.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        let is_first = |path: &Inbound| {
            path.health.last_received() == now || now.since(path.health.last_received()) >= LATELY
        };
        if self.inbound.iter().all(is_first) {
            self.inbound.iter_mut().for_each(|path| path.health.handle_pause(now));
        }
    }

    /// What all paths to it have earned: 1 by each cell received from it, and by what counts as one that programs carried, both ways.
    pub(crate) fn earned(&self) -> u64 {
        let inbound = self.inbound.iter().map(|path| path.received + path.carried);
        inbound.chain(self.outbound.iter().map(|path| path.programs.sent())).sum()
    }

    /// More was earned: heartbeats may be due sooner.
    pub(super) fn handle_earned(&mut self, now: Instant) {
        let all = self.earned();
        let paths = self.outbound.iter().filter(|path| path.end.endpoint.is_some());
        let due = paths.map(|path| path.heartbeat_due(now, all)).min();
        self.heartbeat_at = due.map_or(self.heartbeat_at, |due| due.min(self.heartbeat_at));
    }

    /// There is something to say to it at once, over all links.
    pub(crate) fn hasten_heartbeats(&mut self, now: Instant) {
        self.heartbeat_at = now;
        self.outbound.iter_mut().for_each(|path| path.pacing.hasten());
    }

    /// The links from it that may still bring cells, a bit each.
    pub(crate) fn links_receiving(&self) -> u16 {
        let brings = |path: &Inbound| path.health.is_up() || path.lingers;
        (0..).take(LINKS).filter(|link| brings(&self.inbound[*link])).fold(0, |bits, link| bits | 1 << link)
    }

    pub(crate) fn last_received(&self) -> Instant {
        self.inbound.iter().map(|path| path.health.last_received()).max().unwrap_or_default()
    }

    /// The delay of its fastest link that is up.
    pub(crate) fn fastest(&self) -> Option<u32> {
        let up = self.inbound.iter().filter(|path| path.health.is_up());
        up.filter_map(Inbound::delay).reduce(inbound::faster)
    }

    /// The round trip over the slowest of its links that are up and that a flow may use.
    pub(crate) fn round_trip(&self, reach: Reach) -> Duration {
        self.within(reach).filter_map(|path| path.round_trip).max().unwrap_or_default()
    }

    /// How much later cells come over the furthest than over the nearest of these links; zero where all are near.
    pub(crate) fn spread(&self, reach: Reach) -> Duration {
        let skews = || self.within(reach).map(|path| path.skew);
        let spread = skews().max().unwrap_or_default() - skews().min().unwrap_or_default();
        if spread > NEAR { spread } else { Duration::ZERO }
    }

    /// Whether none of these links is up, or one holds cells back of which it is not known yet what it carries.
    pub(crate) fn is_starting(&self, reach: Reach, now: Instant) -> bool {
        let mut up = self.within(reach).peekable();
        up.peek().is_none() || up.any(|path| path.is_starting(now))
    }

    /// The paths that are up and that a flow may use.
    fn within(&self, reach: Reach) -> impl Iterator<Item = &Outbound> {
        let up = || self.outbound.iter().filter(|path| path.is_up());
        let place = |path: &Outbound| (path.is_far, path.skew);
        let is_reached = reach.of(up().map(place));
        up().filter(move |path| is_reached(place(path)))
    }

    /// The peer reports that cells come so much later by this link than by the fastest.
    pub(crate) fn handle_skew(&mut self, link: u8, skew: Duration) {
        self.outbound[link].handle_skew(skew);
        let up = self.outbound.iter().filter(|path| path.is_up());
        let least = up.map(|path| path.skew).min().unwrap_or_default();
        for path in self.outbound.iter_mut() {
            path.is_far = path.skew > least + if path.is_far { STAYS_FAR } else { FAR };
        }
    }

    /// The numbers of cells that the peer's link holds, some at a time: [`Health::take_held`](crate::link::health::Health::take_held).
    pub(crate) fn take_held(&mut self, now: Instant, link: u8) -> Option<Range<u64>> {
        let fastest = self.fastest();
        let path = &mut self.inbound[link];
        path.health.take_held(now, path.next_seq(), HELD_AFTER + path.skew(fastest))
    }

    /// Whether other paths than that over `link` are up, and all of them lack cells that are overdue.
    pub(crate) fn others_lack(&self, link: u8, as_of: Instant) -> bool {
        let others = self.outbound.iter().zip(0..).filter(|(path, number)| *number != link && path.is_up());
        let mut lack = others.map(|(path, _)| path.overdue(as_of).is_some()).peekable();
        lack.peek().is_some() && lack.all(|lacks| lacks)
    }

    /// Where the peer listens: on the links that are up, else on all.
    pub(crate) fn routes(&self) -> Vec<(u8, core::net::SocketAddr)> {
        let paths = || {
            (0..)
                .zip(&*self.outbound)
                .filter_map(|(link, path)| Some((path.is_up(), (link, path.end.endpoint?))))
        };
        let up: Vec<_> = paths().filter(|(up, _)| *up).map(|(_, route)| route).collect();
        if up.is_empty() { paths().map(|(_, route)| route).collect() } else { up }
    }

    /// The largest cells that the paths which are known carry. A path that carries less than the least packets of IPv6 is not
    /// worth it that cells on all others are so small: it is left out while another is up that carries more.
    pub(crate) fn cells_max(&self) -> impl Iterator<Item = u16> {
        let is_small = |path: &Outbound| path.path_mtu.is_below_base();
        let leaves_out = self.outbound.iter().any(|path| path.is_up() && !is_small(path));
        let known = self.outbound.iter().filter(|path| path.end.endpoint.is_some());
        let kept = known.filter(move |path| !(leaves_out && is_small(path)));
        kept.map(|path| path.cell_max(u16::MAX))
    }

    /// Whether some path carries so little that it may be left out.
    pub(super) fn has_small(&self) -> bool {
        self.outbound.iter().any(|path| path.path_mtu.is_below_base())
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        let outbound = self.outbound.iter().map(|path| size_of_val(path) + path.bytes()).sum::<usize>();
        size_of_val(self) + outbound + size_of_val(&**self.paired) + size_of_val(&**self.inbound)
    }
}
