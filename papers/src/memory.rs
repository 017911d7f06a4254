//! P3's messages over a real link through memory: bundles, and a window in units of 512 B between them.
//!
//! As in the paper the device has an MTU of 64 KB (65,000 bytes) and segments nothing, a timer of the worker's own polls the
//! window, and cells are not sealed.

use super::swept::{self, Swept};
use crate::device::exchange::WITH_BUG;
use crate::prelude::*;
use crate::slot_device;

/// MTU of the device, in bytes.
pub(super) const MTU: u32 = 65_000;
/// Of the paper's measurements.
pub(super) const INTERVAL: Duration = Duration::from_micros(20);

/// Least, usual and largest send buffer over the throttled device, in bytes: as much as Linux takes by itself, 4 MB for each of
/// sixteen connections, would pass for seconds after the end of a measurement.
const SEND_BUFFER: &str = "4096 16384 262144";
/// How late Linux may let a timer fire that nobody has asked to be in time, in nanoseconds.
const USUAL_SLACK: &str = "50000";

/// How fast the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speed {
    /// As this machine's is.
    Own,
    /// As P3's with its bug: a [device](slot_device) stands between the hosts.
    Throttled,
}

impl Speed {
    /// Those that are measured.
    pub(super) fn wanted(setting: &Setting) -> &'static [Speed] {
        if setting.throttle { &[Speed::Own, Speed::Throttled] } else { &[Speed::Own] }
    }

    /// For the name of a row.
    pub(super) fn words(self) -> &'static str {
        match self {
            Speed::Own => "over mem",
            Speed::Throttled => "over mem with the bug's rates",
        }
    }
}

/// What the hosts are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts {
    /// How many; between more than two the memory is this machine's own.
    pub(super) count: usize,
    pub(super) speed: Speed,
    /// Between two polls.
    pub(super) interval: Duration,
    /// Whether the polls come by a timer of their own, and not by one that may be late.
    pub(super) in_time: bool,
    /// Bytes of a unit.
    pub(super) unit: usize,
}

impl Hosts {
    /// Two, as in the paper's measurements.
    pub(super) const fn two(speed: Speed) -> Hosts {
        Hosts { count: 2, speed, interval: INTERVAL, in_time: true, unit: WITH_BUG.slot.unit }
    }

    /// What `measure` finds while these hosts have their bundles.
    pub(super) fn measure<T>(
        &self,
        setting: &Setting,
        measure: impl FnOnce(&Topology) -> Result<T>,
    ) -> Result<T> {
        let topology =
            Topology::build(Plan { hosts: self.count, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
        let windows = [Window::new()?, Window::new()?];
        let _device = match self.speed {
            Speed::Own => None,
            Speed::Throttled => {
                topology.host(0).set("net/ipv4/tcp_wmem", SEND_BUFFER)?;
                Some(slot_device::between([windows[0].path(), windows[1].path()], WITH_BUG.slot)?)
            }
        };
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
            let window = if self.speed == Speed::Own { &windows[0] } else { &windows[number] };
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
pub(super) fn sweep(setting: &Setting, speed: Speed, flags: &[&str]) -> Result<Vec<Swept>> {
    Hosts::two(speed)
        .measure(setting, |topology| swept::through(setting, topology, bundle::address(1), flags))
}

/// Lets the timers of this process' threads be as late as those of any other.
fn let_be_late(process: u32) -> Result<()> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let number = thread?.file_name();
        let slack = format!("/proc/{}/timerslack_ns", number.display());
        fs::write(&slack, USUAL_SLACK).context(slack)?;
    }
    Ok(())
}
