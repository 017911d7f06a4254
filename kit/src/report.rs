//! The one form in which every lab command ends: a table for people, a JSON file for machines, verdicts for both.
//!
//! The file holds name, seed, machine, the command's own top-level fields, `samples` (every value, median, spread)
//! and `verdicts`. A command ends with code 0 when its verdicts are met, or fall short as [`limits`] says, else with code 1.

mod limits;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::process::ExitCode;

use comfy_table::{Cell, CellAlignment, LineStyle, TableStyle};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tabane_probe::stats::{quantile, sorted};

use crate::machine::Machine;
use crate::usual::*;
use limits::Judgement;
pub use limits::Limits;

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

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Sets the top-level field `key` of the JSON file.
    pub fn field(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_string(), value.into());
    }

    pub fn samples(&mut self, key: impl Into<String>, samples: Samples) {
        self.samples.insert(key.into(), samples);
    }

    pub fn push(&mut self, key: impl Into<String>, unit: &'static str, value: f64) {
        self.samples.entry(key.into()).or_insert_with(|| Samples::new(unit, Vec::new())).push(value);
    }

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

    pub fn show(&mut self, text: impl std::fmt::Display) {
        self.text.push_str(&format!("{text}\n"));
    }

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

// Repeated measurements of one quantity.

/// Values in the order they were measured, with their unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Samples {
    unit: Cow<'static, str>,
    #[serde(deserialize_with = "numbers")]
    values: Vec<f64>,
}

/// JSON has no word for what is not a number: such values are null there, and left out here.
fn numbers<'de, D: Deserializer<'de>>(values: D) -> Result<Vec<f64>, D::Error> {
    Ok(Vec::<Option<f64>>::deserialize(values)?.into_iter().flatten().collect())
}

impl Samples {
    pub const fn new(unit: &'static str, values: Vec<f64>) -> Samples {
        Samples { unit: Cow::Borrowed(unit), values }
    }

    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The values, in the order they were measured.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The middle value, or the mean of the two middle ones; NaN without values.
    pub fn median(&self) -> f64 {
        quantile(&sorted(&self.values), 0.5)
    }

    /// The smallest value; infinite without values.
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest value; minus infinite without values.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Serialize for Samples {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Samples", 5)?;
        fields.serialize_field("unit", &self.unit)?;
        fields.serialize_field("values", &self.values)?;
        fields.serialize_field("median", &self.median())?;
        fields.serialize_field("min", &self.min())?;
        fields.serialize_field("max", &self.max())?;
        fields.end()
    }
}

// A table for people: first column to the left, numbers to the right.

/// Rows under a head.
#[derive(Clone, Debug)]
pub struct Table(comfy_table::Table);

/// No lines but the one below the head.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

impl Table {
    pub fn new(head: impl IntoIterator<Item = impl Into<Cell>>) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_style(STYLE).set_header(head);
        Table(table)
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = self.0.clone();
        for column in table.column_iter_mut() {
            let is_first = column.index == 0;
            // One more space is between any two columns.
            column.set_padding((if is_first { 0 } else { 1 }, 0));
            column.set_cell_alignment(if is_first { CellAlignment::Left } else { CellAlignment::Right });
        }
        table.lines().try_for_each(|line| writeln!(out, "  {}", line.trim_end()))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use = "a verdict that no report has judges nothing"]
pub struct Verdict {
    /// Name of the figure.
    pub id: String,
    pub want: String,
    /// The figure; null when it could not be had.
    pub got: Value,
    pub ok: bool,
}

impl Verdict {
    pub fn within(id: &str, got: f64, bound: Bound) -> Verdict {
        match bound {
            Bound::Least(floor) => Verdict::at_least(id, got, floor),
            Bound::Most(ceiling) => Verdict::at_most(id, got, ceiling),
            Bound::Exactly(wanted) => Verdict::equals(id, got, wanted),
        }
    }

