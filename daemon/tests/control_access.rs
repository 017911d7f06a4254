//! Who may ask a running bundle, and who is asked: abstract sockets have no file permissions, so both ends have to
//! look.
//!
//! The asking process runs as another user, which only root can arrange; elsewhere the tests are ignored.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Lines, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Output, Stdio};
use std::sync::Arc;

use libtest_mimic::Failed;
use tabane::control::{Group, Listener, Server, done};
use tabane::events::EventLog;
use tempfile::TempDir;

use crate::stage::Test;

/// A user who owns nothing (`nobody` on Debian), and the group of such users.
const STRANGER: u32 = 65_534;
/// A group that may ask. It needs no name on the machine.
const GROUP: u32 = 54_321;
/// A group that may look.
const WATCHERS: u32 = 54_322;
const KEY: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";
/// Names the bundle for which this program is to stand, in place of testing.
const IMPOSTOR: &str = "TABANE_TEST_IMPOSTOR";

pub(crate) const TRIALS: &[(&str, Test)] = &[
    ("only_root_and_the_owner_may_ask", only_root_and_the_owner_may_ask),
    ("members_of_the_group_may_ask", members_of_the_group_may_ask),
    ("watchers_may_look", watchers_may_look),
    ("keys_are_for_owners_alone", keys_are_for_owners_alone),
    ("an_impostor_gets_nothing", an_impostor_gets_nothing),
];

/// What this program does in place of testing, when it was started as an impostor.
pub(crate) fn as_impostor() -> Option<ExitCode> {
    let name = std::env::var_os(IMPOSTOR)?;
    Some(listen_as_impostor(&name.to_string_lossy()))
}

/// A directory that everyone may enter.
fn open_directory() -> std::io::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// Runs what is added to it as this user with this group and further ones.
fn as_user(uid: u32, gid: u32, further: &[u32]) -> Command {
    let further: Vec<String> = further.iter().map(u32::to_string).collect();
    let groups = if further.is_empty() {
        "--clear-groups".to_owned()
    } else {
        format!("--groups={}", further.join(","))
    };
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}"), groups]);
    command
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
        let watchers = Group { name: "watch".to_owned(), gid: WATCHERS };
        let watchers = group.is_some().then_some(watchers);
        let listener = Listener::bind(&name)?.open_to(group).shown_to(watchers);
        let _server = listener.serve(Arc::new(EventLog::new()?), |_| done())?;
        let _directory = open_directory()?;
        let binary = _directory.path().join("tabane");
        fs::copy(env!("CARGO_BIN_EXE_tabane"), &binary)?;
        Ok(Stage { name, binary, _directory, _server })
    }

    /// Runs a command as a member of the group; gives its exit code and what it says on stderr.
    fn ask_as_member(&self, words: &[&str]) -> Result<(Option<i32>, String), Failed> {
        let mut command = as_user(STRANGER, GROUP, &[]);
        let output = command.arg(&self.binary).args(words).current_dir("/").output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    }

    /// Asks for the status as this user with this group and further ones.
    fn ask(&self, uid: u32, gid: u32, further: &[u32]) -> std::io::Result<Output> {
        let mut command = as_user(uid, gid, further);
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
    let stage = Stage::new("group", netops())?;
    assert_eq!(stage.ask(STRANGER, GROUP, &[])?.stdout, b"{}\n", "its first group");
    let many: Vec<u32> = (1..=100).chain([GROUP]).collect();
    assert_eq!(stage.ask(STRANGER, STRANGER, &many)?.stdout, b"{}\n", "one of many");
    let sentence = "only root, the user who runs the bundle and members of group netops or watch may ask";
    stage.refused(STRANGER, STRANGER, sentence)
}

fn watchers_may_look() -> Result<(), Failed> {
    let stage = Stage::new("watch", netops())?;
    assert_eq!(stage.ask(STRANGER, WATCHERS, &[])?.stdout, b"{}\n", "its first group");
    assert_eq!(stage.ask(STRANGER, STRANGER, &[WATCHERS])?.stdout, b"{}\n", "a further one");
    let refusal = format!(
        "tabane: {} refuses: members of the group that may watch the bundle can ask for its status, its events and its classes only\n",
        stage.name
    );
    for words in
        [&["policy", &stage.name, "rr"][..], &["link", "drain", &stage.name, "eth1"], &["down", &stage.name]]
    {
        let mut command = as_user(STRANGER, WATCHERS, &[]);
        let output = command.arg(&stage.binary).args(words).current_dir("/").output()?;
        let said = (output.status.code(), String::from_utf8(output.stderr)?);
        assert_eq!(said, (Some(2), refusal.clone()), "{words:?}");
    }
    Ok(())
}

