//! Which lane a flow takes, and that it keeps it.
//!
//! Called by [`crate::send::segment`]. A new flow gets a lane that no other flow uses, as long as there is one. Under a policy that binds
//! flows to links, those of one link share lanes with each other alone: else each would wait for the slower link, where it leaves as well
//! as where it arrives. So it is with flows that go by far links.
//!
//! Invariant: a flow changes its lane only when nothing of it is on its way, for the order among lanes is not kept; or when it goes to far
//! links or comes back, and [`crate::send::far`] sees to it that it keeps its order.

use crate::link::paths::Reach;
use crate::policy::Waiting;
use crate::policy::class::Treatment;
use crate::send::queue::Flow;
use crate::send::ring::Cell;
use crate::send::{Around, Sender};
use crate::time::Instant;
use crate::wire::cell::LANES;
use crate::wire::numbered::Numbered;
use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

/// Flows that are told apart; those whose hashes fall on one entry keep one lane.
const FLOWS: usize = 4_096;
/// A flow that has been silent for so long has nothing in the queues here, and its policy may bind it to another link.
const SILENT_FOR: Duration = Duration::from_secs(1);
/// A flow that has been silent for so long has nothing on its way, however long a link holds cells.
const GONE_AFTER: Duration = Duration::from_secs(30);

/// A flow that sends so many bytes between two weighings is bulky: half a megabit a second.
const BULKY: u32 = 64 * 1024;

/// A flow, or several.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    last: Option<Instant>,
    /// Bytes that it has sent since it was weighed.
    bytes: u32,
    /// To which peer it has sent them, and by which links it goes there.
    peer: u16,
    reach: Reach,
    lane: u8,
}

/// What flows to a peer have sent of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weights {
    /// How many bulky ones go by near links.
    pub(super) bulky: usize,
    /// The heaviest of those, and of those that go by far links.
    pub(super) near: Option<usize>,
    pub(super) far: Option<usize>,
}

pub(super) struct FlowLanes {
    flows: Box<[Entry]>,
    /// When each lane got something last, and when it got something for far links.
    used: Numbered<[Option<Instant>; LANES]>,
    used_far: Numbered<[Option<Instant>; LANES]>,
}

impl Default for FlowLanes {
    fn default() -> Self {
        let flows = vec![Entry::default(); FLOWS].into_boxed_slice();
        Self { flows, used: Numbered([None; LANES]), used_far: Numbered([None; LANES]) }
    }
}

impl FlowLanes {
    fn entry(&mut self, flow: u64) -> &mut Entry {
        // Other bits than those that choose the lane.
        &mut self.flows[usize::try_from(flow >> 32).unwrap_or_default() % FLOWS]
    }

    /// The lane that a flow has, if it has sent something within this time.
    fn kept(&mut self, now: Instant, flow: u64, within: Duration) -> Option<u8> {
        let Entry { last, lane, .. } = *self.entry(flow);
        last.filter(|last| now.since(*last) < within).map(|_| lane)
    }

    /// A flow has this lane from now on.
    fn keep(&mut self, now: Instant, flow: u64, lane: u8) {
        let entry = self.entry(flow);
        (entry.last, entry.lane) = (Some(now), lane);
        let is_far = entry.reach == Reach::Far;
        self.used[lane] = Some(now);
        if is_far {
            self.used_far[lane] = Some(now);
        }
    }

    /// The lane of a flow that is new or was silent; `link`: which one it is bound to, and of how many.
    fn begin(&mut self, now: Instant, flow: u64, link: Option<(usize, usize)>) -> u8 {
        self.entry(flow).reach = Reach::Near;
        let before = if link.is_none() { self.kept(now, flow, GONE_AFTER) } else { None };
        let before = before.filter(|lane| !self.is_far(now, *lane));
        before.unwrap_or_else(|| self.free(now, flow, link.unwrap_or((0, 1))))
    }

    /// Whether cells of a lane may still be on their way over far links.
    fn is_far(&self, now: Instant, lane: u8) -> bool {
        self.used_far[lane].is_some_and(|used| now.since(used) < GONE_AFTER)
    }

