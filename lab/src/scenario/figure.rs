//! The figures that a run can give, the same ones in every place, and one run's values of them.

use serde::{Deserialize, Serialize};

/// A quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    /// Payload that arrived per second after the warm-up, of all flows of an entry together.
    Mbps,
    /// Speed as a multiple of the best link's.
    Ratio,
    /// From the start of a file to the arrival of its last byte; of several files, of the last one.
    Seconds,
    /// Median round trip; of several flows, the worst.
    RttMs,
    /// 99 of 100 round trips were not longer.
    RttP99Ms,
    /// Longest time after the warm-up in which a flow got nothing.
    StallMs,
    /// Datagrams that did not arrive, of those that were sent.
    LostPercent,
    /// Datagrams that were sent, of those that should have been.
    OfferedPercent,
    /// From the beginning of the first deadly fault until a bundle took the link for dead.
    NoticedMs,
    /// TCP segments that were sent again, of all flows of a run.
    Resent,
    /// Connections that broke.
    Broken,
    /// Frames that an emulated wire missed, so that it and not the contestant lost them.
    Overruns,
}

impl Figure {
    /// All of them.
    pub(super) const ALL: [Figure; 12] = [
        Figure::Mbps,
        Figure::Ratio,
        Figure::Seconds,
        Figure::RttMs,
        Figure::RttP99Ms,
        Figure::StallMs,
        Figure::LostPercent,
        Figure::OfferedPercent,
        Figure::NoticedMs,
        Figure::Resent,
        Figure::Broken,
        Figure::Overruns,
    ];

    /// Name in files.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Figure::Mbps => "mbps",
            Figure::Ratio => "ratio",
            Figure::Seconds => "seconds",
            Figure::RttMs => "rtt_ms",
            Figure::RttP99Ms => "rtt_p99_ms",
            Figure::StallMs => "stall_ms",
            Figure::LostPercent => "lost_percent",
            Figure::OfferedPercent => "offered_percent",
            Figure::NoticedMs => "noticed_ms",
            Figure::Resent => "resent",
            Figure::Broken => "broken",
            Figure::Overruns => "overruns",
        }
    }

    /// Name and unit for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Figure::Mbps => "speed, Mbit/s",
            Figure::Ratio => "x best link",
            Figure::Seconds => "whole after, s",
            Figure::RttMs => "round trip, ms",
            Figure::RttP99Ms => "99 of 100, ms",
            Figure::StallMs => "longest stall, ms",
            Figure::LostPercent => "lost, %",
            Figure::OfferedPercent => "load offered, %",
            Figure::NoticedMs => "noticed after, ms",
            Figure::Resent => "segments resent",
            Figure::Broken => "connections broken",
            Figure::Overruns => "frames the wire missed",
        }
    }

    pub(super) const fn unit(self) -> &'static str {
        match self {
            Figure::Mbps => "Mbit/s",
            Figure::Ratio => "",
            Figure::Seconds => "s",
            Figure::RttMs | Figure::RttP99Ms | Figure::StallMs | Figure::NoticedMs => "ms",
            Figure::LostPercent | Figure::OfferedPercent => "%",
            Figure::Resent => "segments",
            Figure::Broken => "connections",
            Figure::Overruns => "frames",
        }
    }

    /// Whether it belongs to a run and not to one of its flows.
    pub(super) const fn is_of_run(self) -> bool {
        matches!(self, Figure::NoticedMs | Figure::Resent | Figure::Overruns)
    }

    /// Whether a table without it lacks nothing as long as it is zero.
    pub(super) const fn is_good_when_zero(self) -> bool {
        matches!(self, Figure::Broken | Figure::Overruns)
    }
}

/// One value of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measure {
    /// The entry of the scenario; `None`: the whole run.
    pub(super) flow: Option<usize>,
    pub(super) figure: Figure,
    pub(super) value: f64,
}

impl Measure {
    pub(super) const fn of_flow(flow: usize, figure: Figure, value: f64) -> Measure {
        Measure { flow: Some(flow), figure, value }
    }

    pub(super) const fn of_run(figure: Figure, value: f64) -> Measure {
        Measure { flow: None, figure, value }
    }
}
