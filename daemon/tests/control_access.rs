//! Who may ask a running bundle: abstract sockets have no file permissions, so the server has to look.
//!
//! The asking process runs as another user, which only root can arrange; elsewhere the test is ignored.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tabane::control::{Listener, done};
use tabane::events::EventLog;

/// A user who owns nothing (`nobody` on Debian).
const STRANGER: u32 = 65_534;

fn main() -> ExitCode {
    let root = rustix::process::getuid().is_root();
    let name = "only_root_and_the_owner_may_ask";
    let name = if root { name.to_owned() } else { format!("{name} [SKIPPED: needs root]") };
    let trial = Trial::test(name, only_root_and_the_owner_may_ask).with_ignored_flag(!root);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn only_root_and_the_owner_may_ask() -> Result<(), Failed> {
    let name = format!("access-{}", std::process::id());
    let _server = Listener::bind(&name)?.serve(Arc::new(EventLog::new()?), |_| done())?;
    // A copy, since the stranger may not be able to reach the build directory.
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
    let binary = directory.path().join("tabane");
    fs::copy(env!("CARGO_BIN_EXE_tabane"), &binary)?;
    let ask = |uid| -> std::io::Result<Output> {
        Command::new(&binary).args(["status", &name, "--json"]).current_dir("/").uid(uid).output()
    };

    assert_eq!(ask(0)?.stdout, b"{}\n");

    let refused = ask(STRANGER)?;
    let want = format!("tabane: {name} refuses: only root and the user who runs the bundle may ask\n");
    assert_eq!((refused.status.code(), String::from_utf8(refused.stderr)?), (Some(2), want));
    assert!(refused.stdout.is_empty());
    Ok(())
}
