//! What the command takes.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Parser, ValueEnum};

use super::Experiment;
use tabane_kit::bundle::Common;
use tabane_kit::guest;
use tabane_kit::prerequisites::Tool;

/// The papers' measurements, repeated: published figures, those of this machine, and whether the findings hold
#[derive(Clone, Debug, Parser)]
#[command(name = "tabane-papers", version)]
pub struct Options {
    #[command(flatten)]
    pub(super) common: Common,
    /// How often each figure is measured
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    pub(super) rounds: usize,
    /// Write the tables here, too, as Markdown
    #[arg(long, value_name = "PATH")]
    pub(super) markdown: Option<PathBuf>,
    /// Go on after an interruption: what was measured with the same options is not measured again. The page says at which commit,
    /// where that is another one
    #[arg(long)]
    pub(super) resume: bool,
    #[command(flatten)]
    pub(super) guest: guest::Flags,
    /// Length of each of P2's flows
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = RangedU64ValueParser::<u32>::new().range(1..=300))]
    pub(super) seconds: u32,
    /// Run the NAS Parallel Benchmarks in this directory (is.B.4, is.A.4, is.W.4 or is.S.4, the first that is there, and so on) for
    /// P2.npb, in place of what they exchange
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) npb: Option<PathBuf>,
    /// Measure P3's links through memory also at the rates that its device had with its bug
    #[arg(long)]
    pub(super) throttle: bool,
    /// All of one paper
    #[arg(long, value_parser = PossibleValuesParser::new(["P0", "P1", "P2", "P3", "P4"]))]
    paper: Option<String>,
    /// Which of them [default: all]
    #[arg(value_name = "ID", conflicts_with = "paper")]
    experiments: Vec<Experiment>,
}

impl Options {
    /// What the command needs besides the sandbox's own tools.
    pub fn tools(&self) -> Vec<Tool> {
        let npb = self.npb.is_some();
        self.chosen().iter().flat_map(|experiment| experiment.tools(npb)).copied().collect()
    }

    pub(super) fn chosen(&self) -> Vec<Experiment> {
        if !self.experiments.is_empty() {
            return self.experiments.clone();
        }
        let all = Experiment::value_variants().iter().copied();
        all.filter(|each| self.paper.as_deref().is_none_or(|paper| each.is_of(paper))).collect()
    }

    /// What figures depend on, so that those of other options are measured anew.
    pub(super) fn manner(&self) -> String {
        let Options { rounds, guest, seconds, npb, throttle, .. } = self;
        format!("{rounds} {guest:?} {seconds} {npb:?} {throttle}")
    }
}
