//! One end of a path: one link, two links under the kernel's bonding, or under a bundle.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::LINKS;
use tabane_kit::bonding;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::clock::wait_for;
use tabane_kit::netns::Namespace;
use tabane_kit::status::Questions;
use tabane_kit::topology::nic;
use tabane_kit::workload::ping::ping;

/// How long a path may take to carry its first packet.
const CARRIES_WITHIN: Duration = Duration::from_secs(60);

/// Who makes a path of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    Single,
    BalanceRr,
    Bundle,
}

impl Way {
    pub(super) const ALL: [Way; 3] = [Way::Single, Way::BalanceRr, Way::Bundle];

    /// Name for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Way::Single => "one link",
            Way::BalanceRr => "balance-rr",
            Way::Bundle => "bundle",
        }
    }

    /// Address of the guest `side` on its path.
    pub(super) fn address(self, side: usize) -> IpAddr {
        match self {
            Way::Single | Way::BalanceRr => bonding::address(side).into(),
            Way::Bundle => bundle::address(side),
        }
    }
}

/// The end, while it lasts.
pub(super) struct Ending<'a> {
    way: Way,
    host: &'a Namespace,
    bundle: Option<Bundle<'a>>,
}

impl<'a> Ending<'a> {
    /// Makes the end of guest `side`, whose links are up.
    pub(super) fn make(way: Way, host: &'a Namespace, side: usize, daemon: &Path) -> Result<Ending<'a>> {
        let nics: Vec<String> = (0..LINKS).map(nic).collect();
        let mut ending = Ending { way, host, bundle: None };
        match way {
            Way::Single => {
                host.ip(&format!("address add {}/24 dev {}", bonding::address(side), nics[0]))?;
            }
            Way::BalanceRr => bonding::bond_on(host, side, &nics, "balance-rr")?,
            Way::Bundle => {
                let bundle = Bundle::start(host, side, &nics, &bundle::Options::new(daemon))?;
                let bundle = ending.bundle.insert(bundle);
                bundle.wait_until("the other guest", |status| status.is_ready(1, LINKS))?;
            }
        }
        Ok(ending)
    }

    /// Waits until packets come back from guest `side`.
    pub(super) fn wait_until_it_carries(&self, side: usize) -> Result<()> {
        wait_for("a path that carries packets", CARRIES_WITHIN, || {
            Ok(ping(self.host, self.way.address(side), 1).ok().filter(|pings| pings.lost() == 0).map(drop))
        })
    }

    /// Leaves the links as they were.
    pub(super) fn end(self) -> Result<()> {
        if let Some(bundle) = self.bundle {
            bundle.stop()?.success("a daemon told to stop")?;
        }
        match self.way {
            Way::Single => self.host.ip(&format!("address flush dev {}", nic(0))).map(drop),
            Way::BalanceRr => bonding::remove(self.host, &(0..LINKS).map(nic).collect::<Vec<_>>()),
            Way::Bundle => Ok(()),
        }
    }
}
