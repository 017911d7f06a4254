//! Who may ask a running bundle, and who is asked: abstract sockets have no file permissions, so both ends have to
//! look.
//!
//! The asking process runs as another user, which only root can arrange; elsewhere the tests are ignored.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::json;
use tabane_api::{Answer, Request};
use tabane_netns::Namespace;
use tabane_netns::process::{Ending, Process};
use tabaned::control::{Group, Listener, Right, Server};
use tabaned::events::EventLog;
use tempfile::TempDir;

use crate::programs;

/// A user who owns nothing (`nobody` on Debian), and the group of such users.
const STRANGER: u32 = 65_534;
/// A group that may ask. It needs no name on the machine.
const GROUP: u32 = 54_321;
/// A group that may change keys.
const KEEPERS: u32 = 54_323;
/// A group that may look.
const WATCHERS: u32 = 54_322;
const KEY: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";
/// Names the bundle for which this program is to stand, in place of testing.
const IMPOSTOR: &str = "TABANE_TEST_IMPOSTOR";

/// A test that needs root.
type Test = fn() -> Result<(), Failed>;

pub(crate) const TRIALS: &[(&str, Test)] = trials![
    only_root_and_the_owner_may_ask,
    members_of_the_group_may_ask,
    watchers_may_look,
    keys_are_for_owners_alone,
    an_impostor_gets_nothing,
    watchers_leave_room_for_owners,
    nobody_stops_the_tools,
    a_bundle_names_no_files_for_root,
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
    fn new(name: &str, groups: &[(Group, Right)]) -> Result<Stage, Failed> {
        let name = format!("{name}-{}", std::process::id());
        let listener = Listener::bind(&name)?.open_to(groups);
        let answer = |request| match request {
            Request::Policy { policy } => Answer::Switched { old: policy.clone(), new: policy },
            Request::LinkAdd { .. } | Request::LinkDrain { .. } => Answer::Link { link: 0 },
            Request::Allow { .. } => Answer::Allowed { allowed: None },
            Request::Keys { .. } => Answer::Group { group: "0".to_owned() },
            _ => Answer::Done {},
        };
        let _server = listener.serve(Arc::new(EventLog::new()?), answer)?;
        let _directory = open_directory()?;
        let binary = programs::copy(_directory.path())?;
        Ok(Stage { name, binary, _directory, _server })
    }

    /// Runs a command as a stranger of this group; gives its exit code and what it says on stderr.
    fn ask_as(&self, group: u32, words: &[&str]) -> Result<(Option<i32>, String), Failed> {
        let output = as_user(STRANGER, group, &[]).arg(&self.binary).args(words).current_dir("/").output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    }

    /// The status as this user with this group and further ones.
    fn ask(&self, uid: u32, gid: u32, further: &[u32]) -> std::io::Result<Output> {
        let mut command = as_user(uid, gid, further);
        command.arg(&self.binary).args(["status", &self.name, "--json"]).current_dir("/").output()
    }

    /// What one is told who is refused.
    fn refusal(&self, sentence: &str) -> (Option<i32>, String) {
        (Some(2), format!("tabane: {} refuses: {sentence}\n", self.name))
    }

    /// Asks for the status and is refused.
    fn refused(&self, gid: u32, sentence: &str) -> Result<(), Failed> {
        let refused = self.ask(STRANGER, gid, &[])?;
        assert!(refused.stdout.is_empty());
        assert_eq!((refused.status.code(), String::from_utf8(refused.stderr)?), self.refusal(sentence));
        Ok(())
    }
}

fn only_root_and_the_owner_may_ask() -> Result<(), Failed> {
    let stage = Stage::new("owner", &[])?;
    assert_eq!(stage.ask(0, 0, &[])?.stdout, b"{}\n");
    stage.refused(STRANGER, "only root and the user who runs the bundle may ask")?;
    stage.refused(0, "only root and the user who runs the bundle may ask")
}

