//! The pages that users read, taken apart.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use tabane_kit::report::Limits;

use crate::repository::{File, files, none, root, text};

/// Pages about something else than what can be typed today: bytes on the wire, and how command lines are made up.
const OTHERS: [&str; 2] = ["docs/wire.md", "docs/reference/commands.md"];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Span(String),
    Block(String, String),
}

/// README, its translation, SECURITY, CONTRIBUTING, and docs.
pub(crate) fn all() -> Result<Vec<File>> {
    let at_the_root = ["README.md", "README.ja.md", "SECURITY.md", "CONTRIBUTING.md"];
    let at_the_root = at_the_root.iter().map(|path| Ok(File { path: (*path).to_owned(), text: text(path)? }));
    let docs = files("docs", "md")?.into_iter().filter(|page| !OTHERS.contains(&&*page.path));
    at_the_root.chain(docs.map(Ok)).collect()
}

pub(crate) fn events(text: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

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

pub(crate) fn without_comment(line: &str) -> &str {
    let end = line.match_indices("# ").find(|(at, _)| *at == 0 || line[..*at].ends_with(' '));
    line[..end.map_or(line.len(), |(at, _)| at)].trim()
}

// The book: its summary lists every page once, and each page of `docs/` begins with what its reader can do with it.

const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages that a book shows and that are not of `docs/`.
const AT_THE_ROOT: [&str; 5] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];

pub(crate) fn lists_every_page() -> Result<()> {
    let summary = text(SUMMARY)?;
    let mut listed = Vec::new();
    for event in events(&summary) {
        if let Event::Start(Tag::Link { dest_url, .. }) = event {
            let path = dest_url.strip_prefix("../").map_or_else(|| format!("docs/{dest_url}"), str::to_owned);
            listed.push(path);
        }
    }
    let pages = files("docs", "md")?.into_iter().map(|page| page.path).filter(|path| path != SUMMARY);
    let all: BTreeSet<String> = pages.chain(AT_THE_ROOT.map(str::to_owned)).collect();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    ensure!(once == all, "{SUMMARY} and the pages differ in {:?}", &once ^ &all);
    ensure!(once.len() == listed.len(), "{SUMMARY} lists a page twice");
    Ok(())
}

pub(crate) fn begin_with_their_use() -> Result<()> {
    let mut complaints = Vec::new();
    for File { path, text } in files("docs", "md")?.iter().filter(|page| page.path != SUMMARY) {
        let first = first_paragraph(text);
        let says = first.starts_with("With this page you ");
        complaints.extend(
            (!says).then(|| format!("{path}: begins with {first:.60?}; wanted: With this page you …")),
        );
    }
    none(&complaints)
}

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

// Make targets, and the programs that they install; and what the list of limits names.

pub(crate) fn targets_exist() -> Result<()> {
    let makefile = text("Makefile")?;
    let rules = makefile.lines().filter(|line| line.starts_with(|letter: char| letter.is_ascii_lowercase()));
    let rules = rules.filter_map(|line| line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')));
    let targets: BTreeSet<&str> = rules.flat_map(|(names, _)| names.split_whitespace()).collect();
    ensure!(targets.contains("demo") && targets.contains("install"), "{targets:?}");
    let (mut complaints, mut count) = (Vec::new(), 0);
    let shown = makefile.lines().filter_map(|line| line.strip_prefix("\t@echo \""));
    let shown =
        shown.map(|line| ("make help".to_owned(), line.split("  ").next().unwrap_or_default().to_owned()));
    let pages = all()?;
    let typed =
        pages.iter().flat_map(|page| typed(&page.text).into_iter().map(|line| (page.path.clone(), line)));
    for (place, line) in typed.chain(shown) {
        for name in named(&line) {
            count += 1;
            complaints
                .extend((!targets.contains(name)).then(|| format!("{place}: `{line}`: no target {name}")));
        }
    }
    ensure!(count > 30, "{count} targets were found in all pages");
    none(&complaints)
}

/// The targets of `make` in a line: words up to the end of the command, but for variables.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let command = line
        .split("&&")
        .map(|part| part.trim().trim_start_matches("sudo "))
        .find_map(|part| part.strip_prefix("make "));
    let words = command.unwrap_or_default().split_whitespace();
    let words = words.take_while(|word| word.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    words.filter(|word| !word.contains('='))
}

/// `make test ONLY=WORD` of the pages runs something.
pub(crate) fn words_select_tests() -> Result<()> {
    let (names, sources) = (crate::cases().map(|case| case.name().to_owned()), files("", "rs")?);
    let functions = sources.iter().flat_map(|file| file.text.split("fn ").skip(1));
    let functions = functions.filter_map(|rest| Some(rest.split_once("()")?.0.to_owned()));
    let names: Vec<_> = names.chain(functions.filter(|name| !name.contains(' '))).collect();
    let (mut complaints, mut count) = (Vec::new(), 0);
    for File { path, text } in all()? {
        let words = text.split("ONLY=").skip(1);
        let words = words
            .filter_map(|rest| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next());
        for word in words.filter(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase())) {
            count += 1;
            let is_there = names.iter().any(|name| name.contains(word));
            complaints.extend((!is_there).then(|| format!("{path}: ONLY={word} runs no test")));
        }
    }
    ensure!(count > 20, "{count} words were found in all pages");
    none(&complaints)
}

/// The image of the container has the programs that `make install` installs, built with the kernel path and the packages that it takes,
/// and names by digests what it begins with.
pub(crate) fn the_image_has_all_programs() -> Result<()> {
    let makefile = text("Makefile")?;
    let list = |name: &str| {
        let list = makefile.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" := "));
        list.with_context(|| format!("no {name} in the Makefile"))
    };
    let recipe = text("packaging/Containerfile")?;
    let words: BTreeSet<&str> = recipe.split_whitespace().collect();
    let programs = list("PROGRAMS")?.split_whitespace().map(|name| format!("target/release/{name}"));
    let packages =
        list("LIBELF")?.split_whitespace().filter_map(|pair| Some(pair.split_once('=')?.1.to_owned()));
    let wanted = programs.chain(packages).chain(["clang-16", "kernel-path"].map(str::to_owned));
    let lacks = wanted.filter(|word| !words.contains(&**word)).map(|word| format!("no {word}"));
    let begins = recipe.lines().filter(|line| line.starts_with("FROM ") && !line.contains("@sha256:"));
    let complaints = lacks
        .chain(begins.map(|line| format!("no digest in {line}")))
        .map(|lack| format!("packaging/Containerfile: {lack}"));
    none(&complaints.collect::<Vec<_>>())
}

pub(crate) fn limits_name_what_there_is() -> Result<()> {
    let (lab, list) = (tabane_lab::cli::command(), Limits::checked_in()?);
    let lacks = list.commands().into_iter().filter(|name| lab.find_subcommand(name).is_none());
    let mut complaints: Vec<_> = lacks.map(|name| format!("docs/limits.md: no command {name}")).collect();
    let scenarios = root().join("lab/scenarios");
    let lacks =
        list.scenarios().into_iter().filter(|name| !scenarios.join(name).with_extension("toml").exists());
    complaints.extend(lacks.map(|name| format!("docs/limits.md: lab/scenarios has no {name}.toml")));
    none(&complaints)
}
