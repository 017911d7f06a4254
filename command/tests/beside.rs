//! `tabane up`, `tabane probe` and the like become other programs beside this one: those get what was typed, or are named where they
//! are missing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

const COMMANDS: [&str; 3] = ["probe", "web", "follow"];
const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// What one thread forks holds open for a moment what another writes, and what is being written cannot run.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

/// The program in a directory of its own, while no other test writes programs.
fn alone() -> (TempDir, PathBuf, MutexGuard<'static, ()>) {
    let turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("tabane");
    fs::copy(env!("CARGO_BIN_EXE_tabane"), &program).expect("copied");
    (directory, program, turn)
}

/// A program beside it that does what a shell does with this script.
fn beside(program: &Path, name: &str, script: &str) {
    let other = program.with_file_name(name);
    fs::write(&other, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&other, Permissions::from_mode(0o755)).expect("a script");
}

fn run(program: &PathBuf, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

// Exercises: probe, web, follow
#[test]
fn what_was_typed_reaches_the_other_program() {
    let (_directory, program, _turn) = alone();
    for command in COMMANDS {
        beside(&program, &format!("tabane-{command}"), "printf '%s\\n' \"$@\"; exit 7");
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

#[test]
fn the_daemon_gets_keys_by_its_input_alone() {
    let (directory, program, _turn) = alone();
    beside(&program, "tabaned", "echo \"$0 $@\"; env; echo; cat; exit 7");
    let key = directory.path().join("key");
    fs::write(&key, KEY).expect("written");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("private");
    let arguments = ["up", "--name", "wire", "--link", "eth1", "--key", &key.to_string_lossy()];
    let (code, stdout, stderr) = run(&program, &arguments);
    assert_eq!((code, stderr.as_str()), (Some(7), ""));
    let (seen, input) = stdout.split_once("\n\n").expect("what everyone sees, and the input");
    assert!(seen.lines().next().is_some_and(|line| line.ends_with("/tabaned up wire")), "{seen}");
    assert!(!seen.contains(KEY) && input.contains(KEY), "{seen}\n\n{input}");
    assert!(input.starts_with(r#"{"do":"up","#) && input.lines().count() == 1, "{input}");
}

#[test]
fn where_it_is_missing_one_sentence_says_so() {
    let (directory, program, _turn) = alone();
    let sentence = |command: &str, name: &str| {
        let missing = directory.path().join(name);
        let why = format!("`tabane {command}` needs {name} beside tabane");
        (Some(2), String::new(), format!("tabane: no program `{}`: {why}\n", missing.display()))
    };
    for command in COMMANDS {
        let expected = sentence(command, &format!("tabane-{command}"));
        assert_eq!(run(&program, &[command, "--listen", "x"]), expected);
    }
    for arguments in [&["up", "--insecure", "--link", "eth1"][..], &["upgrade", "wire"]] {
        assert_eq!(run(&program, arguments), sentence(arguments[0], "tabaned"));
    }
}
