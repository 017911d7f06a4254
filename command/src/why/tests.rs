//! Each verdict by the facts that make it.

use tabane_api::status::PathState;

use super::facts::{Drops, Facts, Flow, Path, Worker};
use super::judge::judge;

fn path(nic: &str, carried_mbit: u64, can_mbit: u64) -> Path {
    Path {
        nic: nic.to_owned(),
        state: PathState::Up,
        carried: carried_mbit * 1_000_000,
        can: Some(can_mbit * 1_000_000),
        skew_us: 0,
        variation_us: 0,
        loss: 0.1,
        reports: 400,
        behind: 2,
        waited_us: 300,
        waiting: 50,
        queued: 10_000,
    }
}

/// One connection over two links of 200 Mbit/s, of which each carries so much.
fn sending(carried: [u64; 2]) -> Facts {
    let rate = (carried[0] + carried[1]) * 1_000_000;
    Facts {
        millis: 1_500,
        sends: true,
        rate,
        policy: "adaptive".into(),
        binds: false,
        peer: "hostb".into(),
        data_path: String::new(),
        paths: vec![path("eth1", carried[0], 200), path("eth2", carried[1], 200)],
        workers: vec![Worker { name: "worker 0".into(), worked: 30, waited: 2 }],
        processors: vec![50, 40],
        flows: vec![Flow {
            ends: "10.9.0.1:1 to 10.9.0.2:2".into(),
            rate,
            window: 3 << 20,
            buffer: 2 << 20,
            ..Flow::default()
        }],
        drops: Drops { frames: 10_000, queue: 0, cells: 10_000, given_up: 0 },
    }
}

/// The limits of `docs/doctor.md`.
fn in_the_page() -> impl Iterator<Item = &'static str> {
    let table =
        include_str!("../../../docs/doctor.md").split("| Limit |").nth(1).expect("the table of limits");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('`').nth(1))
}

/// Limits that are no fault.
const FINE: [&str; 4] = ["links-full", "nothing-to-send", "application", "unknown"];

fn but(mut facts: Facts, change: impl FnOnce(&mut Facts)) -> Facts {
    change(&mut facts);
    facts
}

