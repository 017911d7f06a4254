//! Whether the other side of a pair is present: it has an epoch and the same shape, and its heartbeat goes on.
//!
//! A node that is seen for the first time counts as present until its heartbeat has stood still for too long. That is
//! safe: the sender writes nothing for it before it has confirmed the sender's epoch.

use core::time::Duration;

use crate::count::Count;
use crate::memory::Memory;
use crate::shape::Window;

/// How often a node advances its heartbeat.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_millis(10);
/// A node whose heartbeat stands still for so long counts as absent: longer than a busy host keeps a process waiting.
/// The core, which uses the window, notices silence much earlier; this time only decides whether any node is there.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(1);

/// The presence of the node that writes a window.
#[derive(Debug)]
pub(crate) struct Presence {
    window: Window,
    /// The heartbeat as it was read last; `None` before.
    heartbeat: Option<u64>,
    /// When it was found to have advanced last, in the caller's time.
    since: Duration,
    is_present: bool,
}

impl Presence {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, heartbeat: None, since: Duration::ZERO, is_present: false }
    }

    /// Reads the node's words again.
    pub(crate) fn check(&mut self, memory: &impl Memory, now: Duration) {
        let heartbeat = memory.load(self.window.heartbeat_at());
        if self.heartbeat.replace(heartbeat) != Some(heartbeat) {
            self.since = now;
        }
        let advances = now.saturating_sub(self.since) < HEARTBEAT_WITHIN;
        let epoch = Count::from_word(memory.load(self.window.written_at())).epoch;
        let same = memory.load(self.window.shape_at()) == self.window.shape().word();
        self.is_present = advances && epoch != 0 && same;
    }

    pub(crate) fn is_present(&self) -> bool {
        self.is_present
    }
}
