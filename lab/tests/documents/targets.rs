//! Make targets, and the programs that they install; and what the list of limits names.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use tabane_kit::report::Limits;

use crate::documents::pages::{all, typed};
use crate::repository::{none, root, text};

/// `make TARGET...` of the pages, and `make help` itself, name targets of the Makefile.
pub(crate) fn exist() -> Result<()> {
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

/// The image of the container has the programs that `make install` installs.
pub(crate) fn the_image_has_all_programs() -> Result<()> {
    let makefile = text("Makefile")?;
    let programs = makefile.lines().find_map(|line| line.strip_prefix("PROGRAMS := "));
    let recipe = text("packaging/Containerfile")?;
    let words: BTreeSet<&str> = recipe.split_whitespace().collect();
    let programs = programs.context("no PROGRAMS in the Makefile")?.split_whitespace();
    let lacks = programs.filter(|name| !words.contains(&*format!("target/release/{name}")));
    none(&lacks.map(|name| format!("packaging/Containerfile: no {name}")).collect::<Vec<_>>())
}

/// docs/limits.md names commands of `tabane-lab`, and scenarios, that there are.
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
