//! Which lane a flow takes, and that it keeps it.
//!
//! Called by [`crate::send::segment`]. A new flow gets a lane that no other flow uses, as long as there is one. Under a policy that binds
//! flows to links, those of one link share lanes with each other alone: else each would wait for the slower link, where it leaves as well
//! as where it arrives.
//!
//! Invariant: a flow changes its lane only when nothing of it is on its way, for the order among lanes is not kept.

use crate::policy::Waiting;
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

/// A flow, or several.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// When something of it was sent last.
    last: Option<Instant>,
    lane: u8,
}

/// The lanes of all flows.
#[derive(Debug)]
pub(super) struct FlowLanes {
    flows: Box<[Entry]>,
    /// When each lane got something last.
    used: Numbered<[Option<Instant>; LANES]>,
}

impl Default for FlowLanes {
    fn default() -> Self {
        Self { flows: vec![Entry::default(); FLOWS].into_boxed_slice(), used: Numbered([None; LANES]) }
    }
}

impl FlowLanes {
    fn entry(&mut self, flow: u64) -> &mut Entry {
        // Other bits than those that choose the lane.
        &mut self.flows[usize::try_from(flow >> 32).unwrap_or_default() % FLOWS]
    }

    /// The lane that a flow has, if it has sent something within this time.
    fn kept(&mut self, now: Instant, flow: u64, within: Duration) -> Option<u8> {
        let Entry { last, lane } = *self.entry(flow);
        last.filter(|last| now.since(*last) < within).map(|_| self.keep(now, flow, lane))
    }

    /// A flow has this lane from now on.
    fn keep(&mut self, now: Instant, flow: u64, lane: u8) -> u8 {
        self.used[lane] = Some(now);
        *self.entry(flow) = Entry { last: Some(now), lane };
        lane
    }

    /// The lane for a new flow, of those of the link with this index of so many. Its hash chooses; where another flow uses that lane, the flow
    /// gets the lane that has been silent for longest.
    fn free(&self, now: Instant, flow: u64, (index, links): (usize, usize)) -> u8 {
        let of_each = LANES / links;
        let first = usize::try_from(flow % of_each as u64).unwrap_or_default();
        let lanes = (0..of_each).map(|turn| (first + turn) % of_each * links + index);
        let silent = |lane: &usize| self.used.0[*lane].filter(|used| now.since(*used) < SILENT_FOR);
        lanes.min_by_key(silent).and_then(|lane| u8::try_from(lane).ok()).unwrap_or_default()
    }
}

impl Sender {
    /// A cell as this one, in the lane of the flow to which its frame belongs.
    pub(super) fn in_lane(&mut self, now: Instant, like: Cell, flow: Flow, around: &Around<'_>) -> Cell {
        let lane = self.flow_lanes.kept(now, flow.hash, SILENT_FOR).unwrap_or_else(|| {
            let link = self.link_of(now, like, around);
            let lanes = &mut self.flow_lanes;
            let before = if link.is_none() { lanes.kept(now, flow.hash, GONE_AFTER) } else { None };
            before.unwrap_or_else(|| {
                let lane = self.flow_lanes.free(now, flow.hash, link.unwrap_or((0, 1)));
                self.flow_lanes.keep(now, flow.hash, lane)
            })
        });
        Cell { lane, ..like }
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
        let waiting = Waiting { now, peer, flow, cells: 1, cell_bytes, backlog: 1, round_trip };
        let index = self.policies.of(treatment).seat(&self.choices.links, &waiting)?;
        Some((index, self.choices.links.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(lanes.keep(at(1), 7, 5), 5);
        assert_eq!(lanes.kept(at(900), 7, second), Some(5));
        assert_eq!(lanes.kept(at(1_899), 7, second), Some(5), "it has sent since");
        assert_eq!(lanes.kept(at(2_899), 7, second), None);
    }
}