    pub fn at_least(id: &str, got: f64, floor: f64) -> Verdict {
        Verdict { id: id.into(), want: format!(">= {floor}"), got: got.into(), ok: got >= floor }
    }

    pub fn at_most(id: &str, got: f64, ceiling: f64) -> Verdict {
        Verdict { id: id.into(), want: format!("<= {ceiling}"), got: got.into(), ok: got <= ceiling }
    }

    pub fn equals<T: Into<Value> + PartialEq>(id: &str, got: T, wanted: T) -> Verdict {
        let ok = got == wanted;
        let wanted: Value = wanted.into();
        Verdict { id: id.into(), want: format!("= {wanted}"), got: got.into(), ok }
    }

    /// Whether the figure is within another bound; what is no number is within none.
    fn meets(&self, bound: &str) -> bool {
        self.got.as_f64().is_some_and(|got| Bound::parse(bound).is_ok_and(|bound| bound.holds(got)))
    }
}

/// A bound as it is written: `>= 0.5`, `<= 3` or `= 0`.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    Least(f64),
    Most(f64),
    Exactly(f64),
}

impl Bound {
    fn parse(text: &str) -> Result<Bound> {
        let parts = text.split_once(' ').and_then(|(sign, limit)| Some((sign, limit.parse::<f64>().ok()?)));
        match parts.filter(|(_, limit)| limit.is_finite()) {
            Some((">=", limit)) => Ok(Bound::Least(limit)),
            Some(("<=", limit)) => Ok(Bound::Most(limit)),
            Some(("=", limit)) => Ok(Bound::Exactly(limit)),
            _ => bail!("`{text}` is no bound"),
        }
    }

    fn holds(self, got: f64) -> bool {
        match self {
            Bound::Least(least) => got >= least,
            Bound::Most(most) => got <= most,
            Bound::Exactly(wanted) => (got - wanted).abs() < f64::EPSILON,
        }
    }

    fn refuses_what_just_meets(self, wanted: Bound) -> bool {
        let (Bound::Least(limit) | Bound::Most(limit) | Bound::Exactly(limit)) = wanted;
        !self.holds(limit)
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

    #[test]
    fn samples_have_a_median_and_a_spread() {
        for (values, expected) in [(vec![3.0, 1.0, 2.0], [2.0, 1.0, 3.0]), (vec![4.0, 1.0], [2.5, 1.0, 4.0])]
        {
            let samples = Samples::new("s", values);
            assert_eq!([samples.median(), samples.min(), samples.max()], expected);
        }
        assert!(Samples::new("s", vec![]).median().is_nan());
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["path", "µs"]);
        table.row(vec!["bare veth".into(), "1234".into()]);
        table.row(vec!["x".into(), "5".into()]);
        let expected = "  path         µs\n  ───────────────\n  bare veth  1234\n  x             5\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn limits_themselves_are_met() {
        assert!(Verdict::at_least("a", 1.9, 1.9).ok && !Verdict::at_least("a", 1.89, 1.9).ok);
        assert!(Verdict::at_most("a", 100.0, 100.0).ok && !Verdict::at_most("a", 100.1, 100.0).ok);
        assert!(Verdict::equals("a", true, true).ok && !Verdict::equals("a", 1, 0).ok);
        assert!(!Verdict::at_least("a", f64::NAN, 0.0).ok && !Verdict::at_most("a", f64::NAN, 0.0).ok);
    }

    #[test]
    fn a_figure_may_meet_another_bound() {
        let three = Verdict::at_most("a", 3.0, 1.0);
        assert!(["<= 3", ">= 3", "= 3"].iter().all(|bound| three.meets(bound)));
        assert!(["<= 2.9", ">= 3.1", "= 0", "< 4", "<= inf"].iter().all(|bound| !three.meets(bound)));
        assert!(!Verdict::at_most("a", f64::NAN, 1.0).meets("<= 3"));
        assert!(!Verdict::equals("a", true, true).meets("= 1"));
    }
}
