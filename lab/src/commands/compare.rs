//! `tabane-lab compare A.json B.json`: what changed from one report to another, and whether it is more than noise.
//!
//! Figures that both reports have are compared by their samples: the medians' ratio, and the probability that chance alone
//! puts two such lists so far apart (Wilcoxon's rank-sum test, which asks nothing of how they are distributed). Figures
//! of different machines are compared, too, but the report says that they are of different machines.

use tabane_kit::machine::Machine;
use tabane_probe::stats::rank_sum;

use crate::prelude::*;

/// A difference that chance alone makes with this probability is noise; three values against three cannot show more.
const NOISE: f64 = 0.1;

/// Says what changed between two reports, and whether it is more than noise
#[derive(Debug, Args)]
pub struct Options {
    /// The earlier report
    a: PathBuf,
    /// The later report
    b: PathBuf,
    /// Show all figures, and not only those that changed
    #[arg(long)]
    all: bool,
    /// Write the report here instead of target/lab/compare.json
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Kept {
    pub(super) name: String,
    seed: u64,
    #[serde(flatten)]
    pub(super) machine: Machine,
    pub(super) samples: BTreeMap<String, Samples>,
    verdicts: Vec<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Finding {
    /// More than noise.
    Changed,
    /// Chance alone explains the difference.
    Noise,
    /// So few values could not show a difference.
    TooFew,
}

#[derive(Debug, Serialize)]
struct Change {
    key: String,
    a: Samples,
    b: Samples,
    /// The later median by the earlier one.
    ratio: f64,
    /// How probable such a difference is by chance alone.
    probability: f64,
    finding: Finding,
}

/// Compares two reports.
pub fn run(options: &Options) -> Result<ExitCode> {
    let (a, b) = (Kept::read(&options.a)?, Kept::read(&options.b)?);
    let mut report = Report::new("compare", b.seed);
    report.show(format!(
        "  A: {} ({})\n  B: {} ({})",
        a.title(),
        options.a.display(),
        b.title(),
        options.b.display()
    ));
    for difference in differences(&a, &b) {
        report.show(format!("  not alike: {difference}"));
    }
    let changes = changes(&a, &b);
    let changed = changes.iter().filter(|change| change.finding == Finding::Changed).count();
    let judged = changes.iter().filter(|change| change.finding != Finding::TooFew).count();
    let shown = changes.iter().filter(|change| options.all || change.finding == Finding::Changed);
    report.show("");
    report.show(table(shown));
    let chance = judged as f64 * NOISE;
    report.show(format!(
        "  {changed} of {judged} figures changed by more than noise; chance alone would move about {chance:.0} of them"
    ));
    report.show(format!(
        "  too few values to tell (less than 3 against 3): {} figures",
        changes.len() - judged
    ));
    report.field("a", json!({ "path": options.a, "name": a.name, "commit": a.machine.commit }));
    report.field("b", json!({ "path": options.b, "name": b.name, "commit": b.machine.commit }));
    report.field("changes", serde_json::to_value(&changes)?);
    for verdict in broken(&a, &b) {
        report.verdict(verdict);
    }
    report.finish(options.json.as_deref())
}

impl Kept {
    pub(super) fn read(path: &Path) -> Result<Kept> {
        let refuse = |why: String| Missing::new(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        Ok(serde_json::from_str(&text)
            .map_err(|error| refuse(format!("not a report of tabane-lab: {error}")))?)
    }

    fn title(&self) -> String {
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_string());
        let Machine { commit, date, .. } = &self.machine;
        format!("{}, commit {}, {}", self.name, or_unknown(commit), or_unknown(date))
    }
}

fn differences(a: &Kept, b: &Kept) -> Vec<String> {
    fn differ(what: &str, a: impl fmt::Display, b: impl fmt::Display) -> Option<String> {
        let (a, b) = (a.to_string(), b.to_string());
        (a != b).then(|| format!("{what}: {a} and {b}"))
    }
    let pairs = [
        differ("command", &a.name, &b.name),
        differ("processor", &a.machine.cpu, &b.machine.cpu),
        differ("processors", a.machine.cores, b.machine.cores),
        differ("kernel", &a.machine.kernel, &b.machine.kernel),
        differ("seed", a.seed, b.seed),
    ];
    pairs.into_iter().flatten().collect()
}

fn changes(a: &Kept, b: &Kept) -> Vec<Change> {
    let both = a.samples.iter().filter_map(|(key, one)| Some((key, one, b.samples.get(key)?)));
    let mut changes: Vec<Change> = both
        .filter(|(_, one, other)| one.unit() == other.unit())
        .map(|(key, one, other)| Change::of(key, one, other))
        .collect();
    changes.sort_by(|one, other| one.probability.total_cmp(&other.probability));
    changes
}

impl Change {
    fn of(key: &str, a: &Samples, b: &Samples) -> Change {
        let probability = rank_sum(a.values(), b.values()).unwrap_or(1.0);
        let enough = a.values().len().min(b.values().len()) >= 3;
        let finding = match probability <= NOISE {
            _ if !enough => Finding::TooFew,
            true => Finding::Changed,
            false => Finding::Noise,
        };
        let ratio = b.median() / a.median();
        Change { key: key.to_string(), a: a.clone(), b: b.clone(), ratio, probability, finding }
    }
}

fn table<'a>(changes: impl Iterator<Item = &'a Change>) -> Table {
    let mut table = Table::new(["median (lowest to highest)", "unit", "A", "B", "B / A", "by chance", ""]);
    let figure = |samples: &Samples| {
        format!("{} ({} to {})", number(samples.median()), number(samples.min()), number(samples.max()))
    };
    for change in changes {
        let finding = match change.finding {
            Finding::Changed => "changed",
            Finding::Noise => "noise",
            Finding::TooFew => "too few",
        };
        table.row(vec![
            change.key.clone(),
            change.a.unit().to_string(),
            figure(&change.a),
            figure(&change.b),
            number(change.ratio),
            number(change.probability),
            finding.to_string(),
        ]);
    }
    table
}

/// The requirements that A met, as B meets them.
fn broken<'a>(a: &'a Kept, b: &'a Kept) -> impl Iterator<Item = Verdict> + 'a {
    let met = |id: &str| a.verdicts.iter().any(|verdict| verdict.id == id && verdict.ok);
    b.verdicts.iter().filter(move |verdict| met(&verdict.id)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cpu: &str, samples: &[(&str, &[f64])], verdicts: &[Verdict]) -> Kept {
        let samples =
            samples.iter().map(|(key, values)| (key.to_string(), Samples::new("Gbit/s", values.to_vec())));
        let machine = Machine { cpu: cpu.to_string(), ..Machine::look() };
        Kept {
            name: "demo".into(),
            seed: 1,
            machine,
            samples: samples.collect(),
            verdicts: verdicts.to_vec(),
        }
    }

    #[test]
    fn a_change_is_told_from_noise_and_from_too_few_values() {
        let a = kept(
            "x",
            &[("up", &[1.0, 1.1, 1.2]), ("same", &[1.0, 2.0, 3.0]), ("few", &[1.0, 1.0]), ("gone", &[1.0])],
            &[],
        );
        let b = kept(
            "x",
            &[("up", &[1.3, 1.4, 1.5]), ("same", &[1.5, 2.5, 0.5]), ("few", &[9.0, 9.0]), ("new", &[1.0])],
            &[],
        );
        let changes = changes(&a, &b);
        let found: Vec<_> = changes.iter().map(|change| (change.key.as_str(), change.finding)).collect();
        assert_eq!(found[0], ("up", Finding::Changed));
        assert_eq!(found.len(), 3, "what only one of them has is not compared: {found:?}");
        assert!(found.contains(&("same", Finding::Noise)) && found.contains(&("few", Finding::TooFew)));
        assert!((changes[0].ratio - 1.4 / 1.1).abs() < 1e-12);
    }

    #[test]
    fn only_a_requirement_that_was_met_can_break() {
        let verdict = |id, ok| Verdict::at_least(id, f64::from(u8::from(ok)), 1.0);
        let a = kept("x", &[], &[verdict("kept", true), verdict("broken", true), verdict("never", false)]);
        let b = kept("x", &[], &[verdict("kept", true), verdict("broken", false), verdict("never", false)]);
        let found: Vec<_> = broken(&a, &b).map(|verdict| (verdict.id, verdict.ok)).collect();
        assert_eq!(found, [("kept".to_string(), true), ("broken".to_string(), false)]);
    }

    #[test]
    fn another_machine_is_named() {
        let (a, b) = (kept("fast", &[], &[]), kept("slow", &[], &[]));
        assert_eq!(differences(&a, &b), ["processor: fast and slow"]);
        assert!(differences(&a, &a).is_empty());
    }

    #[test]
    fn a_file_that_is_no_report_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.json");
        fs::write(&path, "{\"name\": 7}").unwrap();
        let error = Kept::read(&path).unwrap_err().to_string();
        assert!(error.contains("other.json: not a report of tabane-lab"), "{error}");
        let error = Kept::read(&directory.path().join("none.json")).unwrap_err().to_string();
        assert!(error.contains("none.json: No such file"), "{error}");
    }
}
