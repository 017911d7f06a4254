//! What a wire does to frames, as data.

use std::time::Duration;

use crate::rate::Bitrate;

/// Time that the queue before a rate holds unless told otherwise, in milliseconds.
const QUEUE_MILLISECONDS: u64 = 50;
/// Least such queue: two superframes.
const QUEUE_BYTES_MIN: u64 = 128 << 10;
/// Below this rate a superframe takes more than a millisecond, and would come as a burst that no real wire shows.
const SUPERFRAME_RATE_MIN: Bitrate = Bitrate::mbit(500);

/// A direction of a wire between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first end to the second.
    Forward = 0,
    /// From the second end to the first.
    Backward = 1,
}

/// What happens to the frames of one direction, in this order. The default is a wire without any flaw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// Nothing comes out.
    pub black_hole: bool,
    /// Share of the frames that vanish, 0 to 1.
    pub loss: f64,
    /// Share of the frames in which one bit is flipped, 0 to 1.
    pub corruption: f64,
    /// How fast frames go, Ethernet headers counted; `None`: at once.
    pub rate: Option<Bitrate>,
    /// Most bytes that wait for that; what comes on top is dropped. `None`: 50 ms of the rate, at least 128 KiB.
    pub queue_bytes: Option<u64>,
    /// Time on the way.
    pub delay: Duration,
    /// Most time added to that, uniformly distributed.
    pub jitter: Duration,
    /// Whether jitter may change the order of frames.
    pub reorder: bool,
    /// How the NIC at the end tells of frames; `None`: each at once.
    pub coalescing: Option<Coalescing>,
}

/// Interrupt coalescing: frames are handed over when one of both is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Frames that wait.
    pub frames: usize,
    /// Time since the first of them came.
    pub wait: Duration,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];
}

impl Impairment {
    /// Nothing comes out.
    pub fn black_hole() -> Impairment {
        Impairment { black_hole: true, ..Impairment::default() }
    }

    /// This share of the frames vanishes.
    pub fn loss(share: f64) -> Impairment {
        Impairment { loss: share, ..Impairment::default() }
    }

    /// In this share of the frames a bit is flipped.
    pub fn corruption(share: f64) -> Impairment {
        Impairment { corruption: share, ..Impairment::default() }
    }

    /// Frames take this time.
    pub fn delay(delay: Duration) -> Impairment {
        Impairment { delay, ..Impairment::default() }
    }

    /// Frames go at this rate.
    pub fn rate(rate: Bitrate) -> Impairment {
        Impairment { rate: Some(rate), ..Impairment::default() }
    }

    /// Whether it acts on single frames, so that a superframe must not pass whole.
    pub fn needs_single_frames(&self) -> bool {
        self.loss > 0.0
            || self.corruption > 0.0
            || self.jitter > Duration::ZERO
            || self.coalescing.is_some()
            || self.rate.is_some_and(|rate| rate < SUPERFRAME_RATE_MIN)
    }

    /// Most bytes that wait for the rate.
    pub fn queue_limit(&self) -> u64 {
        let usual = |rate: Bitrate| QUEUE_BYTES_MIN.max(rate.bytes_in(QUEUE_MILLISECONDS));
        self.queue_bytes.or(self.rate.map(usual)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superframes_pass_where_nothing_acts_on_single_frames() {
        let whole = [
            Impairment::default(),
            Impairment::black_hole(),
            Impairment::delay(Duration::from_millis(20)),
            Impairment::rate(Bitrate::gbit(1)),
        ];
        assert!(whole.iter().all(|impairment| !impairment.needs_single_frames()));
        let single =
            [Impairment::loss(0.01), Impairment::corruption(0.01), Impairment::rate(Bitrate::mbit(100))];
        assert!(single.iter().all(Impairment::needs_single_frames));
    }

    #[test]
    fn a_queue_follows_the_rate_unless_it_is_given() {
        assert_eq!(Impairment::rate(Bitrate::gbit(1)).queue_limit(), 6_250_000);
        assert_eq!(Impairment::rate(Bitrate::mbit(1)).queue_limit(), 128 << 10);
        let given = Impairment { queue_bytes: Some(3000), ..Impairment::rate(Bitrate::gbit(1)) };
        assert_eq!((given.queue_limit(), Impairment::default().queue_limit()), (3000, u64::MAX));
    }
}
