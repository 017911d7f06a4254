//! Scenarios: experiments as data, which run in the simulator, in namespaces and in a guest, side by side.
//!
//! A TOML file says which links there are, who carries which flows over them, what goes wrong when, and what is wanted of
//! the figures. `docs/scenarios.md` describes its keys, `lab/scenarios/` holds some; [`Known`] has those that are commands.
//!
//! 1. [`cases`], [`mod@file`], [`units`]: from the file's text to [`plan`]s, and back.
//! 2. [`able`]: what a place cannot do, in one sentence.
//! 3. [`contestant`]: who carries the flows.
//! 4. [`course`] (with [`trace`]): what becomes of the links, step by step.
//! 5. [`simulated`], [`measured`] (with its [`random`], [`flows`], [`deaths`], [`vitals`]): one run, from the links to the figures
//!    ([`figure`]).
//! 6. [`summary`]: place beside place and case above case, against what is wanted.

mod able;
mod cases;
mod contestant;
mod course;
mod deaths;
mod figure;
mod file;
mod flows;
mod measured;
mod plan;
mod random;
mod simulated;
mod summary;
#[cfg(test)]
mod tests;
mod trace;
mod units;
mod vitals;

use clap::Subcommand;
use tabane_kit::sandbox::{self, Side};

use crate::prelude::*;
use cases::{Case, Wish};
use contestant::Contestant;
pub(crate) use deaths::Faults;
pub(crate) use figure::{Figure, Measure};
use plan::{Place, Scenario};
use summary::Found;

/// What a guest needs besides the sandbox's own tools; the other places need none.
const GUEST_TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX];
/// Longest that a guest may take to boot, and any run beside its flows, which an emulated processor makes longer. What has not
/// arrived when they end is waited for, which takes half of that.
const BOOT_MAX: Duration = Duration::from_secs(180);
const RUN_MAX: Duration = Duration::from_secs(180);
const SLOWDOWN_MAX: u32 = 4;
const COMMAND: &str = "run";

const GUEST_FILE: &str = "scenario.toml";

/// An experiment from a file: simulated, measured in namespaces, measured in a guest, side by side
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The scenario; see lab/scenarios and docs/scenarios.md
    file: PathBuf,
    #[command(flatten)]
    manner: Manner,
}

/// How a scenario is run.
#[derive(Clone, Debug, Args)]
pub struct Manner {
    /// Where it runs; can be repeated [default: what the file says]
    #[arg(long = "in", value_name = "PLACE", value_delimiter = ',', value_enum)]
    places: Vec<Place>,
    #[command(flatten)]
    wish: Wish,
    /// Only say what is understood, defaults filled in, or what is wrong
    #[arg(long)]
    check: bool,
    /// Write the report here instead of target/lab/NAME.json
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

#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    contestant: Contestant,
    runs: Result<Vec<Run>, String>,
}

type Run = Result<Vec<Measure>, String>;

/// Runs the scenarios of a file.
pub fn run(options: &Options) -> Result<ExitCode> {
    let (file, name) = (&options.file, options.file.display().to_string());
    let text = match tabane_config::read(file, &name) {
        Ok(text) => text,
        Err(problems) => return Ok(refuse(&problems)),
    };
    let stem = file.file_stem().unwrap_or(COMMAND.as_ref()).to_string_lossy();
    let json = Path::new("target/lab").join(format!("{stem}.json"));
    let experiment =
        Experiment { name: format!("{COMMAND}.{stem}"), file: name, text, json, manner: &options.manner };
    experiment.run()
}

fn refuse(problems: &[tabane_config::problem::Problem]) -> ExitCode {
    problems.iter().for_each(|problem| eprintln!("tabane-lab: {problem}"));
    ExitCode::from(2)
}

struct Experiment<'a> {
    name: String,
    /// What sentences call it.
    file: String,
    text: String,
    /// Where its report goes unless told otherwise.
    json: PathBuf,
    manner: &'a Manner,
}

