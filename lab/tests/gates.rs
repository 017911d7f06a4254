//! What makes a run of tests green, run itself with stand-ins of the programs that it starts: continuous integration, the targets of the
//! Makefile, their filters, and the scripts that say what became of a run. One that checks less fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle;
use tabane_kit::prerequisites::MAKE;
use tempfile::TempDir;

use crate::case::{Case, NOTHING, Need};
use crate::repository::{File, files, none, root, text, tree};
use crate::tidy::is_test;
use crate::traffic;

const RUNNER: &str = "lab/tests.sh";
const WITH_MAKE: &[Need] = &[Need::Tool(MAKE)];
/// Targets that everybody makes, where not all tests have to run: continuous integration has them require all.
const ANYWHERE: [&str; 2] = ["test", "nightly"];
/// The targets beside `test`, and those of them that are no steps of `test-all`: `nightly` runs their trials, or they take days.
const PAGE: &str = "docs/quality.md";
const NO_STEPS: [&str; 4] = ["fleet-test", "guests-test", "miri", "mutants"];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("continuous_integration_requires_all", NOTHING, integration),
        Case::new("the_runner_fails_when_a_test_fails_or_is_skipped", NOTHING, runner),
        Case::new("a_step_that_fails_has_the_others_run_and_fails_them_all", NOTHING, steps),
        Case::new("filters_name_trials_that_there_are", WITH_MAKE, filters),
        Case::new("each_trial_runs_in_a_step_of_test_all_and_targets_skip_none", WITH_MAKE, targets),
        Case::new("programs_are_of_these_sources", NOTHING, sources),
    ]
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// A folder with programs that stand in for others.
struct StandIns(TempDir);

