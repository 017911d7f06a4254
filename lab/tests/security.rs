//! `docs/security.md` is held to the code: what it says to be protected, and what attackers cannot do, has tests that
//! exist, and every bound has the value of its constant.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use crate::case::Case;
use crate::repository::{files, text};

pub(crate) fn cases() -> Vec<Case> {
    tests![
        what_is_said_to_be_protected_is_tested,
        tests_that_are_named_exist,
        bounds_have_the_values_of_their_constants
    ]
}

/// A table of the document: its rows, and of each its cells.
type Table = Vec<Vec<String>>;

const PAGE: &str = "docs/security.md";
/// Those of whom the page says what they cannot do.
const ATTACKERS: [&str; 11] = [
    "an outsider on a segment",
    "an outsider through whom a link passes",
    "thief of the group key",
    "stolen a node",
    "the daemon over",
    "page",
    "follower",
    "resolves names",
    "local user",
    "watcher",
    "hypervisor",
];

/// Each part of a row's last cell, up to a semicolon, ends with its tests.
fn what_is_said_to_be_protected_is_tested() -> Result<()> {
    let tables = [table("What is protected")?, table("Who may be where")?];
    let [claims, attackers] = &tables;
    ensure!(claims.len() >= 10, "the table is not where it was");
    for attacker in ATTACKERS {
        ensure!(attackers.iter().any(|row| row[0].contains(attacker)), "no row says what {attacker} cannot");
    }
    for row in tables.iter().flatten() {
        for part in row.last().into_iter().flat_map(|cell| cell.split("; ")) {
            let tests = part.rsplit('(').next().map(quoted).unwrap_or_default();
            let is_tested = !tests.is_empty() && tests.into_iter().all(|test| named_test(test).is_some());
            ensure!(is_tested, "no test carries what is said of {}: {part}", row[0]);
        }
    }
    Ok(())
}

fn tests_that_are_named_exist() -> Result<()> {
    let page = text(PAGE)?;
    let names: Vec<(&str, &str)> = quoted(&page).into_iter().filter_map(named_test).collect();
    ensure!(names.len() >= 20, "only {} tests are found", names.len());
    let (mut parts, mut missing) = (BTreeMap::<&str, String>::new(), Vec::new());
    for (part, name) in names {
        if !parts.contains_key(part) {
            parts.insert(part, sources(&format!("{part}/src"))? + &sources(&format!("{part}/tests"))?);
        }
        missing.extend((!has_test(&parts[part], name)).then_some((part, name)));
    }
    ensure!(missing.is_empty(), "no such tests: {missing:?}");
    Ok(())
}

fn bounds_have_the_values_of_their_constants() -> Result<()> {
    let bounds = table("Bounds")?;
    ensure!(bounds.len() >= 10, "the table is not where it was");
    for bound in bounds {
        let [what, stated, constant, file] = &bound[..] else { anyhow::bail!("four cells: {bound:?}") };
        let (constant, source) = (constant.trim_matches('`'), text(file.trim_matches('`'))?);
        let expression =
            definition(&source, constant).with_context(|| format!("{file} has no {constant}"))?;
        let stated = people(stated).with_context(|| format!("{what}: {stated} is no value"))?;
        ensure!(Some(stated) == value(&source, expression), "{what}: {constant} is {expression}");
    }
    Ok(())
}

fn table(heading: &str) -> Result<Table> {
    let page = text(PAGE)?;
    let section = page.split("\n## ").find(|section| section.starts_with(&format!("{heading}\n")));
    let rows = section.into_iter().flat_map(str::lines).filter(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    Ok(rows.map(cells).collect())
}

fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn named_test(quoted: &str) -> Option<(&str, &str)> {
    let (part, name) = quoted.split_once(": ")?;
    let is_name = |text: &str| text.chars().all(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '_'));
    (is_name(part) && is_name(name)).then_some((part, name))
}

/// Whether a part of the workspace has a test: a function after `#[test]`, or a trial with that name.
fn has_test(sources: &str, name: &str) -> bool {
    // Experiments have this before their names.
    let trial = name.strip_prefix("experiment_").unwrap_or(name);
    let listed = [format!(" {name},"), format!("[{name},"), format!(" {name} ]")];
    sources.contains(&format!("#[test] fn {name}("))
        || sources.contains(&format!("\"{trial}\","))
        || (sources.contains(&format!("fn {name}() ")) && listed.iter().any(|name| sources.contains(name)))
}

fn sources(folder: &str) -> Result<String> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(files(folder, "rs")?.iter().map(|file| words(&file.text)).collect())
}

fn definition<'a>(source: &'a str, constant: &str) -> Option<&'a str> {
    let (_, rest) = source.split_once(&format!("const {constant}: "))?;
    let (_, rest) = rest.split_once(" = ")?;
    Some(rest.split_once(';')?.0)
}

/// The value of a constant's expression: a number, a shift, another constant, or a time in nanoseconds.
fn value(source: &str, expression: &str) -> Option<u64> {
    let inside = |function: &str| expression.strip_prefix(function)?.strip_suffix(')');
    if let Some(seconds) = inside("Duration::from_secs(") {
        return Some(value(source, seconds)? * 1_000_000_000);
    }
    if let Some(millis) = inside("Duration::from_millis(") {
        return Some(value(source, millis)? * 1_000_000);
    }
    if let Some((one, by)) = expression.split_once(" << ") {
        return Some(value(source, one)? << value(source, by)?);
    }
    let number = expression.replace('_', "").parse().ok();
    number.or_else(|| value(source, definition(source, expression)?))
}

/// The same as people write it: `4,096`, `2^30`, `64 KiB`, `120 s`, `100 ms`.
fn people(text: &str) -> Option<u64> {
    if let Some(power) = text.strip_prefix("2^") {
        return Some(1 << power.parse::<u32>().ok()?);
    }
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let unit = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    Some(number.replace(',', "").parse::<u64>().ok()? * unit)
}
