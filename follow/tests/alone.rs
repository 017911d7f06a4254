//! `tabane-follow` as a user calls it on a machine without etcd, DNS and bundle: it says so once, waits, and ends when it is told
//! to.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A port of the loopback that nobody listens on: it was free a moment ago.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

#[test]
fn without_etcd_it_says_so_and_waits() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path().join("tb9.json");
    let at = nowhere();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tabane-follow"))
        .args(["no-such-bundle", "--etcd", &format!("http://{at}"), "--cache"])
        .arg(&cache)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("its log")).lines().map_while(Result::ok);
    let mut wanted = vec!["no bundle named no-such-bundle is up", &*at];
    for line in lines {
        wanted.retain(|words| !line.contains(words));
        if wanted.is_empty() {
            break;
        }
    }
    assert!(wanted.is_empty(), "never said: {wanted:?}");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).expect("it runs");
    assert!(child.wait().expect("it ends").success());
    assert!(!cache.exists(), "nothing was known");
}

#[test]
fn what_cannot_be_done_is_one_sentence_and_exit_code_2() {
    for arguments in [&["tb0"][..], &["tb0", "--etcd", "http://192.0.2.1", "--keys", "--cache", "/tmp/x"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_tabane-follow")).args(arguments).output().expect("it runs");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with("tabane-follow: "), "{said}");
    }
}
