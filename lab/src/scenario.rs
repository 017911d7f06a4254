//! Scenarios: experiments as data, which run in the simulator, in namespaces and in a guest, side by side.
//!
//! A TOML file says which links there are, who carries which flows over them, what goes wrong when, and what is wanted of
//! the figures. `docs/scenarios.md` describes its keys, `lab/scenarios/` holds some.
//!
//! 1. [`mod@file`], [`units`], [`mod@print`]: from the file's text to a [`plan`], and back.
//! 2. [`able`]: what a place cannot do, in one sentence.
//! 3. [`course`]: what becomes of the links, step by step.
//! 4. [`simulated`], [`measured`] (with its [`flows`]): one run, from the links to the figures ([`figure`]).
//! 5. [`summary`]: place beside place, against what is wanted.

mod able;
mod course;
mod figure;
mod file;
mod flows;
mod measured;
mod plan;
mod print;
mod simulated;
mod summary;
#[cfg(test)]
mod tests;
mod units;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use tabane::config;
use tabane::config::problem::Problem;

use figure::Measure;
use plan::{Contestant, Place, Scenario};
use summary::InPlace;
use tabane_kit::guest;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{BUSYBOX, MODPROBE, QEMU, Tool};
use tabane_kit::progress;
use tabane_kit::report::Report;
use tabane_kit::sandbox::{self, Side};

/// What a guest needs besides the sandbox's own tools; the other places need none.
const GUEST_TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX];
/// Longest that a guest may take to boot, and for each run beside its flows, which an emulated processor makes longer.
const BOOT_MAX: Duration = Duration::from_secs(180);
const RUN_MAX: Duration = Duration::from_secs(60);
const SLOWDOWN_MAX: u32 = 4;
/// Name of the command, here and in the guest.
const COMMAND: &str = "run";

/// What the scenario is called in a guest.
const GUEST_FILE: &str = "scenario.toml";

/// An experiment from a file: simulated, measured in namespaces, measured in a guest, side by side
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The scenario; see lab/scenarios and docs/scenarios.md
    file: PathBuf,
    /// Where it runs; can be repeated [default: what the file says]
    #[arg(long = "in", value_name = "PLACE", value_delimiter = ',', value_enum)]
    places: Vec<Place>,
    /// Only say what is understood, defaults filled in, or what is wrong
    #[arg(long)]
    check: bool,
    /// Write the report here instead of target/lab/SCENARIO.json
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// The executable `tabane` [default: $TABANE_BIN, else the one beside this program]
    #[arg(long, value_name = "PATH")]
    tabane: Option<PathBuf>,
    /// Seed of everything random [default: the file's]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    guest: guest::Flags,
}

/// A contestant in one place, and what came of it.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    contestant: Contestant,
    outcome: Outcome,
}

/// What came of a contestant in one place.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// Each run's figures, or why it has none.
    Ran(Vec<Result<Vec<Measure>, String>>),
    /// It cannot, for this reason.
    Unable(String),
}

/// Runs a scenario.
///
/// # Errors
/// A missing prerequisite, or a guest that does not boot; what fails within a run is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    let scenario = match options.scenario() {
        Ok(scenario) => scenario,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("tabane-lab: {problem}"));
            return Ok(ExitCode::from(2));
        }
    };
    if options.check {
        print!("{scenario}");
        return Ok(ExitCode::SUCCESS);
    }
    let runs_in = |place| scenario.places.contains(&place) && able::place_lacks(&scenario, place).is_none();
    if runs_in(Place::Namespaces) || runs_in(Place::Guest) {
        let tools = if runs_in(Place::Guest) && !options.guest.is_inside() { GUEST_TOOLS } else { &[] };
        if let Side::Outside(code) = sandbox::enter(tools)? {
            return Ok(code);
        }
    }
    if options.guest.is_inside() {
        options.guest.hand_over(&options.measure(&scenario, Place::Guest)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::new(format!("{COMMAND}.{}", options.name()), scenario.seed);
    if runs_in(Place::Guest) {
        report.field("guest_kernel", options.guest.guest()?.version());
    }
    let places = scenario.places.iter().map(|place| options.in_place(&scenario, *place));
    let places: Vec<InPlace> = places.collect::<Result<_>>()?;
    summary::write(&mut report, &scenario, &places);
    report.finish(Some(&options.report()))
}

impl Options {
    /// The file, and what the command line says otherwise.
    fn scenario(&self) -> Result<Scenario, Vec<Problem>> {
        let name = self.file.display().to_string();
        let mut scenario = file::parse(&name, &config::read(&self.file, &name)?)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        if !self.places.is_empty() {
            scenario.places.clone_from(&self.places);
            scenario.places.sort_unstable();
            scenario.places.dedup();
        }
        Ok(scenario)
    }

    /// The file's name, without what is around it.
    fn name(&self) -> String {
        self.file.file_stem().unwrap_or(COMMAND.as_ref()).to_string_lossy().into_owned()
    }

    fn report(&self) -> PathBuf {
        let path = || Path::new("target/lab").join(self.name() + ".json");
        self.json.clone().unwrap_or_else(path)
    }

    fn in_place(&self, scenario: &Scenario, place: Place) -> Result<InPlace> {
        let seen = match (able::place_lacks(scenario, place), place) {
            (Some(why), _) => Err(why),
            (None, Place::Guest) => Ok(self.ask_guest(scenario)?),
            (None, Place::Sim | Place::Namespaces) => Ok(self.measure(scenario, place)?),
        };
        Ok((place, seen))
    }

    /// All runs, right here.
    fn measure(&self, scenario: &Scenario, place: Place) -> Result<Vec<Seen>> {
        let daemon = (place != Place::Sim).then(|| self.daemon()).transpose()?;
        let run = |contestant, run: u32| -> Result<Vec<Measure>, String> {
            let key = Contestant::key(contestant);
            let what = format!("{}: {key}, run {} of {}", place.key(), run + 1, scenario.repeats);
            let step = progress::step(&what);
            let seed = scenario.seed.wrapping_add(run.into());
            let measures = match &daemon {
                Some(daemon) => measured::run(scenario, contestant, daemon, seed),
                None => simulated::run(scenario, contestant, seed),
            };
            drop(step);
            let measures = measures.map_err(|error| progress::failed(what, &error))?;
            // What there was none of, such as the lost share of nothing, is no figure.
            Ok(measures.into_iter().filter(|measure| measure.value.is_finite()).collect())
        };
        let seen = scenario.contestants.iter().map(|contestant| {
            let outcome = able::contestant_lacks(scenario, *contestant, place).map_or_else(
                || Outcome::Ran((0..scenario.repeats).map(|number| run(*contestant, number)).collect()),
                Outcome::Unable,
            );
            Seen { contestant: *contestant, outcome }
        });
        Ok(seen.collect())
    }

    /// All runs, in a guest.
    fn ask_guest(&self, scenario: &Scenario) -> Result<Vec<Seen>> {
        let arguments = [COMMAND, GUEST_FILE, "--in", Place::Guest.key()].map(String::from);
        let runs = scenario.repeats * u32::try_from(scenario.contestants.len())?;
        let limit = BOOT_MAX + (RUN_MAX + scenario.duration * SLOWDOWN_MAX) * runs;
        let guest = self.guest.guest()?.with_file(GUEST_FILE, scenario.to_string());
        guest.run(&arguments, &[], &self.daemon()?, limit)
    }

    fn daemon(&self) -> Result<PathBuf> {
        let (json, tabane, seed) = (None, self.tabane.clone(), 0);
        Common { json, tabane, seed }.daemon()
    }
}
