//! The pages of `docs/reference`: commands, exit codes, counters, metrics and kinds of events, from what defines them.
//!
//! They are part of the repository, so that a forge shows them, and a review shows what a change does to users. The test below
//! fails when they differ from the code; with `TABANE_WRITE=1` it writes them.

use clap::{Arg, Command};
use tabane::metrics::families;
use tabane_api::KINDS;
use tabane_api::counters::counters;
use tabane_api::status::REASONS;
use tabane_config::reference::{Described, reference};
use tabane_process::exit::CODES;

use crate::is_another;

/// Name and text of each page.
pub fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("commands.md", commands()),
        ("exit-codes.md", exit_codes()),
        ("counters.md", all_counters()),
        ("metrics.md", metrics()),
        ("events.md", events()),
    ]
}

fn begin(title: &str, purpose: &str) -> String {
    format!(
        "# {title}\n\n{purpose}\n\n<!-- Made from the code: `TABANE_WRITE=1 cargo test -p tabane-manuals reference`. -->\n\n"
    )
}

fn commands() -> String {
    let mut page = begin(
        "Commands and options",
        "With this page you look up what a command takes. `tabane COMMAND --help` and the manual pages say the same.",
    );
    for mut program in crate::programs() {
        program.build();
        command(&program, &mut page);
    }
    page
}

fn command(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    page.push_str(&format!("## {name}\n\n"));
    if let Some(about) = command.get_about() {
        page.push_str(&format!("{}.\n\n", cell(&about.to_string())));
    }
    if is_another(command) {
        page.push_str(&format!(
            "What follows is passed on to the program `tabane-{}`, see below.\n\n",
            command.get_name()
        ));
        return;
    }
    let usage = command.clone().render_usage().to_string();
    page.push_str(&format!(
        "    {}\n\n",
        usage.trim_start_matches("Usage: ").replace('\n', "\n    ").trim_end()
    ));
    let rows: Vec<String> = command.get_arguments().filter(|arg| !is_usual(arg)).map(row).collect();
    if !rows.is_empty() {
        page.push_str(&format!("| | | default |\n|---|---|---|\n{}\n", rows.concat()));
    }
    command.get_subcommands().for_each(|inner| self::command(inner, page));
}

/// `--help` and `--version`, which every command has.
fn is_usual(arg: &Arg) -> bool {
    ["help", "version"].contains(&arg.get_id().as_str())
}

fn row(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let takes = arg.get_num_args().is_some_and(|count| count.takes_values());
    let value = if takes { values.join(" ") } else { String::new() };
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (Some(short), None) => format!("-{short} {value}"),
        (None, None) => value,
    };
    let help = arg.get_help().map(|help| cell(&help.to_string())).unwrap_or_default();
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let defaults = defaults.filter(|_| takes).collect::<Vec<_>>().join(" ");
    // Where what the command line leaves out comes from elsewhere, the help says what that is.
    let said = help.strip_suffix(']').and_then(|help| help.split_once(" [default: "));
    let (help, default) = said.unwrap_or((help.as_str(), defaults.as_str()));
    format!("| `{}` | {help} | {default} |\n", name.trim().replace('|', "\\|"))
}

fn exit_codes() -> String {
    let mut page = begin(
        "Exit codes",
        "With this page you have scripts decide by how a command ended. Each error is one sentence on standard error.",
    );
    page.push_str("| code | meaning |\n|---|---|\n");
    CODES.iter().for_each(|(code, meaning)| page.push_str(&format!("| {code} | {meaning} |\n")));
    page
}

fn all_counters() -> String {
    let mut page = begin(
        "Counters",
        "With this page you look up what a counter of `tabane status -v` or `tabane status --json` counts. All count from the start of the \
         process, over all workers. [Metrics](metrics.md) has them under the names of Prometheus.",
    );
    page.push_str("| counter | counts |\n|---|---|\n");
    counters().for_each(|(name, meaning)| page.push_str(&format!("| `{name}` | {} |\n", cell(meaning))));
    page
}

