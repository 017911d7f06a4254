//! Among which links a hash of a flow's addresses and ports may choose: where programs in the kernel send frames in place of cells.
//!
//! Beside the path. The policy decides, as for cells.

use crate::link::nic::Link;
use crate::policy::Waiting;
use crate::send::{Around, Sender};
use core::time::Duration;

impl Sender {
    /// Whether some frames have a policy of their own.
    pub(crate) fn has_classes(&self) -> bool {
        self.policies.has_classes()
    }

    /// The links to a peer among which the hash chooses, a bit each; `None`: the policy needs cells. A bundle of one link has
    /// nothing to choose.
    pub(crate) fn seats(&mut self, index: u16, around: &Around<'_>) -> Option<u16> {
        let choices = core::mem::take(&mut self.choices);
        self.list_choices(index, 0, around);
        let mut open = core::mem::replace(&mut self.choices, choices);
        // The kernel's queues are not the core's.
        open.iter_mut().for_each(|choice| choice.full = false);
        let waiting = Waiting {
            now: around.now,
            peer: index,
            flow: 0,
            cells: 1,
            backlog: 1,
            cell_bytes: 1,
            round_trip: Duration::ZERO,
        };
        let is_alone = around.links.all().iter().filter(|link| Link::is_member(link)).count() == 1;
        if is_alone || open.is_empty() {
            return Some(open.iter().fold(0, |seats, choice| seats | 1 << choice.link));
        }
        self.policies.bundles().seats(&open, &waiting)
    }
}
