//! Commands, options and keys of `tabane`, of the programs beside it and of `tabane-lab`, against their definitions: pages name those that
//! there are, and a trial exercises each.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use clap::{Arg, Command};
use tabane_config::file;
use tabane_config::reference::{self, Described};

use crate::documents::pages::{Code, all, code, typed};
use crate::repository::{files, none};

/// Options of other programs that pages name by themselves.
const OTHERS: [&str; 6] = ["--device", "--lib", "--npb", "--release", "--test", "--throttle"];
const ENDS: [&str; 6] = ["|", "||", "&&", "&", ";", ">"];
const BEFORE: [&str; 3] = ["sudo", "$", "#"];

struct Programs {
    own: Vec<Command>,
    options: BTreeSet<String>,
}

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

const SCENARIOS: &str = "docs/scenarios.md";

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

// Each command, option and key has a trial that observes what it does. Whether the trial notices an option that does nothing,
// `lab/effects.py` tries.

/// How a comment above a trial begins that says what the trial exercises: `COMMAND --OPTION...` or `KEY =`, with commas between them.
const MARK: &str = "// Exercises: ";

/// Trials say so of what there is to type, and of nothing else; what they say of a flag of `up` holds for the key of the same meaning, as
/// `command/src/cli/tests.rs` shows.
pub(crate) fn all_are_exercised() -> Result<()> {
    let files = files("", "rs")?;
    let lists =
        files.iter().flat_map(|file| file.text.lines()).filter_map(|line| line.trim().strip_prefix(MARK));
    let exercised: BTreeSet<String> = lists.flat_map(|list| list.split(", ")).flat_map(each).collect();
    let keys = reference::reference().into_iter().flatten();
    let (with_flag, others): (Vec<_>, Vec<_>) = keys.partition(|key| key.flag.is_some());
    let name = |key: Described| format!("{} =", key.name);
    let mut wanted: BTreeSet<String> = others.into_iter().map(name).collect();
    let [program, ..] = tabane_manuals::programs();
    program.get_subcommands().for_each(|command| gather_commands(command, "", &mut wanted));
    ensure!(wanted.len() > 120, "{wanted:?}");
    let known: BTreeSet<String> = with_flag.into_iter().map(name).chain(wanted.iter().cloned()).collect();
    let lacks = wanted.difference(&exercised);
    let lacks = lacks.map(|what| format!("no trial exercises `{what}`: `{MARK}{what}` above one that does"));
    let has_more = exercised
        .difference(&known)
        .map(|what| format!("a trial exercises `{what}`, and there is no such thing"));
    none(&lacks.chain(has_more).collect::<Vec<_>>())
}

/// The commands, options and keys of a claim, one by one.
fn each(what: &str) -> Vec<String> {
    if what.ends_with(" =") {
        return vec![what.to_owned()];
    }
    let (options, command): (Vec<&str>, Vec<&str>) = what.split(' ').partition(|word| word.starts_with('-'));
    let command = command.join(" ");
    let options = options.iter().map(|option| format!("{command} {option}"));
    std::iter::once(command.clone()).chain(options).collect()
}

/// A command that can be typed, with its options, behind the words of the commands around it.
fn gather_commands(command: &Command, before: &str, known: &mut BTreeSet<String>) {
    let path = format!("{before}{}", command.get_name());
    let mut inner = command.get_subcommands().filter(|inner| !inner.is_hide_set()).peekable();
    if inner.peek().is_none() || path == "probe" {
        let options = command.get_opts().filter(|option| !option.is_hide_set());
        known.extend(options.filter_map(|option| Some(format!("{path} --{}", option.get_long()?))));
        known.insert(path.clone());
    }
    inner.for_each(|inner| gather_commands(inner, &format!("{path} "), known));
}
