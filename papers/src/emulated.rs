//! Measurements in a guest, and what it costs that its processor is emulated.

use std::time::Duration;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Experiment;
use super::setting::Setting;
use tabane_kit::machine::work;

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
