//! Keys of the configuration file: those that pages name exist, and `docs/configuration.md` has all of them, each with the
//! default, the limits and the words that the code has.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{Event, Tag, TagEnd};
use tabane::config::problem::Problem;
use tabane::config::{Config, file, resolve};
use tabane::key::{Key, KeyError};
use toml::{Table, Value};

use crate::documents::pages::{Code, all, code, events, none, page};

/// The reference.
const REFERENCE: &str = "docs/configuration.md";
/// A page about files of another kind.
const SCENARIOS: &str = "docs/scenarios.md";

/// A row of the reference.
#[derive(Default)]
struct Row {
    key: String,
    /// What the value may be.
    value: String,
    /// The words among it that are written as code.
    words: Vec<String>,
    /// As TOML; empty where the key is not set.
    default: String,
}

/// Examples of files are understood, and `KEY = …` within a sentence names a key.
pub(crate) fn exist() -> Result<()> {
    let keys = file::keys();
    let names: BTreeSet<&str> = keys.iter().filter_map(|key| key.name.rsplit('.').next()).collect();
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

pub(crate) fn are_all_in_the_reference() -> Result<()> {
    let rows = rows()?;
    let written: BTreeSet<&str> = rows.iter().map(|row| &*row.key).collect();
    let keys = file::keys();
    let known: BTreeSet<&str> = keys.iter().map(|key| &*key.name).collect();
    ensure!(written == known, "{REFERENCE} and daemon/src/config/file.rs differ in {:?}", &written ^ &known);
    ensure!(rows.len() == written.len(), "{REFERENCE} has a key twice");
    Ok(())
}

pub(crate) fn have_their_defaults() -> Result<()> {
    let printed: Table = toml::from_str(&Config::default().to_string())?;
    let links =
        ["nic = 'eth1'", "nic = 'eth1'\nkind = 'ether'\nengine = 'auto'", "kind = 'mem'\npath = '/m'"];
    let links: Vec<Table> = links.iter().map(|link| printed_link(link)).collect::<Result<_>>()?;
    let packet = printed_link("nic = 'eth1'\nkind = 'ether'")?;
    // What is not printed where it is the default.
    let (udp, off) = (Value::from("udp"), Value::from(false));
    ensure!(
        ["kind", "drained", "protected"].iter().all(|key| !links[0].contains_key(*key)),
        "{:?}",
        links[0]
    );
    let mut complaints = Vec::new();
    for row in rows()? {
        let found = match row.key.split_once('.') {
            None => printed.get(&row.key).filter(|value| !value.is_table()),
            Some(("offload", key)) => printed["offload"].get(key),
            // Where it stands in the file above, it is no default.
            Some(("link", "nic" | "path")) => None,
            Some(("link", "kind")) => Some(&udp),
            Some(("link", "drained" | "protected")) => Some(&off),
            Some(("link", "engine")) => packet.get("engine"),
            Some(("link", key)) => links.iter().find_map(|link| link.get(key)),
            Some(_) => None,
        };
        let written = if row.default.is_empty() { None } else { Some(toml_value(&row.default)?) };
        // A list of tables that is empty is not printed.
        let is_right =
            found == written.as_ref() || found.is_none() && matches!(row.key.as_str(), "link" | "class");
        complaints.extend(
            (!is_right).then(|| format!("{REFERENCE}: {}: {written:?}, and the code has {found:?}", row.key)),
        );
    }
    none(&complaints)
}

/// What is printed of a link.
fn printed_link(link: &str) -> Result<Table> {
    let config =
        config(&format!("[[link]]\n{link}\n")).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let printed: Table = toml::from_str(&config.to_string())?;
    printed["link"][0].as_table().cloned().context("a link")
}

fn config(text: &str) -> Result<Config, Vec<Problem>> {
    resolve::resolve(&file::parse("tb0.toml", text)?, |_, _| {
        Key::generate().map_err(|_| KeyError::Exists("".into()))
    })
}

fn toml_value(text: &str) -> Result<Value> {
    let table: Table = toml::from_str(&format!("value = {text}"))?;
    Ok(table["value"].clone())
}

/// What a row says is allowed is: both ends of a range of whole numbers, and not what lies beyond; the words, and no others.
pub(crate) fn have_their_limits() -> Result<()> {
    let (keys, mut complaints, mut count) = (file::keys(), Vec::new(), 0);
    for row in rows()? {
        let allowed = keys.iter().find(|key| key.name == row.key).map_or("", |key| &key.allowed);
        let mut expect = |value: String, is_allowed: bool| {
            let problem = problem(&row.key, &value);
            if problem.is_none() != is_allowed {
                complaints.push(format!("{REFERENCE}: {} = {value}: {problem:?}", row.key));
            }
        };
        if let (true, Some((low, high))) = (allowed == "a whole number", range(&row.value)) {
            count += 1;
            for (value, is_allowed) in [(low - 1, false), (low, true), (high, true), (high + 1, false)] {
                expect(value.to_string(), is_allowed);
            }
        } else if allowed == "a whole number" {
            complaints.push(format!("{REFERENCE}: {}: no range of whole numbers", row.key));
        } else if !row.words.is_empty() && row.words.iter().all(|word| is_word(word)) {
            count += 1;
            row.words.iter().for_each(|word| expect(format!("{word:?}"), true));
            expect("\"no-such\"".to_owned(), false);
            complaints.extend(words_missing(&row));
        }
    }
    ensure!(count > 12, "{count} keys with limits");
    none(&complaints)
}

/// Whether a text is a word that a value may be, and not the name of a key or a value of another.
fn is_word(text: &str) -> bool {
    !["nic", "[[class]]", "[[link]]", "[offload]", "0.0.0.0"].contains(&text)
}

/// A word that the code knows, and the row does not.
fn words_missing(row: &Row) -> Option<String> {
    let allowed = problem(&row.key, "\"no-such\"")?.allowed;
    let listed = allowed
        .split(", ")
        .filter(|word| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-+".contains(letter)));
    let missing: Vec<_> = listed.filter(|word| !row.words.iter().any(|known| known == word)).collect();
    (!missing.is_empty()).then(|| format!("{REFERENCE}: {} lacks {missing:?}", row.key))
}

/// What is wrong with a value, if that is the value itself.
fn problem(key: &str, value: &str) -> Option<Problem> {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let text = match (table, name) {
        ("link", "slots" | "slot") => {
            format!("[[link]]\nkind = 'mem'\npath = '/m'\nslots = 256\n{name} = {value}\n")
        }
        ("link", "engine" | "completion") => {
            format!("[[link]]\nnic = 'eth1'\nkind = 'ether'\n{name} = {value}\n")
        }
        ("link", _) => format!("[[link]]\nnic = 'eth1'\n{name} = {value}\n"),
        ("class.match", _) => {
            format!("[[link]]\nnic = 'eth1'\n[[class]]\npolicy = 'rr'\nmatch = {{ {name} = {value} }}\n")
        }
        _ => format!("{name} = {value}\n[[link]]\nnic = 'eth1'\n"),
    };
    let text = if name == "slots" { text.replace("slots = 256\n", "") } else { text };
    let text = if name == "completion" { text.replace("kind =", "engine = 'auto'\nkind =") } else { text };
    let problems = config(&text).err().unwrap_or_default();
    let is_of_value =
        |one: &Problem| one.what.ends_with("is out of range") || one.what.contains(" is unknown");
    problems.into_iter().find(|one| one.place.key == key && is_of_value(one))
}

/// `LOW to HIGH` at the beginning of a cell.
fn range(text: &str) -> Option<(i64, i64)> {
    let (low, rest) = text.split_once(" to ")?;
    Some((low.parse().ok()?, rest.split(',').next()?.parse().ok()?))
}

/// The rows of all tables of the reference.
fn rows() -> Result<Vec<Row>> {
    let page = page(REFERENCE)?;
    let (mut rows, mut row, mut cell, mut is_head) = (Vec::new(), Row::default(), 0, false);
    for event in events(&page.text) {
        match event {
            Event::Start(Tag::TableHead) => is_head = true,
            Event::End(TagEnd::TableHead) => (is_head, cell) = (false, 0),
            Event::End(TagEnd::TableCell) => cell += 1,
            Event::End(TagEnd::TableRow) => {
                rows.push(std::mem::take(&mut row));
                cell = 0;
            }
            Event::Code(text) if !is_head && cell == 0 => row.key = text.into_string(),
            Event::Code(text) if !is_head && cell == 1 => row.words.push(text.trim_matches('"').to_owned()),
            Event::Text(text) if !is_head && cell == 1 => row.value.push_str(&text),
            Event::Code(text) if !is_head && cell == 2 => row.default = text.into_string(),
            _ => {}
        }
    }
    ensure!(rows.len() > 40, "{} rows in {REFERENCE}", rows.len());
    Ok(rows)
}
