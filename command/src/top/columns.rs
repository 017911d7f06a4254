//! A table that fits: when the screen is narrow, the columns that matter least are left out.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::figures::UNKNOWN;
use super::style::Palette;

const GAP: usize = 2;
/// From an empty point of a curve to a full one.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const CURVE_MIN: usize = 6;
const CUT: char = '…';

/// What stands in a line of a column.
pub(super) enum Cell {
    Text(String, Style),
    /// Values, the latest last, and what fills a point.
    Curve(Vec<u64>, u64),
}

pub(super) struct Column {
    heading: &'static str,
    /// 0: always shown. The higher, the sooner it is left out.
    rank: u8,
    right: bool,
    /// It takes the space that others leave, and needs so much.
    stretch: Option<usize>,
    cells: Vec<Cell>,
}

impl Column {
    pub(super) fn words(
        heading: &'static str,
        rank: u8,
        cells: impl IntoIterator<Item = (String, Style)>,
    ) -> Self {
        let cells = cells.into_iter().map(|(text, style)| Cell::Text(text, style)).collect();
        Self { heading, rank, right: false, stretch: None, cells }
    }

    pub(super) fn plain(heading: &'static str, rank: u8, cells: impl IntoIterator<Item = String>) -> Self {
        Self::words(heading, rank, cells.into_iter().map(|text| (text, Style::new())))
    }

    /// A column of figures; `None`: not known.
    pub(super) fn figures(
        heading: &'static str,
        rank: u8,
        cells: impl IntoIterator<Item = Option<String>>,
    ) -> Self {
        let cell = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
        Self { right: true, ..Self::plain(heading, rank, cells.into_iter().map(cell)) }
    }

    /// A column of curves, all to the same scale.
    pub(super) fn curves(heading: &'static str, rank: u8, curves: Vec<Vec<u64>>) -> Self {
        /// Less than that in bits per second looks like nothing.
        const LEAST: u64 = 10_000;
        let highest = curves.iter().flatten().copied().max().unwrap_or(0).max(LEAST);
        let cells = curves.into_iter().map(|curve| Cell::Curve(curve, highest)).collect();
        Self { heading, rank, right: false, stretch: Some(CURVE_MIN), cells }
    }

    /// Takes the space that is left, and at least so much.
    pub(super) fn stretched(self, least: usize) -> Self {
        Self { stretch: Some(least), ..self }
    }

    fn width(&self) -> usize {
        let widest = self.cells.iter().map(|cell| match cell {
            Cell::Text(text, _) => width(text),
            Cell::Curve(..) => 0,
        });
        let natural = widest.max().unwrap_or(0).max(width(self.heading));
        self.stretch.map_or(natural, |least| least.max(width(self.heading)))
    }
}

/// The lines of a table of this width, the headings first.
pub(super) fn lines(columns: Vec<Column>, across: usize, palette: Palette) -> Vec<Line<'static>> {
    let shown = fitting(columns, across);
    let heights = shown.iter().map(|(column, _)| column.cells.len()).max().unwrap_or(0);
    let headings = shown.iter().map(|(column, width)| {
        let text = placed(column.heading, *width, column.right);
        Span::styled(text, palette.heading())
    });
    let mut lines = vec![joined(headings)];
    lines.extend((0..heights).map(|row| {
        joined(shown.iter().map(|(column, width)| match column.cells.get(row) {
            Some(Cell::Text(text, style)) => Span::styled(placed(text, *width, column.right), *style),
            Some(Cell::Curve(values, highest)) => {
                Span::styled(curve(values, *highest, *width), palette.curve())
            }
            None => Span::raw(" ".repeat(*width)),
        }))
    }));
    lines
}

