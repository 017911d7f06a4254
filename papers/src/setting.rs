//! How the measurements are made: the program, how often and how long, and the bundles.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tabane_kit::bundle::{self, Bundle, Protection};
use tabane_kit::guest;
use tabane_kit::machine::work;
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

use super::Experiment;

/// How the measurements are made.
pub(super) struct Setting {
    /// The executable `tabane`.
    pub(super) daemon: PathBuf,
    /// The guest in which bundles are compared with bonding.
    pub(super) guest: guest::Flags,
    /// Directory of the NAS Parallel Benchmarks, if they are there.
    pub(super) npb: Option<PathBuf>,
    /// How often each figure is measured.
    pub(super) rounds: usize,
    /// Length of each flow.
    pub(super) seconds: u32,
    /// Whether P3's links through memory are also measured as slow as the paper's device.
    pub(super) throttle: bool,
}

impl Setting {
    /// Two hosts with `links` links of `rate`.
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

/// What a guest hands over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Emulated<T> {
    figures: T,
    /// How long a fixed piece of work took.
    work: Duration,
}

impl<T> Emulated<T> {
    /// In the guest: these figures, and what they cost.
    pub(super) fn of(figures: T) -> Result<Emulated<T>> {
        Ok(Emulated { figures, work: work()? })
    }
}

/// Boots the guest, has `experiment` measured there with the kernel's `modules`, and returns its figures and a remark on the cost.
pub(super) fn measured<T: DeserializeOwned>(
    setting: &Setting,
    experiment: Experiment,
    modules: &[&str],
    limit: Duration,
) -> Result<(T, String)> {
    let mut arguments = vec![experiment.id(), format!("--rounds={}", setting.rounds)];
    if let Some(directory) = &setting.npb {
        arguments.push(format!("--npb={}", directory.canonicalize()?.display()));
    }
    let own = work()?;
    let handed: Emulated<T> = setting.guest.guest()?.run(&arguments, modules, &setting.daemon, limit)?;
    let times = handed.work.as_secs_f64() / own.as_secs_f64();
    let cost = format!(
        "the guest's emulated processor takes {times:.0} times as long as this machine's for the same work"
    );
    Ok((handed.figures, cost))
}
