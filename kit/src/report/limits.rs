//! Which verdicts fall short today, as checked in, and what that makes of those of a run.
//!
//! `lab/expected.toml` has a line for each: since when, why, and the figure than which it may not become worse. A command
//! ends well when everything is as expected there. What has become better than its line has to leave the list, so that it
//! cannot fall back unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::value::Datetime;

use super::Table;
use super::verdict::Verdict;

/// Where the list lies in the repository.
const PATH: &str = "lab/expected.toml";
/// The list of this build.
const TEXT: &str = include_str!("../../../lab/expected.toml");

/// The list: a line for each verdict that falls short, under `COMMAND.VERDICT`.
#[derive(Debug)]
pub struct Expected(BTreeMap<String, Line>);

#[derive(Debug, Serialize)]
struct Line {
    /// From 1.
    #[serde(skip)]
    number: usize,
    #[serde(flatten)]
    entry: Entry,
}

/// Why a verdict falls short, and how far it may.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The day on which that was seen first, as in 2026-11-24.
    since: String,
    /// A sentence.
    reason: String,
    /// The figure that is just bearable.
    worst: f64,
    /// The figures that show that it falls short in one run and not in the next, through no change.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsteady: Option<String>,
}

/// What a verdict is beside the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// The requirement is met, as expected.
    Ok,
    /// It is not met, and that is unexpected, or worse than expected.
    NotOk,
    /// It is not met, as expected.
    Known,
    /// It is met, unexpectedly.
    Better,
}

/// A verdict with its state, as it stands in the JSON file.
#[derive(Debug, Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    state: State,
    #[serde(flatten)]
    line: Option<&'a Line>,
}

/// The verdicts of a run beside the list.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Judgement<'a> {
    verdicts: Vec<Judged<'a>>,
    /// Listed, but no verdict of this run; with the number of the line.
    #[serde(skip)]
    missing: Vec<(&'a str, usize)>,
}

impl Expected {
    /// The list of this build.
    ///
    /// # Errors
    /// It is wrong; one sentence says what, and in which line.
    pub fn checked_in() -> Result<Expected> {
        Expected::parse(TEXT)
    }

    fn parse(text: &str) -> Result<Expected> {
        let number = |at: usize| text[..at].matches('\n').count() + 1;
        let wrong = |number: usize, why: &str| anyhow!("{PATH}, line {number}: {why}");
        let entries: BTreeMap<String, Spanned<Entry>> = toml::from_str(text)
            .map_err(|error| wrong(number(error.span().map_or(0, |span| span.start)), error.message()))?;
        let line = |(id, entry): (String, Spanned<Entry>)| {
            let number = number(entry.span().start);
            let entry = entry.into_inner();
            entry.check().map_err(|why| wrong(number, &format!("{id}: {why}")))?;
            Ok((id, Line { number, entry }))
        };
        entries.into_iter().map(line).collect::<Result<_>>().map(Expected)
    }

    /// The commands that have entries; of scenarios, `run`.
    #[must_use]
    pub fn commands(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|id| id.split('.').next()).collect()
    }

    /// The scenarios that have entries.
    #[must_use]
    pub fn scenarios(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|id| id.strip_prefix("run.")?.split('.').next()).collect()
    }

    /// Judges the `verdicts` of a run of `command`.
    pub(super) fn judge<'a>(&'a self, command: &str, verdicts: &'a [Verdict]) -> Judgement<'a> {
        let of_command = |id: &'a String| id.strip_prefix(command)?.strip_prefix('.');
        let listed: BTreeMap<&str, &Line> =
            self.0.iter().filter_map(|(id, line)| Some((of_command(id)?, line))).collect();
        let judged = verdicts.iter().map(|verdict| {
            let line = listed.get(verdict.id.as_str()).copied();
            Judged { verdict, state: state(verdict, line), line }
        });
        let given = |id: &str| verdicts.iter().any(|verdict| verdict.id == id);
        let missing = listed.iter().filter(|(id, _)| !given(id)).map(|(id, line)| (*id, line.number));
        Judgement { verdicts: judged.collect(), missing: missing.collect() }
    }
}

impl Entry {
    /// What is wrong with it, if anything.
    fn check(&self) -> Result<(), &'static str> {
        let is_day = |since: Datetime| since.date.is_some() && since.time.is_none();
        if !self.since.parse().is_ok_and(is_day) {
            return Err("`since` is no day, as in \"2026-11-24\"");
        }
        if self.reason.is_empty() {
            return Err("`reason` is empty");
        }
        if !self.worst.is_finite() {
            return Err("`worst` bounds nothing");
        }
        let has_figures = |why: &String| why.contains(|character: char| character.is_ascii_digit());
        if !self.unsteady.as_ref().is_none_or(has_figures) {
            return Err("`unsteady` has no figures");
        }
        Ok(())
    }
}

/// What `verdict` is beside its line of the list.
fn state(verdict: &Verdict, line: Option<&Line>) -> State {
    match line.map(|line| &line.entry) {
        None if verdict.ok => State::Ok,
        None => State::NotOk,
        Some(Entry { unsteady: None, .. }) if verdict.ok => State::Better,
        Some(_) if verdict.ok => State::Ok,
        Some(entry) if verdict.is_within(entry.worst) => State::Known,
        Some(_) => State::NotOk,
    }
}

impl Judgement<'_> {
    /// Whether nothing is worse than expected, and nothing better.
    pub(super) fn is_as_expected(&self) -> bool {
        self.verdicts.iter().all(|judged| matches!(judged.state, State::Ok | State::Known))
    }
}

