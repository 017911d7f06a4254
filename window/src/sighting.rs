//! Whether the other side of a pair is there: it says so, and its heartbeat goes on.

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
    /// When it went on last, in the caller's time; `None`: it has not yet.
    since: Option<Duration>,
    present: bool,
}

impl Sighting {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, beat: None, since: None, present: false }
    }

    /// Looks again. It is there when it goes by the same shape, has an epoch, and its heartbeat was seen going on.
    pub(crate) fn look(&mut self, memory: &impl Memory, now: Duration) {
        let beat = memory.load(self.window.beat_at());
        if self.beat.replace(beat).is_some_and(|before| before != beat) {
            self.since = Some(now);
        }
        let beats = self.since.is_some_and(|since| now.saturating_sub(since) < BEAT_WITHIN);
        let epoch = Count::from_word(memory.load(self.window.written_at())).epoch;
        let same = memory.load(self.window.shape_at()) == self.window.shape().word();
        self.present = beats && epoch != 0 && same;
        if epoch == 0 {
            // Who comes back is seen when its own heart beats.
            self.since = None;
        }
    }

    pub(crate) fn present(&self) -> bool {
        self.present
    }
}
