//! How the measurements are made: the program, how often and how long, and the bundles.

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Parser, ValueEnum};
use serde::de::DeserializeOwned;
use tabane_kit::machine::work;

use super::Experiment;
use crate::prelude::*;

pub(super) struct Setting {
    pub(super) daemon: PathBuf,
    pub(super) guest: guest::Flags,
    pub(super) rounds: usize,
    pub(super) seconds: u32,
}

impl Setting {
    pub(super) fn hosts(links: usize, rate: Bitrate) -> Result<Topology> {
        Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(rate); links]))
    }

    /// Bundles over all links, as the papers' were: without sealing, and knowing the NICs' rate.
    pub(super) fn bundles<'a>(&self, topology: &'a Topology, policy: &str) -> Result<Vec<Bundle<'a>>> {
        let plan = topology.plan().links.iter();
        let links: Vec<String> = plan
            .zip(topology.nics())
            .map(|(link, nic)| link.rate.map_or(nic.clone(), |rate| format!("{nic},rate={rate}")))
            .collect();
        let options = bundle::Options {
            protection: Protection::None,
            arguments: vec!["--policy".to_string(), policy.to_string()],
            ..bundle::Options::new(&self.daemon)
        };
        Bundle::start_over(topology, &links, &options)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Emulated<T> {
    figures: T,
    work: Duration,
}

impl<T> Emulated<T> {
    pub(super) fn of(figures: T) -> Result<Emulated<T>> {
        Ok(Emulated { figures, work: work()? })
    }
}

/// Boots the guest, has the experiment `id` measured there with the kernel's `modules`; what becomes of its figures, with a remark on the
/// cost.
pub(super) fn measured<T: DeserializeOwned>(
    setting: &Setting,
    id: &str,
    modules: &[&str],
    limit: Duration,
    outcome: impl FnOnce(&T) -> Outcome,
) -> Result<Outcome> {
    let arguments = vec![id.to_owned(), format!("--rounds={}", setting.rounds)];
    let own = work()?;
    let handed: Emulated<T> = setting.guest.guest()?.run(&arguments, modules, &setting.daemon, limit)?;
    let times = handed.work.as_secs_f64() / own.as_secs_f64();
    let mut outcome = outcome(&handed.figures);
    let cost = format!(
        "the guest's emulated processor takes {times:.0} times as long as this machine's for the same work"
    );
    outcome.remarks.push(cost.into());
    Ok(outcome)
}

// What the command takes.

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
    /// All of one paper
    #[arg(long, value_parser = PossibleValuesParser::new(["P0", "P1", "P2", "P3", "P4"]))]
    paper: Option<String>,
    /// Which of them [default: all]
    #[arg(value_name = "ID", conflicts_with = "paper")]
    experiments: Vec<Experiment>,
}

impl Options {
    pub fn tools(&self) -> Vec<Tool> {
        self.chosen().iter().flat_map(|experiment| experiment.tools).copied().collect()
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
        let Options { rounds, guest, seconds, .. } = self;
        format!("{rounds} {guest:?} {seconds}")
    }
}
