//! Each command, option and key has a trial that observes what it does: `lab/exercised.toml` names the trial, and that one types it.
//!
//! What a trial types is read from the tests' sources: the words in its literals, in those of the functions and constants of its
//! file that it names, and of those that these name in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use clap::Command;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use tabane::config::file;
use toml::Table;

use crate::pages::{none, root};

/// The list: files of tests, their trials, and what each of them exercises.
const LIST: &str = "lab/exercised.toml";
/// What trials of a folder share.
const SHARED: [(&str, &[&str]); 2] = [
    ("daemon/tests/", &["daemon/tests/stage/mod.rs"]),
    (
        "lab/tests/traffic/",
        &["lab/tests/traffic/stage.rs", "lab/tests/traffic/diagnosis.rs", "kit/src/bundle.rs"],
    ),
];
/// Words before the name of an item.
const BEFORE_NAMES: [&str; 4] = ["fn", "const", "static", "struct"];

/// What a trial is said to exercise: `COMMAND --OPTION...`, or `KEY =`.
struct Claim {
    file: String,
    trial: String,
    what: String,
}

/// Parts of a source by their names.
type Items = BTreeMap<String, Part>;

/// What a part of a source names and types.
#[derive(Default)]
struct Part {
    names: BTreeSet<String>,
    words: BTreeSet<String>,
}

/// The list has what there is to type, and nothing else.
pub(crate) fn all_are_listed() -> Result<()> {
    let listed: BTreeSet<String> = claims()?.iter().flat_map(Claim::each).collect();
    let mut known: BTreeSet<String> = file::keys().iter().map(|key| format!("{} =", key.name)).collect();
    let [program, ..] = tabane_manuals::programs();
    program.get_subcommands().for_each(|command| gather_commands(command, "", &mut known));
    ensure!(known.len() > 150, "{known:?}");
    let lacks = known.difference(&listed).map(|what| format!("no trial in {LIST} exercises `{what}`"));
    let has_more = listed.difference(&known).map(|what| format!("{LIST}: there is no `{what}`"));
    none(&lacks.chain(has_more).collect::<Vec<_>>())
}

/// The trials that are listed are there, and type what they are said to exercise.
pub(crate) fn trials_type_what_they_exercise() -> Result<()> {
    let mut sources: BTreeMap<String, (TokenStream, Items)> = BTreeMap::new();
    let mut complaints = Vec::new();
    for claim in claims()? {
        if !sources.contains_key(&claim.file) {
            sources.insert(claim.file.clone(), source(&claim.file)?);
        }
        let (text, items) = &sources[&claim.file];
        let typed = typed(text, items, &claim.trial);
        let missing = typed.map(|words| claim.words().into_iter().find(|word| !words.contains(*word)));
        complaints.extend(match missing {
            Some(None) => None,
            Some(Some(word)) => Some(format!("{}: {} types no `{word}`", claim.file, claim.trial)),
            None => Some(format!("{}: there is no trial {}", claim.file, claim.trial)),
        });
    }
    none(&complaints)
}

