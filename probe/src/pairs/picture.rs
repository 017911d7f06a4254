//! The heat map: a square for each direction, rows are senders and columns are receivers; throughput beside round trips.
//!
//! Colours run from light to dark in one hue, which everybody tells apart, and the figure stands in each square while there
//! is room. An SVG that needs nothing but itself.

use std::fmt::Write as _;

use super::Row;

/// Sides of a square, and room for names, in pixels.
const SQUARE: usize = 56;
const MARGIN: usize = 130;
const HEAD: usize = 110;
const GAP: usize = 20;
const TITLE: usize = 360;
const FOOT: usize = 60;
/// Hosts beyond which squares are small and have no figures.
const FIGURES_MAX: usize = 16;
const SMALL: usize = 16;
const NAME_MAX: usize = 18;
/// The colours at both ends, red, green and blue: a blue that is nearly white, and one that is nearly black.
const LIGHT: [f64; 3] = [239.0, 246.0, 255.0];
const DARK: [f64; 3] = [8.0, 48.0, 107.0];
const FAILED: &str = "#f4c7c3";
const STEPS: usize = 32;

struct Map<'a> {
    title: &'a str,
    value: fn(&Row) -> Option<f64>,
}

const MAPS: [Map<'static>; 2] = [
    Map { title: "Throughput of one TCP connection, Mbit/s", value: |row| row.mbit },
    Map { title: "Round trip of 1 byte, median, µs", value: |row| row.rtt_us },
];

pub(super) fn draw(hosts: &[String], rows: &[Row]) -> String {
    let square = if hosts.len() > FIGURES_MAX { SMALL } else { SQUARE };
    let side = square * hosts.len();
    let map_width = (MARGIN + side).max(TITLE);
    let (width, height) = (2 * map_width + GAP, HEAD + side + FOOT);
    let mut svg = String::new();
    let font = "font-family=\"system-ui, sans-serif\" font-size=\"12\"";
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" {font}>"
    );
    let _ = writeln!(svg, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    for (place, map) in MAPS.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate({} 0)\">", place * (map_width + GAP));
        map.draw(&mut svg, hosts, rows, square);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

impl Map<'_> {
    fn draw(&self, svg: &mut String, hosts: &[String], rows: &[Row], square: usize) {
        let values: Vec<f64> = rows.iter().filter_map(self.value).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let _ = writeln!(svg, "<text x=\"10\" y=\"26\" font-size=\"15\">{}</text>", self.title);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" fill=\"#555\" text-anchor=\"end\">from ↓ to →</text>",
            MARGIN - 8,
            HEAD - 8
        );
        for (place, name) in hosts.iter().enumerate() {
            let name = escaped(name);
            let middle = place * square + square / 2 + 4;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
                MARGIN - 8,
                HEAD + middle
            );
            let at = format!("{} {}", MARGIN + middle, HEAD - 8);
            let _ = writeln!(svg, "<text transform=\"translate({at}) rotate(-45)\">{name}</text>");
        }
        for row in rows {
            let place = |name: &String| hosts.iter().position(|host| host == name).unwrap_or_default();
            let (x, y) = (MARGIN + place(&row.to) * square, HEAD + place(&row.from) * square);
            self.square(svg, row, (x, y), square, (least, most));
        }
        legend(svg, (MARGIN, HEAD + hosts.len() * square + 18), (least, most));
    }

    fn square(&self, svg: &mut String, row: &Row, (x, y): (usize, usize), side: usize, bounds: (f64, f64)) {
        let value = (self.value)(row);
        let share = value.map(|value| share(value, bounds));
        let fill = share.map_or_else(|| FAILED.to_owned(), colour);
        let said = value.map_or_else(|| "failed".to_owned(), short);
        let why = row.failed.as_deref().unwrap_or(&said);
        let title = format!("{} to {}: {why}", row.from, row.to);
        let size = side - 2;
        let _ = writeln!(
            svg,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{size}\" height=\"{size}\" rx=\"3\" fill=\"{fill}\"/>",
            escaped_whole(&title)
        );
        if side == SQUARE {
            let ink = if share.is_some_and(|share| share > 0.5) { "#fff" } else { "#111" };
            let (x, y) = (x + size / 2, y + size / 2 + 4);
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{ink}\">{said}</text>"
            );
        }
        svg.push_str("</g>\n");
    }
}

fn legend(svg: &mut String, (x, y): (usize, usize), (least, most): (f64, f64)) {
    if !least.is_finite() {
        return;
    }
    for step in 0..STEPS {
        let fill = colour(step as f64 / (STEPS - 1) as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{y}\" width=\"5\" height=\"10\" fill=\"{fill}\"/>",
            x + 5 * step
        );
    }
    let below = y + 24;
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{below}\">{}</text>", short(least));
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{below}\" text-anchor=\"end\">{}</text>",
        x + 5 * STEPS,
        short(most)
    );
}

/// Where a value lies between the bounds, from 0 on: two that are nearly the same are in the middle.
fn share(value: f64, (least, most): (f64, f64)) -> f64 {
    let span = most - least;
    if span <= 0.01 * most.abs() { 0.5 } else { (value - least) / span }
}

fn colour(share: f64) -> String {
    let mix = |place: usize| LIGHT[place] + (DARK[place] - LIGHT[place]) * share;
    format!("rgb({:.0} {:.0} {:.0})", mix(0), mix(1), mix(2))
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn escaped(name: &str) -> String {
    let cut: String = name.chars().take(NAME_MAX).collect();
    escaped_whole(&cut)
}

fn escaped_whole(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(from: &str, to: &str, mbit: Option<f64>) -> Row {
        let failed = mbit.is_none().then(|| "no <route>".to_owned());
        Row { from: from.to_owned(), to: to.to_owned(), rtt_us: mbit, rtt_p99_us: mbit, mbit, failed }
    }

    #[test]
    fn each_direction_is_a_square_and_the_best_is_the_darkest() {
        let hosts = ["a", "<b>"].map(str::to_owned);
        let svg = draw(&hosts, &[row("a", "<b>", Some(100.0)), row("<b>", "a", Some(900.0))]);
        assert_eq!(svg.matches("<title>").count(), 4, "two directions in two maps");
        assert!(
            svg.contains("fill=\"rgb(8 48 107)\"/>\n<text")
                && svg.contains("fill=\"rgb(239 246 255)\"/>\n<text"),
            "{svg}"
        );
        assert!(svg.contains("&lt;b&gt; to a: 900") && !svg.contains("<b>"), "names are no markup");
    }

    #[test]
    fn what_failed_says_why_and_equal_ones_look_equal() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let svg =
            draw(&hosts, &[row("a", "b", None), row("a", "c", Some(940.0)), row("b", "c", Some(941.0))]);
        assert!(svg.contains("a to b: no &lt;route&gt;") && svg.contains(">failed<"), "{svg}");
        assert!((share(940.0, (940.0, 941.0)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn many_hosts_have_small_squares_without_figures() {
        let hosts: Vec<String> = (0..40).map(|host| format!("host{host}")).collect();
        let svg = draw(&hosts, &[row("host1", "host2", Some(100.0))]);
        assert!(svg.contains("width=\"14\"") && !svg.contains("text-anchor=\"middle\""), "{svg}");
    }
}
