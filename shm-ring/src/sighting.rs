//! Whether the other side of a pair is there: it says so, and its heartbeat goes on.
//!
//! Who is met for the first time is believed until its heartbeat has stood still for too long. Nothing is lost by that:
//! before it has confirmed our epoch nothing is written for it.

use core::time::Duration;

use crate::count::Count;
use crate::memory::Memory;
use crate::shape::Window;

/// How often a node's heartbeat goes on.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(10);
/// A node whose heartbeat stands still for so long is taken for dead: longer than a busy host keeps a process waiting.
/// Silence is noticed much earlier by whoever uses the window; this is what tells of nobody being there at all.
const BEAT_WITHIN: Duration = Duration::from_secs(1);

/// What was seen of the node that writes a window.
#[derive(Debug)]
pub(crate) struct Sighting {
    window: Window,
    /// The heartbeat when it was looked at last; `None` before.
    beat: Option<u64>,
    /// When it was found to have gone on last, in the caller's time.
    since: Duration,
    present: bool,
}

impl Sighting {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, beat: None, since: Duration::ZERO, present: false }
    }

    /// Looks again. It is there when it goes by the same shape, has an epoch, and its heartbeat goes on.
    pub(crate) fn look(&mut self, memory: &impl Memory, now: Duration) {
        let beat = memory.load(self.window.beat_at());
        if self.beat.replace(beat) != Some(beat) {
            self.since = now;
        }
        let beats = now.saturating_sub(self.since) < BEAT_WITHIN;
        let epoch = Count::from_word(memory.load(self.window.written_at())).epoch;
        let same = memory.load(self.window.shape_at()) == self.window.shape().word();
        self.present = beats && epoch != 0 && same;
    }

    pub(crate) fn present(&self) -> bool {
        self.present
    }
}
