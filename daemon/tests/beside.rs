//! `tabane probe` and the like are other programs beside this one: started with what was typed, or named where they are missing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) const TRIALS: &[(&str, fn())] =
    trials![what_was_typed_reaches_the_other_program, where_it_is_missing_one_sentence_says_so,];

/// Commands that are programs of their own.
const COMMANDS: [&str; 3] = ["probe", "web", "follow"];

/// The program in a directory of its own.
fn alone() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("tabane");
    fs::copy(env!("CARGO_BIN_EXE_tabane"), &program).expect("copied");
    (directory, program)
}

fn run(program: &PathBuf, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn what_was_typed_reaches_the_other_program() {
    let (directory, program) = alone();
    for command in COMMANDS {
        let other = directory.path().join(format!("tabane-{command}"));
        fs::write(&other, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").expect("written");
        fs::set_permissions(&other, Permissions::from_mode(0o755)).expect("a script");
    }
    for arguments in [
        &["rtt", "host", "--sizes", "1,2", "--json"][..],
        &["--help"],
        &["-h"],
        &["--version"],
        &["serve", "--listen", "[::]:9", "--", "x y"],
        &[],
    ] {
        for command in COMMANDS {
            let (code, stdout, stderr) = run(&program, &[&[command], arguments].concat());
            let received: Vec<&str> = stdout.lines().filter(|line| !line.is_empty()).collect();
            assert_eq!((code, received, stderr.as_str()), (Some(7), arguments.to_vec(), ""));
        }
    }
}

fn where_it_is_missing_one_sentence_says_so() {
    let (directory, program) = alone();
    for command in COMMANDS {
        let missing = directory.path().join(format!("tabane-{command}"));
        let expected = format!(
            "tabane: no program `{}`: `tabane {command}` needs tabane-{command} beside tabane\n",
            missing.display()
        );
        assert_eq!(run(&program, &[command, "--listen", "x"]), (Some(2), String::new(), expected));
    }
}
