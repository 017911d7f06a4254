//! Applications that know nothing of bundles: a web server, a database, a store and a file server, over one link and over a bundle
//! of two, by cells and by the kernel path, and while a switch dies and returns.
//!
//! 1. [`measure`]: the loads, each over every path.
//! 2. [`summary`]: a row per load, against what is wanted.

mod measure;
mod summary;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use measure::Bench;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{
    GANESHA, NFS_CAT, NGINX, PGBENCH, REDIS, REDIS_BENCHMARK, SETPRIV, Tool, WRK,
};
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[NGINX, WRK, PGBENCH, SETPRIV, REDIS, REDIS_BENCHMARK, GANESHA, NFS_CAT];

/// nginx, PostgreSQL, Redis and nfs-ganesha over one link, over two, and while a switch dies: about 8 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each figure is measured
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Seconds of each load
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(3..=300))]
    seconds: u32,
}

/// Measures all loads.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let bench = Bench {
        daemon: common.daemon()?,
        rounds: options.rounds,
        seconds: options.seconds,
        seed: common.seed,
    };
    let mut report = Report::new("apps", common.seed);
    let failed = bench.run(&mut report)?;
    summary::write(&mut report, &failed);
    report.finish(common.json.as_deref())
}
