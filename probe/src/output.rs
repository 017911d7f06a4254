//! Prints reports: tables for people, JSON for programs.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Error;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
const BAR: usize = 40;

pub(crate) trait Report: Serialize {
    fn text(&self) -> String;

    /// Prints it on stdout; that a reader such as `head` left early is no error.
    fn print(&self, json: bool) -> Result<(), Error> {
        let text = if json {
            let line = serde_json::to_string_pretty(self).map_err(io::Error::from);
            line.map_err(Error::doing("writing JSON"))? + "\n"
        } else {
            self.text()
        };
        print(&text)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source<T> {
    Kept(String),
    Measured(T),
}

impl<T> Source<T> {
    pub(crate) fn kept(path: &Path) -> Source<T> {
        Source::Kept(path.display().to_string())
    }
}

pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::doing("writing to stdout")(error)),
        _ => Ok(()),
    }
}

pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// What a report says where only `done` of the `planned` were done; `what`: such as `calls were made`.
pub(crate) fn ended_early(done: usize, planned: usize, what: &str) -> String {
    if done < planned { format!("ended early: {done} of {planned} {what}\n") } else { String::new() }
}

/// A bar as long as `part` is of `most`; at least one character unless `part` is 0.
pub(crate) fn bar(part: usize, most: usize) -> String {
    let length = (part * BAR).div_ceil(most.max(1));
    "█".repeat(length)
}

/// A number with three significant digits at least.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

// The progress of a long measurement: a bar on a terminal, nothing elsewhere.
//
// A thread of its own draws the bar now and then: the measurement only stores a number.

const REDRAW: Duration = Duration::from_millis(500);
const RATE: u8 = 2;

pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn of(what: String, count: usize) -> Progress {
        let target = ProgressDrawTarget::stderr_with_hz(RATE);
        let bar = ProgressBar::with_draw_target(u64::try_from(count).ok(), target);
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}, {eta} to go") {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(REDRAW);
        Progress { bar }
    }

    pub(crate) fn reached(&self, count: usize) {
        self.bar.set_position(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

// Ctrl-C ends a measurement, not the program, which reports what was measured until then.

/// Exit code after a second signal: 128 and the number of SIGINT.
const SECOND_SIGNAL: i32 = 130;

#[derive(Clone, Debug, Default)]
pub(crate) struct Interruption {
    asked: Arc<AtomicBool>,
}

impl Interruption {
    /// Catches SIGINT and SIGTERM from now on; the second one ends the program at once.
    pub(crate) fn listen() -> Result<Interruption, Error> {
        let asked = Arc::new(AtomicBool::new(false));
        let listen = |signal| -> io::Result<()> {
            flag::register_conditional_shutdown(signal, SECOND_SIGNAL, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked)).map(drop)
        };
        [SIGINT, SIGTERM].into_iter().try_for_each(listen).map_err(Error::doing("waiting for signals"))?;
        Ok(Interruption { asked })
    }

    pub(crate) fn came(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_numbers_end_together() {
        let rows =
            vec![vec!["1 B".to_owned(), "9.5".to_owned()], vec!["1024 B".to_owned(), "123.4".to_owned()]];
        let text = table(&["size", "µs"], rows);
        assert!(text.contains("1 B        9.5\n") && text.contains("1024 B   123.4\n"), "{text}");
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!([0.00291, 2.9, 27.4, 27_400.26].map(figure), ["0.0029", "2.900", "27.40", "27400.3"]);
        assert_eq!(percent(0.255), "25.5 %");
        assert_eq!((bar(0, 9).len(), bar(1, 1_000).chars().count(), bar(9, 9).chars().count()), (0, 1, BAR));
    }
}
