//! Tables for a terminal: aligned columns with units, and colour for faults.

use tabane_api::status::{Level, PathState};
use tabane_config::problem::one_line;

use crate::stdout::wrapped;

const GAP: usize = 2;
/// The last column may be so narrow.
const LAST_LEAST: usize = 16;

/// Columns of text under headings; a heading starts with its column's alignment, `<` or `>`.
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// A text and the SGR code (ECMA-48) of its colour, if it has one.
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) colour: Option<&'static str>,
}

pub(super) const BOLD: &str = "1";
pub(super) const RED: &str = "31";
pub(super) const GREEN: &str = "32";
pub(super) const YELLOW: &str = "33";

impl Table {
    /// Rows of cells, each behind the heading of its column.
    pub(super) fn of<const N: usize>(rows: impl IntoIterator<Item = [(&'static str, Cell); N]>) -> Table {
        let mut table = Table { headings: Vec::new(), rows: Vec::new() };
        for row in rows {
            let (headings, cells) = row.into_iter().unzip();
            table.headings = headings;
            table.rows.push(cells);
        }
        table
    }

    /// The lines of the table; none when it has no rows.
    pub(super) fn print(&self, colour: bool) -> String {
        self.print_within(None, colour)
    }

    /// The same within so many columns: what stands last in a row goes on below itself.
    pub(super) fn print_within(&self, columns: Option<usize>, colour: bool) -> String {
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
        for ((cell, width), heading) in cells.iter().zip(widths).zip(&self.headings) {
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
    pub(super) fn good_or_bad(good: bool, [yes, no]: [&str; 2]) -> Cell {
        let (text, colour) = if good { (yes, GREEN) } else { (no, RED) };
        Cell { text: text.to_owned(), colour: Some(colour) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    pub(super) fn print(&self, colour: bool) -> String {
        match self.colour {
            Some(code) if colour => format!("\x1b[{code}m{}\x1b[0m", self.text),
            _ => self.text.clone(),
        }
    }
}

pub(super) fn colour_of(level: Level) -> &'static str {
    match level {
        Level::Good => GREEN,
        Level::Warning => YELLOW,
        Level::Bad => RED,
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

pub(super) fn warning(wrong: bool) -> Option<&'static str> {
    wrong.then_some(YELLOW)
}

pub(super) fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// A dash for what is not known yet.
pub(super) fn known(value: Option<u64>, print: impl FnOnce(u64) -> String) -> Cell {
    value.map_or("-".to_owned(), print).into()
}
