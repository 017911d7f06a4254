//! P3's messages over a real link through memory: two bundles, and a window in units of 512 B between them.
//!
//! The device has an MTU of 65,000 and cells are not sealed, as the paper's were not.

use anyhow::Result;
use tabane_sim::device::dimmnet::WITH_BUG;

use super::setting::Setting;
use super::swept::{self, Swept};
use crate::slot_device::SlotDevice;
use tabane_kit::bundle::{self, Bundle, Protection};
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::window::Window;

/// MTU of the device, in bytes.
pub(super) const MTU: u32 = 65_000;

/// Least, usual and largest send buffer over the throttled device, in bytes: as much as Linux takes by itself, 4 MB for each of
/// sixteen connections, would pass for seconds after the end of a measurement.
const SEND_BUFFER: &str = "4096 16384 262144";

/// How fast the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speed {
    /// As this machine's is.
    Own,
    /// As P3's with its bug: a [`SlotDevice`] stands between the hosts.
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

/// Measures every combination of `flags` through the bundles, as [`swept::sweep`] does over a bare link.
pub(super) fn sweep(setting: &Setting, speed: Speed, flags: &[&str]) -> Result<Vec<Swept>> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::unshaped()]))?;
    let windows = [Window::new()?, Window::new()?];
    let _device = match speed {
        Speed::Own => None,
        Speed::Throttled => {
            topology.host(0).set("net/ipv4/tcp_wmem", SEND_BUFFER)?;
            Some(SlotDevice::start(WITH_BUG.slot, [windows[0].path(), windows[1].path()])?)
        }
    };
    let options = bundle::Options {
        mtu: Some(MTU),
        protection: Protection::None,
        ..bundle::Options::new(&setting.daemon)
    };
    let mut bundles = Vec::new();
    for (number, host) in topology.hosts().iter().enumerate() {
        let window = if speed == Speed::Own { &windows[0] } else { &windows[number] };
        let link = format!("{},unit={}B,slot={number}", window.link(), WITH_BUG.slot.unit);
        bundles.push(Bundle::start(host, number, &[link], &options)?);
    }
    for bundle in &mut bundles {
        bundle.wait_until("the other host", |status| status.is_ready(1, 1))?;
    }
    let swept = swept::through(setting, &topology, bundle::address(1), flags)?;
    Bundle::stop_all(bundles)?;
    Ok(swept)
}
