//! A strip chart in the terminal: one row of bars per device, a bar per sample, marks beneath.
//!
//! ```text
//!  tb0  █████████████████▄▄▄▄▄▄▄▄▄▄▄▄▄████████   1.88 Gbit/s
//!  eth1 ████████████████████████████████████████   0.95
//!  eth2 █████████████████▁            ▁████████   0.94
//!                        ^ s2 dead    ^ s2 alive
//! ```
//!
//! On a terminal it is redrawn in place with the latest samples; elsewhere it is printed once per [`PLAIN_EVERY`] samples as
//! plain numbers. The caller owns the clock.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};

use rustix::termios::tcgetwinsize;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_EVERY: usize = 10;
const BESIDE: usize = 26;

#[derive(Debug)]
pub struct Strip {
    rows: Vec<Row>,
    marks: Vec<(usize, String)>,
    drawn_lines: Option<usize>,
    seconds_per_sample: f64,
}

#[derive(Debug)]
struct Row {
    label: String,
    full: f64,
    samples: Vec<f64>,
}

impl Strip {
    /// A chart with a row per label, each with the value of a full bar, in Gbit/s.
    pub fn new(rows: &[(&str, f64)], seconds_per_sample: f64) -> Strip {
        let rows = rows.iter().map(|(label, full)| Row {
            label: (*label).to_string(),
            full: *full,
            samples: Vec::new(),
        });
        Strip { rows: rows.collect(), marks: Vec::new(), drawn_lines: None, seconds_per_sample }
    }

    pub fn push(&mut self, samples: &[f64]) {
        for (row, sample) in self.rows.iter_mut().zip(samples) {
            row.samples.push(*sample);
        }
        if stdout().is_terminal() {
            self.redraw();
        } else if self.len().is_multiple_of(PLAIN_EVERY) {
            println!("{}", self.plain_line());
        }
    }

    /// Writes `text` beneath the next sample.
    pub fn mark(&mut self, text: &str) {
        self.marks.push((self.len(), text.to_string()));
        if !stdout().is_terminal() {
            println!("  {:5.1} s  {text}", self.len() as f64 * self.seconds_per_sample);
        }
    }

    fn len(&self) -> usize {
        self.rows.first().map_or(0, |row| row.samples.len())
    }

    fn redraw(&mut self) {
        let columns = tcgetwinsize(stdout()).map_or(80, |size| usize::from(size.ws_col));
        let picture = self.picture(columns.saturating_sub(BESIDE).max(10));
        let up = self.drawn_lines.map(|lines| format!("\x1b[{lines}A")).unwrap_or_default();
        self.drawn_lines = Some(picture.lines().count());
        let mut out = stdout().lock();
        let text = up + &picture.replace('\n', "\x1b[K\n");
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
    }

    fn picture(&self, width: usize) -> String {
        let from = self.len().saturating_sub(width);
        let mut picture = String::new();
        for row in &self.rows {
            let shown = &row.samples[from..];
            let bars: String = shown.iter().map(|sample| bar(*sample, row.full)).collect();
            let latest = shown.last().copied().unwrap_or(0.0);
            writeln!(picture, "  {:<6}{bars} {latest:6.2} Gbit/s", row.label)
                .expect("a string takes every line");
        }
        let mut beneath = String::new();
        for (place, text) in self.marks.iter().filter(|(place, _)| *place >= from) {
            let column = 8 + place - from;
            let gap = column.saturating_sub(beneath.chars().count());
            write!(beneath, "{:gap$}^ {text} ", "").expect("a string takes every line");
        }
        picture + beneath.trim_end() + "\n"
    }

    fn plain_line(&self) -> String {
        let mut line = format!("  {:5.1} s ", self.len() as f64 * self.seconds_per_sample);
        for row in &self.rows {
            let latest = &row.samples[row.samples.len().saturating_sub(PLAIN_EVERY)..];
            let mean = latest.iter().sum::<f64>() / latest.len() as f64;
            write!(line, " {} {mean:5.2}", row.label).expect("a string takes every line");
        }
        line + " Gbit/s"
    }
}

/// The bar nearest to `sample`; something is never drawn as nothing.
fn bar(sample: f64, full: f64) -> char {
    let eighths = sample / full * 8.0;
    let height = (1..BARS.len()).rev().find(|height| eighths >= *height as f64 - 0.5);
    height.map_or(if eighths > 0.02 { BARS[1] } else { BARS[0] }, |height| BARS[height])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(samples: &[f64]) -> Strip {
        let mut strip = Strip::new(&[("tb0", 2.0)], 0.1);
        strip.rows[0].samples = samples.to_vec();
        strip
    }

    #[test]
    fn bars_grow_with_the_value() {
        let bars: String = [0.0, 0.01, 0.5, 1.0, 1.9, 2.0, 9.0].map(|value| bar(value, 2.0)).iter().collect();
        assert_eq!(bars, " ▁▂▄███");
    }

    #[test]
    fn the_latest_samples_are_shown_with_their_marks() {
        let mut strip = strip(&[9.0, 9.0, 2.0, 2.0, 0.0, 0.0, 1.0]);
        strip.marks = vec![(1, "gone".into()), (4, "dead".into())];
        assert_eq!(strip.picture(5), "  tb0   ██  ▄   1.00 Gbit/s\n          ^ dead\n");
    }

    #[test]
    fn without_a_terminal_a_line_is_a_mean() {
        assert_eq!(strip(&[1.0, 2.0]).plain_line(), "    0.2 s  tb0  1.50 Gbit/s");
    }
}
