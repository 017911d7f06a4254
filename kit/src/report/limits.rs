//! Which verdicts are less than is wanted, as users read it, and what that makes of those of a run.
//!
//! `docs/limits.md` has a row for such: its ids, the bound that is wanted, the bound that holds today, and why. The verdict itself
//! states one of the two:
//!
//! - The wanted one, where it is never met. Then it may be no worse than what holds; a row that is met has to go, so that the
//!   figure cannot fall back unseen.
//! - The one that holds, where the wanted one is met in some runs and not in others. Then it is a verdict as any other.
//!
//! A run of all that a command measures judges every row of the command, so that none outlives its verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Bound, Table, Verdict};
use crate::usual::*;

const PATH: &str = "docs/limits.md";
const TEXT: &str = include_str!("../../../docs/limits.md");

/// The list: a row for each verdict that is less than is wanted, under `COMMAND.VERDICT`.
#[derive(Debug)]
pub struct Limits(BTreeMap<String, Row>);

#[derive(Clone, Debug, Serialize)]
struct Row {
    /// From 1.
    #[serde(skip)]
    number: usize,
    wanted: String,
    holds: String,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Ok,
    /// The requirement is not met, or worse than the list says.
    NotOk,
    Limit,
    /// The requirement is met, although the list says that it never is.
    Met,
    /// The list has other bounds than the verdict.
    Astray,
}

#[derive(Debug, Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    state: State,
    #[serde(flatten)]
    row: Option<&'a Row>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Judgement<'a> {
    verdicts: Vec<Judged<'a>>,
    /// Listed, but no verdict of this run; with the number of the row's line.
    #[serde(skip)]
    missing: Vec<(&'a str, usize)>,
    /// Whether the run was a part of what its command measures: then rows may be missing, and luck is no progress.
    #[serde(skip)]
    is_part: bool,
}

impl Limits {
    pub fn checked_in() -> Result<Limits> {
        Limits::parse(TEXT)
    }

    fn parse(text: &str) -> Result<Limits> {
        let mut rows = BTreeMap::new();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| line.starts_with("| `")) {
            let place = || format!("{PATH}, line {number}");
            let row = Row::parse(line, number).with_context(place)?;
            for id in line.split('|').nth(1).into_iter().flat_map(|ids| ids.split('`').skip(1).step_by(2)) {
                let before = rows.insert(id.to_owned(), row.clone());
                ensure!(before.is_none(), "{}: {id} has two rows", place());
            }
        }
        Ok(Limits(rows))
    }

    /// The commands that have rows; of scenarios, `run`.
    pub fn commands(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|id| id.split('.').next()).collect()
    }

    pub fn scenarios(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|id| id.strip_prefix("run.")?.split('.').next()).collect()
    }

    pub(super) fn judge<'a>(
        &'a self,
        command: &str,
        verdicts: &'a [Verdict],
        is_part: bool,
    ) -> Judgement<'a> {
        let of_command = |id: &'a String| id.strip_prefix(command)?.strip_prefix('.');
        let listed: BTreeMap<&str, &Row> =
            self.0.iter().filter_map(|(id, row)| Some((of_command(id)?, row))).collect();
        let judged = verdicts.iter().map(|verdict| {
            let row = listed.get(verdict.id.as_str()).copied();
            Judged { verdict, state: state(verdict, row), row }
        });
        let given = |id: &str| verdicts.iter().any(|verdict| verdict.id == id);
        let missing = listed.iter().filter(|(id, _)| !given(id)).map(|(id, row)| (*id, row.number));
        Judgement { verdicts: judged.collect(), missing: missing.collect(), is_part }
    }
}

impl Row {
    fn parse(line: &str, number: usize) -> Result<Row> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, wanted, holds, reason, ""] = cells[..] else {
            anyhow::bail!("a row is: ids, wanted, holds, why");
        };
        let is_more = Bound::parse(holds)?.refuses_what_just_meets(Bound::parse(wanted)?);
        ensure!(!is_more, "what holds is more than what is wanted");
        ensure!(!reason.is_empty(), "no reason");
        Ok(Row { number, wanted: wanted.into(), holds: holds.into(), reason: reason.into() })
    }
}

fn state(verdict: &Verdict, row: Option<&Row>) -> State {
    match row {
        Some(row) if verdict.want != row.wanted && verdict.want != row.holds => State::Astray,
        Some(row) if verdict.want == row.wanted && verdict.ok => State::Met,
        Some(row) if verdict.want == row.wanted && verdict.meets(&row.holds) => State::Limit,
        _ if verdict.ok => State::Ok,
        _ => State::NotOk,
    }
}

impl Judgement<'_> {
    /// Whether nothing is worse than the list says, and the list no worse than the run.
    pub(super) fn is_as_expected(&self) -> bool {
        let is_good = |state: State| match state {
            State::Ok | State::Limit => true,
            State::Met => self.is_part,
            State::NotOk | State::Astray => false,
        };
        self.verdicts.iter().all(|judged| is_good(judged.state)) && (self.is_part || self.missing.is_empty())
    }
}

impl fmt::Display for Judgement<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["verdict", "want", "got", ""]);
        for Judged { verdict, state, .. } in &self.verdicts {
            let got = match verdict.got.as_f64() {
                Some(number) if verdict.got.is_f64() => format!("{number:.3}"),
                _ => verdict.got.to_string(),
            };
            table.row(vec![verdict.id.clone(), verdict.want.clone(), got, state.word().to_string()]);
        }
        write!(out, "{table}")?;
        for judged in &self.verdicts {
            judged.row.map_or(Ok(()), |row| judged.explain(row, out))?;
        }
        for (id, number) in self.missing.iter().filter(|_| !self.is_part) {
            writeln!(out, "  {id}: not judged in this run, but listed in {PATH}, line {number}")?;
        }
        Ok(())
    }
}

