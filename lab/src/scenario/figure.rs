//! The figures that a run can give, the same ones in every place, and one run's values of them.

use tabane_kit::emulator::Counters;

use crate::prelude::*;

/// Makes [`Figure`] of a table: its variant, name in files, name for people, unit.
macro_rules! figures {
    ($($(#[doc = $doc:literal])* $variant:ident: $key:literal, $label:literal, $unit:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Figure {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Figure {
            pub(super) const ALL: &'static [Figure] = &[$(Figure::$variant),*];

            pub(super) const fn key(self) -> &'static str {
                match self { $(Figure::$variant => $key,)* }
            }

            /// Name and unit for people.
            pub(super) const fn label(self) -> &'static str {
                match self { $(Figure::$variant => $label,)* }
            }

            pub(super) const fn unit(self) -> &'static str {
                match self { $(Figure::$variant => $unit,)* }
            }
        }
    };
}

figures! {
    /// Payload that arrived per second after the warm-up, of all flows of an entry together.
    Mbps: "mbps", "speed, Mbit/s", "Mbit/s";
    /// Speed as a multiple of the base's, which is the best link unless the scenario has none.
    Ratio: "ratio", "x best link", "";
    /// The same for each link.
    RatioPerLink: "ratio_per_link", "x best link, per link", "";
    /// Speed as a multiple of the fastest contestant's that is no bundle and not alone.
    OfBestOther: "of_best_other", "x best other", "";
    /// Speed as a share of the rates of the links over which the flows are sent.
    Share: "share", "of all links", "";
    /// The slowest and the fastest flow of an entry.
    SlowestMbps: "slowest_mbps", "slowest, Mbit/s", "Mbit/s";
    FastestMbps: "fastest_mbps", "fastest, Mbit/s", "Mbit/s";
    /// From the start of a file to the arrival of its last byte; of several files, of the last one.
    Seconds: "seconds", "whole after, s", "s";
    /// Median round trip; of several flows, the worst.
    RttMs: "rtt_ms", "round trip, ms", "ms";
    /// 99 of 100 round trips were not longer.
    RttP99Ms: "rtt_p99_ms", "99 of 100, ms", "ms";
    /// Longest time after the warm-up in which a flow got nothing.
    StallMs: "stall_ms", "longest stall, ms", "ms";
    /// The same in the last half second of the warm-up: what the machine does by itself.
    CalmMs: "calm_ms", "stall before, ms", "ms";
    /// Datagrams that did not arrive, of those that were sent.
    LostPercent: "lost_percent", "lost, %", "%";
    /// Datagrams that were sent after the warm-up and did not arrive, but for those that found a full socket.
    Lost: "lost", "datagrams lost", "datagrams";
    /// Datagrams that arrived after one that was sent later.
    Overtaken: "overtaken", "datagrams overtaken", "datagrams";
    /// Datagrams that were sent, of those that should have been.
    OfferedPercent: "offered_percent", "load offered, %", "%";
    /// From the beginning of the first deadly fault until a bundle took the link for dead, and until all had.
    NoticedMs: "noticed_ms", "noticed after, ms", "ms";
    AllNoticedMs: "all_noticed_ms", "noticed by all after, ms", "ms";
    /// Whether no bundle did.
    Unnoticed: "unnoticed", "deaths unnoticed", "deaths";
    /// From the end of the last deadly fault until all bundles used the link again.
    RecoveredMs: "recovered_ms", "recovered after, ms", "ms";
    /// Whether they never did.
    NotWhole: "not_whole", "not whole afterwards", "runs";
    /// Times that a bundle took a sound link for dead.
    FalseAlarms: "false_alarms", "false alarms", "events";
    /// TCP segments that were sent again after the warm-up, by all hosts.
    Resent: "resent", "segments resent", "segments";
    /// Those of them that had arrived before (RFC 2883), and the others.
    InVain: "in_vain", "resent in vain", "segments";
    SegmentsLost: "segments_lost", "segments lost", "segments";
    /// Retransmission timeouts of TCP after the warm-up.
    Timeouts: "timeouts", "timeouts of TCP", "timeouts";
    /// Frames of which bundles took a segment out after the warm-up, to slow TCP down.
    Trimmed: "trimmed", "frames trimmed", "frames";
    /// Cells that bundles sent again after the warm-up.
    Repaired: "repaired", "cells repaired", "cells";
    /// Cells that arrived before one that was sent earlier, of those that bundles received after the warm-up.
    EarlyPercent: "early_percent", "cells early, %", "%";
    /// Frames that waited for others in the kernel path's reorder qdiscs; gaps that these gave up, and frames that they dropped.
    Held: "held", "frames held", "frames";
    GivenUp: "given_up", "gaps given up", "gaps";
    Dropped: "dropped", "frames dropped", "frames";
    /// Mean length of the frames that the first host's device was given.
    FrameBytes: "frame_bytes", "frames given, bytes", "bytes";
    /// Processor time of the whole machine for 10^9 bytes of payload.
    CpuSPerGb: "cpu_s_per_gb", "CPU, s per GB", "s/GB";
    /// The same as a multiple of the base's.
    CpuRatio: "cpu_ratio", "CPU, x best link", "";
    /// Processor time of the daemons of bundles for 10^9 bytes of payload.
    BundleCpuSPerGb: "bundle_cpu_s_per_gb", "CPU of daemons, s per GB", "s/GB";
    /// Frames that emulated wires lost after the warm-up, as they were told.
    FramesLost: "frames_lost", "frames lost by wires", "frames";
    /// Requests or transactions of applications per second, and those that failed.
    PerSecond: "per_second", "answered, 1/s", "1/s";
    Failed: "failed", "requests failed", "requests";
    /// Memory of the first host's daemon in the last third of a run with random faults, as a multiple of that in the third before.
    MemoryGrowth: "memory_growth", "memory, x before", "";
    /// Files that a daemon has open more, or less, than before random faults.
    Descriptors: "descriptors", "open files apart", "files";
    /// Connections that broke.
    Broken: "broken", "connections broken", "connections";
    /// Frames and datagrams that the machine was too busy for, so that it and not the contestant lost them.
    Overruns: "overruns", "missed by the machine", "frames";
}

