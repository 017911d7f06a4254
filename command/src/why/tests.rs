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

fn limit(facts: &Facts) -> (&'static str, bool) {
    let verdict = judge(facts);
    assert!(
        in_the_page().any(|limit| limit == verdict.limit),
        "docs/doctor.md has no row for {}",
        verdict.limit
    );
    (verdict.limit, verdict.is_fault)
}

fn with_flow(change: impl FnOnce(&mut Flow)) -> Facts {
    let mut facts = sending([60, 60]);
    change(&mut facts.flows[0]);
    facts
}

#[test]
fn full_links_are_no_fault_and_nothing_is_none() {
    assert_eq!(limit(&sending([190, 192])), ("links-full", false));
    assert_eq!(
        judge(&sending([190, 192])).sentence,
        "Nothing is wrong: all 2 links are full (382 Mbit/s of 400 Mbit/s)."
    );
    let mut lumpy = sending([120, 90]);
    lumpy.paths.iter_mut().for_each(|path| path.waiting = 100);
    assert_eq!(
        limit(&lumpy),
        ("links-full", false),
        "they were never idle, whatever their rates are said to be"
    );
    assert_eq!(limit(&Facts { rate: 50_000, ..sending([0, 0]) }), ("nothing-to-send", false));
    assert_eq!(limit(&Facts { peer: String::new(), ..sending([0, 0]) }), ("no-peer", true));
}

#[test]
fn a_link_that_is_slow_dead_or_lossy_is_named_when_the_others_are_full() {
    let mut slow = sending([190, 19]);
    slow.paths[1].can = Some(20_000_000);
    assert_eq!(limit(&slow), ("link-rate", true));
    assert!(judge(&slow).sentence.starts_with("The rate of eth2"));
    let mut lossy = sending([190, 190]);
    lossy.paths[1].loss = 10.0;
    assert_eq!(limit(&lossy), ("link-loss", true));
    let mut dead = sending([190, 0]);
    (dead.paths[1].state, dead.paths[1].can) = (PathState::Down, None);
    assert_eq!(limit(&dead), ("dead-link", true));
    dead.paths[1].state = PathState::Suspect;
    assert_eq!(limit(&dead), ("link-loss", true));
}

#[test]
fn a_link_that_is_far_or_varies_is_named_by_whoever_sends() {
    let mut far = Facts { policy: "adaptive".into(), ..sending([190, 0]) };
    far.paths[1].skew_us = 99_000;
    assert_eq!(limit(&far).0, "unknown");
    far.paths[1].skew_us = 285_000;
    assert_eq!(limit(&far), ("far-link", true));
    let mut used = far.clone();
    used.paths[1].carried = 19_000_000;
    assert_ne!(limit(&used).0, "far-link", "it has whole connections");
    assert_ne!(limit(&Facts { sends: false, ..far }).0, "far-link");
    let mut varies = sending([60, 60]);
    varies.paths[1].variation_us = 10_000;
    assert_eq!(limit(&varies), ("varying-link", true));
    assert_ne!(limit(&Facts { sends: false, ..varies }).0, "varying-link");
}

#[test]
fn a_link_that_is_dead_while_the_other_is_not_full_is_named_last() {
    let mut dead = sending([60, 0]);
    (dead.paths[1].state, dead.paths[1].can) = (PathState::Down, None);
    assert_eq!(limit(&dead), ("dead-link", true));
    dead.flows[0].idle = 100;
    assert_eq!(limit(&dead), ("application", false));
}

#[test]
fn tcp_tells_what_it_waits_for() {
    assert_eq!(limit(&with_flow(|flow| flow.window_limited = 90)), ("receive-window", true));
    assert_eq!(limit(&with_flow(|flow| flow.buffer_limited = 90)), ("send-buffer", true));
    assert_eq!(limit(&with_flow(|flow| flow.idle = 90)), ("application", false));
    let mut held = sending([190, 190]);
    held.flows[0].window_limited = 40;
    assert_eq!(limit(&held), ("links-full", false));
    held.flows[0].window_limited = 90;
    assert_eq!(limit(&held), ("receive-window", true));
    let mut others = with_flow(|flow| flow.idle = 90);
    others.flows[0].rate /= 10;
    assert_ne!(limit(&others).0, "application", "a small connection tells nothing of the whole");
}

