//! What kernels, bundles and emulated wires have counted at one moment of a run.

use anyhow::Result;

use super::figure::{Figure, Measure};
use tabane_kit::bundle::{Bundle, DEVICE};
use tabane_kit::counters;
use tabane_kit::cpu::Usage;
use tabane_kit::emulator::{Counters, Direction};
use tabane_kit::netns::Namespace;
use tabane_kit::status::Questions;
use tabane_kit::topology::{Topology, Wiring};

/// What kernels and wires have counted.
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
    /// As they are now; `pids` are the daemons of bundles and who watches them.
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
        let busy = self.socket_overruns - earlier.socket_overruns + self.device_drops - earlier.device_drops;
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

/// The sums of all emulated wires.
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

/// The figures of what reorder qdiscs have counted.
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

/// What bundles have counted; asking for it starts a program each.
pub(super) struct Told {
    trimmed: u64,
    repaired: u64,
    early: u64,
    received: u64,
    /// Frames that the first host's device was given, and their bytes.
    given: [u64; 2],
}

impl Told {
    /// As they are now; `None` without bundles.
    pub(super) fn now(bundles: &[Bundle<'_>]) -> Result<Option<Told>> {
        let all = bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>()?;
        let Some(first) = all.first() else { return Ok(None) };
        let sum = |name: &str| all.iter().map(|status| status.counter(name)).sum();
        let given = ["frames_sent", "frame_bytes_sent"].map(|name| first.counter(name));
        Ok(Some(Told {
            trimmed: sum("frames_trimmed"),
            repaired: sum("cells_repaired"),
            early: sum("cells_early"),
            received: sum("cells_received"),
            given,
        }))
    }

    /// The figures of the time since `earlier`.
    pub(super) fn since(&self, earlier: &Told) -> Vec<Measure> {
        let [frames, bytes] = [0, 1].map(|number| self.given[number] - earlier.given[number]);
        vec![
            Measure::of_run(Figure::Trimmed, (self.trimmed - earlier.trimmed) as f64),
            Measure::of_run(Figure::Repaired, (self.repaired - earlier.repaired) as f64),
            Measure::of_run(
                Figure::EarlyPercent,
                (self.early - earlier.early) as f64 * 100.0 / (self.received - earlier.received) as f64,
            ),
            Measure::of_run(Figure::FrameBytes, bytes as f64 / frames as f64),
        ]
    }
}
