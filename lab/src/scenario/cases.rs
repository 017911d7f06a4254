//! The scenarios of a file: one, or with axes one for each combination of their cases.
//!
//! A case's keys take the place of the file's own; its faults and requirements come on top of those, and a table, such as
//! `bundle`, is changed key by key. So do `[quick]`, when it has to be quick, and what the command line sets.

use tabane_config::problem::{Place as Where, Problem};
use toml::{Table, Value};

use super::file;
use super::plan::Scenario;

const GROWING: [&str; 2] = ["fault", "want"];

#[derive(Debug, PartialEq)]
pub(super) struct Case {
    /// The names of its cases, joined by dots; empty in a file without axes.
    pub(super) name: String,
    pub(super) scenario: Scenario,
}

/// What the command line wants of a file.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Wish {
    /// Only this case of the axis that has it; can be repeated [default: all]
    #[arg(long = "case", value_name = "NAME")]
    only: Vec<String>,
    /// TOML that takes the place of the file's own, such as 'repeats = 1'; can be repeated
    #[arg(long = "set", value_name = "TOML")]
    set: Vec<String>,
    /// As the table `quick` of the file says: does it work, not how well
    #[arg(long)]
    quick: bool,
}

impl Wish {
    pub(super) fn arguments(&self) -> Vec<String> {
        let only = self.only.iter().map(|name| format!("--case={name}"));
        let set = self.set.iter().map(|text| format!("--set={text}"));
        only.chain(set).chain(self.quick.then(|| "--quick".to_string())).collect()
    }
}

/// Reads `text`, the content of the file that the user named `name`.
pub(super) fn parse(name: &str, text: &str, wish: &Wish) -> Result<Vec<Case>, Vec<Problem>> {
    let is_plain = |top: &Table| !["axis", "quick"].iter().any(|key| top.contains_key(*key));
    match text.parse::<Table>() {
        Ok(top) if !is_plain(&top) || wish.quick || !wish.set.is_empty() || !wish.only.is_empty() => {
            combined(name, top, wish)
        }
        // The parser of scenarios knows the line of whatever is wrong.
        _ => file::parse(name, text).map(|scenario| vec![Case { name: String::new(), scenario }]),
    }
}

