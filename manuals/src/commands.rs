//! The command lines as users see them: without commands that programs start for themselves, and with the probe's own commands
//! after `tabane probe`, which passes its arguments on.

use clap::Command;

/// The programs, first `tabane`.
#[must_use]
pub fn programs() -> [Command; 2] {
    let probe = seen("tabane-probe", &tabane_probe::command());
    let after_tabane = seen("probe", &tabane_probe::command());
    let tabane = seen("tabane", &tabane::cli::command());
    let about = tabane.find_subcommand("probe").and_then(Command::get_about).cloned();
    [tabane.mut_subcommand("probe", |_| after_tabane.about(about.unwrap_or_default())), probe]
}

/// The command `name` with what `definition` shows.
fn seen(name: &'static str, definition: &Command) -> Command {
    let shown = definition.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let about = definition.get_about().cloned().unwrap_or_default();
    let plain = Command::new(name).about(about).version(env!("CARGO_PKG_VERSION"));
    plain
        .args(definition.get_arguments())
        .subcommands(shown)
        .subcommand_required(true)
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
        let [mut tabane, mut probe] = programs();
        for program in [&mut tabane, &mut probe] {
            program.build();
            no_hidden(program);
        }
        let names = |command: &Command| -> Vec<String> {
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
        };
        assert!(names(&tabane).contains(&"up".to_owned()), "{:?}", names(&tabane));
        assert_eq!(names(tabane.find_subcommand("probe").expect("a command")), names(&probe));
    }
}