impl Experiment<'_> {
    fn run(&self) -> Result<ExitCode> {
        let cases = match cases::parse(&self.file, &self.text, &self.manner.wish) {
            Ok(cases) => cases.into_iter().map(|case| self.manner.applied_to(case)).collect::<Vec<_>>(),
            Err(problems) => return Ok(refuse(&problems)),
        };
        if self.manner.check {
            let is_one = cases.len() == 1;
            let head = |case: &Case| if is_one { String::new() } else { format!("# {}\n\n", case.name) };
            cases.iter().for_each(|case| println!("{}{}", head(case), case.scenario));
            return Ok(ExitCode::SUCCESS);
        }
        let runs_in = |place| cases.iter().any(|case| is_able(&case.scenario, place));
        if runs_in(Place::Namespaces) || runs_in(Place::Guest) {
            let is_outside = runs_in(Place::Guest) && !self.manner.guest.is_inside();
            let mut tools = if is_outside { GUEST_TOOLS.to_vec() } else { Vec::new() };
            tools.extend(in_guest(&cases).flat_map(Contestant::tools).filter(|_| is_outside));
            if let Side::Outside(code) = sandbox::enter(&tools)? {
                return Ok(code);
            }
        }
        if self.manner.guest.is_inside() {
            let able = cases.iter().filter(|case| is_able(&case.scenario, Place::Guest));
            let seen: Vec<Vec<Seen>> =
                able.map(|case| self.manner.measure(case, Place::Guest)).collect::<Result<_>>()?;
            self.manner.guest.hand_over(&seen)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut report = Report::new(&*self.name, cases.first().map_or(1, |case| case.scenario.seed));
        let mut of_guest = Vec::new().into_iter();
        if runs_in(Place::Guest) {
            report.field("guest_kernel", self.manner.guest.guest()?.version());
            of_guest = self.ask_guest(&cases)?.into_iter();
        }
        let mut found = Vec::new();
        for case in cases {
            let mut places = Vec::new();
            for place in case.scenario.places.clone() {
                let seen = match (able::place_lacks(&case.scenario, place), place) {
                    (Some(why), _) => Err(why),
                    (None, Place::Guest) => Ok(of_guest.next().unwrap_or_default()),
                    (None, Place::Sim | Place::Namespaces) => Ok(self.manner.measure(&case, place)?),
                };
                places.push((place, seen));
            }
            found.push(Found { name: case.name, scenario: case.scenario, places });
        }
        report.cover_part(self.manner.is_part());
        summary::write(&mut report, &found);
        report.finish(Some(self.manner.json.as_deref().unwrap_or(&self.json)))
    }

    fn ask_guest(&self, cases: &[Case]) -> Result<Vec<Vec<Seen>>> {
        let mut arguments = [COMMAND, GUEST_FILE].map(String::from).to_vec();
        arguments.extend((!self.manner.places.is_empty()).then(|| format!("--in={}", Place::Guest.key())));
        arguments.extend(self.manner.seed.map(|seed| format!("--seed={seed}")));
        arguments.extend(self.manner.wish.arguments());
        let able = cases.iter().map(|case| &case.scenario).filter(|scenario| is_able(scenario, Place::Guest));
        let time = |scenario: &Scenario| {
            let runs = scenario.contestants.len() * scenario.repeats as usize;
            run_max(scenario, SLOWDOWN_MAX) * u32::try_from(runs).unwrap_or(u32::MAX)
        };
        let limit = BOOT_MAX + able.map(time).sum::<Duration>();
        let mut modules: Vec<&str> = in_guest(cases).flat_map(Contestant::modules).copied().collect();
        modules.extend(cases.iter().any(|case| case.scenario.netem).then_some("sch_netem"));
        modules.sort_unstable();
        modules.dedup();
        let guest = self.manner.guest.guest()?.with_file(GUEST_FILE, self.text.clone());
        guest.run(&arguments, &modules, &self.manner.daemon()?, limit)
    }
}

fn run_max(scenario: &Scenario, slowdown: u32) -> Duration {
    let turns = if scenario.in_turn { scenario.flows.len() } else { 1 };
    (RUN_MAX + scenario.duration * slowdown) * u32::try_from(turns).unwrap_or(u32::MAX)
}

fn in_guest(cases: &[Case]) -> impl Iterator<Item = Contestant> {
    let able = cases.iter().filter(|case| is_able(&case.scenario, Place::Guest));
    able.flat_map(|case| case.scenario.contestants.iter().copied())
}

fn is_able(scenario: &Scenario, place: Place) -> bool {
    scenario.places.contains(&place) && able::place_lacks(scenario, place).is_none()
}

impl Manner {
    fn is_part(&self) -> bool {
        !self.places.is_empty() || !self.wish.arguments().is_empty()
    }

    fn applied_to(&self, mut case: Case) -> Case {
        let scenario = &mut case.scenario;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        if !self.places.is_empty() {
            scenario.places.clone_from(&self.places);
            scenario.places.sort_unstable();
            scenario.places.dedup();
        }
        case
    }

