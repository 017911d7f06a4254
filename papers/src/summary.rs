//! The measurements for people: as tables of the report, and as Markdown.

use std::fmt::Write;

use serde_json::json;
use tabane_kit::machine::Machine;

use super::Experiment;
use super::outcome::{Grid, Row};
use crate::prelude::*;

pub(super) fn write(report: &mut Report, found: &[(Experiment, Outcome)]) {
    let fields = found.iter().map(
        |(experiment, outcome)| json!({ "id": experiment.id, "title": experiment.title, "outcome": outcome }),
    );
    report.field("experiments", fields.collect::<Vec<_>>());
    for (experiment, outcome) in found {
        report.show(format!("  {}  {}\n", experiment.id, experiment.title));
        let mut table = Table::new(["", "published", "here", "lowest", "highest", "unit", "from"]);
        for row in &outcome.rows {
            report.samples(format!("{} {}", experiment.id, row.what), row.own.clone());
            let [median, low, high] = here(row);
            let (unit, from) = (row.own.unit().to_string(), row.source.word().to_string());
            table.row(vec![row.what.clone(), published(row), median, low, high, unit, from]);
        }
        if !outcome.rows.is_empty() {
            report.show(table);
        }
        for grid in &outcome.grids {
            report.show(format!("  {}\n", grid.title));
            report.show(side_by_side(grid));
        }
        outcome.remarks.iter().for_each(|remark| report.show(format!("  {remark}")));
        for finding in &outcome.findings {
            report.show(format!("  {}: {} ({})", finding.sentence, finding.word(), finding.because));
        }
        report.show("");
        outcome.verdicts.iter().for_each(|verdict| report.verdict(verdict.clone()));
    }
}

pub(super) fn markdown(found: &[(Experiment, Outcome)], setting: &Setting, machine: &Machine) -> String {
    let commit = machine.commit.as_deref().unwrap_or("unknown");
    let mut page = format!(
        "# The papers' measurements, repeated\n\n\
         With this page you see which findings of five papers hold today, and repeat each measurement on your machine.\n\
         Written by `tabane-papers --markdown`; machine: {machine}; commit {commit}.\n\
         Both hosts are on this machine, their links shaped to the papers' rates. Medians of {} runs, flows of {} s;\n\
         in brackets the lowest and the highest. What is simulated comes from machines made up after the papers, whose figures and\n\
         their sources stand in `papers/src/device`; figures to which they were fitted are marked,\n\
         and \"about\" leaves them a third to both sides. Shares of the CPU are of the whole machine, which is both hosts here.\n",
        setting.rounds, setting.seconds
    );
    page += &findings(found);
    for (experiment, outcome) in found {
        let _ = writeln!(page, "\n## {}: {}\n", experiment.id, experiment.title);
        if !outcome.rows.is_empty() {
            page += "| | published | here | unit | from |\n|---|---|---|---|---|\n";
        }
        for row in &outcome.rows {
            let [median, low, high] = here(row);
            let (what, unit, from) = (&row.what, row.own.unit(), row.source.word());
            let _ = writeln!(
                page,
                "| {what} | {} | {median} ({low} to {high}) | {unit} | {from} |",
                published(row)
            );
        }
        page.push('\n');
        outcome.grids.iter().for_each(|grid| page += &grid_of(grid));
        for picture in &outcome.pictures {
            let _ = writeln!(page, "![{}]({})\n", picture.title, picture_path(picture));
        }
        for remark in &outcome.remarks {
            let _ = writeln!(page, "{}.\n", capital(remark));
        }
        for finding in &outcome.findings {
            let (sentence, verdict) = (capital(&finding.sentence), capital(finding.word()));
            let _ = writeln!(page, "- {sentence}. {verdict}: {}.", finding.because);
        }
        let other = outcome.commit.as_deref().filter(|other| *other != commit);
        let at = other.map_or(String::new(), |other| format!("; measured at commit {other}"));
        let _ = writeln!(page, "\nAgain: `tabane-papers {}`{at}", experiment.id);
    }
    page
}

fn findings(found: &[(Experiment, Outcome)]) -> String {
    let mut table = "\n## Findings\n\n| measurement | finding | here |\n|---|---|---|\n".to_string();
    for (experiment, outcome) in found {
        for finding in &outcome.findings {
            let id = experiment.id;
            let anchor = format!("{id}-{}", experiment.title).to_lowercase();
            let anchor: String = anchor
                .chars()
                .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect();
            let sentence = capital(&finding.sentence);
            let _ = writeln!(table, "| [{id}](#{anchor}) | {sentence} | {} |", finding.word());
        }
    }
    table
}

/// Where a picture lies, seen from the page.
pub(super) fn picture_path(picture: &Picture) -> String {
    format!("pictures/{}.svg", picture.name)
}

fn side_by_side(grid: &Grid) -> Table {
    let columns = grid.columns.iter().map(String::as_str);
    let mut table = Table::new([""].into_iter().chain(columns));
    grid.rows.iter().for_each(|row| table.row(cells(row)));
    table
}

fn grid_of(grid: &Grid) -> String {
    let mut table = format!("{}:\n\n| | {} |\n|---|", capital(&grid.title), grid.columns.join(" | "));
    table += &"---|".repeat(grid.columns.len());
    table.push('\n');
    for row in &grid.rows {
        let _ = writeln!(table, "| {} |", cells(row).join(" | "));
    }
    table + "\n"
}

fn cells((name, figures): &(String, Vec<Option<f64>>)) -> Vec<String> {
    let figures = figures.iter().map(|figure| figure.map_or("-".to_string(), number));
    [name.clone()].into_iter().chain(figures).collect()
}

fn published(row: &Row) -> String {
    let figures = row.published.iter().map(|figure| match &*figure.of {
        "" => number(figure.value),
        of => format!("{of} {}", number(figure.value)),
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    if figures.is_empty() { "-".to_string() } else { figures }
}

fn here(row: &Row) -> [String; 3] {
    [row.own.median(), row.own.min(), row.own.max()].map(number)
}

/// Whole from 100 on, three digits below, but no more than two after the point unless these were nothing.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few places after the point"
        )]
        size => format!("{value:.*}", (2.0 - size.log10().floor()).min(9.0) as usize),
    }
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn three_digits_say_something_of_any_number() {
        let written = [0.0, 0.00294, 0.0304, 0.974, 7.5, 31.94, 955.4, 3213.0, -0.0294].map(number);
        assert_eq!(written, ["0", "0.00294", "0.0304", "0.97", "7.50", "31.9", "955", "3213", "-0.0294"]);
    }
}
