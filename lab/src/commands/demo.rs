//! The demonstration: one TCP connection over two links, and the death and return of a switch.
//!
//! 1. [`speed`]: one link alone, then the bundle, interleaved, medians; at the end also by programs in the kernel.
//! 2. [`outage`]: a switch becomes a black hole while iperf3 and a checksummed transfer run, and comes back.
//! 3. [`summary`]: what was found, against what is wanted.

mod outage;
mod speed;
mod summary;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use tabane_kit::bundle::{self, Bundle, Common};
use tabane_kit::clock::monotonic_ns;
use tabane_kit::prerequisites::{IPERF3, Tool};
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3];
/// Rate of each of the two links, in Mbit/s.
const MBIT: u64 = 1_000;

/// One TCP connection over two links, which survives the death of a switch
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rate of each of the two links, in Mbit/s
    #[arg(long, default_value_t = MBIT, value_parser = RangedU64ValueParser::<u64>::new().range(10..=10_000))]
    mbit: u64,
    /// Pairs of measurements of one link and of both
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
}

/// Runs the demonstration.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let mut report = Report::new("demo", common.seed);
    let link = Bitrate::mbit(options.mbit);
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(link); 2]))?;
    println!(
        "\n  Two hosts, two switches, a bundle `{}` over both:\n\n{}",
        bundle::DEVICE,
        topology.drawing()
    );
    let since_ns = monotonic_ns()?;
    let bundles = {
        let _step = progress::step("starting a bundle on each host");
        Bundle::start_all(&topology, &bundle::Options::new(&daemon))?
    };
    speed::measure(&topology, options.rounds, &mut report)?;
    let outage = outage::run(&topology, &bundles, link, since_ns, common.seed)?;
    Bundle::stop_all(bundles)?;
    let no_programs = speed::measure_kernel_path(&topology, &daemon, options.rounds, &mut report)?;
    summary::write(&mut report, &outage, no_programs.as_deref());
    report.finish(common.json.as_deref())
}
