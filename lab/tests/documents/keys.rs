//! Keys of the configuration file that pages name: they exist, and examples of files are understood.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use tabane_config::{file, reference};

use crate::documents::pages::{Code, all, code, none};

/// A page about files of another kind.
const SCENARIOS: &str = "docs/scenarios.md";

/// Examples of files are understood, and `KEY = …` within a sentence names a key.
pub(crate) fn exist() -> Result<()> {
    let names: BTreeSet<String> =
        reference::names().filter_map(|name| Some(name.rsplit('.').next()?.to_owned())).collect();
    let (mut complaints, mut count) = (Vec::new(), 0);
    for page in all()?.iter().filter(|page| page.path != SCENARIOS) {
        for code in code(&page.text) {
            match code {
                Code::Block(language, text) if language == "toml" => {
                    count += 1;
                    complaints.extend(
                        file::parse(&page.path, &text).err().into_iter().flatten().map(|one| one.to_string()),
                    );
                }
                Code::Span(span) => {
                    let Some(key) = named(&span) else { continue };
                    count += 1;
                    let is_known = names.contains(key);
                    complaints.extend((!is_known).then(|| format!("{}: `{span}`: no key {key}", page.path)));
                }
                Code::Block(..) => {}
            }
        }
    }
    ensure!(count > 15 && named("no_such = 1") == Some("no_such"), "{count} keys were found in all pages");
    none(&complaints)
}

/// The key that a span sets or the table that it begins.
fn named(span: &str) -> Option<&str> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    };
    let table = span.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let table = table.map(|rest| rest.trim_matches(['[', ']']));
    table.or(span.split_once(" = ").map(|(key, _)| key)).filter(is_name)
}