    /// A lane that has been silent for long enough that no flow has it.
    fn unused(&self, now: Instant) -> Option<u8> {
        let is_silent = |lane: u8| self.used[lane].is_none_or(|used| now.since(used) >= SILENT_FOR);
        (0..).take(LANES).find(|lane| is_silent(*lane) && !self.is_far(now, *lane))
    }

    pub(super) fn count(&mut self, flow: u64, peer: u16, bytes: usize) {
        let entry = self.entry(flow);
        if entry.peer != peer {
            (entry.peer, entry.bytes) = (peer, 0);
        }
        entry.bytes = entry.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// What the flows to a peer have sent since this was asked last.
    pub(super) fn weigh(&mut self, peer: u16) -> Weights {
        let mut weights = Weights::default();
        let mut most = [0; 2];
        for (index, entry) in self.flows.iter_mut().enumerate().filter(|(_, entry)| entry.peer == peer) {
            let bytes = core::mem::take(&mut entry.bytes);
            let is_far = entry.reach == Reach::Far;
            if bytes < BULKY || entry.reach == Reach::Returns {
                continue;
            }
            weights.bulky += usize::from(!is_far);
            if bytes > most[usize::from(is_far)] {
                most[usize::from(is_far)] = bytes;
                *(if is_far { &mut weights.far } else { &mut weights.near }) = Some(index);
            }
        }
        weights
    }

    /// A flow goes by far links from now on, if there is a lane for it.
    pub(super) fn send_away(&mut self, now: Instant, index: usize) -> bool {
        let far = |lane: &u8| self.is_far(now, *lane);
        let oldest = |lane: &u8| self.used_far[*lane];
        let shared = || (0..).take(LANES).filter(far).min_by_key(oldest);
        let Some(lane) = self.unused(now).or_else(shared) else { return false };
        (self.flows[index].reach, self.flows[index].lane) = (Reach::Far, lane);
        self.used_far[lane] = Some(now);
        true
    }

    /// A flow goes by near links again, if there is a lane for it. Returns the lane that it leaves.
    pub(super) fn bring_back(&mut self, now: Instant, index: usize) -> Option<u8> {
        let lane = self.unused(now)?;
        self.used[lane] = Some(now);
        let entry = &mut self.flows[index];
        entry.reach = Reach::Returns;
        Some(core::mem::replace(&mut entry.lane, lane))
    }

    /// By which links a flow to a peer goes; one that comes back `has_returned`, or not yet.
    pub(super) fn reach(&mut self, peer: u16, flow: u64, has_returned: bool) -> Reach {
        let entry = self.entry(flow);
        if entry.peer != peer {
            return Reach::Near;
        }
        if entry.reach == Reach::Returns && has_returned {
            entry.reach = Reach::Near;
        }
        entry.reach
    }

    /// The lane for a new flow, of those of the link with this index of so many. Its hash chooses; where another flow uses that lane, the flow
    /// gets the lane that has been silent for longest.
    fn free(&self, now: Instant, flow: u64, (index, links): (usize, usize)) -> u8 {
        let of_each = LANES / links;
        let first = usize::try_from(flow % of_each as u64).unwrap_or_default();
        let lanes = (0..of_each).map(|turn| (first + turn) % of_each * links + index);
        let lanes = lanes.filter_map(|lane| u8::try_from(lane).ok());
        let used = |lane: &u8| self.used[*lane].filter(|used| now.since(*used) < SILENT_FOR);
        lanes.min_by_key(|lane| (self.is_far(now, *lane), used(lane))).unwrap_or_default()
    }
}

impl Sender {
    /// A cell as this one, in the lane of the flow to which its frame of so many bytes belongs.
    pub(super) fn in_lane(
        &mut self,
        now: Instant,
        like: Cell,
        flow: Flow,
        bytes: usize,
        around: &Around<'_>,
    ) -> Cell {
        self.move_flows(now, like, flow.hash, bytes);
        let lane = self.flow_lanes.kept(now, flow.hash, SILENT_FOR).unwrap_or_else(|| {
            let link = self.link_of(now, like, around);
            self.flow_lanes.begin(now, flow.hash, link)
        });
        self.flow_lanes.keep(now, flow.hash, lane);
        let reach = self.reach(like.peer, flow.hash);
        Cell { lane, treatment: Treatment { reach, ..like.treatment }, ..like }
    }

