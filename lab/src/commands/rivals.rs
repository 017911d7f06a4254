//! What one would use instead: the kernel's bonding and team, MPTCP, and the bundle, side by side over the same links.
//!
//! Everyone is compared over links of 100 Mbit/s in one boot of a [`guest`], whose kernel has them all; those that
//! need no more than this machine's kernel are compared on it, too, over faster links. The guest runs the same command, which
//! measures there and hands its figures over.
//!
//! 1. [`case`]: who is compared over which links.
//! 2. [`contender`], [`tabane_kit::bonding`], [`tunnel`]: how each makes one path of them.
//! 3. [`mod@bench`], [`measure`], [`death`]: one case, at full speed and when a link dies.
//! 4. [`summary`]: a row per case, against what is wanted of the bundle.

mod bench;
mod case;
mod contender;
mod death;
mod figures;
mod measure;
mod summary;
mod tunnel;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use case::{Case, Timing};
use contender::Contender;
use figures::Figures;
use tabane_kit::guest;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{BUSYBOX, IPERF3, MODPROBE, MPTCPIZE, QEMU, TEAMNL, Tool};
use tabane_kit::progress;
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3, MPTCPIZE, TEAMNL, QEMU, MODPROBE, BUSYBOX];
/// Modules that the guest's kernel needs for the contenders.
const MODULES: [&str; 2] = ["bonding", "team_mode_roundrobin"];
/// Numbers of links in the guest, unless told otherwise.
const LINKS: [u8; 2] = [2, 4];
/// Seconds of a flow, unless told otherwise.
const SECONDS: u32 = 4;
/// Longest that the guest may take to boot, and for each case.
const BOOT_MAX: Duration = Duration::from_secs(180);
const CASE_MAX: Duration = Duration::from_secs(180);

/// Bonding, team, MPTCP and bundles side by side in a guest, MPTCP and bundles on this machine: about 20 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Only in the guest, or only on this machine
    #[arg(long, value_name = "PLACE", value_enum)]
    only: Option<Place>,
    /// Number of links in the guest; can be repeated [default: 2 and 4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = RangedU64ValueParser::<u8>::new().range(2..=8))]
    links: Vec<u8>,
    /// Who is compared; can be repeated [default: all]
    #[arg(long = "contender", value_name = "WHO", value_delimiter = ',', value_enum)]
    contenders: Vec<Contender>,
    /// Seconds of each flow
    #[arg(long, default_value_t = SECONDS, value_parser = RangedU64ValueParser::<u32>::new().range(2..=600))]
    seconds: u32,
    /// Two links, short flows and outages: does it work, not how well; about 6 minutes
    #[arg(long, conflicts_with_all = ["links", "seconds"])]
    quick: bool,
}

/// Where it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// In the guest
    Guest,
    /// On this machine
    Host,
}

/// A case with its figures, or why it has none.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    case: Case,
    outcome: Result<Figures, String>,
}

/// Compares.
///
/// # Errors
/// A missing prerequisite, or a guest that does not boot; what fails within a case is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    if options.guest.is_inside() {
        options.guest.hand_over(&options.measure(&options.in_guest(), &daemon))?;
        return Ok(ExitCode::SUCCESS);
    }
    let guest = (options.only != Some(Place::Host)).then(|| options.guest.guest()).transpose()?;
    let mut report = Report::new("rivals", common.seed);
    if let Some(guest) = guest {
        let cases = u32::try_from(options.in_guest().len())?;
        let seen: Vec<Seen> =
            guest.run(&options.arguments(), &MODULES, &daemon, BOOT_MAX + CASE_MAX * cases)?;
        report.field("guest_kernel", guest.version());
        summary::write(&mut report, "guest", &seen);
    }
    if options.only != Some(Place::Guest) {
        let mut able = Vec::new();
        for contender in options.wanted() {
            match contender.require() {
                Ok(()) => able.push(contender),
                Err(missing) => report.show(format!("  SKIPPED: {}: {missing}", contender.label())),
            }
        }
        let seen = options.measure(&case::on_host(&able), &daemon);
        summary::write(&mut report, "host", &seen);
    }
    summary::explain(&mut report);
    report.finish(common.json.as_deref())
}

impl Options {
    fn wanted(&self) -> Vec<Contender> {
        if self.contenders.is_empty() {
            Contender::value_variants().to_vec()
        } else {
            self.contenders.clone()
        }
    }

    fn timing(&self) -> Timing {
        if self.quick { Timing::quick() } else { Timing::full(self.seconds) }
    }

    /// The guest's cases.
    fn in_guest(&self) -> Vec<Case> {
        let links = match (self.quick, &self.links[..]) {
            (true, _) => &LINKS[..1],
            (false, []) => &LINKS,
            (false, links) => links,
        };
        case::in_guest(&self.wanted(), links)
    }

    /// The same command for the guest.
    fn arguments(&self) -> Vec<String> {
        let mut words = vec!["rivals".to_string(), format!("--seed={}", self.common.seed)];
        if self.quick {
            words.push("--quick".to_string());
        } else {
            words.push(format!("--seconds={}", self.seconds));
            words.extend(self.links.iter().map(|links| format!("--links={links}")));
        }
        words.extend(self.contenders.iter().map(|contender| format!("--contender={}", contender.key())));
        words
    }

    fn measure(&self, cases: &[Case], daemon: &Path) -> Vec<Seen> {
        let seen = |(number, case): (usize, &Case)| {
            let step = progress::step(&format!("{} of {}: {case}", number + 1, cases.len()));
            let figures = measure::run(*case, daemon, self.timing(), self.common.seed);
            drop(step);
            Seen { case: *case, outcome: figures.map_err(|error| progress::failed(case, &error)) }
        };
        cases.iter().enumerate().map(seen).collect()
    }
}
