//! What became of a measurement: published figures, own figures, findings.

use std::borrow::Cow;

use crate::prelude::*;

/// Where outcomes are kept as soon as they are there, so that a run goes on after an interruption.
const DIRECTORY: &str = "target/lab/papers";

/// The median, and the lowest and the highest where there are several, as a finding names them.
pub(super) fn spread(own: &Samples, digits: usize) -> String {
    let [median, low, high] = [own.median(), own.min(), own.max()].map(|value| format!("{value:.digits$}"));
    if own.values().len() > 1 { format!("{median} ({low} to {high})") } else { median }
}

pub(super) fn times(own: &Samples, base: &Samples) -> Samples {
    let pairs = own.values().iter().zip(base.values());
    Samples::new("times", pairs.map(|(own, base)| own / base).collect())
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    /// What is compared, in columns side by side.
    pub(super) grids: Vec<Grid>,
    pub(super) pictures: Vec<Picture>,
    pub(super) findings: Vec<Finding>,
    /// What has to be known of how it was measured.
    pub(super) remarks: Vec<Cow<'static, str>>,
    /// What this project wants of itself.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) commit: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grid {
    /// What the numbers are, with their unit.
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    /// Names, and a number for each column, or none.
    pub(super) rows: Vec<(String, Vec<Option<f64>>)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) published: Vec<Published>,
    pub(super) source: Source,
    pub(super) own: Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
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

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Published {
    /// What had it, where the paper compares several; else empty.
    pub(super) of: Cow<'static, str>,
    pub(super) value: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) sentence: String,
    /// Nothing where it cannot be judged.
    pub(super) holds: Option<bool>,
    pub(super) because: String,
}

/// An outcome with the options by which it was measured, which have to be the same for it to be taken.
type Kept<O> = (String, O);

fn path(id: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{id}.json"))
}

impl Outcome {
    pub(super) fn kept(id: &str, manner: &str) -> Option<Outcome> {
        let (own, outcome): Kept<Outcome> = serde_json::from_str(&fs::read_to_string(path(id)).ok()?).ok()?;
        (own == manner).then_some(outcome)
    }

    /// Keeps it; where that is not possible, it cannot be resumed, and nothing else is lost.
    pub(super) fn keep(&self, id: &str, manner: &str) {
        let kept: Kept<&Outcome> = (manner.to_owned(), self);
        if let Ok(text) = serde_json::to_string(&kept) {
            let _ = fs::create_dir_all(DIRECTORY).and_then(|()| fs::write(path(id), text));
        }
    }

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

    pub(super) fn grid(&mut self, title: &str, columns: &[&str], rows: Vec<(String, Vec<Option<f64>>)>) {
        let columns = columns.iter().map(ToString::to_string).collect();
        self.grids.push(Grid { title: title.to_string(), columns, rows });
    }
}

impl Finding {
    pub(super) fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "does not hold here",
            None => "not judged",
        }
    }
}
