//! Commands and options of `tabane`, of the programs beside it and of `tabane-lab` against the definitions of their command lines.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use clap::{Arg, Command};
use tabane_config::{file, reference};

use crate::documents::pages::{Code, all, code, typed};
use crate::repository::none;

/// Options of other programs that pages name by themselves.
const OTHERS: [&str; 6] = ["--device", "--lib", "--npb", "--release", "--test", "--throttle"];
/// Words that end a command within a line.
const ENDS: [&str; 6] = ["|", "||", "&&", "&", ";", ">"];
/// Words before a program's name.
const BEFORE: [&str; 3] = ["sudo", "$", "#"];

/// What can be typed.
struct Programs {
    own: Vec<Command>,
    /// Every option of any program.
    options: BTreeSet<String>,
}

/// Whatever the pages name exists.
pub(crate) fn exist() -> Result<()> {
    let (programs, mut complaints, mut count) = (Programs::new(), Vec::new(), 0);
    for page in all()? {
        for line in typed(&page.text) {
            count += usize::from(program(&line).is_some());
            complaints.extend(programs.complaint(&line).map(|why| format!("{}: `{line}`: {why}", page.path)));
        }
    }
    ensure!(count > 40, "{count} commands were found in all pages");
    none(&complaints)
}

/// The check itself: what is wrong is found, what is right is not.
pub(crate) fn mistakes_are_found() -> Result<()> {
    let programs = Programs::new();
    for line in [
        "tabane stauts",
        "tabane up --no-such",
        "sudo target/release/tabane link mend tb0 eth1",
        "tabane status tb0 eth1",
        "tabane status --follow",
        "tabane probe rtt HOST --stagger 10",
        "tabane-probe ping HOST",
        "tabane web --no-such",
        "tabane follow tb0 --no-such",
        "tabane-lab no-such",
        "tabane-lab demo --no-such",
        "--no-such",
        "--no-such VALUE",
    ] {
        ensure!(programs.complaint(line).is_some(), "{line} passes");
    }
    for line in [
        "tabane",
        "tabane up --key tabane.key --link eth1,rate=1Gbit/s --address 10.9.0.1/24",
        "sudo tabane status --json | jq .peers",
        "tabane allow tb0 PUBLIC-KEY...",
        "tabane probe rtt HOST --csv FILE",
        "tabane-lab demo",
        "--link mem:/dev/shm/tb0",
        "-v",
        "cargo build --release",
        "tabane.key",
    ] {
        let complaint = programs.complaint(line);
        ensure!(complaint.is_none(), "{line}: {complaint:?}");
    }
    Ok(())
}

/// The program that a line starts, and its arguments.
fn program(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut words = line.split_whitespace().skip_while(|word| BEFORE.contains(word));
    let name = words.next()?.rsplit('/').next()?;
    let words = words.take_while(|word| !ENDS.contains(word)).collect();
    ["tabane", "tabane-probe", "tabane-web", "tabane-follow", "tabane-lab"]
        .contains(&name)
        .then_some((name, words))
}

impl Programs {
    fn new() -> Programs {
        let mut own = Vec::from(tabane_manuals::programs());
        own.push(tabane_lab::cli::command());
        own.iter_mut().for_each(Command::build);
        let mut options = BTreeSet::from(OTHERS.map(String::from));
        own.iter().for_each(|command| gather(command, &mut options));
        Programs { own, options }
    }

    /// What is wrong with a line, if it names a program of ours or begins with an option.
    fn complaint(&self, line: &str) -> Option<String> {
        if line.starts_with("--") {
            let name = option(line.split_whitespace().next()?);
            return (!self.options.contains(name)).then(|| format!("no program has {name}"));
        }
        let (name, words) = program(line)?;
        complaint(self.own.iter().find(|command| command.get_name() == name)?, &words)
    }
}

/// An option without its value, and without what belongs to the sentence around it.
fn option(word: &str) -> &str {
    let end = word.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    &word[..end.unwrap_or(word.len())]
}

fn gather(command: &Command, options: &mut BTreeSet<String>) {
    options.extend(command.get_arguments().filter_map(Arg::get_long).map(|long| format!("--{long}")));
    command.get_subcommands().for_each(|command| gather(command, options));
}

/// What is wrong with the arguments of a command.
fn complaint(command: &Command, words: &[&str]) -> Option<String> {
    let (mut words, mut positional) = (words.iter(), 0);
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            let name = option(word);
            let long = name.strip_prefix("--");
            let is_it = |arg: &&Arg| match long {
                Some(long) => arg.get_long() == Some(long),
                None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
            };
            let Some(found) = command.get_arguments().find(is_it) else {
                return Some(format!("no option {name}"));
            };
            let takes_value = found.get_num_args().is_some_and(|count| count.takes_values());
            if takes_value && !word.contains('=') {
                words.next();
            }
        } else if command.has_subcommands() {
            let Some(inner) = command.find_subcommand(word) else {
                return Some(format!("no command {word}"));
            };
            return complaint(inner, words.as_slice());
        } else {
            positional += 1;
        }
    }
    let most: usize = command
        .get_positionals()
        .map(|arg| arg.get_num_args().map_or(1, |count| count.max_values()))
        .fold(0, usize::saturating_add);
    (positional > most).then(|| format!("{positional} arguments, and there are {most}"))
}

// Keys of the configuration file that pages name: they exist, and examples of files are understood.

/// A page about files of another kind.
const SCENARIOS: &str = "docs/scenarios.md";

/// Examples of files are understood, and `KEY = …` within a sentence names a key.
pub(crate) fn keys_exist() -> Result<()> {
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
                    let Some(key) = named_key(&span) else { continue };
                    count += 1;
                    let is_known = names.contains(key);
                    complaints.extend((!is_known).then(|| format!("{}: `{span}`: no key {key}", page.path)));
                }
                Code::Block(..) => {}
            }
        }
    }
    ensure!(
        count > 15 && named_key("no_such = 1") == Some("no_such"),
        "{count} keys were found in all pages"
    );
    none(&complaints)
}

/// The key that a span sets or the table that it begins.
fn named_key(span: &str) -> Option<&str> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    };
    let table = span.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let table = table.map(|rest| rest.trim_matches(['[', ']']));
    table.or(span.split_once(" = ").map(|(key, _)| key)).filter(is_name)
}
