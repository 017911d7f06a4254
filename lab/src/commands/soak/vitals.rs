//! Memory and file descriptors of a process, over time.

use std::fs;

use anyhow::{Context, Result};

use tabane_kit::process;
use tabane_kit::strip;

/// Columns of the figure.
const COLUMNS: usize = 60;

/// What a daemon had at each look.
#[derive(Clone, Debug, Default)]
pub(super) struct Vitals {
    /// Resident memory in MiB.
    pub(super) memory: Vec<f64>,
    /// Open file descriptors.
    pub(super) descriptors: Vec<f64>,
    /// The same at the moments in which the bundle is whole.
    pub(super) descriptors_whole: Vec<u64>,
}

impl Vitals {
    /// Looks at the process `pid`.
    pub(super) fn look(&mut self, pid: u32) -> Result<()> {
        self.memory.push(process::resident_mib(pid)?);
        self.descriptors.push(descriptors(pid)? as f64);
        Ok(())
    }

    /// The same, at a moment in which the bundle is whole.
    pub(super) fn look_whole(&mut self, pid: u32) -> Result<()> {
        self.descriptors_whole.push(descriptors(pid)?);
        self.look(pid)
    }

    /// Most memory in the last third as a multiple of the most in the third before: the first is for warming up.
    pub(super) fn growth(&self) -> f64 {
        let third = self.memory.len() / 3;
        let most = |memory: &[f64]| memory.iter().copied().fold(0.0, f64::max);
        let (early, late) = self.memory[third..].split_at(third);
        most(late) / most(early)
    }

    /// A bar of memory per part of the run, the full one the most.
    pub(super) fn figure(&self) -> String {
        let most = self.memory.iter().copied().fold(0.0, f64::max);
        let parts = self.memory.chunks(self.memory.len().div_ceil(COLUMNS).max(1));
        parts.map(|part| strip::bar(part.iter().sum::<f64>() / part.len() as f64, most)).collect()
    }
}

fn descriptors(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&path).context(path)?.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_leaves_the_first_third_out() {
        let vitals = |memory: &[f64]| Vitals { memory: memory.to_vec(), ..Vitals::default() };
        assert!((vitals(&[1.0, 5.0, 10.0, 10.0, 10.0, 12.0]).growth() - 1.2).abs() < 1e-9);
        assert!(vitals(&[]).growth().is_nan());
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let mut vitals = Vitals::default();
        vitals.look_whole(std::process::id()).unwrap();
        assert!(vitals.memory[0] > 0.1 && vitals.descriptors_whole[0] >= 3);
        assert_eq!(vitals.figure(), "█");
    }
}
