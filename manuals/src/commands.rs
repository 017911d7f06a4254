//! The command lines as users see them: without commands that programs start for themselves, and with the definitions of the other
//! programs after `tabane probe` and `tabane follow`, which pass their arguments on.

use clap::Command;

/// The programs, first `tabane`.
#[must_use]
pub fn programs() -> [Command; 3] {
    let (probe, follow) = (tabane_probe::command(), tabane_follow::command());
    let tabane = seen("tabane", &tabane::cli::command());
    let after_tabane = |tabane: Command, name: &'static str, definition: &Command| {
        let about = tabane.find_subcommand(name).and_then(Command::get_about).cloned();
        tabane.mut_subcommand(name, |_| seen(name, definition).about(about.unwrap_or_default()))
    };
    let tabane = after_tabane(after_tabane(tabane, "probe", &probe), "follow", &follow);
    [tabane, seen("tabane-probe", &probe), seen("tabane-follow", &follow)]
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
        let [mut tabane, mut probe, mut follow] = programs();
        for program in [&mut tabane, &mut probe, &mut follow] {
            program.build();
            no_hidden(program);
        }
        let names = |command: &Command| -> Vec<String> {
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
        };
        assert!(names(&tabane).contains(&"up".to_owned()), "{:?}", names(&tabane));
        assert_eq!(names(tabane.find_subcommand("probe").expect("a command")), names(&probe));
        let options = |command: &Command| -> Vec<String> {
            command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned).collect()
        };
        assert!(options(&follow).contains(&"etcd".to_owned()), "{:?}", options(&follow));
        assert_eq!(options(tabane.find_subcommand("follow").expect("a command")), options(&follow));
    }
}
