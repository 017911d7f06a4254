//! Sums over many runs, as a table for people: how much was tried, and which kinds of trouble there were.

use crate::run::Report;
use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct Statistics {
    pub runs: u64,
    simulated: Duration,
    events: u64,
    frames_taken: u64,
    frames_delivered: u64,
    device_full: u64,
    flooded: u64,
    /// Cells that did not arrive, by cause.
    lost: BTreeMap<&'static str, u64>,
    /// The counters of all bundles, and in how many runs each was not 0.
    counted: BTreeMap<&'static str, (u64, u64)>,
}

impl Statistics {
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.simulated += report.simulated;
        self.events += report.events;
        self.frames_taken += report.frames_taken;
        self.frames_delivered += report.frames_delivered;
        self.device_full += report.device_full;
        self.flooded += report.flooded;
        for (cause, count) in report.losses.named() {
            *self.lost.entry(cause).or_default() += count;
        }
        for (name, count) in report.counted.iter().filter(|(_, count)| **count > 0) {
            let (sum, runs) = self.counted.entry(name).or_default();
            *sum += count;
            *runs += 1;
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.simulated.as_secs_f64();
        writeln!(out, "{} runs, {seconds:.1} s simulated, {} events", self.runs, self.events)?;
        writeln!(out, "{} frames sent, {} delivered", self.frames_taken, self.frames_delivered)?;
        writeln!(
            out,
            "{} found their device full, {} deliveries were flooded",
            self.device_full, self.flooded
        )?;
        writeln!(out, "\n{:<24} {:>12}", "cells that were lost", "count")?;
        for (cause, count) in &self.lost {
            writeln!(out, "{cause:<24} {count:>12}")?;
        }
        write!(out, "\n{:<24} {:>12} {:>8}", "counted by bundles", "count", "runs")?;
        for (name, (count, runs)) in &self.counted {
            write!(out, "\n{name:<24} {count:>12} {runs:>8}")?;
        }
        Ok(())
    }
}
