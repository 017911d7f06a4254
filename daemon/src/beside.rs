//! Programs that lie beside this one and take its place: `tabane-probe`, `tabane-web`, `tabane-follow`.
//!
//! They read what strangers send, or speak TLS, and `tabane` opens devices: so nothing of them is linked into `tabane`
//! (`lab/tests/tidy.rs`).

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use tabane_config::problem::BadInput;

/// Replaces this process by the program `tabane-COMMAND`; returns only if that fails.
pub(crate) fn execute(command: &str, arguments: &[OsString]) -> anyhow::Result<()> {
    let name = format!("tabane-{command}");
    let program = env::current_exe().context("the path of this program")?.with_file_name(&name);
    let error = Command::new(&program).args(arguments).exec();
    let path = program.display();
    if error.kind() == ErrorKind::NotFound {
        let sentence = format!("no program `{path}`: `tabane {command}` needs {name} beside tabane");
        return Err(BadInput::new(sentence).into());
    }
    Err(error).with_context(|| format!("starting `{path}`"))
}