fn members_of_the_group_may_ask() -> Result<(), Failed> {
    let stage = Stage::new("group", &groups())?;
    assert_eq!(stage.ask(STRANGER, GROUP, &[])?.stdout, b"{}\n", "its first group");
    let many: Vec<u32> = (1..=100).chain([GROUP]).collect();
    assert_eq!(stage.ask(STRANGER, STRANGER, &many)?.stdout, b"{}\n", "one of many");
    let sentence =
        "only root, the user who runs the bundle and members of group fleet or netops or watch may ask";
    stage.refused(STRANGER, sentence)
}

fn watchers_may_look() -> Result<(), Failed> {
    let stage = Stage::new("watch", &groups())?;
    assert_eq!(stage.ask(STRANGER, WATCHERS, &[])?.stdout, b"{}\n", "its first group");
    assert_eq!(stage.ask(STRANGER, STRANGER, &[WATCHERS])?.stdout, b"{}\n", "a further one");
    let sentence = "members of the group that may watch the bundle can ask for its status, its events and its classes only";
    for words in
        [&["policy", &stage.name, "rr"][..], &["link", "drain", &stage.name, "eth1"], &["down", &stage.name]]
    {
        assert_eq!(stage.ask_as(WATCHERS, words)?, stage.refusal(sentence), "{words:?}");
    }
    Ok(())
}

fn groups() -> [(Group, Right); 3] {
    let group = |name: &str, gid| Group { name: name.to_owned(), gid };
    [
        (group("fleet", KEEPERS), Right::Keeper),
        (group("netops", GROUP), Right::Operator),
        (group("watch", WATCHERS), Right::Watcher),
    ]
}