impl Figure {
    /// Whether a table has it that is not told which.
    pub(super) const fn is_usual(self) -> bool {
        use Figure::{
            LostPercent, Mbps, NoticedMs, OfferedPercent, Overruns, PerSecond, Ratio, Resent, RttMs, RttP99Ms,
        };
        matches!(self, Mbps | Ratio | RttMs | RttP99Ms | LostPercent | OfferedPercent | NoticedMs | Resent)
            || matches!(self, PerSecond | Figure::Seconds | Figure::StallMs | Figure::Broken | Overruns)
    }

    /// Whether a table without it lacks nothing as long as it is zero.
    pub(super) const fn is_good_when_zero(self) -> bool {
        use Figure::{Broken, Failed, NotWhole, Overruns, Unnoticed};
        matches!(self, Broken | Failed | Overruns | Unnoticed | NotWhole)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measure {
    /// The entry of the scenario; `None`: the whole run.
    pub(super) flow: Option<usize>,
    pub(crate) figure: Figure,
    pub(crate) value: f64,
}

impl Measure {
    pub(super) const fn of_flow(flow: usize, figure: Figure, value: f64) -> Measure {
        Measure { flow: Some(flow), figure, value }
    }

    /// As it is called in the whole scenario, of which flow `turn` alone was played, if one.
    pub(super) fn in_turn(self, turn: Option<usize>) -> Measure {
        Measure { flow: turn.or(self.flow), ..self }
    }

    pub(super) const fn of_run(figure: Figure, value: f64) -> Measure {
        Measure { flow: None, figure, value }
    }
}

// What kernels, bundles and emulated wires have counted at one moment of a run.

pub(super) struct Counts {
    resent: u64,
    in_vain: u64,
    timeouts: u64,
    /// Datagrams that found a full socket.
    pub(super) socket_overruns: u64,
    /// Frames that a bundle did not take from its device in time.
    device_drops: u64,
    wires: Option<Counters>,
    cpu: Usage,
}

impl Counts {
    /// As they are now; `pids` are the daemons of bundles.
    pub(super) fn now(topology: &Topology, pids: &[u32]) -> Result<Counts> {
        let sum = |count: &dyn Fn(&Namespace) -> Result<u64>| -> Result<u64> {
            topology.hosts().iter().map(count).sum()
        };
        let protocol = |group, name| sum(&|host| counters::protocol(host, group, name));
        Ok(Counts {
            resent: protocol("Tcp", "RetransSegs")?,
            in_vain: protocol("TcpExt", "TCPDSACKRecvSegs")?,
            timeouts: protocol("TcpExt", "TCPTimeouts")?,
            socket_overruns: protocol("Udp", "RcvbufErrors")?,
            device_drops: if pids.is_empty() { 0 } else { sum(&|host| counters::queue_drops(host, DEVICE))? },
            wires: wires(topology)?,
            cpu: Usage::now(pids)?,
        })
    }

    /// The figures of the time since `earlier`, in which so much payload arrived over streams, if there were any.
    pub(super) fn since(&self, earlier: &Counts, payload: Option<u64>) -> Vec<Measure> {
        let mut figures = Vec::new();
        let busy = self.socket_overruns - earlier.socket_overruns
            + self.device_drops.saturating_sub(earlier.device_drops);
        let mut missed = busy;
        if let (Some(now), Some(before)) = (self.wires, earlier.wires) {
            missed += now.overrun - before.overrun;
            figures.push((Figure::FramesLost, (now.lost - before.lost) as f64));
        }
        figures.push((Figure::Overruns, missed as f64));
        if let Some(bytes) = payload {
            let (resent, in_vain) = (self.resent - earlier.resent, self.in_vain - earlier.in_vain);
            let (used, gigabytes) = (self.cpu.since(earlier.cpu), bytes as f64 / 1e9);
            figures.extend([
                (Figure::Resent, resent as f64),
                (Figure::InVain, in_vain as f64),
                (Figure::SegmentsLost, resent.saturating_sub(in_vain) as f64),
                (Figure::Timeouts, (self.timeouts - earlier.timeouts) as f64),
                (Figure::CpuSPerGb, used.machine_seconds / gigabytes),
            ]);
            if used.processes_seconds > 0.0 {
                figures.push((Figure::BundleCpuSPerGb, used.processes_seconds / gigabytes));
            }
        }
        figures.into_iter().map(|(figure, value)| Measure::of_run(figure, value)).collect()
    }
}

fn wires(topology: &Topology) -> Result<Option<Counters>> {
    if topology.plan().wiring != Wiring::Emulator {
        return Ok(None);
    }
    let mut sum = Counters::default();
    for link in 0..topology.nics().len() {
        for direction in Direction::BOTH {
            let counted = topology.emulator(link)?.counters(direction)?;
            sum.overrun += counted.overrun;
            sum.lost += counted.lost;
        }
    }
    Ok(Some(sum))
}

pub(super) fn reordered(counts: &[(String, u64)]) -> Vec<Measure> {
    if counts.is_empty() {
        return Vec::new();
    }
    let sum = |beginning: &str| -> f64 {
        let meant = counts.iter().filter(|(name, _)| name.starts_with(beginning));
        meant.map(|(_, count)| *count as f64).sum()
    };
    let figures = [(Figure::Held, "reorder_held"), (Figure::GivenUp, "gap_"), (Figure::Dropped, "drop_")];
    figures.map(|(figure, beginning)| Measure::of_run(figure, sum(beginning))).to_vec()
}

/// Counters of bundles that are added up, and those of the first host alone: what its device was given.
const ADDED_UP: [&str; 4] = ["frames_trimmed", "cells_repaired", "cells_early", "cells_received"];
const GIVEN: [&str; 2] = ["frames_sent", "frame_bytes_sent"];

/// What bundles have counted; asking for it starts a program each.
pub(super) struct Told {
    sums: [u64; 4],
    given: [u64; 2],
}

impl Told {
    pub(super) fn now(bundles: &[Bundle<'_>]) -> Result<Option<Told>> {
        let all = bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>()?;
        let Some(first) = all.first() else { return Ok(None) };
        let sums = ADDED_UP.map(|name| all.iter().map(|status| status.counter(name)).sum());
        Ok(Some(Told { sums, given: GIVEN.map(|name| first.counter(name)) }))
    }

    pub(super) fn since(&self, earlier: &Told) -> Vec<Measure> {
        // Who was started again counts from the start.
        let since = |now: u64, earlier: u64| now.saturating_sub(earlier) as f64;
        let [trimmed, repaired, early, received] =
            std::array::from_fn(|number| since(self.sums[number], earlier.sums[number]));
        let [frames, bytes] = std::array::from_fn(|number| since(self.given[number], earlier.given[number]));
        let figures = [
            (Figure::Trimmed, trimmed),
            (Figure::Repaired, repaired),
            (Figure::EarlyPercent, early * 100.0 / received),
            (Figure::FrameBytes, bytes / frames),
        ];
        figures.map(|(figure, value)| Measure::of_run(figure, value)).to_vec()
    }
}
