//! The pages that users read, taken apart.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Pages about something else than what can be typed today: bytes on the wire, and how command lines are made up.
const OTHERS: [&str; 2] = ["docs/wire.md", "docs/reference/commands.md"];

/// A page with its path from the root.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Code within a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Within a sentence or a table.
    Span(String),
    /// A block, and its language.
    Block(String, String),
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository")
}

/// A page by its path.
pub(crate) fn page(path: &str) -> Result<Page> {
    let text = fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    Ok(Page { path: path.to_owned(), text })
}

/// README, its translation, SECURITY, CONTRIBUTING, and docs.
pub(crate) fn all() -> Result<Vec<Page>> {
    let mut paths: Vec<String> =
        ["README.md", "README.ja.md", "SECURITY.md", "CONTRIBUTING.md"].map(String::from).into();
    paths.extend(everything()?);
    paths.retain(|path| !OTHERS.contains(&&**path) && root().join(path).is_file());
    paths.iter().map(|path| page(path)).collect()
}

/// The paths of all pages below `docs`.
pub(crate) fn everything() -> Result<Vec<String>> {
    let (mut folders, mut paths) = (vec!["docs".to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder))? {
            let entry = entry?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// The events of a page's text.
pub(crate) fn events(text: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// All code of a page.
pub(crate) fn code(text: &str) -> Vec<Code> {
    let (mut found, mut block) = (Vec::new(), None);
    for event in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                block = Some((language.into_string(), String::new()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => block = Some(Default::default()),
            Event::Text(text) => {
                if let Some((_, lines)) = &mut block {
                    lines.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                found.extend(block.take().map(|(language, lines)| Code::Block(language, lines)));
            }
            Event::Code(text) => found.push(Code::Span(text.into_string())),
            _ => {}
        }
    }
    found
}

/// What may be typed: spans, and the lines of blocks that are no files, without comments; a line that ends with `\` goes on.
pub(crate) fn typed(text: &str) -> Vec<String> {
    let lines = code(text).into_iter().flat_map(|code| match code {
        Code::Span(span) => vec![span],
        Code::Block(language, _) if language == "toml" => Vec::new(),
        Code::Block(_, lines) => lines.replace("\\\n", " ").lines().map(str::to_owned).collect(),
    });
    lines.map(|line| without_comment(&line).to_owned()).filter(|line| !line.is_empty()).collect()
}

/// A line without what follows `#` and a blank.
pub(crate) fn without_comment(line: &str) -> &str {
    let end = line.match_indices("# ").find(|(at, _)| *at == 0 || line[..*at].ends_with(' '));
    line[..end.map_or(line.len(), |(at, _)| at)].trim()
}

/// Fails with a line for each complaint.
pub(crate) fn none(complaints: &[String]) -> Result<()> {
    anyhow::ensure!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    Ok(())
}

// The book: its summary lists every page once, and each page of `docs/` begins with what its reader can do with it.

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
