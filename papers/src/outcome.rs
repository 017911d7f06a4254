//! What became of a measurement: published figures, own figures, findings.

use serde::Serialize;

use tabane_kit::report::{Samples, Verdict};

/// What was measured of one experiment.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    /// What is compared at a glance: columns side by side.
    pub(super) grids: Vec<Grid>,
    pub(super) findings: Vec<Finding>,
    /// What has to be known of how it was measured.
    pub(super) remarks: Vec<&'static str>,
    /// What this project wants of itself.
    #[serde(skip)]
    pub(super) verdicts: Vec<Verdict>,
}

/// A table of numbers under a title.
#[derive(Debug, Serialize)]
pub(super) struct Grid {
    /// What the numbers are, with their unit.
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    /// Names, and a number for each column, or none.
    pub(super) rows: Vec<(String, Vec<Option<f64>>)>,
}

/// One quantity.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) published: Vec<Published>,
    pub(super) source: Source,
    pub(super) own: Samples,
}

/// Where own figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    /// From this machine.
    Measured,
    /// From a machine that is made up (`tabane_sim::device`).
    Simulated,
}

impl Source {
    pub(super) fn word(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Simulated => "simulated",
        }
    }
}

/// A figure of a paper.
#[derive(Debug, Serialize)]
pub(super) struct Published {
    /// What had it, where the paper compares several; else empty.
    pub(super) of: &'static str,
    pub(super) value: f64,
}

/// What a paper found, and whether it is found here.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) sentence: String,
    pub(super) holds: bool,
    /// The figures that decide.
    pub(super) because: String,
}

impl Outcome {
    /// Adds a quantity for which the paper has one figure.
    pub(super) fn row(&mut self, what: impl Into<String>, published: f64, own: Samples) {
        self.compared(what, &[("", published)], own);
    }

    /// Adds a quantity that the paper does not have.
    pub(super) fn own(&mut self, what: impl Into<String>, own: Samples) {
        self.compared(what, &[], own);
    }

    /// Adds a quantity for which the paper compares several.
    pub(super) fn compared(
        &mut self,
        what: impl Into<String>,
        published: &[(&'static str, f64)],
        own: Samples,
    ) {
        self.push(Source::Measured, what.into(), published, own);
    }

    /// Adds a quantity of a simulated machine, for which the paper may have a figure.
    pub(super) fn simulated(&mut self, what: impl Into<String>, published: Option<f64>, own: Samples) {
        let published: Vec<_> = published.into_iter().map(|value| ("", value)).collect();
        self.push(Source::Simulated, what.into(), &published, own);
    }

    fn push(&mut self, source: Source, what: String, published: &[(&'static str, f64)], own: Samples) {
        let published = published.iter().map(|(of, value)| Published { of, value: *value }).collect();
        self.rows.push(Row { what, published, source, own });
    }

    /// Adds a finding.
    pub(super) fn finding(&mut self, sentence: &str, holds: bool, because: String) {
        self.findings.push(Finding { sentence: sentence.to_string(), holds, because });
    }

    /// Adds a table of numbers.
    pub(super) fn grid(&mut self, title: &str, columns: &[&str], rows: Vec<(String, Vec<Option<f64>>)>) {
        let columns = columns.iter().map(ToString::to_string).collect();
        self.grids.push(Grid { title: title.to_string(), columns, rows });
    }
}
