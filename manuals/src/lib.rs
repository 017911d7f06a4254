//! Manual pages and completions of `tabane`, `tabane-probe`, `tabane-web` and `tabane-follow`, and the daemon's page, man8/tabaned.8.
//!
//! ```text
//!   tabane, tabane_probe, …: `command` ─────────── commands ──┬── pages ────── man1/*.1
//!                                                             └── completions  bash/, zsh/, fish/
//!   docs/configuration.md ─────────────────────── markdown ────────────────── man5/tabane.toml.5
//!   counters, metrics, events, exit codes, commands ── reference ──────────── docs/reference/*.md
//!   docs/SUMMARY.md ─────────────────────────────── book ──────────────────── what mdBook reads
//! ```
//!
//! Rule of the crate: each word about a command, an option or a key is taken from what defines it. A program of the
//! build; no program that is installed links it.

pub mod book;
mod markdown;
mod pages;
pub mod reference;

use std::io;
use std::path::Path;

use clap::Command;

/// The page about the configuration file, which is also its manual page.
const CONFIGURATION: &str = include_str!("../../docs/configuration.md");

/// Writes everything below `directory`, which is made if it is not there: `man1`, `man5`, `man8`, `bash`, `zsh`, `fish`.
pub fn write(directory: &Path) -> io::Result<()> {
    for program in programs() {
        pages::write(&program, &directory.join("man1"))?;
        pages::write_completions(&program, directory)?;
    }
    pages::write_daemon(&directory.join("man8"))?;
    let page = markdown::page("tabane.toml", "5", CONFIGURATION);
    let directory = directory.join("man5");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("tabane.toml.5"), page)
}

// The command lines as users see them: without commands that programs start for themselves, and with what other programs
// take after `tabane probe`, `tabane web` and `tabane follow`, which pass their arguments on.

/// The programs, first `tabane`.
pub fn programs() -> [Command; 4] {
    let others = [
        ("probe", tabane_probe::command()),
        ("web", tabane_web::command()),
        ("follow", tabane_follow::command()),
    ];
    let mut tabane = seen("tabane", &tabane::cli::command());
    for (name, definition) in &others {
        let about = tabane.find_subcommand(name).and_then(Command::get_about).cloned().unwrap_or_default();
        tabane = tabane.mut_subcommand(name, |_| seen(name, definition).about(about));
    }
    let [probe, web, follow] = others;
    [tabane, seen("tabane-probe", &probe.1), seen("tabane-web", &web.1), seen("tabane-follow", &follow.1)]
}

/// Commands of `tabane` that are programs of their own.
pub(crate) fn is_another(command: &Command) -> bool {
    ["probe", "web", "follow"].contains(&command.get_name())
}

/// The command `name` with what `definition` shows.
fn seen(name: &'static str, definition: &Command) -> Command {
    let shown: Vec<Command> =
        definition.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let about = definition.get_about().cloned().unwrap_or_default();
    let plain = Command::new(name).about(about).version(env!("CARGO_PKG_VERSION"));
    plain
        .args(definition.get_arguments())
        .subcommand_required(!shown.is_empty())
        .subcommands(shown)
        .disable_help_subcommand(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_hidden(command: &Command) {
        assert!(!command.is_hide_set(), "{} is hidden", command.get_name());
        assert!(
            !command.get_arguments().any(clap::Arg::is_hide_set),
            "{} has hidden options",
            command.get_name()
        );
        command.get_subcommands().for_each(no_hidden);
    }

    #[test]
    fn users_see_commands_that_are_theirs() {
        let [mut tabane, mut probe, mut web, mut follow] = programs();
        for program in [&mut tabane, &mut probe, &mut web, &mut follow] {
            program.build();
            no_hidden(program);
        }
        let names = |command: &Command| -> Vec<String> {
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
        };
        assert!(names(&tabane).contains(&"up".to_owned()), "{:?}", names(&tabane));
        assert_eq!(names(tabane.find_subcommand("probe").expect("a command")), names(&probe));
        let options = |command: &Command| -> Vec<String> {
            command.get_arguments().map(|option| option.get_id().to_string()).collect()
        };
        for (name, program, option) in [("web", &web, "allow_actions"), ("follow", &follow, "etcd")] {
            assert_eq!(options(tabane.find_subcommand(name).expect("a command")), options(program));
            assert!(options(program).contains(&option.to_owned()), "{:?}", options(program));
        }
    }
}