/// A limit, and what makes it the one.
type Row = (&'static str, fn(&mut Facts));

/// What limits the bundle whose facts are `facts`, but for what a row changes of them.
fn check(facts: &Facts, rows: &[Row]) {
    for (number, (limit, change)) in rows.iter().enumerate() {
        let found = judge(&but(facts.clone(), change)).found;
        assert_eq!((found.limit, found.is_fault), (*limit, !FINE.contains(limit)), "row {number}");
        assert!(in_the_page().any(|row| row == *limit), "docs/doctor.md has no row for {limit}");
    }
}

#[test]
fn full_links_are_no_fault_unless_something_else_is_full_as_well() {
    check(
        &sending([190, 190]),
        &[
            ("links-full", |_| {}),
            ("link-loss", |facts| facts.paths[1].loss = 10.0),
            ("links-full", |facts| facts.flows[0].window_limited = 40),
            ("receive-window", |facts| facts.flows[0].window_limited = 90),
        ],
    );
    let full = judge(&sending([190, 192])).found.sentence;
    assert_eq!(full, "Nothing is wrong: all 2 links are full (382 Mbit/s of 400 Mbit/s).");
}

#[test]
fn a_link_that_is_slow_or_dead_is_named_when_the_others_are_full() {
    let slow = but(sending([190, 19]), |facts| facts.paths[1].can = Some(20_000_000));
    check(&slow, &[("link-rate", |_| {})]);
    assert!(judge(&slow).found.sentence.starts_with("The rate of eth2"));
    let dead = but(sending([190, 0]), |facts| {
        (facts.paths[1].state, facts.paths[1].can) = (PathState::Down, None);
    });
    check(&dead, &[("dead-link", |_| {}), ("link-loss", |facts| facts.paths[1].state = PathState::Suspect)]);
    // While the other is not full, it is named last.
    let both = but(dead, |facts| facts.paths[0].carried = 60_000_000);
    check(&both, &[("dead-link", |_| {}), ("application", |facts| facts.flows[0].idle = 100)]);
}

#[test]
fn a_link_that_is_far_is_named_by_whoever_sends() {
    let far = but(sending([190, 0]), |facts| facts.paths[1].skew_us = 285_000);
    check(
        &far,
        &[
            ("far-link", |_| {}),
            // On a busy machine heartbeats come late.
            ("far-link", |facts| facts.paths.iter_mut().for_each(|path| path.reports = 140)),
            ("unknown", |facts| facts.paths[1].skew_us = 99_000),
            // It has whole connections.
            ("unknown", |facts| facts.paths[1].carried = 19_000_000),
            ("unknown", |facts| facts.sends = false),
        ],
    );
}

#[test]
fn half_full_links_are_explained_by_what_else_is_known() {
    check(
        &sending([60, 60]),
        &[
            ("unknown", |_| {}),
            ("nothing-to-send", |facts| *facts = Facts { rate: 50_000, ..sending([0, 0]) }),
            ("no-peer", |facts| *facts = Facts { peer: String::new(), ..sending([0, 0]) }),
            // They were never idle, whatever their rates are said to be.
            ("links-full", |facts| {
                facts.paths.iter_mut().for_each(|path| (path.waiting, path.carried) = (100, 90_000_000));
            }),
            ("varying-link", |facts| facts.paths[1].variation_us = 10_000),
            ("link-loss", |facts| facts.paths[1].loss = 5.0),
            ("device-queue", |facts| facts.drops.queue = 500),
            ("receive-window", |facts| facts.flows[0].window_limited = 90),
            ("send-buffer", |facts| facts.flows[0].buffer_limited = 90),
            ("application", |facts| facts.flows[0].idle = 90),
            // A small connection tells nothing of the whole.
            ("unknown", |facts| (facts.flows[0].idle, facts.flows[0].rate) = (90, 12_000_000)),
            // Without a connection something waits, or nothing does.
            ("unknown", |facts| facts.flows.clear()),
            ("application", |facts| {
                facts.flows.clear();
                facts.paths.iter_mut().for_each(|path| path.queued = 0);
            }),
        ],
    );
}

#[test]
fn a_receiver_sees_its_program_its_buffer_and_what_comes_late() {
    let receives = but(Facts { sends: false, ..sending([60, 60]) }, |facts| facts.flows[0].buffer = 4 << 20);
    check(
        &receives,
        &[
            ("unknown", |_| {}),
            ("unknown", |facts| facts.paths[1].variation_us = 10_000),
            ("application", |facts| facts.flows[0].unread = 90),
            ("receive-window", |facts| facts.flows[0].buffer = 32_000),
            ("reordering", |facts| facts.drops.given_up = 100),
            ("receiver-processor", |facts| facts.workers[0].waited = 60),
        ],
    );
}

#[test]
fn processors_are_told_apart_by_who_says_so() {
    check(
        &sending([60, 60]),
        &[
            ("sender-processor", |facts| facts.workers[0].waited = 60),
            ("sender-processor", |facts| facts.workers[0].worked = 95),
            ("receiver-processor", |facts| (facts.workers[0].worked, facts.paths[0].behind) = (95, 80)),
            // What is seen here counts first.
            ("sender-processor", |facts| (facts.workers[0].worked, facts.paths[0].behind) = (95, 15)),
            // Nothing else stands out.
            ("receiver-processor", |facts| facts.paths[0].behind = 15),
            ("receiver-processor", |facts| facts.paths.iter_mut().for_each(|path| path.reports = 20)),
        ],
    );
}

#[test]
fn a_policy_that_binds_is_named_when_one_link_carries_all() {
    check(
        &Facts { policy: "hash".into(), binds: true, ..sending([190, 1]) },
        &[
            ("bound-flow", |_| {}),
            ("unknown", |facts| facts.binds = false),
            // Who receives does not know what else the sender has.
            ("unknown", |facts| facts.sends = false),
            // Nobody waits for that link.
            ("unknown", |facts| {
                facts.flows.clear();
                facts.paths[0].can = None;
            }),
        ],
    );
}

#[test]
fn a_link_of_programs_is_full_when_heartbeats_always_wait_behind_their_frames() {
    // The rates of the paths are those of heartbeats.
    let full = but(sending([190, 19]), |facts| {
        for path in &mut facts.paths {
            (path.can, path.waiting) = (Some(5_000), 100);
            *path = path.clone().by_programs();
        }
    });
    check(
        &full,
        &[
            ("link-rate", |_| {}),
            ("unknown", |facts| {
                facts.paths[0].waiting = 20;
                facts.paths = facts.paths.drain(..).map(Path::by_programs).collect();
            }),
        ],
    );
}

#[test]
fn the_page_has_no_limit_that_is_none() {
    let code = include_str!("judge.rs");
    for limit in in_the_page() {
        assert!(code.contains(&format!("\"{limit}\"")), "{limit}");
    }
}

#[test]
fn a_verdict_is_a_sentence_and_its_figures() {
    let text = judge(&sending([190, 192])).text(80);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("Nothing is wrong") && lines[1].starts_with("  1500 ms: 382 Mbit/s sent"),
        "{text}"
    );
    assert!(lines.iter().any(|line| line.contains("eth2 to hostb: 192 Mbit/s of 200 Mbit/s")), "{text}");
}
