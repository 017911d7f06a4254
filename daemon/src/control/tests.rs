//! The control socket over real sockets: clients that behave, and clients that do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};

use super::client::wait_for_exit;
use super::server::{CLIENT_PATIENCE, CLIENTS_MAX, LINE_BYTES_MAX};
use super::*;

/// A name that no other test and no other run uses.
fn name_for(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// A server that answers each request with `{"heard": request}`.
fn serve(name: &str) -> Server {
    let listener = Listener::bind(name).expect("a free name");
    listener.serve(|request| json!({ "heard": request })).expect("a thread")
}

fn connect(name: &str) -> UnixStream {
    let stream = UnixStream::connect_addr(&address(name).expect("a short name")).expect("served");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// Sends `bytes` and gives the line that comes back.
fn exchange(stream: &mut UnixStream, bytes: &[u8]) -> Value {
    stream.write_all(bytes).expect("taken");
    next_answer(stream)
}

fn next_answer(stream: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn a_request_is_answered() {
    let name = name_for("ask");
    let _server = serve(&name);
    assert_eq!(ask(&name, Request::Status).expect("answered"), json!({ "heard": { "do": "status" } }));
}

#[test]
fn a_taken_name_tells_its_pid_and_a_dropped_one_is_free() {
    let name = name_for("taken");
    let server = serve(&name);
    match Listener::bind(&name) {
        Err(BindError::AlreadyRunning { pid, .. }) => assert_eq!(u32::try_from(pid), Ok(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(server);
    assert!(matches!(ask(&name, Request::Status), Err(AskError::NotUp { .. })));
    Listener::bind(&name).expect("free again");
}

#[test]
fn a_client_that_comes_early_is_served_later() {
    let name = name_for("early");
    let listener = Listener::bind(&name).expect("a free name");
    let mut stream = connect(&name);
    stream.write_all(b"{\"do\":\"stop\"}\n").expect("taken");
    let _server = listener.serve(|_| done()).expect("a thread");
    assert_eq!(next_answer(&stream), json!({}));
}

#[test]
fn many_requests_in_one_write_are_all_answered() {
    let name = name_for("many");
    let _server = serve(&name);
    let mut stream = connect(&name);
    stream.write_all("{\"do\":\"status\"}\n".repeat(100).as_bytes()).expect("taken");
    let answers = BufReader::new(&stream).lines().take(100).filter(Result::is_ok).count();
    assert_eq!(answers, 100);
}

#[test]
fn what_is_no_request_is_refused() {
    let name = name_for("garbage");
    let _server = serve(&name);
    for garbage in ["\n", "{}\n", "{\"do\":\"dance\"}\n", "{\"do\":null}\n", "\0\u{7f}\n", "[[[[\n"] {
        let answer = exchange(&mut connect(&name), garbage.as_bytes());
        assert!(
            answer["error"].as_str().is_some_and(|error| error.starts_with("unknown request")),
            "{answer}"
        );
    }
    assert!(ask(&name, Request::Status).is_ok());
}

#[test]
fn a_line_of_64_kib_is_the_longest() {
    let name = name_for("long");
    let _server = serve(&name);
    let mut longest = b"{\"do\":\"status\"}".to_vec();
    longest.resize(LINE_BYTES_MAX, b' ');
    longest.push(b'\n');
    assert_eq!(exchange(&mut connect(&name), &longest)["heard"]["do"], "status");
    longest.insert(0, b' ');
    let mut stream = connect(&name);
    // The server may close before it has taken all.
    let _ = stream.write_all(&longest);
    assert_eq!(next_answer(&stream)["error"], "the request is longer than 65536 bytes");
}

#[test]
fn silent_clients_hold_up_nobody_for_long() {
    let name = name_for("silent");
    let _server = serve(&name);
    let mut silent: Vec<UnixStream> = (0..CLIENTS_MAX - 1).map(|_| connect(&name)).collect();
    silent[0].write_all(b"{\"do\":").expect("taken");
    let started = Instant::now();
    assert!(ask(&name, Request::Status).is_ok());
    assert!(started.elapsed() < CLIENT_PATIENCE / 2, "one place was free: {:?}", started.elapsed());
    silent.extend((0..2).map(|_| connect(&name)));
    assert!(ask(&name, Request::Status).is_ok(), "places become free when the silent ones are dropped");
}

#[test]
fn a_client_that_takes_no_answer_is_dropped() {
    const ANSWER_BYTES: usize = 4 << 20;
    let name = name_for("deaf");
    let (request, requests) = mpsc::channel();
    let listener = Listener::bind(&name).expect("a free name");
    let server = listener.serve(move |_| {
        request.send(()).expect("the test goes on");
        Value::String("x".repeat(ANSWER_BYTES))
    });
    let _server = server.expect("a thread");
    let mut stream = connect(&name);
    stream.write_all("{\"do\":\"status\"}\n".repeat(3).as_bytes()).expect("taken");
    let hang_up = PollFd::new(&stream, PollFlags::empty());
    let patient = Timespec::try_from(CLIENT_PATIENCE * 5).expect("seconds");
    assert_eq!(poll(&mut [hang_up], Some(&patient)), Ok(1), "the server hangs up");
    assert_eq!(requests.try_iter().count(), 1, "no second request while an answer is under way");
    let mut taken = Vec::new();
    let _ = stream.read_to_end(&mut taken);
    assert!(taken.len() < ANSWER_BYTES);
    assert!(ask(&name, Request::Status).is_ok());
}

#[test]
fn stop_tells_when_the_process_stays() {
    let name = name_for("stays");
    let _server = serve(&name);
    let error = stop(&name, Duration::from_millis(50)).expect_err("this process goes on");
    assert!(matches!(error, AskError::StillThere { .. }), "{error}");
    let error = stop(&name_for("nobody"), Duration::from_millis(50)).expect_err("nobody is there");
    assert!(error.to_string().ends_with("is up in this network namespace"), "{error}");
}

#[test]
fn the_end_of_a_process_is_seen() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
    let process = PollFd::new(&process, PollFlags::IN);
    let soon = Instant::now() + Duration::from_millis(20);
    assert!(!wait_for_exit(&process, soon).expect("polled"));
    drop(child.stdin.take());
    let later = Instant::now() + Duration::from_secs(10);
    assert!(wait_for_exit(&process, later).expect("polled"));
    child.wait().expect("waited for");
}
