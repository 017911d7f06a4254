//! What became of a measurement: published figures, own figures, findings.

use std::borrow::Cow;

use crate::prelude::*;

/// The median, and the lowest and the highest where there are several, as a finding names them.
pub(super) fn spread(own: &Samples, digits: usize) -> String {
    let [median, low, high] = [own.median(), own.min(), own.max()].map(|value| format!("{value:.digits$}"));
    if own.values().len() > 1 { format!("{median} ({low} to {high})") } else { median }
}

/// How many times as much `own` is as `base`, round by round.
pub(super) fn times(own: &Samples, base: &Samples) -> Samples {
    let pairs = own.values().iter().zip(base.values());
    Samples::new("times", pairs.map(|(own, base)| own / base).collect())
}

/// What was measured of one experiment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    /// What is compared, in columns side by side.
    pub(super) grids: Vec<Grid>,
    /// The paper's figures, drawn anew.
    pub(super) pictures: Vec<Picture>,
    pub(super) findings: Vec<Finding>,
    /// What has to be known of how it was measured.
    pub(super) remarks: Vec<Cow<'static, str>>,
    /// What this project wants of itself.
    pub(super) verdicts: Vec<Verdict>,
    /// At which commit it was measured.
    pub(super) commit: Option<String>,
}

/// A table of numbers under a title.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grid {
    /// What the numbers are, with their unit.
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    /// Names, and a number for each column, or none.
    pub(super) rows: Vec<(String, Vec<Option<f64>>)>,
}

/// One quantity.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) published: Vec<Published>,
    pub(super) source: Source,
    pub(super) own: Samples,
}

/// Where own figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    /// From this machine.
    Measured,
    /// From a machine that is made up (`crate::device`).
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
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Published {
    /// What had it, where the paper compares several; else empty.
    pub(super) of: Cow<'static, str>,
    pub(super) value: f64,
}

/// What a paper found, and whether it is found here.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) sentence: String,
    /// Nothing where it cannot be judged.
    pub(super) holds: Option<bool>,
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
        let published =
            published.iter().map(|(of, value)| Published { of: (*of).into(), value: *value }).collect();
        self.rows.push(Row { what, published, source, own });
    }

    /// Adds a finding; without `holds` it cannot be judged.
    pub(super) fn finding(&mut self, sentence: &str, holds: impl Into<Option<bool>>, because: String) {
        self.findings.push(Finding { sentence: sentence.to_string(), holds: holds.into(), because });
    }

    /// Adds a table of numbers.
    pub(super) fn grid(&mut self, title: &str, columns: &[&str], rows: Vec<(String, Vec<Option<f64>>)>) {
        let columns = columns.iter().map(ToString::to_string).collect();
        self.grids.push(Grid { title: title.to_string(), columns, rows });
    }
}

impl Finding {
    /// What became of it.
    pub(super) fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "does not hold here",
            None => "not judged",
        }
    }
}
