//! What can be said to `papers`, `p1` and `p3`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use super::Experiment;
use tabane_kit::guest;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::Tool;

const SECONDS: u32 = 5;

/// The papers' measurements, repeated: published figures, those of this machine, and whether the findings hold
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) manner: Manner,
    #[command(flatten)]
    pub(super) programs: Programs,
    #[command(flatten)]
    pub(super) device: Device,
    /// Which of them [default: all]
    #[arg(value_name = "ID")]
    experiments: Vec<Experiment>,
}

/// P1's measurements: how sent buffers come back and what is copied, beside the published gains
#[derive(Clone, Debug, Args)]
pub struct P1Options {
    #[command(flatten)]
    manner: Manner,
}

/// P3's measurements: a memory-slot NIC, a window of memory and gigabit Ethernet, beside the published and predicted figures
#[derive(Clone, Debug, Args)]
pub struct P3Options {
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    device: Device,
}

/// How it is measured, and what is written.
#[derive(Clone, Debug, Args)]
pub(super) struct Manner {
    #[command(flatten)]
    pub(super) common: Common,
    /// How often each figure is measured
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    pub(super) rounds: usize,
    /// Write the tables here, too, as Markdown
    #[arg(long, value_name = "PATH")]
    pub(super) markdown: Option<PathBuf>,
    /// Write them here, too, as a page with charts that works without a network
    #[arg(long, value_name = "PATH")]
    pub(super) html: Option<PathBuf>,
    /// Go on after an interruption: what was measured with the same options is not measured again. The page says at which commit,
    /// where that is another one
    #[arg(long)]
    pub(super) resume: bool,
}

/// What P0 and P2 run.
#[derive(Clone, Debug, Args)]
pub(super) struct Programs {
    #[command(flatten)]
    pub(super) guest: guest::Flags,
    /// Length of each of P2's flows
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS, value_parser = RangedU64ValueParser::<u32>::new().range(1..=300))]
    pub(super) seconds: u32,
    /// Run the NAS Parallel Benchmarks in this directory (is.B.4, is.A.4, is.W.4 or is.S.4, the first that is there, and so on) for
    /// P2.npb, in place of what they exchange
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) npb: Option<PathBuf>,
}

/// What P3's links through memory are like.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Device {
    /// Measure P3's links through memory also at the rates that its device had with its bug
    #[arg(long)]
    pub(super) throttle: bool,
}

impl Default for Programs {
    fn default() -> Programs {
        Programs { guest: guest::Flags::default(), seconds: SECONDS, npb: None }
    }
}

impl Options {
    /// What the command needs besides the sandbox's own tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        let npb = self.programs.npb.is_some();
        self.chosen().iter().flat_map(|experiment| experiment.tools(npb)).copied().collect()
    }

    pub(super) fn chosen(&self) -> &[Experiment] {
        if self.experiments.is_empty() { Experiment::value_variants() } else { &self.experiments }
    }
}

impl P1Options {
    /// The same for `papers`.
    pub(super) fn whole(&self) -> Options {
        Options {
            manner: self.manner.clone(),
            programs: Programs::default(),
            device: Device::default(),
            experiments: Experiment::of("P1"),
        }
    }
}

impl P3Options {
    /// What the command needs besides the sandbox's own tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        self.whole().tools()
    }

    /// The same for `papers`.
    pub(super) fn whole(&self) -> Options {
        Options {
            manner: self.manner.clone(),
            programs: Programs::default(),
            device: self.device,
            experiments: Experiment::of("P3"),
        }
    }
}
