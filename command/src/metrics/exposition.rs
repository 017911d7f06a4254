//! The text of metrics in two formats.
//!
//! Source: OpenMetrics 1.0 (github.com/OpenObservability/OpenMetrics, `specification/OpenMetrics.md`), and the text format 0.0.4
//! of Prometheus ("Exposition formats" of its documentation). They differ in how a counter and an info are called above their
//! samples, in state sets and units, in what help has escaped, and in the last line.

use std::fmt::{self, Display, Write as _};

use tabane_config::problem::one_line;

use super::families::Kind;

const PREFIX: &str = "tabane_";
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

pub(super) type Labels<'a> = Vec<(&'a str, String)>;

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4.
    Text,
}

impl Format {
    /// What a client wants whose request has this `Accept`: OpenMetrics, unless it names plain text alone.
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Format {
        let names = |kind: &str| accept.is_some_and(|accept| accept.contains(kind));
        if names("text/plain") && !names("application/openmetrics-text") {
            Format::Text
        } else {
            Format::OpenMetrics
        }
    }

    /// The value of `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    /// So many parts, of which `scale` are one.
    pub(super) fn parts(count: u64, scale: u64) -> Number {
        Number::Real(count as f64 / scale as f64)
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Real(number) => number.fmt(f),
        }
    }
}

pub(super) fn full(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// A text that grows by families.
pub(super) struct Page {
    format: Format,
    text: String,
}

impl Page {
    pub(super) fn new(format: Format) -> Page {
        Page { format, text: String::new() }
    }

    /// A family with its samples; nothing where there are none.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str, samples: Vec<(Labels<'_>, Number)>) {
        if samples.is_empty() {
            return;
        }
        let name = full(name);
        let family = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(&name),
            (Format::OpenMetrics, Kind::Info) => name.strip_suffix("_info").unwrap_or(&name),
            _ => &name,
        };
        let (kind, unit, help) = match self.format {
            Format::OpenMetrics => (kind.name(), unit(family), escaped(help, true)),
            Format::Text if kind == Kind::Counter => (kind.name(), None, escaped(help, false)),
            Format::Text => (Kind::Gauge.name(), None, escaped(help, false)),
        };
        self.line(format_args!("# HELP {family} {help}"));
        self.line(format_args!("# TYPE {family} {kind}"));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {family} {unit}"));
        }
        for (labels, number) in samples {
            // The page may be read on a terminal, and values may be what peers say.
            let value = |value: &str| escaped(&one_line(value), true);
            let labels = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", value(text)));
            self.line(format_args!("{name}{{{}}} {number}", labels.collect::<Vec<_>>().join(",")));
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.text
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn unit(family: &str) -> Option<&'static str> {
    UNITS.into_iter().find(|unit| family.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}
