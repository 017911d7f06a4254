//! Who may ask a running bundle, and who is asked: abstract sockets have no file permissions, so both ends have to look.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr as Address, UnixListener, UnixStream};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::json;
use tabane_api::{Answer, Request};
use tabane_kit::prerequisites::is_all_powerful;
use tabane_kit::process::Ending;
use tabaned::control::{Group, Listener, Right, Server};
use tabaned::events::EventLog;
use tempfile::TempDir;

use crate::traffic::stage::*;

/// A user who owns nothing (`nobody` on Debian), and the group of such users.
const STRANGER: u32 = 65_534;
/// Groups that may ask, look, and change keys. They need no names on the machine.
const OPERATORS: u32 = 54_321;
const WATCHERS: u32 = 54_322;
const KEEPERS: u32 = 54_323;
const KEY: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";
const NAME: &str = "asked";

const USERS: &[Need] = &[Daemon, Tool(SETPRIV), That(require_users)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("only_root_and_the_owner_may_ask", USERS, strangers),
        Case::new("groups_may_ask_what_they_have_the_right_to", USERS, members),
        Case::new("an_impostor_gets_nothing", USERS, impostor),
        Case::new("watchers_leave_room_for_owners", USERS, busy),
        Case::new("nobody_stops_the_tools", USERS, leads_nowhere),
        Case::new("a_bundle_names_no_files_for_root", USERS, names_files),
    ]
}

fn require_users() -> Result<()> {
    ensure!(
        is_all_powerful(),
        Missing::new("who becomes other users has to be root outside of user namespaces")
    );
    Ok(())
}

/// A user with a group and further ones; a command; and the sentence with which it is refused, if it is.
type Row<'a> = (u32, u32, &'a [u32], &'a str, Option<&'a str>);

fn serve(groups: &[(Group, Right)]) -> Result<Server> {
    let answer = |request| match request {
        Request::Policy { policy } => Answer::Switched { old: policy.clone(), new: policy },
        Request::LinkAdd { .. } | Request::LinkDrain { .. } => Answer::Link { link: 0 },
        Request::Allow { .. } => Answer::Allowed { allowed: None },
        Request::Keys { .. } => Answer::Group { group: "0".to_owned() },
        _ => Answer::Done {},
    };
    Ok(Listener::bind(NAME)?.open_to(groups).serve(Arc::new(EventLog::new()?), answer)?)
}

fn groups() -> [(Group, Right); 3] {
    let group = |name: &str, gid| Group { name: name.to_owned(), gid };
    [
        (group("fleet", KEEPERS), Right::Keeper),
        (group("netops", OPERATORS), Right::Operator),
        (group("watch", WATCHERS), Right::Watcher),
    ]
}

