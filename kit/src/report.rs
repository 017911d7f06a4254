//! The one form in which every lab command ends: a table for people, a JSON file for machines, verdicts for both.
//!
//! The file holds name, seed, machine, the command's own top-level fields, `samples` (every value, median, spread)
//! and `verdicts`. A command ends with code 0 when its verdicts are met, or fall short as [`limits`] says, else with code 1.

mod limits;
mod samples;
mod table;
mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::Machine;
use limits::Judgement;
pub use limits::Limits;
pub use samples::Samples;
pub use table::Table;
pub use verdict::{Bound, Verdict};

/// What a command found out.
#[derive(Debug, Serialize)]
pub struct Report {
    name: String,
    seed: u64,
    #[serde(flatten)]
    machine: Machine,
    #[serde(flatten)]
    fields: Map<String, Value>,
    samples: BTreeMap<String, Samples>,
    #[serde(skip)]
    verdicts: Vec<Verdict>,
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    is_part: bool,
}

impl Report {
    /// An empty report of the command `name`, whose random numbers come from `seed`.
    pub fn new(name: impl Into<String>, seed: u64) -> Report {
        Report {
            name: name.into(),
            seed,
            machine: Machine::look(),
            fields: Map::new(),
            samples: BTreeMap::new(),
            verdicts: Vec::new(),
            text: String::new(),
            is_part: false,
        }
    }

    /// Where and when it is measured.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Sets the top-level field `key` of the JSON file.
    pub fn field(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_string(), value.into());
    }

    /// Keeps `samples` under `key`.
    pub fn samples(&mut self, key: impl Into<String>, samples: Samples) {
        self.samples.insert(key.into(), samples);
    }

    /// Adds a value to the samples under `key`.
    pub fn push(&mut self, key: impl Into<String>, unit: &'static str, value: f64) {
        self.samples.entry(key.into()).or_insert_with(|| Samples::new(unit, Vec::new())).push(value);
    }

    /// What has been measured under `key` so far.
    pub fn measured(&self, key: &str) -> Samples {
        self.samples.get(key).cloned().unwrap_or_else(|| Samples::new("", Vec::new()))
    }

    /// Median of the samples under `key`; NaN without any.
    pub fn median(&self, key: &str) -> f64 {
        self.samples.get(key).map_or(f64::NAN, Samples::median)
    }

    /// Median of the samples under `key` as a multiple of that of those under `base`.
    pub fn ratio(&self, key: &str, base: &str) -> f64 {
        self.median(key) / self.median(base)
    }

    /// Shows `text`, a table or a remark, to people.
    pub fn show(&mut self, text: impl std::fmt::Display) {
        self.text.push_str(&format!("{text}\n"));
    }

    /// Adds a verdict.
    pub fn verdict(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    /// Says whether it is about a part of what the command measures, or about so few samples that they prove nothing.
    pub fn cover_part(&mut self, is_part: bool) {
        self.is_part = is_part;
    }

    /// Prints the report, writes it to `path` (default: `target/lab/NAME.json`) and says how to end.
    pub fn finish(self, path: Option<&Path>) -> Result<ExitCode> {
        let path =
            path.map_or_else(|| PathBuf::from(format!("target/lab/{}.json", self.name)), Path::to_path_buf);
        let limits = Limits::checked_in()?;
        let judgement = limits.judge(&self.name, &self.verdicts, self.is_part);
        print!("\n{}\n{judgement}", self.text);
        let file = File { report: &self, verdicts: &judgement };
        file.write(&path).with_context(|| format!("writing {}", path.display()))?;
        println!("\n  {}", self.machine);
        println!("  every sample: {}", path.display());
        Ok(if judgement.is_as_expected() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The JSON file.
#[derive(Serialize)]
struct File<'a> {
    #[serde(flatten)]
    report: &'a Report,
    verdicts: &'a Judgement<'a>,
}

impl File<'_> {
    fn write(&self, path: &Path) -> Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        Ok(fs::write(path, serde_json::to_string_pretty(self)? + "\n")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_common_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/down/test.json");
        let mut report = Report::new("test", 7);
        report.field("ratio", 1.97);
        [0.95, 0.96, 0.94].into_iter().for_each(|gbps| report.push("single", "Gbit/s", gbps));
        report.push("half", "Gbit/s", 0.475);
        assert_eq!((report.ratio("single", "half"), report.measured("none").values().len()), (2.0, 0));
        assert!(report.median("none").is_nan());
        report.verdict(Verdict::at_least("ratio", 1.97, 1.9));
        assert_eq!(report.finish(Some(&path)).unwrap(), ExitCode::SUCCESS);

        let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!((file["name"].as_str(), file["seed"].as_u64()), (Some("test"), Some(7)));
        assert_eq!(file["ratio"], 1.97);
        assert_eq!(file["samples"]["single"]["median"], 0.95);
        assert_eq!((&file["verdicts"][0]["ok"], &file["verdicts"][0]["state"]), (&true.into(), &"ok".into()));
        assert!(file["kernel"].is_string() && file["cpu"].is_string() && file.get("commit").is_some());
    }

    #[test]
    fn a_verdict_that_is_not_ok_ends_with_code_1() {
        let directory = tempfile::tempdir().unwrap();
        let mut report = Report::new("test", 7);
        report.verdict(Verdict::at_most("stall_ms", 120.0, 100.0));
        let code = report.finish(Some(&directory.path().join("test.json"))).unwrap();
        assert_eq!(code, ExitCode::FAILURE);
    }
}
