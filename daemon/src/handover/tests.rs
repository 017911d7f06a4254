//! The conversation over a real socket, with a new process that does not keep to it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use tabane_io::Waker;

use super::*;
use crate::worker::Command;
use crate::workers::Workers;

const SOON: Duration = Duration::from_secs(10);

fn state() -> BundleState {
    BundleState {
        handover: VERSION,
        config: Config { links: Vec::new(), ..Config::default() }.to_string(),
        keys: Vec::new(),
        node_key: None,
        mac: [2, 0, 0, 0, 0, 1],
        nics: Vec::new(),
        peers: 0,
        offload: [true; 3],
        takes_uso: true,
        carrier: true,
        events: vec![Entry { detail: "x".repeat(100_000), ..Entry::default() }],
    }
}

/// A worker that only says what it is told; the commands that it got come back when all workers are gone.
fn worker(commands: Receiver<Command>) -> JoinHandle<Vec<&'static str>> {
    std::thread::spawn(move || {
        let mut told = Vec::new();
        for command in commands {
            told.push(match command {
                Command::Drain(answer) => {
                    answer.send(()).expect("waited for");
                    "drain"
                }
                Command::Resume => "resume",
                _ => "other",
            });
        }
        told
    })
}

/// Gives a bundle with one worker to `successor`; returns how that went, and what the worker was told.
fn give_to(successor: impl FnOnce(Talk) + Send + 'static) -> (io::Result<()>, Vec<&'static str>) {
    let (near, far) = UnixStream::pair().expect("a pair");
    let (commands, receiver) = channel();
    let worker = worker(receiver);
    let workers = Workers::new(std::iter::once((commands, Arc::new(Waker::new().expect("an eventfd")))));
    let successor = std::thread::spawn(move || successor(Talk::new(far).expect("a stream")));
    let file = Waker::new().expect("an eventfd");
    let given = give(near, &state(), &[file.as_fd()], &workers);
    drop(workers);
    successor.join().expect("no panic");
    (given, worker.join().expect("no panic"))
}

fn receive_state(talk: &mut Talk) {
    let heard: BundleState = talk.hear(SOON).expect("an state");
    assert_eq!((heard.events, talk.files.len()), (state().events, 1));
}

#[test]
fn what_is_taken_is_given() {
    let (given, told) = give_to(|mut talk| {
        receive_state(&mut talk);
        talk.say(&Word::Ready, SOON).expect("taken");
        talk.expect(&Word::Yours, SOON).expect("given");
        talk.say(&Word::Taken, SOON).expect("taken");
    });
    assert!(given.is_ok(), "{given:?}");
    assert_eq!(told, ["drain"]);
}

#[test]
fn who_ends_before_it_is_ready_leaves_the_workers_alone() {
    let (given, told) = give_to(|mut talk| receive_state(&mut talk));
    assert!(given.is_err());
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn who_ends_before_it_has_taken_lets_the_workers_go_on() {
    let (given, told) = give_to(|mut talk| {
        receive_state(&mut talk);
        talk.say(&Word::Ready, SOON).expect("taken");
        talk.expect(&Word::Yours, SOON).expect("given");
    });
    assert!(given.is_err());
    assert_eq!(told, ["drain", "resume"]);
}

#[test]
fn who_takes_too_late_is_told_before_it_has_touched_anything() {
    let (given, told) = give_to(|mut talk| {
        receive_state(&mut talk);
        talk.say(&Word::Ready, SOON).expect("taken");
        talk.expect(&Word::Yours, SOON).expect("given");
        assert!(talk.hear::<Word>(SOON).is_err(), "the other end has shut the connection");
        assert!(talk.say(&Word::Taken, SOON).is_err());
    });
    assert!(given.is_err());
    assert_eq!(told, ["drain", "resume"]);
}
