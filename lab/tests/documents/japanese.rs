//! README.ja.md says what README.md says: the same headings by their levels, the same code, and the same links.

use anyhow::{Result, ensure};
use pulldown_cmark::{Event, HeadingLevel, Tag};

use crate::documents::pages::{Code, code, events, without_comment};
use crate::repository::{none, text};

/// The translation.
pub(crate) const PAGE: &str = "README.ja.md";
const ORIGINAL: &str = "README.md";

pub(crate) fn says_the_same() -> Result<()> {
    none(&differences(&text(ORIGINAL)?, &text(PAGE)?))
}

/// The check itself.
pub(crate) fn differences_are_found() -> Result<()> {
    let original = "# A\n\nSee `tabane up` in [b](b.md).\n\n## B\n\n    tabane up   # starts\n\n|a|b|\n|-|-|\n|`rr`|x|\n";
    let translated = "# あ\n\n[び](b.md)の`tabane up`。\n\n## び\n\n    tabane up   # 始める\n\n|あ|び|\n|-|-|\n|`rr`|ん|\n";
    ensure!(differences(original, translated).is_empty(), "{:?}", differences(original, translated));
    for (old, new) in [
        ("## び", "### び"),
        ("`tabane up`", "`tabane down`"),
        ("    tabane up", "    tabane down"),
        ("b.md", "c.md"),
        ("|`rr`|ん|\n", ""),
    ] {
        ensure!(
            !differences(original, &translated.replacen(old, new, 1)).is_empty(),
            "{new} in place of {old} passes"
        );
    }
    Ok(())
}

/// What two pages do not have in common.
fn differences(original: &str, translated: &str) -> Vec<String> {
    let pairs = [
        ("headings", headings(original), headings(translated)),
        ("blocks of code", blocks(original), blocks(translated)),
        ("code in sentences", spans(original), spans(translated)),
        ("links", links(original), links(translated)),
        ("rows of tables", rows(original), rows(translated)),
    ];
    let differ = pairs.into_iter().filter(|(_, original, translated)| original != translated);
    differ.map(|(what, original, translated)| first_difference(what, &original, &translated)).collect()
}

fn first_difference(what: &str, original: &[String], translated: &[String]) -> String {
    let at = original
        .iter()
        .zip(translated)
        .position(|(one, other)| one != other)
        .unwrap_or(original.len().min(translated.len()));
    let (one, other) = (original.get(at), translated.get(at));
    format!("{what}: number {} is {one:?} in {ORIGINAL} and {other:?} in {PAGE}", at + 1)
}

fn headings(text: &str) -> Vec<String> {
    let level = |level: HeadingLevel| level.to_string();
    let levels = events(text).filter_map(|event| {
        if let Event::Start(Tag::Heading { level, .. }) = event { Some(level) } else { None }
    });
    levels.map(level).collect()
}

/// Blocks without comments, which are translated; pictures within them are as they are.
fn blocks(text: &str) -> Vec<String> {
    let blocks = code(text)
        .into_iter()
        .filter_map(|code| if let Code::Block(_, lines) = code { Some(lines) } else { None });
    blocks.map(|lines| lines.lines().map(without_comment).collect::<Vec<_>>().join("\n")).collect()
}

/// Code within sentences, in any order: other languages have another.
fn spans(text: &str) -> Vec<String> {
    let spans =
        code(text).into_iter().filter_map(|code| if let Code::Span(span) = code { Some(span) } else { None });
    let mut spans: Vec<_> = spans.collect();
    spans.sort();
    spans
}

/// Where links lead, in any order; pages have other anchors in another language, and each names the other.
fn links(text: &str) -> Vec<String> {
    let targets = events(text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some(dest_url.into_string())
        }
        _ => None,
    });
    let outside = targets.filter(|target| !target.starts_with('#') && target != ORIGINAL && target != PAGE);
    let mut outside: Vec<_> =
        outside.map(|target| target.split('#').next().unwrap_or_default().to_owned()).collect();
    outside.sort();
    outside
}

fn rows(text: &str) -> Vec<String> {
    let rows = events(text).filter(|event| matches!(event, Event::Start(Tag::TableRow | Tag::Table(_))));
    rows.map(|event| if matches!(event, Event::Start(Tag::TableRow)) { "row" } else { "table" }.to_owned())
        .collect()
}
