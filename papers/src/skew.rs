//! P0.skew: sender A starts 10 s before B, C and D, over two links of 100 Mbit/s.
//!
//! At the next renewal `tlb` takes A for the heaviest, and B, C and D share the other link (P0, finding 6 and figure 10).
//! At later renewals the order decides in which the four happen to send: three share a link again unless two of them send
//! before A. The paper saw it at every renewal of its run. `tlb-history` spreads them.
//!
//! 1. [`senders`]: the four connections, and when they start.
//! 2. [`seats`]: which link carries which of them, seen at the switches.
//! 3. [`summary`]: sender to link over time, as a plot, against what each policy should do.

mod seats;
mod senders;
mod summary;

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use seats::Seats;
use senders::Senders;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::options::Common;
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

/// The links, and the rate of each.
const LINKS: usize = 2;
const LINK_RATE: Bitrate = Bitrate::mbit(100);
/// The senders: A, B, C and D.
pub(crate) const SENDERS: usize = 4;
/// When B, C and D start.
pub(crate) const LATER: usize = 10;
/// How long associations last.
const PERIOD: usize = 10;
/// The policies that are compared.
const POLICIES: [&str; 2] = ["tlb", "tlb-history"];

/// P0.skew: which sender sits on which link over time, under `tlb` and `tlb-history`
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Length of the run of each policy
    #[arg(long, value_name = "SECONDS", default_value_t = 70, value_parser = RangedU64ValueParser::<u64>::new().range(15..=300))]
    seconds: u64,
}

/// What was seen of each sender in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    /// The link that carried most of it.
    pub(crate) link: Option<usize>,
    /// What arrived of it.
    pub(crate) mbit: f64,
}

/// A policy's run: the senders, second by second.
pub(crate) type Series = Vec<[Second; SENDERS]>;

/// Runs the experiment.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let mut report = Report::new("skew", common.seed);
    for policy in POLICIES {
        let _step = progress::step(&format!("{policy}: {} s", options.seconds));
        let series = play(&daemon, policy, options.seconds, common.seed, "")?;
        summary::write(&mut report, policy, &series);
    }
    report.finish(common.json.as_deref())
}

/// The parts of the settled seconds after the latecomers' start, 0 to 1, in which they share one link, period by period.
pub(crate) fn three_share_one(series: &Series) -> Vec<f64> {
    summary::three_share_one(series)
}

/// One run with one policy, in namespaces with this prefix.
pub(crate) fn play(
    daemon: &Path,
    policy: &str,
    seconds: u64,
    seed: u64,
    prefix: &'static str,
) -> Result<Series> {
    let links = vec![LinkPlan::shaped(LINK_RATE); LINKS];
    let topology = Topology::build(Plan { prefix, addressed: false, ..Plan::two_hosts(links) })?;
    let options = bundle::Options {
        arguments: ["--policy", policy].map(str::to_string).to_vec(),
        // As Linux knows the rate of a NIC; here it would first have to be measured.
        rate: Some(LINK_RATE),
        // The switches read the senders from the cells.
        protection: bundle::Protection::None,
        ..bundle::Options::new(daemon)
    };
    let bundles = Bundle::start_all(&topology, &options)?;
    let seats = Seats::watch(&topology)?;
    let mut senders = Senders::start(&topology, seed)?;
    let mut series = Series::new();
    let began = Instant::now();
    for second in 1..=seconds {
        thread::sleep((began + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
        let (links, mbits) = (seats.take(), senders.take());
        series.push(std::array::from_fn(|sender| Second { link: links[sender], mbit: mbits[sender] }));
        if series.len() == LATER {
            senders.start_others(&topology)?;
        }
    }
    senders.finish()?;
    seats.finish()?;
    Bundle::stop_all(bundles)?;
    Ok(series)
}
