//! Manual pages of section 1: one for each program and each of its commands. And the one of the daemon, which is no command.

use std::path::Path;
use std::{fs, io};

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use tabane_process::exit::CODES;

use crate::is_another;

/// What the foot and the head of each page say.
pub(crate) const SOURCE: &str = concat!("tabane ", env!("CARGO_PKG_VERSION"));
pub(crate) const MANUAL: &str = "Tabane";
/// Files of `tabane`.
const FILES: [(&str, &str); 3] = [
    ("/etc/tabane/NAME.toml", "Configuration of the bundle NAME as a service, see tabane.toml(5)."),
    ("/etc/tabane/NAME.key", "Its key, which is for root alone (mode 0600)."),
    ("tabane@NAME.service", "Its service."),
];
const VARIABLES: [(&str, &str); 2] = [
    (
        "TABANE_LOG",
        "How much is logged to standard error: off, error, warn, info (the default), debug or trace.",
    ),
    ("NO_COLOR", "Tables have no colours."),
];
/// Pages that any page refers to.
const SEE_ALSO: [(&str, &str); 6] = [
    ("tabane", "1"),
    ("tabane-probe", "1"),
    ("tabane-web", "1"),
    ("tabane-follow", "1"),
    ("tabane.toml", "5"),
    ("tabaned", "8"),
];
const DAEMON: [&str; 3] = [
    "One process of this program runs one bundle: its network device, its links and the threads that carry frames between them. Nobody \
     types its name: `tabane up` reads the configuration and the key, hands them over and becomes this program, and so does `tabane \
     upgrade`, which takes a running bundle over.",
    "It stays in the foreground, logs to standard error, and runs until SIGTERM, SIGINT, `tabane down`, or another process of it takes \
     the bundle over. Once all is open, it gives up the rights that it needs no more.",
    "What it is asked while it runs, `tabane status` and the like ask through a socket with the name of the bundle.",
];

/// Writes the pages of `program` and of its commands into `directory`. What stands after `tabane probe` and the like has its
/// pages by those programs.
pub(crate) fn write(program: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut program = program.clone();
    program.build();
    let commands = program.get_subcommands().filter(|command| !is_another(command));
    for command in std::iter::once(&program).chain(commands) {
        write_all(command, command.get_name() == "tabane", directory)?;
    }
    Ok(())
}

/// The page of one command, and those of its own commands, but for the program's, which [`write()`] names.
fn write_all(command: &Command, has_files: bool, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    fs::write(directory.join(format!("{name}.1")), page(command, name, has_files)?)?;
    let is_program = command.get_version().is_some();
    let inner = command.get_subcommands().filter(|_| !is_program);
    inner.into_iter().try_for_each(|command| write_all(command, false, directory))
}

/// Writes the page of the daemon into `directory`: only `tabane` starts it, and it has no options.
pub(crate) fn write_daemon(directory: &Path) -> io::Result<()> {
    let mut page = Roff::new();
    page.control("TH", ["tabaned", "8", "", SOURCE, MANUAL]);
    flush_left(&mut page).control("SH", ["NAME"]).text([roman("tabaned - the daemon of one bundle")]);
    page.control("SH", ["SYNOPSIS"]).text([bold("tabane up"), roman(" [OPTIONS] [NAME|FILE]")]);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in DAEMON {
        page.control("PP", []).text([roman(paragraph)]);
    }
    end(&mut page, "tabaned", true);
    fs::create_dir_all(directory)?;
    fs::write(directory.join("tabaned.8"), page.render())
}

fn page(command: &Command, name: &str, has_files: bool) -> io::Result<String> {
    let man = Man::new(command.clone()).source(SOURCE).manual(MANUAL);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    flush_left(&mut Roff::new()).to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    end(&mut rest, name, has_files);
    rest.to_writer(&mut page)?;
    // Links are long words; they may be broken before each of their parts.
    Ok(String::from_utf8_lossy(&page).replace("][,", "]\\:[,"))
}

/// The last sections of the page `own`.
fn end(page: &mut Roff, own: &str, has_files: bool) {
    if has_files {
        entries(page, "FILES", &FILES);
        entries(page, "ENVIRONMENT", &VARIABLES);
    }
    page.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit_codes(own) {
        entry(page, &code.to_string(), meaning);
    }
    page.control("SH", ["SEE ALSO"]);
    let others = SEE_ALSO.iter().filter(|(name, _)| *name != own);
    let others = others.flat_map(|(name, section)| [roman(", "), bold(*name), roman(format!("({section})"))]);
    page.text(others.skip(1).collect::<Vec<_>>());
}

