//! Charts of lines as SVG: the papers' figures with own lines, and published values dashed beside them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 38.0;
const LETTER: f64 = 6.3;
/// Lines of a scale at most, but for the one at its beginning.
const LINES_MAX: f64 = 5.0;
const COLOURS: [&str; 5] = ["#0b6bcb", "#c2410c", "#1a7f37", "#7c3aed", "#854d0e"];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) svg: String,
}

pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    pub(super) label: String,
    /// Number of its colour; a published line has that of the own one beside it.
    pub(super) colour: usize,
    pub(super) is_published: bool,
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    pub(super) fn own(label: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Line {
        Line { label: label.into(), colour, is_published: false, points }
    }

    pub(super) fn published(label: impl Into<String>, colour: usize, y: f64, (from, to): (f64, f64)) -> Line {
        Line { label: label.into(), colour, is_published: true, points: vec![(from, y), (to, y)] }
    }
}

impl Picture {
    pub(super) fn new(name: &str, title: &str, columns: usize, panels: &[Panel]) -> Picture {
        let rows = panels.len().div_ceil(columns);
        let (width, height) = (WIDTH * columns as f64, HEIGHT * rows as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            escaped(title)
        );
        for (number, panel) in panels.iter().enumerate() {
            let (x, y) = ((number % columns) as f64 * WIDTH, (number / columns) as f64 * HEIGHT);
            let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
            panel.draw(&mut svg);
            svg += "</g>\n";
        }
        Picture { name: name.to_string(), title: title.to_string(), svg: svg + "</svg>\n" }
    }
}

/// One scale of a chart: from the first value to the last one, with a line at each step.
struct Scale {
    first: f64,
    last: f64,
    step: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> Scale {
        let least = if from_zero { 0.0 } else { values.clone().fold(f64::INFINITY, f64::min) };
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let length = if most > least { most - least } else { 1.0 };
        let power = 10_f64.powf((length / LINES_MAX).log10().floor());
        let step = [1.0, 2.0, 5.0].into_iter().map(|times| times * power);
        let step = step.into_iter().find(|step| *step >= length / LINES_MAX).unwrap_or(10.0 * power);
        let last = if from_zero { (length / step).ceil() * step } else { least + length };
        Scale { first: least, last, step }
    }

    fn at(&self, value: f64) -> f64 {
        (value - self.first) / (self.last - self.first)
    }

    fn marks(&self) -> impl Iterator<Item = f64> {
        let begin = (self.first / self.step).ceil();
        let Scale { last, step, .. } = *self;
        (0..32).map(move |number| (begin + f64::from(number)) * step).take_while(move |mark| *mark <= last)
    }
}

impl Panel {
    fn draw(&self, svg: &mut String) {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let x = Scale::over(points.clone().map(|point| point.0), false);
        let y = Scale::over(points.map(|point| point.1), true);
        let at_x = |value: f64| LEFT + x.at(value) * (WIDTH - LEFT - RIGHT);
        let at_y = |value: f64| HEIGHT - BOTTOM - y.at(value) * (HEIGHT - TOP - BOTTOM);
        let (left, right) = (LEFT, WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"18\" font-size=\"13\" font-weight=\"600\">{}</text>",
            escaped(&self.title)
        );
        for mark in y.marks() {
            let height = at_y(mark);
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {height:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{mark}</text>",
                left - 6.0,
                height + 4.0
            );
        }
        for mark in x.marks() {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{mark}</text>",
                at_x(mark),
                HEIGHT - BOTTOM + 15.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
            HEIGHT - 8.0,
            escaped(&format!("{} over {}", self.y, self.x))
        );
        let mut legend = left;
        for line in &self.lines {
            let points = line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y)));
            let points = points.collect::<Vec<_>>().join(" ");
            let colour = COLOURS[line.colour % COLOURS.len()];
            let dashes = if line.is_published { " stroke-dasharray=\"5 4\"" } else { "" };
            let _ = writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dashes}/>\
                 <path d=\"M{legend:.1} 33h14\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\
                 <text x=\"{:.1}\" y=\"37\">{}</text>",
                legend + 18.0,
                escaped(&line.label)
            );
            legend += 30.0 + LETTER * line.label.chars().count() as f64;
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_reaches_over_all_values_in_steps_that_people_count_in() {
        let scale = Scale::over([3.0, 377.0].into_iter(), true);
        assert_eq!(
            (scale.first, scale.last, scale.step).partial_cmp(&(0.0, 400.0, 100.0)),
            Some(std::cmp::Ordering::Equal)
        );
        assert_eq!(scale.marks().count(), 5);
        assert!((scale.at(377.0) - 0.9425).abs() < 1e-9);
        let level = Scale::over([2.0, 2.0].into_iter(), false);
        assert!(level.at(2.0).abs() < 1e-9, "one value is no division by zero");
    }

    #[test]
    fn own_lines_are_whole_and_published_ones_dashed() {
        let lines = vec![
            Line::own("rr <1>", 0, vec![(0.0, 1.0), (10.0, 2.0)]),
            Line::published("published", 0, 2.0, (0.0, 10.0)),
        ];
        let panel = || Panel { title: "2-4".into(), x: "s", y: "Mbit/s", lines: vec![] };
        let picture = Picture::new("P0-8", "a & b", 2, &[Panel { lines, ..panel() }, panel()]);
        assert_eq!(picture.svg.matches("<polyline").count(), 2);
        assert_eq!(picture.svg.matches("dasharray").count(), 2, "the line, and its sample in the legend");
        assert!(picture.svg.contains("rr &lt;1>") && picture.svg.contains("a &amp; b"));
        assert!(picture.svg.contains("viewBox=\"0 0 920 250\""), "two side by side");
    }
}
