//! The conversation over a real socket, with new processes that do and do not keep to it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use tabane_config::Config;
use tabane_io::Waker;

use super::take::Taken;
use super::*;

const SOON: Duration = Duration::from_secs(10);

fn state() -> BundleState {
    BundleState {
        handover: VERSION,
        told: Told::of(&Config::default()),
        filed: None,
        mac: [2, 0, 0, 0, 0, 1],
        nics: Vec::new(),
        peers: 0,
        offload: [true; 3],
        takes_uso: true,
        carrier: true,
        events: vec![Entry { detail: "x".repeat(100_000), ..Entry::default() }],
        watched: None,
        reorder: None,
    }
}

/// A worker that only answers; the commands that it got come back when all workers are gone.
fn worker(commands: Receiver<Command>) -> JoinHandle<Vec<&'static str>> {
    std::thread::spawn(move || {
        let mut got = Vec::new();
        for command in commands {
            got.push(match command {
                Command::Drain(answer) => {
                    answer.send(()).expect("waited for");
                    "drain"
                }
                Command::Resume => "resume",
                _ => "other",
            });
        }
        got
    })
}

/// Hands a bundle with one worker to `taker`; returns the result, and the worker's commands.
fn give_to(taker: impl FnOnce(Talk) + Send + 'static) -> (io::Result<()>, Vec<&'static str>) {
    give_and(|| {}, taker)
}

/// The same; the service manager is told by `handed_over`.
fn give_and(
    handed_over: impl FnOnce(),
    taker: impl FnOnce(Talk) + Send + 'static,
) -> (io::Result<()>, Vec<&'static str>) {
    let (near, far) = UnixStream::pair().expect("a pair");
    let (commands, receiver) = channel();
    let worker = worker(receiver);
    let workers = Workers::new(std::iter::once((commands, Arc::new(Waker::new().expect("an eventfd")))));
    let taker = std::thread::spawn(move || taker(Talk::new(far).expect("a stream")));
    let file = Waker::new().expect("an eventfd");
    let given = give(near, &state(), &[file.as_fd()], &workers, handed_over);
    drop(workers);
    taker.join().expect("no panic");
    (given, worker.join().expect("no panic"))
}

fn receive_state(talk: &mut Talk) {
    let received: BundleState = talk.receive(SOON).expect("a state");
    assert_eq!((received.events, talk.files.len()), (state().events, 1));
}

fn be_given(talk: &mut Talk) {
    receive_state(talk);
    talk.say(&Word::Ready, SOON).expect("taken");
    talk.expect(&Word::Yours, SOON).expect("given");
}

#[test]
fn who_takes_is_given_all_and_answers_only_when_the_service_manager_follows_it() {
    let (answers, answered) = channel();
    let (given, commands) = give_and(
        // Until the service manager has been told, the other end does not go on.
        move || assert!(answered.recv_timeout(Duration::from_millis(20)).is_err(), "it answers too early"),
        move |mut talk| {
            be_given(&mut talk);
            talk.say(&Word::Taken, SOON).expect("taken");
            Taken(talk).wait_for_farewell();
            // Nobody listens any more when it goes on in time.
            let _ = answers.send(());
        },
    );
    assert!(given.is_ok(), "{given:?}");
    assert_eq!(commands, ["drain"]);
}

#[test]
fn who_ends_before_it_is_ready_leaves_the_workers_alone() {
    let (given, commands) = give_to(|mut talk| receive_state(&mut talk));
    assert!(given.is_err());
    assert!(commands.is_empty(), "{commands:?}");
}

#[test]
fn who_ends_before_it_has_taken_lets_the_workers_go_on() {
    let (given, commands) = give_to(|mut talk| {
        be_given(&mut talk);
    });
    assert!(given.is_err());
    assert_eq!(commands, ["drain", "resume"]);
}

#[test]
fn a_taker_that_is_too_late_learns_it_before_it_uses_anything() {
    let (given, commands) = give_to(|mut talk| {
        be_given(&mut talk);
        assert!(talk.receive::<Word>(SOON).is_err(), "the other end has shut the connection");
        assert!(talk.say(&Word::Taken, SOON).is_err());
    });
    assert!(given.is_err());
    assert_eq!(commands, ["drain", "resume"]);
}