fn combined(file: &str, mut top: Table, wish: &Wish) -> Result<Vec<Case>, Vec<Problem>> {
    let refused = |key: &str, what: &str, allowed: &str| {
        let place = Where { file: Some(file.into()), line: None, key: key.into() };
        vec![Problem::new(&place, what, allowed)]
    };
    let mut quick = match top.remove("quick") {
        Some(Value::Table(quick)) if wish.quick => quick,
        _ => Table::new(),
    };
    let usual = quick.remove("only").and_then(|names| names.try_into().ok()).unwrap_or_default();
    let only: &Vec<String> = if wish.only.is_empty() { &usual } else { &wish.only };
    let mut last = vec![quick];
    for text in &wish.set {
        last.push(text.parse().map_err(|error: toml::de::Error| refused("--set", error.message(), "TOML"))?);
    }
    let axes = top.remove("axis").unwrap_or(Value::Array(Vec::new()));
    let axes = axes.as_array().and_then(|axes| axes.iter().map(cases_of).collect::<Option<Vec<_>>>());
    let allowed = "tables [[axis]], each with tables [[axis.case]] that have a `name`";
    let axes = axes.ok_or_else(|| refused("axis", "is not such a list", allowed))?;
    if let Some(stranger) = only.iter().find(|name| !axes.iter().flatten().any(|(own, _)| own == *name)) {
        let names: Vec<&str> = axes.iter().flatten().map(|(name, _)| name.as_str()).collect();
        return Err(refused("--case", &format!("there is no case {stranger}"), &names.join(", ")));
    }
    let mut all = vec![(String::new(), top)];
    for axis in &axes {
        let is_meant = axis.iter().any(|(name, _)| only.contains(name));
        let wanted = || axis.iter().filter(|(name, _)| !is_meant || only.contains(name));
        let with = |(name, base): &(String, Table)| -> Vec<(String, Table)> {
            let dot = if name.is_empty() { "" } else { "." };
            wanted().map(|(own, over)| (format!("{name}{dot}{own}"), merged(base, over))).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    let case = |(name, table): (String, Table)| {
        let table = last.iter().fold(table, |table, over| merged(&table, over));
        let place = if name.is_empty() { file.to_string() } else { format!("{file}, case {name}") };
        let scenario = file::parse(&place, &table.to_string()).map_err(|mut problems| {
            // Lines of this text are nobody's.
            problems.iter_mut().for_each(|problem| problem.place.line = None);
            problems
        });
        Ok(Case { name, scenario: scenario? })
    };
    all.into_iter().map(case).collect()
}

fn cases_of(axis: &Value) -> Option<Vec<(String, Table)>> {
    let cases = axis.as_table().filter(|axis| axis.len() == 1)?.get("case")?.as_array()?;
    let named = |case: &Value| {
        let mut case = case.as_table()?.clone();
        Some((case.remove("name")?.as_str()?.to_string(), case))
    };
    cases.iter().map(named).collect()
}

fn merged(base: &Table, over: &Table) -> Table {
    let mut merged = base.clone();
    for (key, value) in over {
        match (merged.get_mut(key), value) {
            (Some(Value::Table(own)), Value::Table(value)) => own.extend(value.clone()),
            (Some(Value::Array(own)), Value::Array(value)) if GROWING.contains(&key.as_str()) => {
                own.extend(value.clone());
            }
            (_, value) => drop(merged.insert(key.clone(), value.clone())),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEXT: &str = r#"
        duration = "4 s"
        [quick]
        only = ["slow"]
        duration = "1 s"
        [[flow]]
        kind = "tcp"
        [[want]]
        figure = "mbps"
        at_least = 1
        [[axis]]
        [[axis.case]]
        name = "slow"
        link = [{ rate = "1 Mbit/s" }]
        [[axis.case]]
        name = "fast"
        link = [{ rate = "1 Gbit/s" }]
        want = [{ figure = "mbps", at_least = 900 }]
        [[axis]]
        [[axis.case]]
        name = "sound"
        [[axis.case]]
        name = "plain"
        bundle = { sealed = false }
    "#;

    fn names(wish: &Wish) -> Vec<String> {
        parse("f", TEXT, wish).unwrap().into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn every_case_of_an_axis_meets_every_one_of_the_next() {
        let cases = parse("f", TEXT, &Wish::default()).unwrap();
        let seen: Vec<_> = cases
            .iter()
            .map(|Case { name, scenario }| (name.as_str(), scenario.wants.len(), scenario.bundle.sealed))
            .collect();
        let expected = [
            ("slow.sound", 1, true),
            ("slow.plain", 1, false),
            ("fast.sound", 2, true),
            ("fast.plain", 2, false),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_command_line_chooses_and_changes() {
        let quick = Wish { quick: true, ..Wish::default() };
        assert_eq!(names(&quick), ["slow.sound", "slow.plain"]);
        assert_eq!(parse("f", TEXT, &quick).unwrap()[0].scenario.duration, Duration::from_secs(1));
        let one = Wish { only: ["fast", "plain"].map(String::from).to_vec(), ..Wish::default() };
        assert_eq!(names(&one), ["fast.plain"]);
        let set = Wish { set: vec!["repeats = 7".into()], ..Wish::default() };
        assert!(parse("f", TEXT, &set).unwrap().iter().all(|case| case.scenario.repeats == 7));
    }

    #[test]
    fn what_is_wrong_in_a_case_names_the_case() {
        let said = |text: &str, wish: &Wish| {
            let problems = parse("f", text, wish).unwrap_err();
            problems.iter().map(|problem| format!("{problem}\n")).collect::<String>()
        };
        let wrong = TEXT.replace("900", "\"much\"");
        assert!(
            said(&wrong, &Wish::default())
                .contains("f, case fast.sound: at_least = \"much\": invalid type: string")
        );
        let stranger = Wish { only: vec!["new".into()], ..Wish::default() };
        assert!(said(TEXT, &stranger).starts_with("f: --case: there is no case new; allowed: slow, fast"));
        assert!(said("axis = 3", &Wish::default()).contains("[[axis.case]]"));
    }
}
