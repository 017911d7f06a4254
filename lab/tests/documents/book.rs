//! The book: its summary lists every page once, and each page of `docs/` begins with what its reader can do with it.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use pulldown_cmark::{Event, Tag, TagEnd};

use crate::documents::pages::{events, everything, none, page};

const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages that a book shows and that are not of `docs/`.
const AT_THE_ROOT: [&str; 5] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];

pub(crate) fn lists_every_page() -> Result<()> {
    let summary = page(SUMMARY)?;
    let mut listed = Vec::new();
    for event in events(&summary.text) {
        if let Event::Start(Tag::Link { dest_url, .. }) = event {
            let path = dest_url.strip_prefix("../").map_or_else(|| format!("docs/{dest_url}"), str::to_owned);
            listed.push(path);
        }
    }
    let all: BTreeSet<String> = everything()?
        .into_iter()
        .chain(AT_THE_ROOT.map(str::to_owned))
        .filter(|path| path != SUMMARY)
        .collect();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    ensure!(once == all, "{SUMMARY} and the pages differ in {:?}", &once ^ &all);
    ensure!(once.len() == listed.len(), "{SUMMARY} lists a page twice");
    Ok(())
}

pub(crate) fn begin_with_their_use() -> Result<()> {
    let mut complaints = Vec::new();
    for path in everything()?.iter().filter(|path| *path != SUMMARY) {
        let first = first_paragraph(&page(path)?.text);
        let says = first.starts_with("With this page you ");
        complaints.extend(
            (!says).then(|| format!("{path}: begins with {first:.60?}; wanted: With this page you …")),
        );
    }
    none(&complaints)
}

/// The words below the title.
fn first_paragraph(text: &str) -> String {
    let below = events(text).skip_while(|event| !matches!(event, Event::Start(Tag::Paragraph)));
    let words = below.take_while(|event| !matches!(event, Event::End(TagEnd::Paragraph)));
    words
        .map(|event| match event {
            Event::Text(text) | Event::Code(text) => text.into_string(),
            Event::SoftBreak => " ".to_owned(),
            _ => String::new(),
        })
        .collect()
}
