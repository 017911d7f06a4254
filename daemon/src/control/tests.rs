//! The control socket over real sockets: clients that behave, and clients that do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use tabane_api::client::wait_for_exit;
use tabane_api::socket::connect_now;
use tabane_api::{AskError, Entry, Request, ask_as_json, stop};

use super::server::{
    ACCEPTS_PER_TURN, CLIENT_TIMEOUT, CLIENTS_MAX, FOLLOWERS_MAX, LINE_BYTES_MAX, admit_some,
};
use super::*;
use crate::events::{EventLog, KEPT};

/// A name that no other test and no other run uses.
fn name_for(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// A server that answers each request with `{"got": request}`.
fn serve(name: &str) -> Server {
    serve_log(name, log())
}

fn serve_log(name: &str, log: Arc<EventLog>) -> Server {
    let listener = Listener::bind(name).expect("a free name");
    listener.serve(log, |request| json!({ "got": request })).expect("a thread")
}

fn log() -> Arc<EventLog> {
    Arc::new(EventLog::new().expect("an eventfd"))
}

/// Keeps `count` events.
fn happen(log: &EventLog, count: u64) {
    (0..count).for_each(|at| log.keep(at, Entry { what: "policy".to_owned(), ..Entry::default() }));
}

fn connect(name: &str) -> UnixStream {
    let stream = connect_now(name).expect("served");
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
    assert_eq!(ask_as_json(&name, &Request::Status).expect("answered"), json!({ "got": { "do": "status" } }));
}

#[test]
fn bind_reports_the_pid_of_a_taken_name_and_takes_a_dropped_one() {
    let name = name_for("taken");
    let server = serve(&name);
    match Listener::bind(&name) {
        Err(BindError::AlreadyRunning { pid, .. }) => assert_eq!(u32::try_from(pid), Ok(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(server);
    assert!(matches!(ask_as_json(&name, &Request::Status), Err(AskError::NotUp { .. })));
    Listener::bind(&name).expect("free again");
}

#[test]
fn a_client_that_comes_early_is_served_later() {
    let name = name_for("early");
    let listener = Listener::bind(&name).expect("a free name");
    let mut stream = connect(&name);
    stream.write_all(b"{\"do\":\"stop\"}\n").expect("taken");
    let _server = listener.serve(log(), |_| json!({})).expect("a thread");
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
    assert!(ask_as_json(&name, &Request::Status).is_ok());
}

#[test]
fn a_line_of_1_mib_is_the_longest() {
    let name = name_for("long");
    let _server = serve(&name);
    let mut longest = b"{\"do\":\"status\"}".to_vec();
    longest.resize(LINE_BYTES_MAX, b' ');
    longest.push(b'\n');
    assert_eq!(exchange(&mut connect(&name), &longest)["got"]["do"], "status");
    longest.insert(0, b' ');
    let mut stream = connect(&name);
    // The server may close before it has taken all.
    let _ = stream.write_all(&longest);
    assert_eq!(next_answer(&stream)["error"], "the request is longer than 1 MiB");
}

#[test]
fn silent_clients_hold_up_nobody_for_long() {
    let name = name_for("silent");
    let _server = serve(&name);
    let mut silent: Vec<UnixStream> = (0..CLIENTS_MAX - 1).map(|_| connect(&name)).collect();
    silent[0].write_all(b"{\"do\":").expect("taken");
    let started = Instant::now();
    assert!(ask_as_json(&name, &Request::Status).is_ok());
    assert!(started.elapsed() < CLIENT_TIMEOUT / 2, "one place was free: {:?}", started.elapsed());
    silent.extend((0..2).map(|_| connect(&name)));
    assert!(
        ask_as_json(&name, &Request::Status).is_ok(),
        "places become free when the silent ones are dropped"
    );
}

#[test]
fn who_is_refused_and_comes_again_holds_up_nobody() {
    let mut accepted = 0;
    let refused = || {
        accepted += 1;
        assert!(accepted <= 100 * ACCEPTS_PER_TURN, "nobody else ever has a turn");
        Ok(None)
    };
    admit_some(&mut Vec::new(), refused).expect("nothing was in the way");
    assert_eq!(accepted, ACCEPTS_PER_TURN);
}

#[test]
fn a_client_that_takes_no_answer_is_dropped() {
    const ANSWER_BYTES: usize = 4 << 20;
    let name = name_for("slow");
    let (request, requests) = mpsc::channel();
    let listener = Listener::bind(&name).expect("a free name");
    let server = listener.serve(log(), move |_| {
        request.send(()).expect("the test goes on");
        Value::String("x".repeat(ANSWER_BYTES))
    });
    let _server = server.expect("a thread");
    let mut stream = connect(&name);
    stream.write_all("{\"do\":\"status\"}\n".repeat(3).as_bytes()).expect("taken");
    let hang_up = PollFd::new(&stream, PollFlags::empty());
    let timeout = Timespec::try_from(CLIENT_TIMEOUT * 5).expect("seconds");
    assert_eq!(poll(&mut [hang_up], Some(&timeout)), Ok(1), "the server hangs up");
    assert_eq!(requests.try_iter().count(), 1, "no second request while an answer is under way");
    let mut taken = Vec::new();
    let _ = stream.read_to_end(&mut taken);
    assert!(taken.len() < ANSWER_BYTES);
    assert!(ask_as_json(&name, &Request::Status).is_ok());
}

fn follower(name: &str) -> BufReader<UnixStream> {
    let mut stream = connect(name);
    stream.write_all(b"{\"do\":\"follow\"}\n").expect("taken");
    BufReader::new(stream)
}

fn next_number(follower: &mut BufReader<UnixStream>) -> u64 {
    let mut line = String::new();
    follower.read_line(&mut line).expect("an event");
    serde_json::from_str::<Entry>(&line).expect("an event").number
}

#[test]
fn followers_get_past_and_new_events_until_the_end() {
    let (name, log) = (name_for("follow"), log());
    happen(&log, 2);
    let server = serve_log(&name, Arc::clone(&log));
    let mut followers = [follower(&name), follower(&name)];
    for follower in &mut followers {
        assert_eq!([next_number(follower), next_number(follower)], [0, 1]);
    }
    happen(&log, 1);
    assert!(followers.iter_mut().all(|follower| next_number(follower) == 2));
    drop(server);
    let mut rest = String::new();
    assert!(
        followers.iter_mut().all(|follower| follower.read_line(&mut rest).is_ok_and(|length| length == 0))
    );
}

#[test]
fn a_follower_that_reads_nothing_delays_nobody_and_gets_the_number_that_it_missed() {
    let (name, log) = (name_for("lazy"), log());
    let _server = serve_log(&name, Arc::clone(&log));
    let mut lazy = follower(&name);
    let mut eager = follower(&name);
    // More than the sockets hold.
    for round in 0..40 {
        happen(&log, KEPT as u64);
        while next_number(&mut eager) + 1 < (round + 1) * KEPT as u64 {}
    }
    assert!(ask_as_json(&name, &Request::Status).is_ok());
    let (mut numbers, mut missed) = (Vec::new(), 0);
    while numbers.last() != Some(&(40 * KEPT as u64 - 1)) {
        let mut line = String::new();
        lazy.read_line(&mut line).expect("an event");
        let entry: Entry = serde_json::from_str(&line).expect("an event");
        missed += entry.skipped.unwrap_or(0);
        numbers.extend(entry.skipped.is_none().then_some(entry.number));
    }
    assert!(numbers.is_sorted());
    assert!(
        missed > 0 && numbers.len() as u64 + missed == 40 * KEPT as u64,
        "{} and {missed}",
        numbers.len()
    );
}

#[test]
fn many_followers_keep_nobody_out() {
    let (name, log) = (name_for("many-followers"), log());
    happen(&log, 1);
    let _server = serve_log(&name, log);
    let mut followers: Vec<_> = (0..FOLLOWERS_MAX).map(|_| follower(&name)).collect();
    assert!(followers.iter_mut().all(|follower| next_number(follower) == 0));
    assert!(ask_as_json(&name, &Request::Status).is_ok());
    let mut refused = String::new();
    follower(&name).read_line(&mut refused).expect("an answer");
    assert_eq!(refused, "{\"error\":\"64 followers are served already\"}\n");
}

#[test]
fn stop_reports_a_process_that_stays() {
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