fn netops() -> Option<Group> {
    Some(Group { name: "netops".to_owned(), gid: GROUP })
}

fn keys_are_for_owners_alone() -> Result<(), Failed> {
    let stage = Stage::new("owners", netops())?;
    let key = write_key(stage._directory.path())?;
    let key = key.to_string_lossy();
    for words in [&["policy", &stage.name, "rr"][..], &["link", "add", &stage.name, "eth1"]] {
        assert_eq!(stage.ask_as_member(words)?, (Some(0), String::new()), "{words:?}");
    }
    let refusal = format!(
        "tabane: {} refuses: only root and the user who started the bundle may change its keys, reload it or take it over\n",
        stage.name
    );
    let everyone = ["allow", &stage.name, "--everyone"];
    for words in [&["key", &stage.name, &key][..], &everyone, &["upgrade", &stage.name]] {
        assert_eq!(stage.ask_as_member(words)?, (Some(2), refusal.clone()), "{words:?}");
    }
    let as_root = Command::new(&stage.binary).args(["key", &stage.name, &key]).output()?;
    assert_eq!(as_root.status.code(), Some(0), "{}", String::from_utf8_lossy(&as_root.stderr));
    Ok(())
}

/// A key file that [`STRANGER`] may read.
fn write_key(directory: &Path) -> std::io::Result<PathBuf> {
    let path = directory.join("key");
    fs::write(&path, KEY)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    chown(&path, Some(STRANGER), None)?;
    Ok(path)
}

/// Serves a name as whoever runs this, and prints what each client says until it hangs up, a line for each.
fn listen_as_impostor(name: &str) -> ExitCode {
    let address = SocketAddr::from_abstract_name(format!("tabane/{name}")).expect("a short name");
    let socket = UnixListener::bind_addr(&address).expect("a free name");
    println!("ready");
    for client in socket.incoming() {
        let mut received = [0; 4096];
        let length = client.and_then(|mut client| client.read(&mut received)).unwrap_or_default();
        println!("{}", String::from_utf8_lossy(&received[..length]).trim_end());
    }
    ExitCode::SUCCESS
}

/// A process of user [`STRANGER`] that serves a name; ended when dropped.
struct Impostor {
    name: String,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    directory: TempDir,
}

impl Impostor {
    fn new() -> Result<Impostor, Failed> {
        let name = format!("impostor-{}", std::process::id());
        let directory = open_directory()?;
        let program = directory.path().join("impostor");
        fs::copy(std::env::current_exe()?, &program)?;
        let mut command = as_user(STRANGER, STRANGER, &[]);
        let mut process =
            command.arg(program).env(IMPOSTOR, &name).stdout(Stdio::piped()).current_dir("/").spawn()?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("piped")?).lines();
        assert_eq!(lines.next().transpose()?.as_deref(), Some("ready"));
        Ok(Impostor { name, process, lines, directory })
    }

    /// Runs `tabane` as root with these words and the name among them; gives what the impostor received.
    fn asked(&mut self, command: &mut Command) -> Result<(Output, String), Failed> {
        let output = command.current_dir("/").output()?;
        Ok((output, self.lines.next().ok_or("the impostor has ended")??))
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn an_impostor_gets_nothing() -> Result<(), Failed> {
    let mut impostor = Impostor::new()?;
    let (name, key) = (impostor.name.clone(), write_key(impostor.directory.path())?);
    let binary = impostor.directory.path().join("tabane");
    fs::copy(env!("CARGO_BIN_EXE_tabane"), &binary)?;
    let key = key.to_string_lossy();
    let commands: [&[&str]; 8] = [
        &["key", &name, &key],
        &["upgrade", &name],
        &["status", &name],
        &["down", &name],
        &["events", &name],
        &["events", &name, "--follow"],
        &["policy", &name, "rr"],
        &["link", "add", &name, "eth1"],
    ];
    let sentence = format!(
        "tabane: {name} is served by uid {STRANGER} (pid {}), and gets no request; allowed: root, yourself, or user tabane\n",
        impostor.process.id()
    );
    for words in commands {
        let (output, received) = impostor.asked(Command::new(&binary).args(words))?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), errors.as_str(), received.as_str()), (Some(2), &*sentence, ""));
        assert!(output.stdout.is_empty());
    }
    let mut as_itself = as_user(STRANGER, STRANGER, &[]);
    let (_, received) = impostor.asked(as_itself.arg(&binary).args(["key", &name, &key]))?;
    assert!(received.contains(KEY), "who serves the name oneself is asked: {received}");
    Ok(())
}
