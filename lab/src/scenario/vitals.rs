//! What daemons hold on to while faults happen: memory and file descriptors, so that what leaks is seen.

use std::sync::atomic::Ordering;

use super::figure::{Figure, Measure};
use crate::prelude::*;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A daemon that has just been asked for its status has a descriptor more for that.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct Vitals {
    memory: Running<Vec<f64>>,
    descriptors: Vec<u64>,
}

impl Vitals {
    pub(super) fn watch(bundles: &[Bundle<'_>]) -> Result<Option<Vitals>> {
        let Some(pid) = bundles.first().and_then(Bundle::pid) else { return Ok(None) };
        let memory = Running::start(None, "memory", move |over| {
            let mut memory = Vec::new();
            while !over.load(Ordering::Relaxed) {
                memory.push(process::resident_mib(pid)?);
                thread::sleep(LOOK_EVERY);
            }
            Ok(memory)
        })?;
        Ok(Some(Vitals { memory, descriptors: descriptors(bundles)? }))
    }

    pub(super) fn figures(self, bundles: &[Bundle<'_>]) -> Result<Vec<Measure>> {
        let memory = self.memory.end()?;
        let now = descriptors(bundles)?;
        let apart = now.iter().zip(&self.descriptors).map(|(now, before)| now.abs_diff(*before)).max();
        Ok(vec![
            Measure::of_run(Figure::MemoryGrowth, growth(&memory)),
            Measure::of_run(Figure::Descriptors, apart.unwrap_or(0) as f64),
        ])
    }
}

/// Most memory in the last third as a multiple of the most in the third before: the first is for warming up.
fn growth(memory: &[f64]) -> f64 {
    let third = memory.len() / 3;
    let most = |memory: &[f64]| memory.iter().copied().fold(0.0, f64::max);
    let (early, late) = memory[third..].split_at(third);
    most(late) / most(early)
}

fn descriptors(bundles: &[Bundle<'_>]) -> Result<Vec<u64>> {
    thread::sleep(ANSWERED_WITHIN);
    let count = |pid| {
        let path = format!("/proc/{pid}/fd");
        Ok(fs::read_dir(&path).context(path)?.count() as u64)
    };
    Bundle::pids(bundles).into_iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_leaves_the_first_third_out() {
        assert!((growth(&[1.0, 5.0, 10.0, 10.0, 10.0, 12.0]) - 1.2).abs() < 1e-9);
        assert!(growth(&[]).is_nan());
    }
}
