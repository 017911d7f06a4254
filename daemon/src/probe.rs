//! `tabane probe`: the program `tabane-probe`, which lies beside this one and takes its place.
//!
//! The probe parses what strangers send, and `tabane` opens devices: so none of the probe is linked into `tabane`
//! (`lab/tests/tidy.rs`).

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

use crate::error::BadInput;

/// Name of the program.
const PROGRAM: &str = "tabane-probe";

/// Replaces this process by the other program; returns only if that fails.
pub(crate) fn execute(arguments: &[OsString]) -> anyhow::Result<()> {
    let program = env::current_exe().context("the path of this program")?.with_file_name(PROGRAM);
    let error = Command::new(&program).args(arguments).exec();
    let path = program.display();
    if error.kind() == ErrorKind::NotFound {
        let sentence = format!("no program `{path}`: `tabane probe` needs {PROGRAM} beside tabane");
        return Err(BadInput::new(sentence).into());
    }
    Err(error).with_context(|| format!("starting `{path}`"))
}
