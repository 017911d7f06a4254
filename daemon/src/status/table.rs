//! Tables for a terminal: aligned columns with units, and colour for faults.

use super::{Level, PathState};
use crate::error::one_line;
use crate::stdout::wrapped;

/// Space between columns.
const GAP: usize = 2;
/// The last column may be so narrow.
const LAST_LEAST: usize = 16;

/// Columns of text under headings; a heading starts with its column's alignment, `<` or `>`.
pub(crate) struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

/// A text and the SGR code (ECMA-48) of its colour, if it has one.
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) colour: Option<&'static str>,
}

pub(crate) const BOLD: &str = "1";
pub(crate) const RED: &str = "31";
pub(crate) const GREEN: &str = "32";
pub(crate) const YELLOW: &str = "33";

impl Table {
    pub(crate) fn new(headings: &'static [&'static str]) -> Table {
        Table { headings, rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.headings.len());
        self.rows.push(cells.into());
    }

    /// The lines of the table; none when it has no rows.
    pub(crate) fn print(&self, colour: bool) -> String {
        self.print_within(None, colour)
    }

    /// The same within so many columns: what stands last in a row goes on below itself.
    pub(crate) fn print_within(&self, columns: Option<usize>, colour: bool) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let heading = |heading: &&str| Cell { text: heading[1..].to_owned(), colour: Some(BOLD) };
        let headings: Vec<Cell> = self.headings.iter().map(heading).collect();
        let lines = std::iter::once(&headings).chain(&self.rows);
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|column| lines.clone().map(|line| line[column].width()).max().unwrap_or(0))
            .collect();
        let lines = lines.map(|line| self.line(line, &widths, colour));
        let Some(columns) = columns else { return lines.collect() };
        let before_last: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
        // Where there is no room beside the others, it goes on at the left.
        let indent = if before_last + LAST_LEAST <= columns { before_last } else { GAP };
        lines.map(|line| wrapped(line.trim_end(), indent, columns) + "\n").collect()
    }

    fn line(&self, cells: &[Cell], widths: &[usize], colour: bool) -> String {
        let mut line = String::new();
        // Padding is written before the next cell, so that no line ends with spaces.
        let mut spaces = 0;
        for ((cell, width), heading) in cells.iter().zip(widths).zip(self.headings) {
            let fill = width - cell.width();
            let (before, after) = if heading.starts_with('>') { (fill, 0) } else { (0, fill) };
            line.push_str(&" ".repeat(spaces + before));
            line.push_str(&cell.print(colour));
            spaces = after + GAP;
        }
        line.push('\n');
        line
    }
}

impl Cell {
    pub(crate) fn good_or_bad(good: bool, [yes, no]: [&str; 2]) -> Cell {
        let (text, colour) = if good { (yes, GREEN) } else { (no, RED) };
        Cell { text: text.to_owned(), colour: Some(colour) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    pub(crate) fn print(&self, colour: bool) -> String {
        match self.colour {
            Some(code) if colour => format!("\x1b[{code}m{}\x1b[0m", self.text),
            _ => self.text.clone(),
        }
    }
}

impl From<Level> for &'static str {
    fn from(level: Level) -> &'static str {
        match level {
            Level::Good => GREEN,
            Level::Warning => YELLOW,
            Level::Bad => RED,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text: one_line(&text), colour: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

impl From<PathState> for Cell {
    fn from(state: PathState) -> Cell {
        match state {
            PathState::Up => Cell::good_or_bad(true, ["up", ""]),
            PathState::Suspect => Cell::good_or_bad(false, ["", "suspect"]),
            PathState::Down => Cell::good_or_bad(false, ["", "down"]),
            PathState::Drained => Cell { text: "drained".to_owned(), colour: Some(YELLOW) },
        }
    }
}

pub(crate) fn warning(wrong: bool) -> Option<&'static str> {
    wrong.then_some(YELLOW)
}

pub(crate) fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// A dash for what is not known yet.
pub(crate) fn known(value: Option<u64>, print: impl FnOnce(u64) -> String) -> Cell {
    value.map_or("-".to_owned(), print).into()
}

/// A duration of `ns` nanoseconds with three significant digits or so.
pub(crate) fn duration(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{} us", ns / 1_000),
        10_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        1_000_000_000..120_000_000_000 => format!("{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10),
        _ => format!("{} min", ns / 60_000_000_000),
    }
}

/// `value` with a decimal prefix and two decimals.
pub(crate) fn scaled(value: u64, unit: &str) -> String {
    const PREFIXES: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match PREFIXES.iter().find(|(factor, _)| value >= *factor) {
        Some((factor, prefix)) => {
            format!("{}.{:02} {prefix}{unit}", value / factor, value % factor * 100 / factor)
        }
        None => format!("{value} {unit}"),
    }
}

/// `value` with a decimal prefix and three digits.
pub(crate) fn short(value: u64, unit: &str) -> String {
    let (figure, prefix) = prefixed(value);
    format!("{figure} {prefix}{unit}")
}

/// `value` as three digits, and the decimal prefix that goes with them.
pub(crate) fn prefixed(value: u64) -> (String, &'static str) {
    const PREFIXES: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match PREFIXES.iter().find(|(factor, _)| value >= *factor) {
        Some((factor, prefix)) => (three_digits(value, *factor), prefix),
        None => (value.to_string(), ""),
    }
}

/// `count / factor` with three digits, cut and never rounded up into a fourth.
pub(crate) fn three_digits(count: u64, factor: u64) -> String {
    let (whole, rest) = (count / factor, count % factor);
    match whole {
        0..10 => format!("{whole}.{:02}", rest * 100 / factor),
        10..100 => format!("{whole}.{}", rest * 10 / factor),
        _ => whole.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_at_their_bounds() {
        assert_eq!(
            [0, 999, 1_000, 999_999].map(|value| scaled(value, "B")),
            ["0 B", "999 B", "1.00 kB", "999.99 kB"]
        );
        assert_eq!(duration(9_999_999), "9999 us");
        assert_eq!(duration(1_500_000_000), "1.5 s");
        assert_eq!(duration(180_000_000_000), "3 min");
    }

    #[test]
    fn three_digits_are_enough_for_people() {
        let values = [0, 999, 1_000, 48_250_000, 482_400_000, 4_824_000_000];
        assert_eq!(
            values.map(|value| short(value, "bit/s")),
            ["0 bit/s", "999 bit/s", "1.00 kbit/s", "48.2 Mbit/s", "482 Mbit/s", "4.82 Gbit/s"]
        );
    }
}
