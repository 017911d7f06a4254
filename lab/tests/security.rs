//! `docs/security.md` is held to the code: every row that says what is protected names tests that exist, and every bound
//! has the value of its constant.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    tests![
        what_is_said_to_be_protected_is_tested,
        tests_that_are_named_exist,
        bounds_have_the_values_of_their_constants,
        both_ways_to_write_a_value_are_understood
    ]
}

/// A table of the document: its rows, and of each its cells.
type Table = Vec<Vec<String>>;

fn what_is_said_to_be_protected_is_tested() {
    let claims = table("What is protected");
    assert!(claims.len() >= 10, "the table is not where it was");
    for claim in claims {
        let tests = claim.last().map(|cell| quoted(cell)).unwrap_or_default();
        assert!(tests.iter().any(|test| test.contains(": ")), "no test carries: {}", claim[0]);
    }
}

fn tests_that_are_named_exist() {
    let text = document();
    let names: Vec<(&str, &str)> = quoted(&text).into_iter().filter_map(named_test).collect();
    assert!(names.len() >= 20, "only {} tests are found", names.len());
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    let missing: Vec<_> = names
        .into_iter()
        .filter(|(part, name)| {
            let folders = ["src", "tests"].map(|folder| root().join(part).join(folder));
            let sources =
                parts.entry(part).or_insert_with(|| folders.iter().map(|folder| sources(folder)).collect());
            !has_test(sources, name)
        })
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

fn bounds_have_the_values_of_their_constants() {
    let bounds = table("Bounds");
    assert!(bounds.len() >= 10, "the table is not where it was");
    for bound in bounds {
        let [what, stated, constant, file] = &bound[..] else { panic!("four cells: {bound:?}") };
        let (constant, file) = (constant.trim_matches('`'), file.trim_matches('`'));
        let source = read(Path::new(file));
        let expression = definition(&source, constant).unwrap_or_else(|| panic!("{file} has no {constant}"));
        let stated = people(stated).unwrap_or_else(|| panic!("{what}: {stated} is no value"));
        assert_eq!(Some(stated), value(&source, expression), "{what}: {constant} is {expression}");
    }
}

/// The table below a heading, without its head.
fn table(heading: &str) -> Table {
    let text = document();
    let section = text.split("\n## ").find(|section| section.starts_with(&format!("{heading}\n")));
    let rows = section.into_iter().flat_map(str::lines).filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// `part: name_of_a_test`, taken apart.
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

/// All Rust files below `directory`, in words with one space between; a directory that is not there has none.
fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let texts = entries.map(|entry| entry.path()).map(|path| {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        match path.is_dir() {
            true => sources(&path),
            false if is_rust => read(&path).split_whitespace().collect::<Vec<_>>().join(" "),
            false => String::new(),
        }
    });
    texts.collect()
}

/// What a constant is set to.
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

fn document() -> String {
    read(Path::new("docs/security.md"))
}

/// A file of the repository.
fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository")
}

fn both_ways_to_write_a_value_are_understood() {
    let source = "const BITS: u16 = 10;\nconst PLACES: usize = 1 << BITS;\n";
    assert_eq!(value(source, "PLACES"), people("1,024"));
    assert_eq!(value(source, "64 << BITS"), people("64 KiB"));
    assert_eq!(value(source, "Duration::from_millis(1_500)"), Some(1_500_000_000));
    assert_eq!((people("two"), people("3 apples"), value(source, "OTHER")), (None, None, None));
}