impl Judged<'_> {
    fn explain(&self, row: &Row, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, Row { number, wanted, holds, reason }) = (&self.verdict.id, row);
        match self.state {
            State::Ok | State::Limit => writeln!(out, "  {id}: wanted {wanted}; {reason}"),
            State::NotOk => {
                writeln!(out, "  {id}: worse than {holds}, which holds according to {PATH}, line {number}")
            }
            State::Met => writeln!(out, "  {id}: is met, so delete line {number} of {PATH}"),
            State::Astray => {
                writeln!(out, "  {id}: {PATH}, line {number}, has other bounds: {wanted}, {holds}")
            }
        }
    }
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::NotOk => "NOT OK",
            State::Limit => "limit",
            State::Met => "met",
            State::Astray => "ASTRAY",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
| Figure | Wanted | Holds | Why |
|---|---|---|---|
| `test.speed`, `tester.speed` | >= 1.9 | >= 0.5 | Copies take the time. |
| `test.flaps` | = 0 | <= 3 | Nobody knows. |
";

    fn speed(got: f64) -> Verdict {
        Verdict::at_least("speed", got, 1.9)
    }

    fn flaps(got: f64) -> Verdict {
        Verdict::at_most("flaps", got, 3.0)
    }

    fn ending(verdicts: &[Verdict], is_part: bool) -> (bool, String) {
        let list = Limits::parse(LIST).unwrap();
        let judgement = list.judge("test", verdicts, is_part);
        (judgement.is_as_expected(), judgement.to_string())
    }

    #[test]
    fn what_is_less_than_wanted_is_explained_and_no_worse_than_what_holds() {
        for (verdicts, ends_well, says) in [
            ([speed(0.5), flaps(0.0)], true, "speed: wanted >= 1.9; Copies take the time."),
            ([speed(0.5), flaps(3.0)], true, "flaps: wanted = 0; Nobody knows."),
            ([speed(0.49), flaps(0.0)], false, "speed: worse than >= 0.5, which holds according to"),
            ([speed(f64::NAN), flaps(0.0)], false, "docs/limits.md, line 3"),
            ([speed(0.5), flaps(3.1)], false, "flaps: worse than <= 3"),
            ([speed(0.5), Verdict::at_most("flaps", 0.0, 1.0)], false, "line 4, has other bounds: = 0, <= 3"),
        ] {
            let (is_well, said) = ending(&verdicts, false);
            assert!(is_well == ends_well && said.contains(says), "{said}");
        }
    }

    #[test]
    fn what_is_not_listed_is_wanted_as_it_stands() {
        let stall = |got| [speed(0.6), flaps(0.0), Verdict::at_most("stall", got, 2.0)];
        assert!(ending(&stall(2.0), false).0 && !ending(&stall(2.1), false).0);
    }

    #[test]
    fn what_is_met_has_to_leave_the_list_unless_the_run_was_a_part() {
        let (ends_well, said) = ending(&[speed(1.95), flaps(0.0)], false);
        assert!(!ends_well && said.contains("speed: is met, so delete line 3 of docs/limits.md"), "{said}");
        assert!(ending(&[speed(1.95)], true).0);
    }

    #[test]
    fn a_listed_verdict_that_was_not_judged_fails_unless_the_run_was_a_part() {
        let (ends_well, said) = ending(&[speed(0.6)], false);
        assert!(!ends_well && said.contains("flaps: not judged in this run, but listed in"), "{said}");
        assert!(ending(&[speed(0.6)], true).0 && !ending(&[speed(0.4)], true).0);
        let list = Limits::parse(LIST).unwrap();
        assert!(list.judge("other", &[], false).is_as_expected(), "rows of other commands");
        assert!(list.judge("tester", &[speed(0.6)], false).is_as_expected(), "a row has two ids");
    }

    #[test]
    fn a_row_that_is_wrong_is_named_in_one_sentence() {
        for (part, instead, why) in [
            (">= 1.9", "much", "line 3: `much` is no bound"),
            (">= 0.5", ">= inf", "line 3: `>= inf` is no bound"),
            (">= 0.5", ">= 2", "line 3: what holds is more than what is wanted"),
            ("<= 3", ">= 3", "line 4: what holds is more than what is wanted"),
            ("Copies take the time.", "", "line 3: no reason"),
            ("| Nobody knows. |", "|", "line 4: a row is: ids, wanted, holds, why"),
            ("tester.speed", "test.flaps", "line 4: test.flaps has two rows"),
        ] {
            let said = format!("{:#}", Limits::parse(&LIST.replacen(part, instead, 1)).unwrap_err());
            assert_eq!(said, format!("docs/limits.md, {why}"));
        }
    }

    #[test]
    fn the_file_says_what_is_listed() {
        let list = Limits::parse(LIST).unwrap();
        let verdicts = [speed(0.6), Verdict::at_most("stall", 1.0, 2.0)];
        let json = serde_json::to_value(list.judge("test", &verdicts, true)).unwrap();
        assert_eq!((&json[0]["ok"], &json[0]["state"]), (&false.into(), &"limit".into()));
        assert_eq!((&json[0]["wanted"], &json[0]["holds"]), (&">= 1.9".into(), &">= 0.5".into()));
        assert_eq!((&json[1]["state"], json[1].get("wanted")), (&"ok".into(), None));
    }
}
