//! `tabane why`: what keeps a running bundle from being faster, judged by what happens while it is watched.
//!
//! ```text
//!   gather: two statuses, NICs, processors, threads, and TCP several times between ── Facts ── judge ── Verdict ── text or JSON
//! ```
//!
//! The judge reads facts only, so each verdict has a test. It names one thing, in a sentence, and then the figures that
//! it was judged by. `docs/doctor.md` lists the verdicts.

mod facts;
mod gather;
mod judge;
#[cfg(test)]
mod tests;

use serde::Serialize;
use tabane_config::problem::one_line;

use crate::stdout::{line, print, print_json, wrapped};
use facts::Facts;

/// What limits a bundle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    #[serde(flatten)]
    pub(crate) found: Found,
    /// What it was judged by, a line each.
    #[serde(skip)]
    pub(crate) figures: Vec<String>,
    /// The same for programs.
    pub(crate) facts: Facts,
}

/// The judgement without the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Found {
    /// The limiting thing: a name that stays.
    pub(crate) limit: &'static str,
    pub(crate) is_fault: bool,
    pub(crate) sentence: String,
    pub(crate) helps: Option<String>,
}

/// Watches the bundle `name` and prints what limits it.
pub(crate) fn why(name: &str, json: bool) -> anyhow::Result<()> {
    let facts = gather::gather(name)?;
    let verdict = judge::judge(&facts);
    if json {
        return print_json(&serde_json::to_value(&verdict)?);
    }
    print(&verdict.text(line()))
}

impl Verdict {
    fn text(&self, columns: usize) -> String {
        let helps = self.found.helps.iter().map(|helps| (format!("  helps: {helps}"), 4));
        let figures = self.figures.iter().map(|figure| (format!("  {figure}"), 4));
        let lines = std::iter::once((self.found.sentence.clone(), 0)).chain(helps).chain(figures);
        // Names may come from other nodes.
        lines.map(|(line, indent)| wrapped(&one_line(&line), indent, columns) + "\n").collect()
    }
}