    fn measure(&self, case: &Case, place: Place) -> Result<Vec<Seen>> {
        let scenario = &case.scenario;
        let daemon = (place != Place::Sim).then(|| self.daemon()).transpose()?;
        let mut seen: Vec<Seen> = Vec::new();
        for contestant in &scenario.contestants {
            let lacks = able::contestant_lacks(scenario, *contestant, place);
            seen.push(Seen { contestant: *contestant, runs: lacks.map_or(Ok(Vec::new()), Err) });
        }
        for run in 0..scenario.repeats {
            for Seen { contestant, runs } in &mut seen {
                let Ok(runs) = runs else { continue };
                let dot = if case.name.is_empty() { "" } else { ", " };
                let (place, key) = (place.key(), contestant.key());
                let what =
                    format!("{}{dot}{place}: {key}, run {} of {}", case.name, run + 1, scenario.repeats);
                let step = match daemon {
                    Some(_) => progress::step_within(&what, run_max(scenario, self.slowdown())),
                    None => progress::step(&what),
                };
                let measured = self.run_once(scenario, *contestant, daemon.as_deref(), run);
                drop(step);
                runs.push(measured.map_err(|error| progress::failed(what, &error)));
            }
        }
        Ok(seen)
    }

    /// One run, in the simulator when there is no daemon.
    fn run_once(
        &self,
        scenario: &Scenario,
        contestant: Contestant,
        daemon: Option<&Path>,
        run: u32,
    ) -> Result<Vec<Measure>> {
        let seed = scenario.seed.wrapping_add(run.into());
        let mut measures = match daemon {
            Some(daemon) => measured::run(scenario, contestant, daemon, seed, self.slowdown())?,
            None => simulated::run(scenario, contestant, seed)?,
        };
        // What there was none of, such as the lost share of nothing, is no figure.
        measures.retain(|measure| measure.value.is_finite());
        Ok(measures)
    }

    fn slowdown(&self) -> u32 {
        if self.guest.is_inside() { SLOWDOWN_MAX } else { 1 }
    }

    fn daemon(&self) -> Result<PathBuf> {
        let (json, tabane, seed) = (None, self.tabane.clone(), 0);
        Common { json, tabane, seed }.daemon()
    }
}

/// Makes [`Known`] of a table: what it is in a sentence, its variant, its name.
macro_rules! known {
    ($($(#[doc = $doc:literal])* $variant:ident: $name:literal;)*) => {
        /// An experiment that is a scenario.
        #[derive(Clone, Debug, Subcommand)]
        pub enum Known {
            $($(#[doc = $doc])* #[command(name = $name)] $variant(Manner),)*
        }

        impl Known {
            const fn parts(&self) -> (&'static str, &'static str, &Manner) {
                match self {
                    $(Known::$variant(manner) =>
                        ($name, include_str!(concat!("../experiments/", $name, ".toml")), manner),)*
                }
            }
        }
    };
}

known! {
    /// TCP and QUIC over two links of unequal rate and delay, beside the best of them alone: about 14 minutes
    Aggregate: "aggregate";
    /// nginx, PostgreSQL, Redis and nfs-ganesha over one link, over two, and while a switch dies: about 10 minutes
    Apps: "apps";
    /// What a failing link costs: faults x links x repair, with TCP and UDP under way: about 20 minutes
    Failover: "failover";
    /// The kernel path's striping with its reorder qdisc and without, beside bonding and cells, in a guest: about 25 minutes
    Kernel: "kernel";
    /// TCP over links that lose frames at random: bare, and bundled without and with repair: about 12 minutes
    Loss: "loss";
    /// All hosts of a bundle send to all others at once while a switch is alive, dead and alive again
    Mesh: "mesh";
    /// The lab's wire emulator beside netem, in a guest: delay, rate, loss; about 12 minutes
    Netem: "netem";
    /// Bonding, team, MPTCP and bundles side by side in a guest, MPTCP and bundles on this machine: about an hour
    Rivals: "rivals";
    /// TCP over links whose queues stand in routers behind the NICs, unequal ones too: about 40 minutes
    Routers: "routers";
    /// Random faults of links, NICs and daemons under connections of TCP, QUIC and UDP: 15 minutes
    Soak: "soak";
    /// A VLAN on the device beside the device itself, in a guest; about 6 minutes
    Vlan: "vlan";
}

impl Known {
    /// Runs it.
    pub fn run(&self) -> Result<ExitCode> {
        let (name, text, manner) = self.parts();
        let json = PathBuf::from(format!("target/lab/{name}.json"));
        let (name, file, text) = (name.to_string(), format!("{name}.toml"), text.to_string());
        Experiment { name, file, text, json, manner }.run()
    }
}