/// Words are not stretched or broken: options are long.
pub(crate) fn flush_left(page: &mut Roff) -> &mut Roff {
    page.control("ad", ["l"]).control("nh", [])
}

/// How a command may end: only one of them has findings.
fn exit_codes(page: &str) -> impl Iterator<Item = (u8, &'static str)> {
    let has_findings = page == "tabane-doctor";
    CODES.into_iter().filter(move |(_, meaning)| has_findings || !meaning.starts_with("`tabane doctor`"))
}

fn entries(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    page.control("SH", [title]);
    entries.iter().for_each(|(name, meaning)| entry(page, name, meaning));
}

fn entry(page: &mut Roff, name: &str, meaning: &str) {
    page.control("TP", []).text([bold(name)]).text([roman(meaning)]);
}

/// The shells, the directory of each, and what is before and after the program's name.
const SHELLS: [(Shell, &str, &str, &str); 3] =
    [(Shell::Bash, "bash", "", ""), (Shell::Zsh, "zsh", "_", ""), (Shell::Fish, "fish", "", ".fish")];

/// Writes the completions of `program` below `directory`.
pub(crate) fn write_completions(program: &Command, directory: &Path) -> io::Result<()> {
    let name = program.get_name();
    for (shell, folder, before, after) in SHELLS {
        let folder = directory.join(folder);
        fs::create_dir_all(&folder)?;
        let mut script = Vec::new();
        generate(shell, &mut program.clone(), name, &mut script);
        fs::write(folder.join(format!("{before}{name}{after}")), script)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Every command with the name of its page, the programs' own first.
    fn pages(command: &Command, found: &mut Vec<(String, Command)>) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        found.push((name.to_owned(), command.clone()));
        command.get_subcommands().for_each(|command| pages(command, found));
    }

    #[test]
    fn every_command_has_a_page_with_all_of_its_options() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut expected = Vec::new();
        for mut program in crate::programs() {
            write(&program, directory.path()).expect("written");
            program.build();
            pages(&program, &mut expected);
        }
        assert!(expected.len() > 15, "{}", expected.len());
        for (name, command) in &expected {
            let page = fs::read_to_string(directory.path().join(format!("{name}.1"))).expect(name);
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH \"EXIT STATUS\""), "{name}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                let written = format!("\\-\\-{}", option.replace('-', "\\-"));
                assert!(page.contains(&written), "{name} lacks --{option}");
            }
        }
        let names: Vec<PathBuf> = expected.iter().map(|(name, _)| format!("{name}.1").into()).collect();
        for file in fs::read_dir(directory.path()).expect("a directory").flatten() {
            assert!(names.contains(&file.file_name().into()), "{} is no command's", file.path().display());
        }
    }

    #[test]
    fn the_daemon_has_a_page() {
        let directory = tempfile::tempdir().expect("a directory");
        write_daemon(directory.path()).expect("written");
        let page = fs::read_to_string(directory.path().join("tabaned.8")).expect("a page");
        for part in [".TH tabaned 8", ".SH FILES", ".SH \"EXIT STATUS\"", "\\fBtabane.toml\\fR(5)"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("doctor"), "{page}");
    }

    #[test]
    fn each_shell_gets_what_users_type() {
        let directory = tempfile::tempdir().expect("a directory");
        for program in crate::programs() {
            write_completions(&program, directory.path()).expect("written");
        }
        for file in ["bash/tabane", "zsh/_tabane", "fish/tabane.fish"] {
            let script = fs::read_to_string(directory.path().join(file)).expect(file);
            for word in ["genkey", "receive-interval", "stagger"] {
                assert!(script.contains(word), "{file} lacks {word}");
            }
            assert!(
                !script.contains("resolve-names"),
                "{file} has a command that the daemon starts for itself"
            );
        }
        for name in ["tabane-probe", "tabane-web", "tabane-follow"] {
            for file in [format!("bash/{name}"), format!("zsh/_{name}"), format!("fish/{name}.fish")] {
                assert!(directory.path().join(&file).is_file(), "{file}");
            }
        }
    }
}