impl StandIns {
    fn new(programs: &[(&str, &str)]) -> Result<StandIns> {
        let folder = TempDir::new()?;
        fs::create_dir(folder.path().join("lab"))?;
        for (name, script) in programs {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
        Ok(StandIns(folder))
    }

    /// How a command ends and what it says, in `place`, with these programs before others and no variables but these.
    fn run(&self, place: &Path, command: &str, variables: Variables<'_>) -> Result<(Option<i32>, String)> {
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH")?);
        let mut bash = Command::new("bash");
        bash.args(["-c", command]).current_dir(place).env_clear().env("PATH", path);
        let output = bash.envs(variables.iter().copied()).output()?;
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    }

    /// A script of the repository, elsewhere, so that it changes nothing of a run that goes on.
    fn script(&self, name: &str, words: &str, variables: Variables<'_>) -> Result<(Option<i32>, String)> {
        self.run(self.0.path(), &format!("{} {words}", root().join(name).display()), variables)
    }
}

/// What `sudo` leaves of the variables.
const SUDO: &str = r#"case $1 in --preserve-env=*) kept=$(echo "${1#*=}" | tr , ' '); shift ;; esac
for name in $kept; do words="$words $name=$(printenv "$name")"; done
exec env -i $words PATH="$PATH" "$@""#;

/// `make TARGET` requires all wherever a machine that nobody watches runs it, and fails there when it fails.
fn integration() -> Result<()> {
    let make = r#"echo "$1 $TABANE_REQUIRE"; [ "$1" != "$BROKEN" ]"#;
    let stand_ins = StandIns::new(&[("make", make), ("sudo", SUDO)])?;
    let local = stand_ins.run(root(), ".ci/run", &[])?;
    ensure!(local.0 == Some(0) && local.1.lines().any(|line| line == "test all"), ".ci/run: {local:?}");
    for broken in ["style", "test"] {
        let ended = stand_ins.run(root(), ".ci/run", &[("BROKEN", broken)])?;
        ensure!(ended.0 != Some(0), ".ci/run, {broken} fails: {ended:?}");
    }
    let mut made = BTreeSet::new();
    for file in files(".github/workflows", "yml")? {
        let variables = file.text.lines().skip_while(|line| *line != "env:").skip(1);
        let variables: Vec<_> =
            variables.map_while(|line| line.strip_prefix("  ")?.split_once(": ")).collect();
        let listed = file.text.lines().filter(|line| line.trim().starts_with("target: "));
        let targets = listed.flat_map(|line| line.split('"').skip(1).step_by(2));
        let commands = file.text.lines().filter_map(|line| line.trim().strip_prefix("- run: "));
        let commands: Vec<_> = commands.filter(|command| command.contains("make ")).collect();
        for target in targets {
            for command in &commands {
                let command = command.replace("${{ matrix.target }}", target);
                let ended = stand_ins.run(root(), &command, &variables)?;
                ensure!(ended == (Some(0), format!("{target} all\n")), "{}: {command}: {ended:?}", file.path);
                made.insert(target.to_owned());
            }
        }
    }
    let lacks: Vec<_> =
        ["lint", "test", "test-all"].into_iter().filter(|name| !made.contains(*name)).collect();
    ensure!(lacks.is_empty(), ".github/workflows do not make {lacks:?}");
    Ok(())
}

/// In place of cargo: what a run and a list say, and how they end.
const CARGO: &str =
    r#"case $2 in run) echo "$RAN"; exit ${CODE:-0} ;; esac; echo "$SKIPPED"; exit ${LISTED:-0}"#;

fn runner() -> Result<()> {
    let stand_ins = StandIns::new(&[("cargo", CARGO)])?;
    let failed = [("RAN", "        FAIL [   0.010s] (1/3) tabane-lab::all light::one"), ("CODE", "100")];
    let says = ["  FAILED   light::one\n", "again: make test ONLY='=light::one'\n", "skipped: 0 tests, 0 of"];
    let skips = ("SKIPPED", "tabane-lab::all light::one [SKIPPED: no one]");
    let listed = ("SKIPPED", "tabane-lab::all networkd_leaves_a_bundle_alone [SKIPPED: no one]");
    let [all, each] = [("TABANE_REQUIRE", "all"), ("TABANE_REQUIRE", "each")];
    let cases: [(Variables<'_>, i32, &[&str]); 10] = [
        (&[all], 0, &["skipped: 0 tests"]),
        (&failed, 100, &says),
        (&[("CODE", "101")], 101, &[]),
        (&[("CODE", "4")], 4, &[]),
        (&[skips], 0, &["  SKIPPED  light::one: no one\n", "skipped: 1 tests, 1 of"]),
        (&[skips, all], 1, &["skipped: 1 tests, 1 of"]),
        (&[skips, each], 1, &[]),
        (&[listed, all], 0, &["skipped: 1 tests, 0 of", "(listed: "]),
        (&[listed, each], 1, &[]),
        (&[("LISTED", "1")], 1, &[]),
    ];
    for (variables, code, words) in cases {
        let (ended, said) = stand_ins.script(RUNNER, "default", variables)?;
        let wrong = || format!("{RUNNER} with {variables:?}: {ended:?}, {said}");
        ensure!(ended == Some(code) && words.iter().all(|word| said.contains(word)), "{}", wrong());
    }
    Ok(())
}

fn steps() -> Result<()> {
    let stand_ins = StandIns::new(&[("make", r#"[ "$2" != broken ]"#), ("git", "echo as it is")])?;
    let (ended, said) = stand_ins.script("lab/steps.sh", "first broken last", &[])?;
    let all = ["first            well", "broken           FAILED", "last             well"];
    ensure!(ended == Some(1) && all.iter().all(|line| said.contains(line)), "{ended:?}, {said}");
    let (ended, said) = stand_ins.script("lab/steps.sh", "first broken last", &[("RESUME", "1")])?;
    ensure!(ended == Some(1) && said.matches("as before").count() == 2, "{ended:?}, {said}");
    let (ended, said) = stand_ins.script("lab/steps.sh", "first last", &[])?;
    ensure!(ended == Some(0), "{ended:?}, {said}");
    Ok(())
}

/// What a target of the Makefile starts, its variables expanded, one command a line.
fn commands(target: &str) -> Result<String> {
    let mut make = Command::new("make");
    make.args(["--dry-run", "--no-print-directory", target]).current_dir(root()).env_clear();
    let passed = ["PATH", "HOME"].map(|name| (name, std::env::var_os(name).unwrap_or_default()));
    let output = make.envs(passed).output()?;
    ensure!(output.status.success(), "make {target}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.replace("\\\n", " "))
}

/// What a target has the runner do.
struct Run {
    target: String,
    variables: BTreeMap<String, String>,
    filter: Filter,
}

/// All of them, as the runner's stand-in is called.
fn runs() -> Result<Vec<Run>> {
    let stand_in = r#"env | grep ^TABANE_; for word; do echo " $word"; done"#;
    let stand_ins = StandIns::new(&[(RUNNER, stand_in)])?;
    let makefile = text("Makefile")?;
    let mut target = "";
    let mut starting = BTreeSet::new();
    for line in makefile.lines() {
        if line.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            target = line.split(':').next().unwrap_or_default();
        }
        let starts =
            [RUNNER, "$(EACH)"].iter().any(|word| line.contains(word)) && line.starts_with(['\t', ' ']);
        starting.extend(starts.then_some(target));
    }
    let mut runs = Vec::new();
    for target in starting {
        for command in commands(target)?.lines().filter(|line| line.contains(RUNNER)) {
            let (code, said) = stand_ins.run(stand_ins.0.path(), command, &[("HOME", "/")])?;
            ensure!(code == Some(0), "make {target}: {command}");
            let (words, variables): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.starts_with(' '));
            let words: Vec<_> = words.iter().map(|word| &word[1..]).collect();
            let filter = words.iter().position(|word| *word == "-E").and_then(|at| words.get(at + 1));
            let filter = match filter {
                Some(filter) => (*filter).to_owned(),
                None => default_filter(words.first().context("no profile")?)?,
            };
            let pair =
                |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            let variables = variables.into_iter().filter_map(pair).collect();
            runs.push(Run { target: target.to_owned(), variables, filter: Filter::parse(&filter)? });
        }
    }
    ensure!(runs.len() > 7, "{} targets of the Makefile start {RUNNER}", runs.len());
    Ok(runs)
}

fn profiles() -> Result<toml::Table> {
    let config: toml::Table = toml::from_str(&text(".config/nextest.toml")?)?;
    Ok(config.get("profile").and_then(toml::Value::as_table).context("no profiles")?.clone())
}

fn default_filter(profile: &str) -> Result<String> {
    let profiles = profiles()?;
    let of = |name: &str| profiles.get(name)?.get("default-filter")?.as_str();
    Ok(of(profile).or_else(|| of("default")).context("no default-filter")?.to_owned())
}

fn names() -> Vec<String> {
    crate::cases().map(|case| case.name().to_owned()).collect()
}

fn filters() -> Result<()> {
    let (names, mut complaints) = (names(), Vec::new());
    let mut filters: Vec<_> = runs()?.into_iter().map(|run| (run.target, run.filter)).collect();
    for (name, profile) in &profiles()? {
        let strict = ["retries", "fail-fast"].map(|key| profile.get(key));
        let is_strict = strict[0].is_none_or(|value| value.as_integer() == Some(0))
            && strict[1].is_none_or(|value| value.as_bool() == Some(false));
        let says_so = name != "default" || strict.iter().all(Option::is_some);
        complaints.extend((!is_strict || !says_so).then(|| format!("profile {name}: {strict:?}")));
        let overrides = profile.get("overrides").and_then(toml::Value::as_array).into_iter().flatten();
        let each = overrides.filter_map(|table| table.get("filter")).chain(profile.get("default-filter"));
        for filter in each.filter_map(toml::Value::as_str) {
            filters.push((format!("profile {name}"), Filter::parse(filter)?));
        }
    }
    for (place, Filter(terms)) in &filters {
        for pattern in terms.iter().flat_map(|(_, term)| term) {
            complaints
                .extend((!pattern.is_there(&names)?).then(|| format!("{place}: nothing is {pattern:?}")));
        }
    }
    let allowed = text("lab/skips.txt")?;
    let allowed =
        allowed.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "#");
    complaints.extend(
        allowed
            .filter(|allowed| names.iter().all(|name| name != allowed))
            .map(|name| format!("lab/skips.txt: no trial is {name}")),
    );
    ensure!(!Pattern::Has("no_such_trial".to_owned()).is_there(&names)?, "anything is there");
    none(&complaints)
}

fn targets() -> Result<()> {
    let all = commands("test-all")?;
    let steps = all.lines().find_map(|line| line.strip_prefix("lab/steps.sh ")).context("no steps")?;
    let steps: Vec<_> = steps.split_whitespace().collect();
    let (runs, mut complaints) = (runs()?, Vec::new());
    let requires_each = |run: &Run| run.variables.get("TABANE_REQUIRE").is_some_and(|value| value == "each");
    for case in crate::cases() {
        let (name, mut by) = (case.name(), runs.iter().filter(|run| run.filter.selects(case.name())));
        let is_run = by.clone().any(|run| steps.contains(&&*run.target));
        complaints.extend((!is_run).then(|| format!("no step of `make test-all` runs {name}")));
        let in_guest = by.any(|run| requires_each(run) && run.variables.contains_key("TABANE_GUESTS"));
        let lacks = case.takes_guest() && !in_guest;
        complaints.extend(lacks.then(|| format!("no target fails when {name} cannot run in its guest")));
    }
    let cleans_up = commands("deb-test")?.contains("make uninstall leaves these");
    complaints.extend(
        (!cleans_up).then(|| "make deb-test does not look for what `make uninstall` leaves".to_owned()),
    );
    let page = text(PAGE)?;
    let rows: BTreeSet<_> =
        page.lines().filter_map(|line| line.strip_prefix("| `make ")?.split(['`', ' ']).next()).collect();
    let left_out = rows.iter().filter(|row| !steps.contains(row) && !NO_STEPS.contains(row));
    complaints.extend(left_out.map(|row| format!("`make {row}` of {PAGE} is no step of `make test-all`")));
    let unnamed = runs.iter().filter(|run| run.target != "test" && !rows.contains(&*run.target));
    complaints.extend(unnamed.map(|run| format!("{PAGE} does not name `make {}`", run.target)));
    let lax = runs.iter().filter(|run| !requires_each(run) && !ANYWHERE.contains(&&*run.target));
    complaints.extend(lax.map(|run| format!("make {} requires less than each of its tests", run.target)));
    let given: BTreeSet<_> = runs.iter().flat_map(|run| run.variables.keys().map(String::as_str)).collect();
    for file in files("lab/tests/traffic", "rs")? {
        let quoted = file.text.split('"').skip(1).step_by(2).filter(|word| word.starts_with("TABANE_"));
        let quoted =
            quoted.filter(|word| !word.contains(' ') && *word != "TABANE_LOG" && !given.contains(word));
        complaints.extend(quoted.map(|word| format!("{}: no target gives {word}", file.path)));
    }
    none(&complaints)
}

/// What `cargo nextest` runs: terms that add to it or (`false`) take from it, one behind the other. Each is a choice of patterns, none
/// for all there is.
struct Filter(Vec<(bool, Vec<Pattern>)>);

#[derive(Debug, PartialEq)]
enum Pattern {
    Is(String),
    Begins(String),
    Has(String),
    /// A program of tests, as PACKAGE::NAME.
    Program(String),
}

impl Filter {
    fn parse(text: &str) -> Result<Filter> {
        let (mut terms, mut rest) = (Vec::new(), text.trim());
        while !rest.is_empty() {
            let sign =
                ["not ", "- ", "+ "].into_iter().find_map(|sign| Some((sign, rest.strip_prefix(sign)?)));
            let (sign, after) = sign.unwrap_or(("", rest));
            let (kind, argument) = after.split_once('(').with_context(|| format!("`{text}` at `{rest}`"))?;
            let end = if argument.starts_with('/') { "/)" } else { ")" };
            let (argument, after) =
                argument.split_once(end).with_context(|| format!("`{text}`: no {end}"))?;
            if sign == "not " {
                terms.push((true, Vec::new()));
            }
            terms.push((matches!(sign, "" | "+ "), patterns(kind, argument)?));
            rest = after.trim_start();
        }
        Ok(Filter(terms))
    }

    fn selects(&self, name: &str) -> bool {
        self.0.iter().fold(false, |selected, (adds, term)| {
            let is_meant = term.is_empty() || term.iter().any(|pattern| pattern.is_of(name));
            if *adds { selected || is_meant } else { selected && !is_meant }
        })
    }
}

/// An expression between slashes may begin with `^`, and have words in parentheses of which one is there.
fn patterns(kind: &str, argument: &str) -> Result<Vec<Pattern>> {
    let text = argument.to_owned();
    if kind != "test" {
        let is_known = kind == "all" && text.is_empty() || kind == "binary_id";
        ensure!(is_known, "`{kind}({argument})`: a filter that no test understands");
        return Ok(if text.is_empty() { Vec::new() } else { vec![Pattern::Program(text)] });
    }
    if let Some(name) = argument.strip_prefix('=') {
        return Ok(vec![Pattern::Is(name.to_owned())]);
    }
    let Some(expression) = argument.strip_prefix('/') else { return Ok(vec![Pattern::Has(text)]) };
    let (pattern, expression): (fn(String) -> Pattern, _) = match expression.strip_prefix('^') {
        Some(rest) => (Pattern::Begins, rest),
        None => (Pattern::Has, expression),
    };
    let (before, rest) = expression.split_once('(').unwrap_or((expression, ")"));
    let (choices, after) = rest.split_once(')').context("no end of a choice")?;
    let words: Vec<_> = choices.split('|').map(|choice| format!("{before}{choice}{after}")).collect();
    let is_plain =
        |word: &String| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:".contains(letter));
    ensure!(words.iter().all(is_plain), "`/{expression}/`: an expression that no test understands");
    Ok(words.into_iter().map(pattern).collect())
}

impl Pattern {
    fn is_of(&self, name: &str) -> bool {
        match self {
            Pattern::Is(word) => name == word,
            Pattern::Begins(word) => name.starts_with(&**word),
            Pattern::Has(word) => name.contains(&**word),
            Pattern::Program(_) => false,
        }
    }

    fn is_there(&self, names: &[String]) -> Result<bool> {
        let Pattern::Program(id) = self else { return Ok(names.iter().any(|name| self.is_of(name))) };
        let (package, name) = id.split_once("::").context("a program of tests is PACKAGE::NAME")?;
        let manifest: toml::Table =
            toml::from_str(&text(&format!("{}/Cargo.toml", package.trim_start_matches("tabane-")))?)?;
        let programs = manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten();
        Ok(programs.filter_map(|program| program.get("name")?.as_str()).any(|known| known == name))
    }
}

/// The programs that trials start are of these sources. Who names others by `TABANE_BIN` knows of what they are.
fn sources() -> Result<()> {
    ensure!(newer(SystemTime::UNIX_EPOCH, "tabaned")?.is_some(), "no source of the daemon is found");
    traffic::build()?;
    let (own, tabane) = (std::env::current_exe()?, bundle::program(None)?);
    let folder = own.parent().and_then(Path::parent).context("the folder of the programs")?;
    let mut complaints = Vec::new();
    for name in
        traffic::PACKAGES.into_iter().filter(|name| tabane == folder.join("tabane") && *name != "tabane-lab")
    {
        let program = folder.join(name);
        let source = newer(fs::metadata(&program)?.modified()?, name)?;
        complaints.extend(source.map(|source| format!("{} is older than {source}", program.display())));
    }
    none(&complaints)
}

/// A source of a program that changed later, of all packages that it is linked with.
fn newer(built: SystemTime, package: &str) -> Result<Option<String>> {
    for line in tree(package)?.lines().filter(|line| !line.ends_with("(*)")) {
        let Some((_, folder)) = line.split_once(&format!("({}/", root().display())) else { continue };
        let folder = folder.split(')').next().unwrap_or_default();
        let mut sources = files(&format!("{folder}/src"), "rs")?;
        for extension in ["c", "h"] {
            sources.extend(files(&format!("{folder}/programs"), extension)?);
        }
        for File { path, .. } in sources {
            let is_another = path.ends_with("/main.rs") && !line.starts_with(&format!("{package} "));
            if !is_test(&path) && !is_another && fs::metadata(root().join(&path))?.modified()? > built {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
