//! Where a round trip spent its time: eight stages, by the kernel's stamps at both ends (`--stages`).
//!
//! ```text
//!   here   send() ─ send ─ qdisc ─ queue ─ driver ─╮                              ╭─ driver ─ wake ─ recv()
//!                                                  ╰── network ──╮  ╭── network ──╯
//!   there                          driver ─ wake ─ recv() ─ program ─ send() ─ send ─ qdisc ─ queue ─ driver
//! ```
//!
//! Each machine only takes differences of its own clock. What both have not stamped is the network's: wires, switches,
//! NICs and how long these wait before they interrupt; over a bundle also the daemons of both ends.

use serde::{Deserialize, Serialize};

use crate::output::{figure, table};
use crate::stamped::{Moment, Received, Sent};
use crate::stats::Summary;
use crate::trace::{RoundTrip, Row, is_time};
use crate::wire::Passage;

/// Rounds of a size from which on slow and fast ones are told apart.
const ROUNDS_MIN: usize = 20;
/// One in so many rounds is a slow one, and one a fast one.
const TAIL_OF: usize = 10;

/// The stages in the order of the way, and what each is.
const STAGES: [(&str, &str); 8] = [
    ("send", "here, from the call of send() to the queueing discipline"),
    ("queue", "here, from the queueing discipline to the driver"),
    ("network", "from driver to driver, there and back"),
    ("wake_there", "there, from the driver to the end of recv()"),
    ("program_there", "there, from recv() to send()"),
    ("send_there", "there, from the call of send() to the queueing discipline"),
    ("queue_there", "there, from the queueing discipline to the driver"),
    ("wake", "here, from the driver to the end of recv()"),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stages([f64; STAGES.len()]);

#[derive(Debug, Serialize)]
pub(super) struct Split {
    /// Rounds whose stamps are complete.
    pub(super) rounds: usize,
    stages: Vec<Stage>,
    /// The slowest tenth beside the middle half.
    slow: Option<Apart>,
    /// The fastest tenth beside the middle half.
    fast: Option<Apart>,
}

#[derive(Debug, Serialize)]
struct Stage {
    stage: &'static str,
    median_us: f64,
    p99_us: f64,
    max_us: f64,
    /// How much longer the slowest tenth and the fastest tenth take than the middle half, in the mean.
    slow_us: Option<f64>,
    fast_us: Option<f64>,
}

/// What tells round trips from others, in the mean, and the stage that has most of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Apart {
    rounds: usize,
    /// How much longer they take; negative when they are faster.
    difference_us: f64,
    stage: &'static str,
    stage_difference_us: f64,
}

impl Stages {
    /// Of a round trip that took `rtt_us`; `None` where a stamp is missing, or a clock was set meanwhile.
    pub(super) fn of(rtt_us: f64, sent: &Sent, received: &Received, there: Passage) -> Option<Stages> {
        let microseconds = |from: Moment, to: Moment| Some(to.checked_sub(from)? as f64 / 1e3);
        let (queued, driver) = (sent.queued?, sent.driver?);
        let mut stages = [0.0; STAGES.len()];
        stages[0] = microseconds(sent.called, queued)?;
        stages[1] = microseconds(queued, driver)?;
        for (stage, nanoseconds) in stages[3..7].iter_mut().zip(there) {
            *stage = nanoseconds as f64 / 1e3;
        }
        stages[7] = microseconds(received.arrived?, received.returned)?;
        // Whole nanoseconds, as the stamps are.
        stages[2] = ((rtt_us - stages.iter().sum::<f64>()) * 1e3).round() / 1e3;
        (stages[2] >= 0.0).then_some(Stages(stages))
    }

    fn total(self) -> f64 {
        self.0.iter().sum()
    }
}