fn ask(rows: &[Row<'_>]) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let key = write_key(&directory)?;
    for (uid, gid, further, words, refused) in rows {
        let ending = ends(as_user(*uid, *gid, further), &words.replace("{key}", &key))?;
        let expected = refused.map(|sentence| format!("tabane: {NAME} refuses: {sentence}\n"));
        let code = if refused.is_some() { Some(2) } else { Some(0) };
        ensure!(ending.status.code() == code, "{uid} {gid} {words}: {ending:?}");
        ensure!(ending.complaint == expected.unwrap_or_default(), "{uid} {gid} {words}: {ending:?}");
        let is_answered = refused.is_none() && words.starts_with("status");
        ensure!(!is_answered || ending.output == "{}\n", "{uid} {gid} {words}: {ending:?}");
        ensure!(refused.is_none() || ending.output.is_empty(), "{uid} {gid} {words}: {ending:?}");
    }
    Ok(())
}

fn strangers() -> Result<()> {
    const REFUSED: Option<&str> = Some("only root and the user who runs the bundle may ask");
    let _server = serve(&[])?;
    ask(&[
        (0, 0, &[], "status asked --json", None),
        (STRANGER, STRANGER, &[], "status asked --json", REFUSED),
        (STRANGER, 0, &[], "status asked --json", REFUSED),
    ])
}

fn members() -> Result<()> {
    const REFUSED: Option<&str> =
        Some("only root, the user who runs the bundle and members of group fleet or netops or watch may ask");
    const LOOKS: Option<&str> = Some(
        "members of the group that may watch the bundle can ask for its status, its events and its classes only",
    );
    const OWNERS: Option<&str> =
        Some("only root and the user who started the bundle may change its keys, reload it or take it over");
    const STATUS: &str = "status asked --json";
    let many: Vec<u32> = (1..=100).chain([OPERATORS]).collect();
    let _server = serve(&groups())?;
    ask(&[
        (STRANGER, OPERATORS, &[], STATUS, None),
        (STRANGER, STRANGER, &many, STATUS, None),
        (STRANGER, WATCHERS, &[], STATUS, None),
        (STRANGER, STRANGER, &[WATCHERS], STATUS, None),
        (STRANGER, STRANGER, &[], STATUS, REFUSED),
        (STRANGER, WATCHERS, &[], "policy asked rr", LOOKS),
        (STRANGER, WATCHERS, &[], "link drain asked eth1", LOOKS),
        (STRANGER, WATCHERS, &[], "down asked", LOOKS),
        (STRANGER, OPERATORS, &[], "policy asked rr", None),
        (STRANGER, OPERATORS, &[], "link add asked eth1", None),
        (STRANGER, OPERATORS, &[], "key asked {key}", OWNERS),
        (STRANGER, OPERATORS, &[], "allow asked --everyone", OWNERS),
        (STRANGER, OPERATORS, &[], "upgrade asked", OWNERS),
        (STRANGER, KEEPERS, &[], "key asked {key}", None),
        (STRANGER, KEEPERS, &[], "upgrade asked", OWNERS),
        (0, 0, &[], "key asked {key}", None),
    ])
}

fn as_user(uid: u32, gid: u32, further: &[u32]) -> Command {
    let further: Vec<String> = further.iter().map(u32::to_string).collect();
    let all = format!("--groups={}", further.join(","));
    let mut command = Command::new(SETPRIV.program);
    command.args([&format!("--reuid={uid}"), &format!("--regid={gid}")]);
    command.arg(if further.is_empty() { "--clear-groups" } else { &all });
    command
}

fn ends(mut before: Command, words: &str) -> Result<Ending> {
    before.arg(program(None)?).args(words.split(' ')).current_dir("/");
    Process::start(before)?.wait(WITHIN)
}

fn ended(words: &str) -> Result<Ending> {
    ends(as_user(0, 0, &[]), words)
}

fn write_key(directory: &TempDir) -> Result<String> {
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let path = directory.path().join("key");
    fs::write(&path, KEY)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    chown(&path, Some(STRANGER), None)?;
    Ok(path.display().to_string())
}

fn name(name: &str) -> Result<Address> {
    Ok(Address::from_abstract_name(format!("tabane/{name}"))?)
}

/// Does `work` on a thread of this user, which is the user of the sockets that it makes.
fn on_thread_of<T: Send>(uid: u32, gid: u32, work: impl FnOnce() -> std::io::Result<T> + Send) -> Result<T> {
    let become_user = move || {
        set_thread_groups(&[])?;
        set_thread_res_gid(Gid::from_raw(gid), Gid::from_raw(gid), Gid::from_raw(gid))?;
        set_thread_res_uid(Uid::from_raw(uid), Uid::from_raw(uid), Uid::from_raw(uid))?;
        work()
    };
    thread::scope(|scope| scope.spawn(become_user).join())
        .map_or_else(|_| bail!("the thread"), |done| Ok(done?))
}

fn impostor() -> Result<()> {
    let address = name(NAME)?;
    let socket = on_thread_of(STRANGER, STRANGER, || UnixListener::bind_addr(&address))?;
    let (received, requests) = mpsc::channel();
    thread::spawn(move || {
        for client in socket.incoming() {
            let mut text = [0; 4096];
            let length = client.and_then(|mut client| client.read(&mut text)).unwrap_or_default();
            let _ = received.send(String::from_utf8_lossy(&text[..length]).into_owned());
        }
    });
    let directory = tempfile::tempdir()?;
    let key = format!("key {NAME} {}", write_key(&directory)?);
    let sentence = format!(
        "tabane: {NAME} is served by uid {STRANGER} (pid {}), and gets no request; allowed: root, yourself, or user tabane\n",
        std::process::id()
    );
    for words in [
        &*key,
        "upgrade asked",
        "status asked",
        "down asked",
        "events asked",
        "events asked --follow",
        "policy asked rr",
        "link add asked eth1",
    ] {
        let ending = ended(words)?;
        ensure!(ending.status.code() == Some(2) && ending.complaint == sentence, "{words}: {ending:?}");
        ensure!(ending.output.is_empty() && requests.recv()?.is_empty(), "{words}: {ending:?}");
    }
    ends(as_user(STRANGER, STRANGER, &[]), &key)?;
    let asked = requests.recv()?;
    ensure!(asked.contains(KEY), "who serves the name oneself is asked: {asked}");
    Ok(())
}

fn busy() -> Result<()> {
    let _server = serve(&groups())?;
    let address = name(NAME)?;
    let mut watchers = on_thread_of(STRANGER, WATCHERS, || {
        (0..64).map(|_| UnixStream::connect_addr(&address)).collect::<std::io::Result<Vec<_>>>()
    })?;
    for _ in 0..20 {
        for watcher in &mut watchers {
            // Most have been sent away.
            let _ = watcher.write_all(&b"{\"do\":\"status\"}\n".repeat(16));
        }
        ended("policy asked rr")?.success("the owner's command")?;
    }
    ask(&[(STRANGER, WATCHERS, &[], "status asked --json", None)])
}

fn leads_nowhere() -> Result<()> {
    let full = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::net::bind(&full, &SocketAddrUnix::new_abstract_name(format!("tabane/{NAME}").as_bytes())?)?;
    rustix::net::listen(&full, 0)?;
    let _waits = UnixStream::connect_addr(&name(NAME)?)?;
    let _no_text = UnixListener::bind_addr(&Address::from_abstract_name(b"tabane/\xff")?)?;
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("up.toml");
    fs::write(&config, format!("name = '{NAME}'\nsecurity = 'none'\n[[link]]\nnic = 'lo'\n"))?;
    for (words, sentence) in [
        ("list", ""),
        ("metrics", ""),
        ("status asked", "takes no connection: as many wait as may"),
        ("policy asked rr", "takes no connection: as many wait as may"),
        ("down asked", "takes no connection: as many wait as may"),
        (&*format!("up {}", config.display()), "is taken by a process that takes no connection"),
    ] {
        let Ending { status, complaint, .. } = ended(words)?;
        ensure!(complaint.contains(sentence) && !complaint.contains("UTF-8"), "{words}: {complaint}");
        ensure!(status.success() == sentence.is_empty(), "{words}: {complaint}");
    }
    Ok(())
}

/// The bundle may have been taken over: root writes no file, reads no key, and hands none over because it says so.
fn names_files() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (script, config, key) = (path("x.sh"), path("tb.toml"), path("key"));
    let link = "[[link]]\nnic = 'eth1'\n";
    fs::write(&key, KEY)?;
    fs::write(&config, format!("security = 'none'\n{link}"))?;
    let with_key = format!("key = '{key}'\n{link}");
    // What the bundle says of its file, its text and its flags, and what is typed. With a file that is typed, and without what leads
    // astray, reloading is as ever.
    for (file, text, flags, typed) in [
        (&script, link, &[][..], &["save asked", "reload asked"][..]),
        (
            &config,
            link,
            &["--key", &key],
            &[&format!("save asked {config}"), &format!("reload asked {config}")],
        ),
        (&config, &with_key, &[], &[&format!("save asked {config}")]),
    ] {
        let arguments = [&[file.as_str()], flags].concat();
        let answer = json!({
            "told": { "config": text, "keys": [], "key_files": [&key] },
            "groups": ["00"],
            "origin": { "file": file, "arguments": arguments, "directory": "/" },
        });
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&requests);
        let server = Listener::bind(NAME)?.serve(Arc::new(EventLog::new()?), move |request| {
            noted.lock().expect("no panic").push(request);
            answer.clone()
        })?;
        for words in typed {
            let ending = ended(words)?;
            ensure!(ending.status.code() == Some(2), "{words}, {file}: {ending:?}");
        }
        drop(server);
        let requests = requests.lock().expect("no panic");
        ensure!(requests.iter().all(|request| *request == Request::Configuration), "{requests:?}");
        ensure!(!fs::exists(&script)?, "{script} is written");
    }
    Ok(())
}
