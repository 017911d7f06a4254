//! Each command, option and key has a trial that observes what it does: `lab/exercised.toml` names the trial. Whether the trial notices
//! an option that does nothing, `lab/effects.py` tries.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use clap::Command;
use tabane_config::reference::{Described, reference};
use toml::Table;

use crate::repository::{none, text};

/// The list: files of tests, their trials, and what each of them exercises.
const LIST: &str = "lab/exercised.toml";

/// The list has what there is to type, and nothing else; what it has of a flag of `up` holds for the key of the same meaning, as
/// `command/src/cli/tests.rs` shows.
pub(crate) fn all_are_listed() -> Result<()> {
    let listed: BTreeSet<String> = claims()?.iter().flat_map(|(_, _, what)| each(what)).collect();
    let keys = reference().into_iter().flatten();
    let (with_flag, others): (Vec<_>, Vec<_>) = keys.partition(|key| key.flag.is_some());
    let name = |key: Described| format!("{} =", key.name);
    let mut wanted: BTreeSet<String> = others.into_iter().map(name).collect();
    let [program, ..] = tabane_manuals::programs();
    program.get_subcommands().for_each(|command| gather_commands(command, "", &mut wanted));
    ensure!(wanted.len() > 120, "{wanted:?}");
    let known: BTreeSet<String> = with_flag.into_iter().map(name).chain(wanted.iter().cloned()).collect();
    let lacks = wanted.difference(&listed).map(|what| format!("no trial in {LIST} exercises `{what}`"));
    let has_more = listed.difference(&known).map(|what| format!("{LIST}: there is no `{what}`"));
    none(&lacks.chain(has_more).collect::<Vec<_>>())
}

/// The trials that are listed are there.
pub(crate) fn all_trials_exist() -> Result<()> {
    let mut complaints = Vec::new();
    for (file, trial, _) in claims()? {
        let text = text(&file)?;
        let is_there = text.contains(&format!("\"{trial}\"")) || text.contains(&format!("fn {trial}("));
        complaints.extend((!is_there).then(|| format!("{file}: there is no trial {trial}")));
    }
    none(&complaints)
}

/// File, trial, and what it is said to exercise: `COMMAND --OPTION...`, or `KEY =`.
fn claims() -> Result<Vec<(String, String, String)>> {
    let table: Table = toml::from_str(&text(LIST)?)?;
    let mut claims = Vec::new();
    for (file, trials) in &table {
        for (trial, whats) in trials.as_table().with_context(|| format!("{file} is no table"))? {
            for what in whats.as_array().with_context(|| format!("{trial} has no list"))? {
                let what = what.as_str().with_context(|| format!("{trial} has no texts"))?.to_owned();
                claims.push((file.clone(), trial.clone(), what));
            }
        }
    }
    Ok(claims)
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