impl Split {
    pub(super) fn of(rounds: &[RoundTrip]) -> Option<Split> {
        let ordered = Ordered::of(rounds);
        let [slow, fast] =
            [ordered.slow(), ordered.fast()].map(|group| Some(difference(group?, ordered.usual()?)));
        let stage = |(place, (stage, _)): (usize, &(&'static str, &str))| {
            let times: Vec<f64> = ordered.0.iter().map(|stages| stages.0[place]).collect();
            let Summary { median, p99, max, .. } = Summary::of(&times)?;
            let [slow_us, fast_us] =
                [slow, fast].map(|apart: Option<[f64; STAGES.len()]>| apart.map(|stages| stages[place]));
            Some(Stage { stage, median_us: median, p99_us: p99, max_us: max, slow_us, fast_us })
        };
        let stages: Vec<Stage> = STAGES.iter().enumerate().filter_map(stage).collect();
        let (slow, fast) =
            (Apart::of(ordered.slow(), ordered.usual()), Apart::of(ordered.fast(), ordered.usual()));
        (!stages.is_empty()).then_some(Split { rounds: ordered.0.len(), stages, slow, fast })
    }

    pub(super) fn text(&self) -> String {
        let signed = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:+.2}"));
        let row = |stage: &Stage| {
            let figures = [stage.median_us, stage.p99_us, stage.max_us].map(figure);
            let apart = [stage.slow_us, stage.fast_us].map(signed);
            [stage.stage.to_owned()].into_iter().chain(figures).chain(apart).collect()
        };
        let mut text =
            table(&["stage", "median µs", "p99", "max", "slow", "fast"], self.stages.iter().map(row));
        for (name, apart) in [("slowest", self.slow), ("fastest", self.fast)] {
            let sentence =
                |apart: Apart| format!("the {name} tenth, beside the middle half: {}\n", apart.words());
            text += &apart.map_or(String::new(), sentence);
        }
        text
    }
}

impl Apart {
    fn of(group: Option<&[Stages]>, others: Option<&[Stages]>) -> Option<Apart> {
        let group = group.filter(|group| !group.is_empty())?;
        let stages = difference(group, others.filter(|others| !others.is_empty())?);
        let difference_us: f64 = stages.iter().sum();
        let towards = |place: usize| stages[place] * difference_us.signum();
        let place = (0..stages.len()).max_by(|one, other| towards(*one).total_cmp(&towards(*other)))?;
        Some(Apart {
            rounds: group.len(),
            difference_us,
            stage: STAGES[place].0,
            stage_difference_us: stages[place],
        })
    }

    /// What tells the round trips of `larger` below `floor` from the middle half of `smaller`.
    pub(super) fn below(floor: f64, larger: &[RoundTrip], smaller: &[RoundTrip]) -> Option<Apart> {
        let below: Vec<RoundTrip> = larger.iter().filter(|round| round.rtt_us < floor).copied().collect();
        Apart::of(Some(&Ordered::of(&below).0), Ordered::of(smaller).usual())
    }

    pub(super) fn words(&self) -> String {
        let Apart { difference_us, stage, stage_difference_us, .. } = self;
        let what = STAGES.iter().find(|(name, _)| name == stage).map_or("", |(_, what)| what);
        format!("{difference_us:+.2} µs, of which `{stage}` {stage_difference_us:+.2} µs ({what})")
    }
}

/// The rounds that have stages, the fastest first.
struct Ordered(Vec<Stages>);

impl Ordered {
    fn of(rounds: &[RoundTrip]) -> Ordered {
        let mut split: Vec<Stages> = rounds.iter().filter_map(|round| round.stages).collect();
        split.sort_by(|a, b| a.total().total_cmp(&b.total()));
        Ordered(split)
    }

    fn tail(&self) -> Option<usize> {
        (self.0.len() >= ROUNDS_MIN).then_some(self.0.len() / TAIL_OF)
    }

    fn slow(&self) -> Option<&[Stages]> {
        Some(&self.0[self.0.len() - self.tail()?..])
    }

    fn fast(&self) -> Option<&[Stages]> {
        Some(&self.0[..self.tail()?])
    }

    fn usual(&self) -> Option<&[Stages]> {
        let quarter = self.0.len() / 4;
        self.tail().map(|_| &self.0[quarter..self.0.len() - quarter])
    }
}

fn difference(group: &[Stages], others: &[Stages]) -> [f64; STAGES.len()] {
    let mean =
        |of: &[Stages], place: usize| of.iter().map(|stages| stages.0[place]).sum::<f64>() / of.len() as f64;
    std::array::from_fn(|place| mean(group, place) - mean(others, place))
}

