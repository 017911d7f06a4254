//! The receive engines at every load: what each costs, and how late it is, from ten datagrams a second to a million.
//!
//! Two hosts, one unshaped cable, sealed cells; the engines take turns over the same daemons (`tabane receive`). Nothing is
//! pinned: sender, echo, both daemons and the kernel share the machine's processors as they come.
//!
//! 1. [`waiting`]: one ping-pong, and quiet.
//! 2. [`cell`]: one engine at one load.
//! 3. [`summary`]: a row per load, against what is wanted.

mod cell;
mod summary;
pub mod waiting;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use tabane_engine::receive::Method;

use cell::Cell;
use tabane_kit::bundle::{self, Bundle, DEVICE};
use tabane_kit::cpu;
use tabane_kit::options::Common;
use tabane_kit::progress;
use tabane_kit::report::{Report, Samples};
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, address};
use tabane_kit::workload::{Stream, ping_pong};

/// Lets `bundles` wait by `engine`.
pub fn choose(engine: Method, bundles: &[Bundle<'_>]) -> Result<()> {
    bundles.iter().try_for_each(|bundle| bundle.ask(&["receive", DEVICE, engine.name()]).map(drop))
}

/// Processor time that the daemons of `bundles` have used, in seconds.
pub fn daemons_seconds(bundles: &[Bundle<'_>]) -> Result<f64> {
    bundles.iter().filter_map(Bundle::pid).map(cpu::exact_seconds).sum()
}

/// The receive engines at loads from 10/s to 1,000,000/s: round trips and CPU
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Loads, in datagrams per second; can be repeated [default: 10, 100, … 1000000]
    #[arg(long = "load", value_name = "N", value_delimiter = ',', value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    loads: Vec<u64>,
    /// Seconds of each load
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    seconds: u32,
    /// Samples of each
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    rounds: u32,
    /// Further arguments of `tabane up`; can be repeated
    #[arg(long = "up", value_name = "ARGUMENT", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// One round of one second at three loads: does it work, not how fast
    #[arg(long, conflicts_with_all = ["seconds", "rounds", "loads"])]
    quick: bool,
}

/// How long a ping-pong over the bare cable lasts.
const BARE: Duration = Duration::from_secs(1);
/// Loads unless told otherwise, and when it has to be quick.
const LOADS: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const LOADS_QUICK: [u64; 3] = [10, 1_000, 100_000];

/// Measures all engines at all loads.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let (seconds, rounds) = if options.quick { (1, 1) } else { (options.seconds, options.rounds) };
    let loads = match (options.quick, &options.loads[..]) {
        (true, _) => LOADS_QUICK.to_vec(),
        (false, []) => LOADS.to_vec(),
        (false, named) => named.to_vec(),
    };
    let cable = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
    let topology = Topology::build(cable)?;
    let up =
        bundle::Options { arguments: options.arguments.clone(), ..bundle::Options::new(&common.daemon()?) };
    let bundles = Bundle::start_all(&topology, &up)?;
    let mut cells: Vec<Cell> =
        loads.iter().flat_map(|load| Method::ALL.map(|engine| Cell::new(*load, engine))).collect();
    let (mut rows, mut bare) = (waiting::rows(), Samples::new("µs", Vec::new()));
    for round in 1..=rounds {
        let step = progress::step(&format!("round {round} of {rounds}: ping-pong and quiet"));
        let (client, server) = (topology.host(0), topology.host(1));
        let trips = ping_pong::play(client, server, (address(0, 1), 0).into(), Stream::Tcp, BARE)?;
        bare.push(trips.p50_us);
        waiting::take(&topology, &bundles, &mut rows)?;
        drop(step);
        for cell in &mut cells {
            let what = format!("round {round} of {rounds}: {}/s, {}", cell.load, cell.engine.name());
            let _step = progress::step(&what);
            cell.sample(&topology, &bundles, seconds)?;
        }
    }
    let mut report = Report::new("engines", common.seed);
    report.cover_part(options.quick || !options.loads.is_empty());
    waiting::write(&mut report, &rows, bare.median());
    report.samples("veth.p50_us", bare);
    summary::write(&mut report, &cells, seconds, rounds);
    report.finish(common.json.as_deref())
}