/// The columns that fit, each with its width.
fn fitting(columns: Vec<Column>, across: usize) -> Vec<(Column, usize)> {
    let mut ranks: Vec<u8> = columns.iter().map(|column| column.rank).collect();
    ranks.sort_unstable();
    let total = |rank: u8| {
        let shown = columns.iter().filter(|column| column.rank <= rank);
        shown.map(|column| column.width() + GAP).sum::<usize>().saturating_sub(GAP)
    };
    let rank = ranks.iter().rev().copied().find(|rank| total(*rank) <= across).unwrap_or(0);
    let mut left = across.saturating_sub(total(rank));
    let mut shown: Vec<(Column, usize)> = columns
        .into_iter()
        .filter(|column| column.rank <= rank)
        .map(|column| {
            let width = column.width();
            (column, width)
        })
        .collect();
    let mut stretched = shown.iter().filter(|(column, _)| column.stretch.is_some()).count();
    for (_, width) in shown.iter_mut().filter(|(column, _)| column.stretch.is_some()) {
        let more = left / stretched;
        (*width, left, stretched) = (*width + more, left - more, stretched - 1);
    }
    shown
}

fn joined(spans: impl Iterator<Item = Span<'static>>) -> Line<'static> {
    let mut line = Vec::new();
    for span in spans {
        if !line.is_empty() {
            line.push(Span::raw(" ".repeat(GAP)));
        }
        line.push(span);
    }
    Line::from(line)
}

/// A text on so many columns, cut where it is longer.
fn placed(text: &str, across: usize, right: bool) -> String {
    let text = cut(text, across);
    let fill = " ".repeat(across.saturating_sub(width(&text)));
    if right { fill + &text } else { text + &fill }
}

/// The beginning of a text that is too long.
pub(super) fn cut(text: &str, across: usize) -> String {
    if width(text) <= across {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        let longer = format!("{kept}{letter}");
        if width(&longer) + 1 > across {
            break;
        }
        kept = longer;
    }
    if across > 0 {
        kept.push(CUT);
    }
    kept
}

/// A curve on so many columns, a point on each; what happened last stands at the right.
fn curve(values: &[u64], highest: u64, across: usize) -> String {
    let latest = &values[values.len().saturating_sub(across)..];
    let bar = |value: &u64| {
        let full = u128::from(highest.max(1));
        let height = (u128::from(*value) * 8).div_ceil(full).min(8);
        BARS[usize::try_from(height).unwrap_or(8)]
    };
    " ".repeat(across - latest.len()) + &latest.iter().map(bar).collect::<String>()
}

fn width(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(columns: Vec<Column>, across: usize) -> Vec<String> {
        lines(columns, across, Palette::new(false)).iter().map(ToString::to_string).collect()
    }

    fn table() -> Vec<Column> {
        vec![
            Column::plain("LINK", 0, ["eth1", "eth2"].map(str::to_owned)),
            Column::figures("sent", 1, [Some("47.2M".to_owned()), None]),
            Column::curves("bit/s", 3, vec![vec![0, 50_000, 100_000], vec![]]),
            Column::plain("limit", 2, ["full", "burst skew"].map(str::to_owned)),
        ]
    }

    #[test]
    fn what_matters_least_is_left_out_first() {
        let wide = [
            "LINK   sent  bit/s       limit     ",
            "eth1  47.2M          ▄█  full      ",
            "eth2      -              burst skew",
        ];
        assert_eq!(text(table(), 35), wide);
        assert_eq!(text(table(), 30)[1], "eth1  47.2M  full      ");
        assert_eq!(text(table(), 12)[2], "eth2      -");
        assert_eq!(text(table(), 4)[1], "eth1");
    }

    #[test]
    fn texts_are_cut_by_the_columns_that_they_take() {
        assert_eq!(cut("束ね", 4), "束ね");
        assert_eq!(cut("束ね", 3), "束…");
        assert_eq!(cut("tabane", 4), "tab…");
        assert_eq!(cut("tabane", 0), "");
    }

    #[test]
    fn a_curve_shows_whatever_is_not_nothing() {
        assert_eq!(curve(&[0, 1, 500, 1_000], 1_000, 6), "   ▁▄█");
        assert_eq!(curve(&[8, 0, 8], 8, 2), " █");
    }
}