fn metrics() -> String {
    let mut page = begin(
        "Metrics",
        "With this page you write queries and alerts. `tabane metrics` and `/metrics` of `tabane web` have all of these; what is not known \
         has no sample. [Metrics, alerts and a dashboard](../metrics.md) says how to scrape them.",
    );
    page.push_str("| metric | what it says, type, labels |\n|---|---|\n");
    for family in families() {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, help, kind) = (&family.name, cell(&family.help), family.kind);
        page.push_str(&format!(
            "| `{name}` | {help} {}{}; {} |\n",
            kind[..1].to_uppercase(),
            &kind[1..],
            labels.join(", ")
        ));
    }
    page.push_str("\nA `stateset` is 1 for the state that its last label names, and 0 for the others.\n");
    page.push_str("\n## Why a link is not well\n\nThe values of the label `tabane_link_fault`:\n\n| word | meaning |\n|---|---|\n");
    REASONS.iter().for_each(|(word, meaning)| page.push_str(&format!("| `{word}` | {} |\n", cell(meaning))));
    page
}

fn events() -> String {
    let mut page = begin(
        "Kinds of events",
        "With this page you choose which events to act on. [The event log](../events.md) has the fields and an example of each kind.",
    );
    page.push_str("| `what` | meaning |\n|---|---|\n");
    KINDS.iter().for_each(|(kind, meaning)| page.push_str(&format!("| `{kind}` | {} |\n", cell(meaning))));
    page
}

/// The page of the configuration, with the rows of its tables as the tables of keys have them.
pub fn configuration(page: &str) -> String {
    let (mut tables, mut text) = (reference().into_iter(), String::new());
    for line in page.lines().filter(|line| !line.starts_with("| `")) {
        text.push_str(&format!("{line}\n"));
        if line.starts_with("|---") {
            tables.next().into_iter().flatten().for_each(|key| text.push_str(&key_row(&key)));
        }
    }
    text
}

fn key_row(key: &Described) -> String {
    let default = key.default.as_ref().map(|default| format!("`{default}` ")).unwrap_or_default();
    format!("| `{}` | {} | {default}| {} |\n", key.name, cell(&key.values), cell(key.doc))
}

/// Text that may stand in a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The file at `path` below `docs` says this, or is written.
    fn says(path: &Path, text: &str) {
        if std::env::var_os("TABANE_WRITE").is_some() {
            fs::write(path, text).expect("written");
        }
        let found = fs::read_to_string(path).unwrap_or_default();
        let differs = found.lines().zip(text.lines()).find(|(found, text)| found != text);
        assert!(
            found == text,
            "{} differs from the code, first in {differs:?}; \
             `TABANE_WRITE=1 cargo test -p tabane-manuals reference` writes it",
            path.display()
        );
    }

    #[test]
    fn the_reference_of_the_configuration_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
        let page = fs::read_to_string(&path).expect("a page");
        says(&path, &configuration(&page));
        let heads = page.lines().filter(|line| line.starts_with("|---")).count();
        assert_eq!(heads, reference().len(), "a table of the page for each table of keys");
    }

    #[test]
    fn the_reference_is_what_the_code_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
        for (name, text) in pages() {
            says(&folder.join(name), &text);
        }
        let mut files: Vec<_> =
            fs::read_dir(&folder).expect("a folder").flatten().map(|file| file.file_name()).collect();
        let mut names: Vec<_> = pages().iter().map(|(name, _)| std::ffi::OsString::from(name)).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names, "docs/reference holds what is made from the code, and nothing else");
    }

    #[test]
    fn every_command_and_option_has_its_place() {
        let page = commands();
        for mut program in crate::programs() {
            program.build();
            let mut all = vec![&program];
            while let Some(command) = all.pop() {
                let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
                if is_another(command) {
                    continue;
                }
                let section = page.split(&format!("\n## {name}\n")).nth(1).expect(name);
                let section = section.split("\n## ").next().unwrap_or_default();
                for option in command.get_arguments().filter(|arg| !is_usual(arg)).filter_map(Arg::get_long) {
                    assert!(section.contains(&format!("--{option}")), "{name} --{option}");
                }
                all.extend(command.get_subcommands());
            }
        }
    }
}
