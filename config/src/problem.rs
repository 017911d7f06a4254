//! What is wrong with a configuration: one sentence that says where, what, and what is allowed.
//!
//! Texts that a user wrote are quoted on one line and cut ([`quoted`]), so that a sentence stays a sentence.

use std::fmt;
use std::sync::Arc;

/// Longest part of a user's text that a sentence repeats, in characters.
const QUOTE_CHARS_MAX: usize = 60;

/// Where a value was given: in a file, or by a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; `None` for a flag.
    pub file: Option<Arc<str>>,
    /// Line in the file, from 1; `None` when the whole file is meant.
    pub line: Option<usize>,
    /// The key (`link.rate`) or the flag (`--mtu`); empty when the file's syntax is meant.
    pub key: String,
}

impl Place {
    /// The place of a flag, as typed: `--mtu`.
    pub fn flag(flag: impl Into<String>) -> Place {
        Place { key: flag.into(), ..Place::default() }
    }

    /// The same place, with `part` after the key: `--link eth1` and `rate` give `--link eth1: rate`.
    #[must_use]
    pub fn part(&self, part: &str) -> Place {
        Place { key: format!("{}: {part}", self.key), ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = printable(&self.key);
        let Some(file) = &self.file else { return f.write_str(&key) };
        f.write_str(&printable(file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if key.is_empty() { Ok(()) } else { write!(f, ": {key}") }
    }
}

/// One broken rule. Prints as `PLACE: what is wrong; allowed: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where the wrong value was given.
    pub place: Place,
    pub what: String,
    /// What is allowed; empty when `what` says it already.
    pub allowed: String,
}

impl Problem {
    /// The problem `what` at `place`, and what is allowed there.
    pub fn new(place: &Place, what: impl Into<String>, allowed: impl Into<String>) -> Problem {
        Problem { place: place.clone(), what: what.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        if self.allowed.is_empty() { Ok(()) } else { write!(f, "; allowed: {}", self.allowed) }
    }
}

/// A request that is impossible with this input or on this machine: a sentence for each reason, without the
/// leading `tabane: `.
#[derive(Debug, thiserror::Error)]
#[error("{}", sentences.join("\n"))]
pub struct BadInput {
    sentences: Vec<String>,
}

impl BadInput {
    pub fn new(sentence: impl Into<String>) -> BadInput {
        BadInput { sentences: vec![sentence.into()] }
    }

    pub fn sentences(&self) -> &[String] {
        &self.sentences
    }
}

impl From<Vec<Problem>> for BadInput {
    fn from(problems: Vec<Problem>) -> BadInput {
        BadInput { sentences: problems.iter().map(ToString::to_string).collect() }
    }
}

/// The problems as a reader of the file meets them, or `None` when there are none.
pub(super) fn in_order(mut problems: Vec<Problem>) -> Option<Vec<Problem>> {
    problems.sort_by_key(|problem| problem.place.line);
    (!problems.is_empty()).then_some(problems)
}

/// A user's text as a sentence repeats it: in backquotes, escaped to one line, cut at 60 characters.
pub fn quoted(text: &str) -> String {
    format!("`{}`", printable(text))
}

fn printable(text: &str) -> String {
    let mut line: String = text.chars().take(QUOTE_CHARS_MAX).flat_map(escaped).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}

/// Control characters and others that do not print as `\u{…}`; quotes and backslashes stay as they are.
pub fn escaped(character: char) -> impl Iterator<Item = char> {
    let plain = matches!(character, '\'' | '"' | '\\');
    let escapes = (!plain).then(|| character.escape_debug());
    plain.then_some(character).into_iter().chain(escapes.into_iter().flatten())
}

/// `sentence` with control characters and the like escaped: a path or a name may contain them.
#[must_use]
pub fn one_line(sentence: &str) -> String {
    sentence.chars().flat_map(escaped).collect()
}

/// The name of `known` that `typed` was probably meant to be: at most two edits away, and less than half of it.
pub fn nearest<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = known.iter().map(|name| (strsim::damerau_levenshtein(typed, name), *name));
    near.filter(|(edits, name)| *edits <= 2 && edits * 2 < name.len()).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_sentence() {
        let place = Place { file: Some("tb0.toml".into()), line: Some(3), key: "mtu".into() };
        let problem = Problem::new(&place, "7 is out of range", "68 to 65521");
        assert_eq!(problem.to_string(), "tb0.toml:3: mtu: 7 is out of range; allowed: 68 to 65521");
        let place = Place::flag("--link eth1").part("rate");
        assert_eq!(Problem::new(&place, "empty", "").to_string(), "--link eth1: rate: empty");
    }

    #[test]
    fn quoting_keeps_one_line_and_cuts() {
        assert_eq!(quoted("a\nb\u{1b}[1m"), "`a\\nb\\u{1b}[1m`");
        assert_eq!(quoted(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
        assert_eq!(quoted("it's \\ \"it\""), "`it's \\ \"it\"`");
    }

    #[test]
    fn the_nearest_name_is_close() {
        let known = ["mtu", "port", "policy", "workers"];
        assert_eq!(nearest("mut", &known), Some("mtu"));
        assert_eq!(nearest("worker", &known), Some("workers"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
