//! Which lane a flow takes, and that it keeps it.
//!
//! Called by [`crate::send::segment`]. Flows share the lanes by their hash. Under a policy that binds flows to links, those of one
//! link share lanes with each other alone: else each would wait for the slower link, where it leaves as well as where it
//! arrives.
//!
//! Invariant: a flow changes its lane only when nothing of it is on its way, for the order among lanes is not kept.

use crate::policy::Waiting;
use crate::send::queue::Flow;
use crate::send::ring::Cell;
use crate::send::{Around, Sender};
use crate::time::Instant;
use crate::wire::cell::LANES;
use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

/// Flows that are told apart; those whose hashes fall on one entry keep one lane.
const FLOWS: usize = 4_096;
/// Nothing is on its way of a flow that has been silent for so long: neither queues nor gaps last as long.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// A flow, or several.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Not silent until then.
    until: Instant,
    lane: u8,
}

/// The lanes of all flows.
#[derive(Debug)]
pub(super) struct FlowLanes(Box<[Entry]>);

impl Default for FlowLanes {
    fn default() -> Self {
        Self(vec![Entry::default(); FLOWS].into_boxed_slice())
    }
}

impl FlowLanes {
    fn entry(&mut self, flow: u64) -> &mut Entry {
        // Other bits than those that choose the lane.
        &mut self.0[usize::try_from(flow >> 32).unwrap_or_default() % FLOWS]
    }

    /// The lane that a flow has, if it has not been silent.
    fn kept(&mut self, now: Instant, flow: u64) -> Option<u8> {
        let entry = self.entry(flow);
        let is_kept = now < entry.until;
        if is_kept {
            entry.until = now + SILENT_FOR;
        }
        is_kept.then_some(entry.lane)
    }

    /// A flow has this lane from now on.
    fn keep(&mut self, now: Instant, flow: u64, lane: u8) {
        *self.entry(flow) = Entry { until: now + SILENT_FOR, lane };
    }
}

impl Sender {
    /// A cell as this one, in the lane of the flow to which its frame belongs.
    pub(super) fn in_lane(&mut self, now: Instant, like: Cell, flow: Flow, around: &Around<'_>) -> Cell {
        let lane = self.flow_lanes.kept(now, flow.hash).unwrap_or_else(|| {
            let lane = lane_of(flow.hash, self.link_of(now, like, around).unwrap_or((0, 1)));
            self.flow_lanes.keep(now, flow.hash, lane);
            lane
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
        let (flow, round_trip) = (treatment.flow, self.round_trip);
        let waiting = Waiting { now, peer, flow, cells: 1, cell_bytes, backlog: 1, round_trip };
        let index = self.policies.of(treatment).seat(&self.choices, &waiting)?;
        Some((index, self.choices.len()))
    }
}

/// The lane of a flow, by its hash, among those of the link with this index of so many.
#[expect(clippy::cast_possible_truncation, reason = "below LANES")]
fn lane_of(flow: u64, (index, links): (usize, usize)) -> u8 {
    let of_each = LANES / links;
    (flow % of_each as u64) as u8 * links as u8 + index as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_lanes_of_their_own_and_a_single_one_has_all() {
        for links in 1..=LANES {
            let mut used = 0_u32;
            for index in 0..links {
                let lanes = (0..1_000).fold(0_u32, |lanes, flow| lanes | 1 << lane_of(flow, (index, links)));
                assert_eq!(lanes.count_ones() as usize, LANES / links);
                assert_eq!(used & lanes, 0, "{links} links");
                used |= lanes;
            }
            assert!(used < 1 << LANES);
        }
    }

    #[test]
    fn a_flow_changes_its_lane_only_after_silence() {
        let at = |ms| Instant::default() + Duration::from_millis(ms);
        let mut lanes = FlowLanes::default();
        assert_eq!(lanes.kept(at(1), 7), None);
        lanes.keep(at(1), 7, 5);
        assert_eq!(lanes.kept(at(900), 7), Some(5));
        assert_eq!(lanes.kept(at(1_899), 7), Some(5), "it has sent since");
        assert_eq!(lanes.kept(at(2_899), 7), None);
    }
}