#[test]
fn processors_are_told_apart_by_who_says_so() {
    let mut facts = sending([60, 60]);
    facts.workers[0].waited = 60;
    assert_eq!(limit(&facts), ("sender-processor", true));
    facts.workers[0] = Worker { name: "worker 0".into(), worked: 95, waited: 2 };
    assert_eq!(limit(&facts), ("sender-processor", true));
    facts.paths[0].behind = 80;
    assert_eq!(limit(&facts), ("receiver-processor", true));
    facts.paths[0].behind = 15;
    assert_eq!(limit(&facts), ("sender-processor", true), "what is seen here counts first");
    facts.workers[0].worked = 30;
    assert_eq!(limit(&facts), ("receiver-processor", true), "nothing else stands out");
    facts.paths[0].behind = 0;
    facts.paths.iter_mut().for_each(|path| path.reports = 20);
    assert_eq!(limit(&facts), ("receiver-processor", true));
    let mut receives = Facts { sends: false, ..sending([60, 60]) };
    receives.flows[0].buffer = 4 << 20;
    receives.workers[0].waited = 60;
    assert_eq!(limit(&receives), ("receiver-processor", true));
}

#[test]
fn a_policy_that_binds_is_named_when_one_link_carries_all() {
    let bound = Facts { policy: "hash".into(), binds: true, ..sending([190, 1]) };
    assert_eq!(limit(&bound), ("bound-flow", true));
    let seen_there = Facts { sends: false, ..bound.clone() };
    assert_ne!(limit(&seen_there).0, "bound-flow", "who receives does not know what else the sender has");
    let mut free = Facts { flows: Vec::new(), ..bound.clone() };
    free.paths[0].can = None;
    assert_ne!(limit(&free).0, "bound-flow", "nobody waits for that link");
    assert_eq!(limit(&Facts { binds: false, ..bound }).0, "unknown");
}

#[test]
fn a_link_of_programs_is_full_when_heartbeats_always_wait_behind_their_frames() {
    // The rates of the paths are those of heartbeats.
    let mut full = sending([190, 19]);
    for path in &mut full.paths {
        (path.can, path.waiting) = (Some(5_000), 100);
        *path = path.clone().by_programs();
    }
    assert_eq!(limit(&full), ("link-rate", true));
    full.paths[0].waiting = 20;
    full.paths = full.paths.into_iter().map(Path::by_programs).collect();
    assert_eq!(limit(&full), ("unknown", false));
}

#[test]
fn a_receiver_sees_its_program_and_its_buffer() {
    let receives = |change: fn(&mut Flow)| {
        let mut facts = Facts { sends: false, ..sending([60, 60]) };
        change(&mut facts.flows[0]);
        limit(&facts)
    };
    assert_eq!(receives(|flow| flow.unread = 90), ("application", false));
    assert_eq!(receives(|flow| flow.buffer = 32_000), ("receive-window", true));
}

#[test]
fn losses_queues_and_late_cells_are_named_when_they_are_many() {
    let mut lossy = sending([60, 60]);
    lossy.paths[1].loss = 5.0;
    assert_eq!(limit(&lossy), ("link-loss", true));
    let mut queue = sending([60, 60]);
    queue.drops.queue = 500;
    assert_eq!(limit(&queue), ("device-queue", true));
    let mut late = Facts { sends: false, ..sending([60, 60]) };
    (late.flows[0].buffer, late.drops.given_up) = (4 << 20, 100);
    assert_eq!(limit(&late), ("reordering", true));
    assert_eq!(limit(&sending([60, 60])), ("unknown", false));
}

#[test]
fn where_no_connection_tells_an_empty_queue_does() {
    let mut quiet = Facts { flows: Vec::new(), ..sending([60, 60]) };
    assert_eq!(limit(&quiet).0, "unknown", "something waits");
    quiet.paths.iter_mut().for_each(|path| path.queued = 0);
    assert_eq!(limit(&quiet), ("application", false));
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