    /// Which of the links to its peer, and of how many, the policy binds the flow to, if it does.
    fn link_of(&mut self, now: Instant, like: Cell, around: &Around<'_>) -> Option<(usize, usize)> {
        let Cell { peer, treatment, .. } = like;
        if treatment.flow == 0 {
            return None;
        }
        let cell_bytes = self.cell_max(around.sessions);
        self.list_choices(peer, cell_bytes, around);
        let (flow, round_trip) = (treatment.flow, self.choices.round_trip);
        let waiting =
            Waiting { now, peer, flow, cells: 1, cell_bytes, backlog: 1, round_trip, ..Waiting::default() };
        let index = self.policies.of(treatment).seat(&self.choices.links, &waiting)?;
        Some((index, self.choices.links.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn at(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    #[test]
    fn links_have_lanes_of_their_own_and_flows_share_one_only_when_none_is_free() {
        for links in 1..=LANES {
            let mut lanes = FlowLanes::default();
            let mut used = 0_u32;
            let flow = |number: usize| (number as u64) << 32 | 7;
            for number in 0..LANES / links * links {
                let lane = lanes.free(at(1), flow(number), (number % links, links));
                lanes.keep(at(1 + number as u64), flow(number), lane);
                assert_eq!(usize::from(lane) % links, number % links);
                assert_eq!(used & 1 << lane, 0, "{links} links, flow {number}");
                used |= 1 << lane;
            }
            let by_hash = 7 % (LANES / links) * links;
            assert_eq!(usize::from(lanes.free(at(20), 7, (0, links))), by_hash, "that is silent for longest");
        }
    }

    #[test]
    fn a_flow_changes_its_lane_only_after_silence() {
        let second = Duration::from_secs(1);
        let mut lanes = FlowLanes::default();
        assert_eq!(lanes.kept(at(1), 7, second), None);
        lanes.keep(at(1), 7, 5);
        assert_eq!(lanes.kept(at(900), 7, second), Some(5));
        assert_eq!(lanes.kept(at(1_001), 7, second), None);
        assert_eq!(lanes.begin(at(2_000), 7, None), 5, "it may have something on its way");
    }

    #[test]
    fn a_flow_that_goes_far_leaves_its_lane_to_near_ones_and_comes_back_into_one_of_its_own() {
        let flow = |number: u64| number << 32;
        let mut lanes = FlowLanes::default();
        for number in 0..3 {
            lanes.keep(at(1), flow(number), u8::try_from(number).unwrap());
            lanes.count(flow(number), 4, 100_000 * (1 + usize::try_from(number).unwrap()));
        }
        let Weights { bulky, near, far } = lanes.weigh(4);
        assert_eq!((bulky, near, far), (3, Some(2), None), "the heaviest");
        assert!(lanes.send_away(at(2), 2));
        assert_eq!(
            [0, 1, 2].map(|number| lanes.reach(4, flow(number), true)),
            [Reach::Near, Reach::Near, Reach::Far]
        );
        assert_eq!(lanes.reach(5, flow(2), true), Reach::Near, "what goes to another peer");
        let lane = lanes.kept(at(3), flow(2), SILENT_FOR).unwrap();
        assert!(lane > 2);
        let near: Vec<u8> = (3..40)
            .map(|number| {
                let lane = lanes.begin(at(number), flow(number), None);
                lanes.keep(at(number), flow(number), lane);
                lane
            })
            .collect();
        assert!(!near.contains(&lane), "{near:?}");
        assert_eq!(lanes.bring_back(at(50), 2), None, "all lanes are used");
        assert_eq!(lanes.bring_back(at(1_100), 2), Some(lane));
        assert_eq!(lanes.reach(4, flow(2), false), Reach::Returns);
        assert_eq!(lanes.reach(4, flow(2), true), Reach::Near);
    }
}
