//! P3's messages over a real link through memory: bundles, and a window in units of 512 B between them.
//!
//! As in the paper the device has an MTU of 64 KB (65,000 bytes) and segments nothing, a timer of the worker's own polls the
//! window, and cells are not sealed.

use super::swept::{self, Swept};
use crate::device::exchange::WITH_BUG;
use crate::prelude::*;

pub(super) const MTU: u32 = 65_000;
/// Of the paper's measurements.
pub(super) const INTERVAL: Duration = Duration::from_micros(20);

/// Bytes of a ring in the window.
pub(super) const RING: usize = 2 << 20;
/// How late Linux may let a timer fire that nobody has asked to be in time, in nanoseconds.
const USUAL_SLACK: &str = "50000";

#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts {
    pub(super) count: usize,
    pub(super) interval: Duration,
    /// Whether the polls come by a timer of their own, and not by one that may be late.
    pub(super) in_time: bool,
    pub(super) unit: usize,
}

impl Hosts {
    pub(super) const fn two() -> Hosts {
        Hosts { count: 2, interval: INTERVAL, in_time: true, unit: WITH_BUG.slot.unit }
    }

    pub(super) fn measure<T>(
        &self,
        setting: &Setting,
        measure: impl FnOnce(&Topology) -> Result<T>,
    ) -> Result<T> {
        let topology =
            Topology::build(Plan { hosts: self.count, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
        let window = Window::new()?;
        let interval = format!("{}us", self.interval.as_micros());
        let options = bundle::Options {
            mtu: Some(MTU),
            protection: Protection::None,
            arguments: ["--no-tso", "--receive", "timer", "--receive-interval", &interval]
                .map(str::to_string)
                .to_vec(),
            ..bundle::Options::new(&setting.daemon)
        };
        let mut bundles = Vec::new();
        for (number, host) in topology.hosts().iter().enumerate() {
            let (unit, slots) = (self.unit, self.count);
            let link = format!("{},unit={unit}B,slots={slots},slot={number},poll={interval}", window.link());
            bundles.push(Bundle::start(host, number, &[link], &options)?);
        }
        for bundle in &mut bundles {
            bundle.wait_until("the other hosts", |status| status.is_ready(self.count - 1, 1))?;
            if !self.in_time {
                let_be_late(bundle.pid().context("the daemon has ended")?)?;
            }
        }
        let found = measure(&topology)?;
        Bundle::stop_all(bundles)?;
        Ok(found)
    }
}

/// Measures every combination of `flags` through the bundles of two hosts, as [`swept::sweep`] does over a bare link.
pub(super) fn sweep(setting: &Setting, flags: &[&str]) -> Result<Vec<Swept>> {
    Hosts::two().measure(setting, |topology| swept::through(setting, topology, bundle::address(1), flags))
}

fn let_be_late(process: u32) -> Result<()> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let number = thread?.file_name();
        let slack = format!("/proc/{}/timerslack_ns", number.display());
        fs::write(&slack, USUAL_SLACK).context(slack)?;
    }
    Ok(())
}
