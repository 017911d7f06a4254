//! What the experiments with two guests that are joined by cables share: their options, their boot, and one end of a path.
//!
//! ```text
//!   guest 0 ──── control ──── guest 1
//!     flows ═══ eth1 ═══> counts what comes
//!           ═══ eth2 ═══>
//! ```
//!
//! The cables are sockets of the two QEMUs. Each guest runs the same command: the first asks, the other answers.

use tabane_kit::guest::{Model, pair};
use tabane_kit::workload::ping_pong::ping;

use crate::prelude::*;

pub(super) const LINKS: usize = 2;
/// How long a path may take to carry its first packet.
const CARRIES_WITHIN: Duration = Duration::from_secs(60);

/// Options of such an experiment.
#[derive(Clone, Debug, Args)]
pub struct PairOptions {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) guest: guest::Flags,
    /// Rounds; medians are taken over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    pub(super) rounds: usize,
    /// Seconds of each measurement, of which there are two in a trial
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    pub(super) seconds: u32,
    /// Which of the two guests this is
    #[arg(long, hide = true, requires = guest::HERE)]
    pub(super) side: Option<usize>,
}

impl PairOptions {
    /// Whether this is the work of one of the guests.
    pub fn is_inside(&self) -> bool {
        self.side.is_some()
    }

    /// What the first of two guests with so many processors hands over within `limit`; both run `command` over NICs of this kind, with
    /// further `modules`.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        command: &str,
        (model, modules): (Model, &[&str]),
        processors: usize,
        limit: Duration,
    ) -> Result<T> {
        let sockets = tempfile::tempdir().context("a directory for the cables")?;
        let (guest, daemon) = (self.guest.guest()?.with_processors(processors), self.common.daemon()?);
        let modules = [&[model.module()], modules].concat();
        let boot = |side: usize| {
            let arguments = [
                command.to_owned(),
                format!("--side={side}"),
                format!("--rounds={}", self.rounds),
                format!("--seconds={}", self.seconds),
                format!("--seed={}", self.common.seed),
            ];
            let cables = pair::cables(sockets.path(), side, LINKS, model);
            guest.clone().with_cables(cables).begin(&arguments, &modules, &daemon)
        };
        let (first, other) = (boot(0)?, boot(1)?);
        let measured = first.finish(limit);
        measured.with_context(|| format!("the other guest said last: \"{}\"", other.last_words()))
    }
}

/// Who makes a path of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// The first link alone.
    Link,
    /// The kernel's bonding.
    BalanceRr,
    /// A bundle.
    Bundle,
    /// A bundle whose frames programs in the kernel carry.
    Kernel,
    /// The same, whose frames travel in cells.
    Cells,
}

impl Way {
    pub(super) fn address(self, side: usize) -> IpAddr {
        match self {
            Way::Link | Way::BalanceRr => bonding::address(side).into(),
            Way::Bundle | Way::Kernel | Way::Cells => bundle::address(side),
        }
    }
}

/// One end of a path, while it lasts.
pub(super) struct Ending<'a> {
    way: Way,
    host: &'a Namespace,
    pub(super) bundle: Option<Bundle<'a>>,
}

impl<'a> Ending<'a> {
    /// Makes the end of guest `side`, whose links are up.
    pub(super) fn make(way: Way, host: &'a Namespace, side: usize, daemon: &Path) -> Result<Ending<'a>> {
        let mut ending = Ending { way, host, bundle: None };
        let options = match way {
            Way::Link => {
                host.ip(&format!("address add {}/24 dev {}", bonding::address(side), nic(0)))?;
                return Ok(ending);
            }
            Way::BalanceRr => {
                bonding::bond_on(host, side, &nics(), "balance-rr")?;
                return Ok(ending);
            }
            Way::Bundle => bundle::Options::new(daemon),
            Way::Kernel => bundle::Options::by_programs(daemon, "kernel"),
            Way::Cells => bundle::Options::by_programs(daemon, "user"),
        };
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

    /// Leaves the links as they were.
    pub(super) fn end(self) -> Result<()> {
        Bundle::stop_all(self.bundle)?;
        match self.way {
            Way::Link => self.host.ip(&format!("address flush dev {} scope global", nic(0))).map(drop),
            Way::BalanceRr => bonding::remove(self.host, &nics()),
            Way::Bundle | Way::Kernel | Way::Cells => Ok(()),
        }
    }
}

pub(super) fn nics() -> Vec<String> {
    (0..LINKS).map(nic).collect()
}
