//! A flow: frames from one node to another, their sizes, and when a host sends them.
//!
//! Beside [`crate::traffic`], which runs flows and checks their frames.

use crate::frame::{FrameId, Heading, SHORTEST};
use crate::random::mix;
use crate::topology::NodeNumber;
use core::time::Duration;
use tabane_proto::wire::record::FRAME_MAX;

#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub from: NodeNumber,
    /// The node that receives; `None`: everyone else, by the broadcast address.
    pub to: Option<NodeNumber>,
    pub heading: Heading,
    pub sizes: Sizes,
    /// When the host sends them.
    pub pace: Pace,
    pub frames: u32,
}

impl Flow {
    /// A flow of superframes that always has one more, as a bulk transfer over TCP has.
    pub fn bulk(from: NodeNumber, to: NodeNumber) -> Self {
        Self {
            from,
            to: Some(to),
            heading: Heading::Tcp,
            sizes: Sizes::Fixed(65_160),
            pace: Pace::Greedy,
            frames: u32::MAX,
        }
    }

    /// A frame of this length each `every`.
    pub fn steady(from: NodeNumber, to: NodeNumber, length: usize, every: Duration) -> Self {
        let pace = Pace::Bursts { every, frames: 1 };
        Self { sizes: Sizes::Fixed(length), pace, ..Self::bulk(from, to) }
    }

    /// A TCP connection as Linux has it, but for its bytes.
    #[must_use]
    pub fn tcp(from: NodeNumber, to: NodeNumber) -> Self {
        Self { pace: Pace::Cubic, ..Self::bulk(from, to) }
    }

    /// Messages, with a window of 256 KB, as superframes and a shorter frame behind them.
    pub fn messages(from: NodeNumber, to: NodeNumber) -> Self {
        Self { pace: Pace::Messages { frames: 4 }, ..Self::bulk(from, to) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Whenever the bundle takes one, with a pause after the bundle had to drop a frame.
    Greedy,
    /// So many are on their way: the next when one is delivered, or is lost, as a window of TCP does.
    Window { frames: u16 },
    /// As many as the window of a sender with CUBIC allows, which begins with a slow start: what comes is acknowledged by a small
    /// frame back.
    Cubic,
    /// Those of messages, whose lengths [`crate::world::World::send`] tells: so many are on their way, and a lost one is sent
    /// again when a later one has come.
    Messages { frames: u16 },
    /// So many at once, again and again.
    Bursts {
        /// From burst to burst.
        every: Duration,
        frames: u16,
    },
    /// One; the next when its answer, a frame as long the other way, has arrived, or after a timeout.
    Asking { timeout: Duration },
    /// When the flow that it answers has delivered a frame. No flow begins with this pace: it is made beside its
    /// question's.
    Answering,
}

/// How long a flow's frames are, in bytes from the Ethernet header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All alike.
    Fixed(usize),
    /// Any length up to this one.
    UpTo(usize),
    /// As on a busy host: mostly small frames, some of 1,514 bytes, some superframes, a few of the greatest length.
    Mixed,
}

impl Sizes {
    pub fn length(self, id: FrameId) -> usize {
        let chance = mix(u64::from(id.flow).rotate_left(40) ^ u64::from(id.number) ^ 0x5153);
        let any = |longest: usize| {
            let span = longest.saturating_sub(SHORTEST) as u64 + 1;
            SHORTEST + usize::try_from(mix(chance) % span).unwrap_or_default()
        };
        match self {
            Self::Fixed(length) => length,
            Self::UpTo(longest) => any(longest),
            Self::Mixed => match chance % 100 {
                0..50 => any(200),
                50..80 => 1_514,
                80..90 => any(9_000),
                90..99 => any(65_160),
                _ => FRAME_MAX,
            },
        }
    }

    pub fn average(self) -> usize {
        match self {
            Self::Fixed(length) => length,
            Self::UpTo(longest) => usize::midpoint(SHORTEST, longest),
            Self::Mixed => 4_600,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_what_a_record_holds_and_as_long_as_is_said() {
        for sizes in [Sizes::Fixed(900), Sizes::UpTo(5_000), Sizes::Mixed] {
            let lengths = (0..4_000).map(|number| sizes.length(FrameId { flow: 7, number }));
            let lengths: Vec<_> = lengths.collect();
            assert!(lengths.iter().all(|length| (SHORTEST..=FRAME_MAX).contains(length)));
            let average = lengths.iter().sum::<usize>() / lengths.len();
            assert!(average.abs_diff(sizes.average()) < sizes.average() / 6, "{sizes:?}: {average}");
        }
    }
}