/// A line of the CSV; without stages where stamps are missing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    size_bytes: u32,
    round: usize,
    rtt_us: f64,
    send_us: Option<f64>,
    queue_us: Option<f64>,
    network_us: Option<f64>,
    wake_there_us: Option<f64>,
    program_there_us: Option<f64>,
    send_there_us: Option<f64>,
    queue_there_us: Option<f64>,
    wake_us: Option<f64>,
}

impl Line {
    fn stages(&self) -> Option<Stages> {
        Some(Stages([
            self.send_us?,
            self.queue_us?,
            self.network_us?,
            self.wake_there_us?,
            self.program_there_us?,
            self.send_there_us?,
            self.queue_there_us?,
            self.wake_us?,
        ]))
    }
}

impl Row for Line {
    fn is_measurable(&self) -> bool {
        let times = self.stages().map_or(Vec::new(), |stages| stages.0.to_vec());
        times.iter().chain([&self.rtt_us]).all(|time| is_time(*time))
    }
}

impl From<Line> for RoundTrip {
    fn from(line: Line) -> RoundTrip {
        let Line { size_bytes, round, rtt_us, .. } = line;
        RoundTrip { size_bytes, round, rtt_us, stages: line.stages() }
    }
}

impl From<&RoundTrip> for Line {
    fn from(trip: &RoundTrip) -> Line {
        let RoundTrip { size_bytes, round, rtt_us, stages } = *trip;
        let of = |place: usize| stages.map(|stages| stages.0[place]);
        Line {
            size_bytes,
            round,
            rtt_us,
            send_us: of(0),
            queue_us: of(1),
            network_us: of(2),
            wake_there_us: of(3),
            program_there_us: of(4),
            send_there_us: of(5),
            queue_there_us: of(6),
            wake_us: of(7),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred round trips, of which every tenth is longer in `slow`.
    fn rounds(slow: usize, by: f64) -> Vec<RoundTrip> {
        let round = |number: usize| {
            let mut stages = [1.0, 1.0, 20.0, 5.0, 1.0, 1.0, 1.0, 5.0];
            stages[0] += number as f64 / 1e3;
            stages[slow] += if number.is_multiple_of(10) { by } else { 0.0 };
            let rtt_us = stages.iter().sum();
            RoundTrip { size_bytes: 1, round: number + 1, rtt_us, stages: Some(Stages(stages)) }
        };
        (0..100).map(round).collect()
    }

    #[test]
    fn the_stage_that_is_longer_or_shorter_is_named() {
        for (place, (stage, _)) in STAGES.iter().enumerate() {
            let slow = Split::of(&rounds(place, 30.0)).unwrap().slow.unwrap();
            assert_eq!((slow.rounds, slow.stage), (10, *stage));
            assert!((slow.difference_us - 30.0).abs() < 0.1, "{slow:?}");
            let fast = Split::of(&rounds(place, -0.9)).unwrap().fast.unwrap();
            assert_eq!((fast.rounds, fast.stage), (10, *stage));
            assert!((fast.stage_difference_us + 0.9).abs() < 0.1, "{fast:?}");
        }
    }

    #[test]
    fn stages_add_up_to_the_round_trip() {
        let sent = Sent::stamped(1_000, Some(3_000), Some(4_000));
        let received = Received { arrived: Some(90_000), returned: 99_000 };
        let stages = Stages::of(98.1, &sent, &received, [5_000, 6_000, 7_000, 8_000]).unwrap();
        for (found, expected) in stages.0.iter().zip([2.0, 1.0, 60.1, 5.0, 6.0, 7.0, 8.0, 9.0]) {
            assert!((found - expected).abs() < 1e-9, "{stages:?}");
        }
    }

    #[test]
    fn a_missing_stamp_and_a_clock_that_was_set_leave_no_stages() {
        let received = Received { arrived: Some(90_000), returned: 99_000 };
        for sent in [Sent::stamped(1_000, None, Some(4_000)), Sent::stamped(1_000, Some(3_000), Some(2_000))]
        {
            assert_eq!(Stages::of(98.0, &sent, &received, [0; 4]), None);
        }
        let sent = Sent::stamped(1_000, Some(3_000), Some(4_000));
        assert_eq!(Stages::of(98.0, &sent, &received, [95_000, 0, 0, 0]), None, "more than the round trip");
        assert!(Split::of(&[]).is_none());
    }
}
