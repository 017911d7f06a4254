//! Many nodes in one bundle: every host sends to every other at once, while a switch dies and returns.
//!
//! 1. [`pairs`]: a checksummed TCP connection (CUBIC) from each host to each other one.
//! 2. [`outage`]: what they carry with all switches, without one, and with all again.
//! 3. [`summary`]: what was found, against what the links can carry.

mod outage;
mod pairs;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use tabane_kit::bundle::{self, Bundle};
use tabane_kit::options::Common;
use tabane_kit::prerequisites::Tool;
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[];
/// Links of every host.
const LINKS: usize = 2;

/// All hosts of a bundle send to all others at once while a switch dies and returns
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Number of hosts
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<u8>::new().range(2..=16))]
    nodes: u8,
    /// Rate of each link in Mbit/s: low, for all hosts share the CPUs of this machine
    #[arg(long, value_name = "MBIT", default_value_t = 50, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    rate: u64,
    /// Length of each of the three phases: all switches, one dead, all again
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = RangedU64ValueParser::<u64>::new().range(1..=60))]
    seconds: u64,
}

/// Runs the experiment.
///
/// # Errors
/// A missing prerequisite, or a tool or daemon that fails.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let mut report = Report::new("mesh", common.seed);
    let (nodes, rate) = (usize::from(options.nodes), Bitrate::mbit(options.rate));
    let topology = {
        let _step = progress::step(&format!("joining {nodes} hosts by {LINKS} switches at {rate}"));
        let links = vec![LinkPlan::shaped(rate); LINKS];
        Topology::build(Plan { hosts: nodes, addressed: false, ..Plan::two_hosts(links) })?
    };
    let bundles = {
        let _step = progress::step("starting a bundle on each host");
        Bundle::start_all(&topology, &bundle::Options::new(&daemon))?
    };
    let outage = outage::run(&topology, &bundles, Duration::from_secs(options.seconds), common.seed)?;
    summary::write(&mut report, nodes, rate, &outage);
    for bundle in bundles {
        bundle.stop()?.success("a daemon told to stop")?;
    }
    report.finish(common.json.as_deref())
}
