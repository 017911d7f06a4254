//! One end of a path: a bare link, or a bundle over all links.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::LINKS;
use tabane_kit::bonding;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::clock::wait_for;
use tabane_kit::counters::packets;
use tabane_kit::netns::Namespace;
use tabane_kit::status::Questions;
use tabane_kit::topology::nic;
use tabane_kit::workload::ping::ping;

/// How long a path may take to carry its first packet.
const CARRIES_WITHIN: Duration = Duration::from_secs(60);

/// What carries the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// The first link alone.
    Bare,
    Kernel,
    Cells,
}

impl Way {
    pub(super) const ALL: [Way; 3] = [Way::Bare, Way::Kernel, Way::Cells];

    /// Name in reports.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Way::Bare => "bare",
            Way::Kernel => "kernel",
            Way::Cells => "cells",
        }
    }

    /// Name for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Way::Bare => "one bare link",
            Way::Kernel => "kernel path, hash",
            Way::Cells => "cells, hash",
        }
    }

    /// Address of the guest `side` on its path.
    pub(super) fn address(self, side: usize) -> IpAddr {
        if self == Way::Bare { bonding::address(side).into() } else { bundle::address(side) }
    }
}

/// The end, while it lasts.
pub(super) struct Ending<'a> {
    way: Way,
    host: &'a Namespace,
    bundle: Option<Bundle<'a>>,
}

/// What one end has sent and received since it was made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Packets of all links, sent and received.
    pub(super) packets: [u64; 2],
    /// Frames and bytes that programs sent, and received.
    pub(super) by_programs: [[u64; 2]; 2],
    /// Frames sent in cells.
    pub(super) in_cells: u64,
}

impl<'a> Ending<'a> {
    /// Makes the end of guest `side`, whose links are up.
    pub(super) fn make(way: Way, host: &'a Namespace, side: usize, daemon: &Path) -> Result<Ending<'a>> {
        let mut ending = Ending { way, host, bundle: None };
        let data_path = match way {
            Way::Bare => {
                host.ip(&format!("address add {}/24 dev {}", bonding::address(side), nic(0)))?;
                return Ok(ending);
            }
            Way::Kernel => "kernel",
            Way::Cells => "user",
        };
        let options = bundle::Options::by_programs(daemon, data_path);
        let bundle = ending.bundle.insert(Bundle::start(host, side, &nics(), &options)?);
        bundle.wait_until("the other guest", |status| {
            status.is_ready(1, LINKS) && status.peers[0].kernel_path == (way == Way::Kernel)
        })?;
        Ok(ending)
    }

    /// Waits until packets come back from guest `side`.
    pub(super) fn wait_until_it_carries(&self, side: usize) -> Result<()> {
        wait_for("a path that carries packets", CARRIES_WITHIN, || {
            Ok(ping(self.host, self.way.address(side), 1).ok().filter(|pings| pings.lost() == 0).map(drop))
        })
    }

    /// What crossed it so far.
    pub(super) fn counted(&self) -> Result<Counted> {
        let mut counted =
            Counted { packets: packets(self.host, &nics())?, by_programs: [[0; 2]; 2], in_cells: 0 };
        let Some(bundle) = &self.bundle else { return Ok(counted) };
        let status = bundle.status()?;
        counted.in_cells = status.counter("frames_sent");
        for path in &status.peers.first().context("no peer")?.paths {
            let Some(kernel) = path.kernel else { continue };
            let now =
                [[kernel.frames_sent, kernel.bytes_sent], [kernel.frames_received, kernel.bytes_received]];
            for (sum, more) in counted.by_programs.iter_mut().flatten().zip(now.into_iter().flatten()) {
                *sum += more;
            }
        }
        Ok(counted)
    }

    /// Leaves the links as they were.
    pub(super) fn end(self) -> Result<()> {
        match self.bundle {
            Some(bundle) => bundle.stop()?.success("a daemon told to stop").map(drop),
            None => self.host.ip(&format!("address flush dev {} scope global", nic(0))).map(drop),
        }
    }
}

fn nics() -> Vec<String> {
    (0..LINKS).map(nic).collect()
}
