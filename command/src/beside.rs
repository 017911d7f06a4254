//! Programs that lie beside this one and take its place: `tabaned`, `tabane-probe`, `tabane-web`, `tabane-follow`.
//!
//! The daemon opens devices, and the others read what strangers send, or speak TLS: so each is linked with what it needs, and with
//! nothing of the others (`lab/tests/tidy.rs`).

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;
use tabane_config::problem::BadInput;

/// Replaces this process by the program `tabane-COMMAND`; returns only if that fails.
pub(crate) fn execute(command: &str, arguments: &[OsString]) -> anyhow::Result<()> {
    replace(&format!("tabane-{command}"), command, arguments, None)
}

/// Replaces this process by the program `name`, which `tabane COMMAND` needs, and gives it `input` where there is some; returns only if
/// that fails.
pub(crate) fn replace(
    name: &str,
    command: &str,
    arguments: &[impl AsRef<OsStr>],
    input: Option<Stdio>,
) -> anyhow::Result<()> {
    let program = env::current_exe().context("the path of this program")?.with_file_name(name);
    let mut process = Command::new(&program);
    process.args(arguments);
    if let Some(input) = input {
        process.stdin(input);
    }
    let error = process.exec();
    let path = program.display();
    if error.kind() == ErrorKind::NotFound {
        let sentence = format!("no program `{path}`: `tabane {command}` needs {name} beside tabane");
        return Err(BadInput::new(sentence).into());
    }
    Err(error).with_context(|| format!("starting `{path}`"))
}
