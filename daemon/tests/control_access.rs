//! Who may ask a running bundle: abstract sockets have no file permissions, so the server has to look.
//!
//! The asking process runs as another user, which only root can arrange; elsewhere the tests are ignored.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tabane::control::{Group, Listener, Server, done};
use tabane::events::EventLog;
use tempfile::TempDir;

/// A user who owns nothing (`nobody` on Debian), and the group of such users.
const STRANGER: u32 = 65_534;
/// A group that may ask. It needs no name on the machine.
const GROUP: u32 = 54_321;

fn main() -> ExitCode {
    let root = rustix::process::getuid().is_root();
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        let name = if root { name.to_owned() } else { format!("{name} [SKIPPED: needs root]") };
        Trial::test(name, test).with_ignored_flag(!root)
    };
    let trials = vec![
        trial("only_root_and_the_owner_may_ask", only_root_and_the_owner_may_ask),
        trial("members_of_the_group_may_ask", members_of_the_group_may_ask),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A served name, and a copy of the binary, since strangers may not be able to reach the build directory.
struct Stage {
    name: String,
    binary: PathBuf,
    _directory: TempDir,
    _server: Server,
}

impl Stage {
    fn new(name: &str, group: Option<Group>) -> Result<Stage, Failed> {
        let name = format!("{name}-{}", std::process::id());
        let listener = Listener::bind(&name)?.open_to(group);
        let _server = listener.serve(Arc::new(EventLog::new()?), |_| done())?;
        let _directory = tempfile::tempdir()?;
        fs::set_permissions(_directory.path(), Permissions::from_mode(0o755))?;
        let binary = _directory.path().join("tabane");
        fs::copy(env!("CARGO_BIN_EXE_tabane"), &binary)?;
        Ok(Stage { name, binary, _directory, _server })
    }

    /// Asks as this user with this group and further ones.
    fn ask(&self, uid: u32, gid: u32, further: &[u32]) -> std::io::Result<Output> {
        let further: Vec<String> = further.iter().map(u32::to_string).collect();
        let groups = if further.is_empty() {
            "--clear-groups".to_owned()
        } else {
            format!("--groups={}", further.join(","))
        };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), groups]);
        command.arg(&self.binary).args(["status", &self.name, "--json"]).current_dir("/").output()
    }

    /// Asks and is refused.
    fn refused(&self, uid: u32, gid: u32, sentence: &str) -> Result<(), Failed> {
        let refused = self.ask(uid, gid, &[])?;
        let want = format!("tabane: {} refuses: {sentence}\n", self.name);
        assert_eq!((refused.status.code(), String::from_utf8(refused.stderr)?), (Some(2), want));
        assert!(refused.stdout.is_empty());
        Ok(())
    }
}

fn only_root_and_the_owner_may_ask() -> Result<(), Failed> {
    let stage = Stage::new("owner", None)?;
    assert_eq!(stage.ask(0, 0, &[])?.stdout, b"{}\n");
    stage.refused(STRANGER, STRANGER, "only root and the user who runs the bundle may ask")?;
    stage.refused(STRANGER, 0, "only root and the user who runs the bundle may ask")
}

fn members_of_the_group_may_ask() -> Result<(), Failed> {
    let stage = Stage::new("group", Some(Group { name: "netops".to_owned(), gid: GROUP }))?;
    assert_eq!(stage.ask(STRANGER, GROUP, &[])?.stdout, b"{}\n", "its first group");
    let many: Vec<u32> = (1..=100).chain([GROUP]).collect();
    assert_eq!(stage.ask(STRANGER, STRANGER, &many)?.stdout, b"{}\n", "one of many");
    let sentence = "only root, the user who runs the bundle and members of group netops may ask";
    stage.refused(STRANGER, STRANGER, sentence)
}