fn keys_are_for_owners_alone() -> Result<(), Failed> {
    let stage = Stage::new("owners", &groups())?;
    let key = write_key(stage._directory.path())?;
    let key = key.to_string_lossy();
    let done = (Some(0), String::new());
    for words in [&["policy", &stage.name, "rr"][..], &["link", "add", &stage.name, "eth1"]] {
        assert_eq!(stage.ask_as(GROUP, words)?, done, "{words:?}");
    }
    let sentence =
        "only root and the user who started the bundle may change its keys, reload it or take it over";
    let (key, upgrade) = (["key", &stage.name, &key], ["upgrade", &stage.name]);
    for words in [&key[..], &["allow", &stage.name, "--everyone"], &upgrade] {
        assert_eq!(stage.ask_as(GROUP, words)?, stage.refusal(sentence), "{words:?}");
    }
    assert_eq!(stage.ask_as(KEEPERS, &key)?, done);
    assert_eq!(stage.ask_as(KEEPERS, &upgrade)?.0, Some(2));
    let as_root = Command::new(&stage.binary).args(key).output()?;
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
    let binary = programs::copy(impostor.directory.path())?;
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

/// Connections of a user, as whom a thread makes them.
fn connections(name: &str, count: usize, uid: u32, gid: u32) -> Result<Vec<UnixStream>, Failed> {
    let address = SocketAddr::from_abstract_name(format!("tabane/{name}"))?;
    let connect = move || -> std::io::Result<Vec<UnixStream>> {
        set_thread_groups(&[])?;
        set_thread_res_gid(Gid::from_raw(gid), Gid::from_raw(gid), Gid::from_raw(gid))?;
        set_thread_res_uid(Uid::from_raw(uid), Uid::from_raw(uid), Uid::from_raw(uid))?;
        (0..count).map(|_| UnixStream::connect_addr(&address)).collect()
    };
    Ok(thread::spawn(connect).join().map_err(|_| "the thread")??)
}

fn watchers_leave_room_for_owners() -> Result<(), Failed> {
    let stage = Stage::new("busy", &groups())?;
    let mut watchers = connections(&stage.name, 64, STRANGER, WATCHERS)?;
    for _ in 0..20 {
        for watcher in &mut watchers {
            // Most have been sent away.
            let _ = watcher.write_all(&b"{\"do\":\"status\"}\n".repeat(16));
        }
        ended(&stage.binary, &["policy", &stage.name, "rr"])?.success("the owner's command")?;
    }
    assert_eq!(stage.ask(STRANGER, WATCHERS, &[])?.stdout, b"{}\n", "and for the next watcher");
    Ok(())
}

/// How a command of `tabane` ends; an error when it has not ended after a while.
fn ended(program: impl AsRef<OsStr>, words: &[&str]) -> Result<Ending, Failed> {
    const ENDS_WITHIN: Duration = Duration::from_secs(20);
    let mut command = Command::new(program);
    command.args(words).current_dir("/");
    Ok(Process::start(command)?.wait(ENDS_WITHIN)?)
}

/// Somebody has a name whose connections nobody takes, and one that is no text; in a network namespace where no other trial's
/// bundle is up.
fn nobody_stops_the_tools() -> Result<(), Failed> {
    Namespace::new()?.enter(names_that_lead_nowhere)?
}

fn names_that_lead_nowhere() -> Result<(), Failed> {
    let directory = open_directory()?;
    let name = "full";
    let address = SocketAddr::from_abstract_name(format!("tabane/{name}"))?;
    let full = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::net::bind(&full, &SocketAddrUnix::new_abstract_name(format!("tabane/{name}").as_bytes())?)?;
    rustix::net::listen(&full, 0)?;
    let _waits = UnixStream::connect_addr(&address)?;
    let _no_text = UnixListener::bind_addr(&SocketAddr::from_abstract_name(b"tabane/\xff")?)?;
    let config = directory.path().join("up.toml");
    fs::write(&config, format!("name = '{name}'\nsecurity = 'none'\n[[link]]\nnic = 'lo'\n"))?;
    let config = config.to_string_lossy().into_owned();
    let commands: [(&[&str], &str); 6] = [
        (&["list"], ""),
        (&["metrics"], ""),
        (&["status", name], "takes no connection: as many wait as may"),
        (&["policy", name, "rr"], "takes no connection: as many wait as may"),
        (&["down", name], "takes no connection: as many wait as may"),
        (&["up", &config], "is taken by a process that takes no connection"),
    ];
    for (words, sentence) in commands {
        let Ending { status, complaint, .. } = ended(programs::tabane(), words)?;
        assert!(complaint.contains(sentence) && !complaint.contains("UTF-8"), "{words:?}: {complaint}");
        assert_eq!(status.success(), sentence.is_empty(), "{words:?}: {complaint}");
    }
    Ok(())
}

/// The bundle may have been taken over: root writes no file, reads no key, and hands none over because it says so.
fn a_bundle_names_no_files_for_root() -> Result<(), Failed> {
    let directory = open_directory()?;
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (script, config, key) = (path("x.sh"), path("tb.toml"), path("key"));
    fs::write(&key, KEY)?;
    fs::write(&config, "security = 'none'\n[[link]]\nnic = 'eth1'\n")?;
    let link = "[[link]]\nnic = 'eth1'\n";
    let told = [
        (&script, link.to_owned(), vec![]),
        (&config, link.to_owned(), vec!["--key", &key]),
        (&config, format!("key = '{key}'\n{link}"), vec![]),
    ];
    for (number, (file, text, flags)) in told.into_iter().enumerate() {
        let name = format!("fake{number}-{}", std::process::id());
        let arguments = [&[file.as_str()][..], &flags].concat();
        let answer = json!({
            "told": { "config": text, "keys": [], "key_files": [&key] },
            "groups": ["00"],
            "origin": { "file": file, "arguments": arguments, "directory": "/" },
        });
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&requests);
        let listener = Listener::bind(&name)?;
        let server = listener.serve(Arc::new(EventLog::new()?), move |request| {
            noted.lock().expect("no panic").push(request);
            answer.clone()
        })?;
        let typed: &[&str] = if number == 0 { &[] } else { &[&*config] };
        for word in ["save", "reload"] {
            // With a file that is typed, and without what leads astray, reloading is as ever.
            if number == 2 && word == "reload" {
                continue;
            }
            let ending = ended(programs::tabane(), &[&[word, &name], typed].concat())?;
            assert_eq!(ending.status.code(), Some(2), "{word} {number}: {}", ending.complaint);
        }
        drop(server);
        let requests = requests.lock().expect("no panic");
        assert!(requests.iter().all(|request| *request == Request::Configuration), "{requests:?}");
        assert!(!fs::exists(&script)?);
    }
    Ok(())
}