/// For people: a row for each, and a sentence for what is on the list.
impl fmt::Display for Judgement<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["verdict", "want", "got", ""]);
        for Judged { verdict, state, .. } in &self.verdicts {
            let got = match verdict.got.as_f64() {
                Some(number) => format!("{}", (number * 1000.0).round() / 1000.0),
                None => verdict.got.to_string(),
            };
            table.row(vec![verdict.id.clone(), verdict.want.clone(), got, state.word().to_string()]);
        }
        write!(out, "{table}")?;
        for judged in &self.verdicts {
            judged.line.map_or(Ok(()), |line| judged.explain(line, out))?;
        }
        for (id, number) in &self.missing {
            writeln!(out, "  {id}: not judged in this run, but listed in {PATH}, line {number}")?;
        }
        Ok(())
    }
}

impl Judged<'_> {
    fn explain(&self, Line { number, entry }: &Line, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.verdict.id;
        match self.state {
            State::Ok => Ok(()),
            State::Known => writeln!(out, "  {id}: known since {}: {}", entry.since, entry.reason),
            State::NotOk => {
                writeln!(
                    out,
                    "  {id}: worse than {}, the worst that {PATH}, line {number}, allows",
                    entry.worst
                )
            }
            State::Better => writeln!(out, "  {id}: is met, so delete line {number} of {PATH}"),
        }
    }
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::NotOk => "NOT OK",
            State::Known => "known",
            State::Better => "better",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
"test.speed" = { since = "2026-11-21", worst = 0.5, reason = "Copies take the time." }
"test.flaps" = { since = "2026-11-22", worst = 3, reason = "Nobody knows.", unsteady = "0, 2 and 0 in three runs" }
"#;

    fn state_of(verdict: &Verdict) -> State {
        Expected::parse(LIST).unwrap().judge("test", std::slice::from_ref(verdict)).verdicts[0].state
    }

    fn speed(got: f64) -> Verdict {
        Verdict::at_least("speed", got, 1.9)
    }

    /// Whether a run with these verdicts ends well, and what it says to people.
    fn ending(verdicts: &[Verdict]) -> (bool, String) {
        let list = Expected::parse(LIST).unwrap();
        let judgement = list.judge("test", verdicts);
        (judgement.is_as_expected(), judgement.to_string())
    }

    #[test]
    fn what_falls_short_as_listed_is_known() {
        let (ends_well, said) = ending(&[speed(0.5), Verdict::at_most("stall", 1.0, 2.0)]);
        assert!(ends_well && said.contains("known since 2026-11-21: Copies take the time."), "{said}");
    }

    #[test]
    fn what_falls_short_unlisted_is_not_ok() {
        assert_eq!(state_of(&Verdict::at_most("stall", 3.0, 2.0)), State::NotOk);
        let of_another = Expected::parse(LIST).unwrap();
        assert!(!of_another.judge("tester", &[speed(0.6)]).is_as_expected(), "the list names the command");
    }

    #[test]
    fn what_is_listed_may_not_become_worse() {
        let (ends_well, said) = ending(&[speed(0.49)]);
        assert!(
            !ends_well && said.contains("worse than 0.5, the worst that lab/expected.toml, line 2"),
            "{said}"
        );
        assert_eq!(state_of(&speed(f64::NAN)), State::NotOk, "no figure");
    }

    #[test]
    fn what_became_better_has_to_leave_the_list() {
        let (ends_well, said) = ending(&[speed(1.95)]);
        assert!(
            !ends_well && said.contains("speed: is met, so delete line 2 of lab/expected.toml"),
            "{said}"
        );
    }

    #[test]
    fn what_is_unsteady_may_be_met_but_not_become_worse() {
        let states = [0, 3, 4].map(|flaps| state_of(&Verdict::equals("flaps", flaps, 0)));
        assert_eq!(states, [State::Ok, State::Known, State::NotOk]);
    }

    #[test]
    fn a_line_without_its_verdict_is_named() {
        let (ends_well, said) = ending(&[speed(0.6)]);
        assert!(ends_well, "a part of a command's work is enough");
        assert!(
            said.contains("flaps: not judged in this run, but listed in lab/expected.toml, line 3"),
            "{said}"
        );
    }

    #[test]
    fn a_line_that_is_wrong_is_named_in_one_sentence() {
        let error = |text: &str| Expected::parse(text).unwrap_err().to_string();
        for (part, instead, why) in [
            ("2026-11-21", "lately", "test.speed: `since` is no day"),
            ("Copies take the time.", "", "test.speed: `reason` is empty"),
            ("0.5", "inf", "test.speed: `worst` bounds nothing"),
            ("0.5", "\"much\"", "invalid type"),
            ("worst = 0.5, ", "", "missing field `worst`"),
            ("test.flaps", "test.speed", "duplicate key"),
            ("0, 2 and 0 in three runs", "at times", "test.flaps: `unsteady` has no figures"),
        ] {
            let said = error(&LIST.replacen(part, instead, 1));
            let line = if part.starts_with("test") || part.starts_with("0, 2") { 3 } else { 2 };
            let start = format!("lab/expected.toml, line {line}: ");
            assert!(said.starts_with(&start) && said.contains(why) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn the_file_says_what_is_known() {
        let list = Expected::parse(LIST).unwrap();
        let verdicts = [speed(0.6), Verdict::at_most("stall", 1.0, 2.0)];
        let json = serde_json::to_value(list.judge("test", &verdicts)).unwrap();
        assert_eq!((&json[0]["id"], &json[0]["ok"]), (&"speed".into(), &false.into()));
        assert_eq!((&json[0]["state"], &json[0]["since"]), (&"known".into(), &"2026-11-21".into()));
        assert_eq!((&json[1]["state"], json[1].get("since")), (&"ok".into(), None));
    }
}
