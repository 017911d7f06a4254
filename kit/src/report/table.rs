//! A table for people: first column to the left, numbers to the right.

use std::fmt;

/// Rows under a head.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell)).max();
        (0..columns).map(|column| width(column).unwrap_or(0)).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> =
                row.iter().enumerate().map(|(column, cell)| aligned(column, cell, widths[column])).collect();
            writeln!(out, "  {}", cells.join("  ").trim_end())?;
            if number == 0 {
                writeln!(
                    out,
                    "  {}",
                    "─".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1))
                )?;
            }
        }
        Ok(())
    }
}

fn aligned(column: usize, cell: &str, width: usize) -> String {
    let space = " ".repeat(width - length(cell));
    if column == 0 { format!("{cell}{space}") } else { format!("{space}{cell}") }
}

fn length(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["path", "µs"]);
        table.row(vec!["bare veth".into(), "1234".into()]);
        table.row(vec!["x".into(), "5".into()]);
        let expected = "  path         µs\n  ───────────────\n  bare veth  1234\n  x             5\n";
        assert_eq!(table.to_string(), expected);
    }
}
