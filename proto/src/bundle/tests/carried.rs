//! Programs carry frames beside cells: a path that swallows both is left within milliseconds, and no path that brings either is.

use super::pair::{LINK_COUNT, Pair};
use crate::KernelEnd;
use crate::link::carried::Carried;
use core::time::Duration;
use tabane_seal::Cipher;

const STEP: Duration = Duration::from_micros(100);
/// The path that dies, and which carries all.
const VICTIM: u8 = 1;

/// Two nodes between which programs carry frames over one link.
struct World {
    pair: Pair,
    carried: [Carried; 2],
    /// Messages over the victim.
    messages: u64,
}

/// What happens to what a node sends over the victim.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Heartbeats arrive, but for each so many-th; and so do frames.
    Loses(u64),
    /// Frames arrive, and no heartbeat does.
    FramesOnly,
    Swallows,
}

impl World {
    fn new() -> Self {
        let mut pair = Pair::new(Cipher::ChaCha20Poly1305);
        for node in &mut pair.nodes {
            for (link, path) in (0..).zip(node.outbound()) {
                let address = core::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, link);
                path.end.kernel =
                    Some(KernelEnd { mac: [2, 0, 0, 0, 0, 1], address, port: 7421, orders: false });
            }
        }
        Self { pair, carried: Default::default(), messages: 0 }
    }

    /// In a step each node sends so many superframes over the victim; `way` is that of each node's.
    fn step(&mut self, frames: [u64; 2], way: [Way; 2]) {
        self.pair.now = self.pair.now + STEP;
        let now = self.pair.now;
        for node in [0, 1] {
            self.carried[node].sent_frames += frames[node];
            self.carried[node].sent_bytes += frames[node] * 60_000;
            if way[node] != Way::Swallows && frames[node] > 0 {
                let receiver = &mut self.carried[1 - node];
                receiver.received_frames += frames[node];
                receiver.received_bytes += frames[node] * 60_000;
                receiver.received_at = now;
            }
        }
        for node in [0, 1] {
            let carried = self.carried[node];
            self.pair.nodes[node].handle_carried(now, |_, link| (link == VICTIM).then_some(carried));
            let sent = self.pair.sent_by(node);
            (0..LINK_COUNT).for_each(|link| self.pair.nodes[node].handle_queue(now, link, 0));
            for sent in sent {
                self.messages += u64::from(sent.link == VICTIM);
                let arrives = match way[node] {
                    Way::Loses(each) => !self.messages.is_multiple_of(each),
                    Way::FramesOnly | Way::Swallows => false,
                };
                if sent.link != VICTIM || arrives {
                    self.pair.deliver(&sent);
                }
            }
        }
    }

    /// Steps until both nodes have left the victim; how long that took.
    fn until_left(&mut self, frames: [u64; 2], way: [Way; 2], most: Duration) -> Option<Duration> {
        let began = self.pair.now;
        while self.pair.now.since(began) < most {
            self.step(frames, way);
            if [0, 1].iter().all(|node| !self.pair.nodes[*node].outbound()[usize::from(VICTIM)].is_up()) {
                return Some(self.pair.now.since(began));
            }
        }
        None
    }

    fn are_up(&mut self) -> bool {
        self.pair.nodes.iter_mut().all(|node| node.outbound()[usize::from(VICTIM)].is_up())
    }
}

const SOUND: [Way; 2] = [Way::Loses(u64::MAX); 2];
const LIMIT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(1);

/// One node sends a superframe in each step, and the other answers each with none, or fewer.
#[test]
fn a_black_hole_under_frames_alone_is_left_within_milliseconds() {
    for phase in 0..20 {
        let mut world = World::new();
        (0..1_000 + phase).for_each(|_| world.step([1, 0], SOUND));
        assert!(world.are_up());
        let took = world.until_left([1, 0], [Way::Swallows; 2], LONG);
        assert!(took.is_some_and(|took| took <= LIMIT), "phase {phase}: {took:?}");
    }
}

/// TCP sends no more once its window is on the way.
#[test]
fn a_window_that_is_lost_is_enough() {
    for phase in 0..20 {
        let mut world = World::new();
        (0..1_000 + phase).for_each(|_| world.step([1, 0], SOUND));
        (0..3).for_each(|_| world.step([1, 0], [Way::Swallows; 2]));
        let took = world.until_left([0, 0], [Way::Swallows; 2], LONG);
        assert!(took.is_some_and(|took| took + 3 * STEP <= LIMIT), "phase {phase}: {took:?}");
    }
}

#[test]
fn a_quiet_path_is_left_as_without_programs() {
    let mut world = World::new();
    (0..1_000).for_each(|_| world.step([0, 0], SOUND));
    let took = world.until_left([0, 0], [Way::Swallows; 2], LONG).expect("it is dead");
    assert!((Duration::from_millis(32)..=Duration::from_millis(50)).contains(&took), "{took:?}");
}

#[test]
fn a_path_that_brings_something_is_kept() {
    // Each fifth heartbeat is lost, and frames come in bursts or without a pause.
    for pause in [1, 7, 33, 150, 1_000] {
        let mut world = World::new();
        for step in 0..20_000 {
            world.step([u64::from(step % pause == 0), 0], [Way::Loses(5); 2]);
            assert!(world.are_up(), "a superframe each {pause} steps, step {step}");
        }
    }
    let mut world = World::new();
    for step in 0..20_000 {
        let way = if step % 200 < 100 { Way::FramesOnly } else { SOUND[0] };
        world.step([1, 1], [way; 2]);
        assert!(world.are_up(), "no heartbeat for 10 ms, but frames, step {step}");
    }
}

/// What is lost one way only is left that way, and the answers stay.
#[test]
fn each_direction_is_judged_by_itself() {
    let mut world = World::new();
    (0..1_000).for_each(|_| world.step([1, 1], SOUND));
    let ways = [Way::Swallows, SOUND[1]];
    (0..50).for_each(|_| world.step([1, 1], ways));
    let up = [0, 1].map(|node: usize| world.pair.nodes[node].outbound()[usize::from(VICTIM)].is_up());
    assert_eq!(up, [false, true]);
}