/// The check itself.
pub(crate) fn mistakes_are_found() -> Result<()> {
    let text = r##"
        const START: &str = "up --insecure";
        fn cases() { Case::new("one", Need, one); ("two", two); both("three", 3); }
        #[test] fn four() { run(&["status", "--json"]); }
        fn one() { helper(); }
        fn helper() { write("mtu = 1400\nport = 7"); }
        fn two() { shell(r#"{START} --mtu 1500"#); }
        fn both() { two() }
    "##;
    let text: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut items = Items::new();
    gather_items(&text, &mut items);
    for (trial, word, has_it) in [
        ("one", "port", true),
        ("one", "--mtu", false),
        ("two", "--insecure", true),
        ("two", "mtu", false),
        ("three", "--mtu", true),
        ("four", "--json", true),
        ("four", "--mtu", false),
    ] {
        let typed = typed(&text, &items, trial).with_context(|| format!("no trial {trial}"))?;
        ensure!(typed.contains(word) == has_it, "{trial} types {typed:?}");
    }
    ensure!(typed(&text, &items, "five").is_none(), "there is a trial five");
    Ok(())
}

impl Claim {
    /// The commands, options and keys of it, one by one.
    fn each(&self) -> Vec<String> {
        if self.what.ends_with(" =") {
            return vec![self.what.clone()];
        }
        let (options, command): (Vec<&str>, Vec<&str>) =
            self.what.split(' ').partition(|word| word.starts_with('-'));
        let command = command.join(" ");
        let options = options.iter().map(|option| format!("{command} {option}"));
        std::iter::once(command.clone()).chain(options).collect()
    }

    /// The words that are typed where it is exercised. The probe and the follower are programs of their own, too.
    fn words(&self) -> Vec<&str> {
        match self.what.strip_suffix(" =") {
            Some(key) => key.rsplit('.').take(1).collect(),
            None => {
                let is_program = ["probe ", "follow "].iter().any(|name| self.what.starts_with(name));
                self.what.split(' ').skip(usize::from(is_program)).collect()
            }
        }
    }
}

fn claims() -> Result<Vec<Claim>> {
    let table: Table = toml::from_str(&fs::read_to_string(root().join(LIST))?)?;
    let mut claims = Vec::new();
    for (file, trials) in &table {
        for (trial, whats) in trials.as_table().with_context(|| format!("{file} is no table"))? {
            for what in whats.as_array().with_context(|| format!("{trial} has no list"))? {
                let what = what.as_str().with_context(|| format!("{trial} has no texts"))?.to_owned();
                claims.push(Claim { file: file.clone(), trial: trial.clone(), what });
            }
        }
    }
    Ok(claims)
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

/// A source, and its parts with those that it shares with others.
fn source(file: &str) -> Result<(TokenStream, Items)> {
    let shared = SHARED.iter().filter(|(folder, _)| file.starts_with(folder)).flat_map(|(_, files)| *files);
    let mut items = Items::new();
    for file in shared {
        gather_items(&tokens(file)?, &mut items);
    }
    let text = tokens(file)?;
    gather_items(&text, &mut items);
    Ok((text, items))
}

fn tokens(file: &str) -> Result<TokenStream> {
    let text = fs::read_to_string(root().join(file)).with_context(|| file.to_owned())?;
    text.parse().map_err(|error| anyhow::anyhow!("{file}: {error}"))
}

/// Functions, constants and types by their names.
fn gather_items(stream: &TokenStream, items: &mut Items) {
    let trees: Vec<TokenTree> = stream.clone().into_iter().collect();
    for (at, pair) in trees.windows(2).enumerate() {
        if let [TokenTree::Ident(word), TokenTree::Ident(name)] = pair
            && BEFORE_NAMES.iter().any(|before| word == before)
        {
            let part = items.entry(name.to_string()).or_default();
            trees[at + 2..].iter().take_while(|tree| !is_end(tree)).for_each(|tree| part.add(tree));
            let body = trees[at + 2..].iter().find(|tree| is_end(tree));
            body.into_iter().for_each(|tree| part.add(tree));
        }
    }
    for tree in &trees {
        if let TokenTree::Group(group) = tree {
            gather_items(&group.stream(), items);
        }
    }
}

/// Whether an item ends here: with its body, or without one.
fn is_end(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}

impl Part {
    fn add(&mut self, tree: &TokenTree) {
        match tree {
            TokenTree::Ident(name) => drop(self.names.insert(name.to_string())),
            TokenTree::Literal(literal) => {
                let text = literal.to_string().replace("\\n", " ");
                let words =
                    text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
                // Texts name constants within braces.
                words.filter(|word| !word.is_empty()).for_each(|word| {
                    self.names.insert(word.to_owned());
                    self.words.insert(word.to_owned());
                });
            }
            TokenTree::Group(group) => group.stream().into_iter().for_each(|tree| self.add(&tree)),
            TokenTree::Punct(_) => {}
        }
    }
}

/// The words that a trial types: a test function, or what stands beside its name and what is named there.
fn typed(text: &TokenStream, items: &Items, trial: &str) -> Option<BTreeSet<String>> {
    let (begin, mut words) = match items.get(trial) {
        Some(_) => (vec![trial.to_owned()], BTreeSet::new()),
        None => beside(text, items, &format!("{trial:?}"))?,
    };
    let (mut open, mut seen) = (begin, BTreeSet::new());
    while let Some(name) = open.pop() {
        let Some(part) = items.get(&name).filter(|_| !seen.contains(&name)) else { continue };
        words.extend(part.words.iter().cloned());
        open.extend(part.names.iter().cloned());
        seen.insert(name);
    }
    Some(words)
}

/// What is named in the brackets around a literal and before them: in the innermost brackets that name a part. And what is typed
/// in the innermost brackets of all.
fn beside(stream: &TokenStream, items: &Items, literal: &str) -> Option<(Vec<String>, BTreeSet<String>)> {
    let trees: Vec<TokenTree> = stream.clone().into_iter().collect();
    let at = trees
        .iter()
        .position(|tree| matches!(tree, TokenTree::Group(group) if holds(&group.stream(), literal)))?;
    let TokenTree::Group(group) = &trees[at] else { return None };
    let inner = beside(&group.stream(), items, literal);
    if let Some((names, _)) = &inner
        && names.iter().any(|name| items.contains_key(name))
    {
        return inner;
    }
    let mut part = Part::default();
    part.add(&trees[at]);
    let before = at.checked_sub(1).map(|before| trees[before].to_string());
    let words = inner.map_or(part.words, |(_, words)| words);
    Some((part.names.into_iter().chain(before).collect(), words))
}

fn holds(stream: &TokenStream, literal: &str) -> bool {
    stream.clone().into_iter().any(|tree| match tree {
        TokenTree::Literal(text) => text.to_string() == literal,
        TokenTree::Group(group) => holds(&group.stream(), literal),
        _ => false,
    })
}
