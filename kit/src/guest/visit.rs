//! A guest while it is up: what it does, what it leaves, and how it ends.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use super::errand::Errand;
use super::machine::Machine;
use crate::progress;

/// Pause between two looks at the guest.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// A guest at work; dropping it ends its machine at once, as a power failure does.
#[derive(Debug)]
pub struct Visit {
    machine: Machine,
    errand: Errand,
    version: String,
}

impl Visit {
    pub(super) fn new(machine: Machine, errand: Errand, version: &str) -> Visit {
        Visit { machine, errand, version: version.to_string() }
    }

    /// The value that the guest has left as the file `name`, if it has.
    pub fn left<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        if let Ok(text) = fs::read_to_string(self.errand.file(name)) {
            let value = serde_json::from_str(&text);
            return Ok(Some(value.with_context(|| format!("the guest left as {name}: {text}"))?));
        }
        self.still_up().map(|()| None)
    }

    /// Checks that the guest is up.
    pub fn still_up(&mut self) -> Result<()> {
        if !self.machine.is_running()? {
            bail!("the guest went down before its time: {}", self.errand.last_words());
        }
        Ok(())
    }

    /// What the guest said last.
    pub fn last_words(&self) -> String {
        self.errand.last_words()
    }

    /// Waits until the guest is down, showing its steps meanwhile, and returns the figures that it handed over.
    pub fn finish<T: DeserializeOwned>(mut self, limit: Duration) -> Result<T> {
        self.wait(limit)?;
        self.figures()
    }

    /// Waits until the guest begins with its errand; `false`: it went down before.
    pub(super) fn begins_within(&mut self, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        let _step = progress::step(&format!("booting Linux {} in the guest", self.version));
        while self.machine.is_running()? && !self.errand.has_begun() {
            if Instant::now() >= deadline {
                bail!("the guest has not begun within {limit:?}");
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(self.errand.has_begun())
    }

    /// The figures that the guest handed over before it went down.
    pub(super) fn figures<T: DeserializeOwned>(self) -> Result<T> {
        let console = self.machine.last_words()?;
        let figures = self.errand.figures(&console)?;
        serde_json::from_str(&figures).with_context(|| format!("the guest's figures: {figures}"))
    }

    pub(super) fn wait(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let (mut shown, mut step) = (String::new(), None);
        while self.machine.is_running()? {
            if Instant::now() >= deadline {
                bail!("the guest has not ended within {limit:?}: {}", self.errand.last_words());
            }
            if let Some(says) = self.errand.step().filter(|says| *says != shown) {
                drop(step);
                step = Some(progress::step(&says));
                shown = says;
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(())
    }
}
