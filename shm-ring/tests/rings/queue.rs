//! A pair of seats behaves as a plain queue, whatever is sent, and whichever node leaves and returns.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use tabane_shm_ring::{MESSAGE_MAX, Message, Seat, Shape, Unsent};

use crate::words::Words;

#[derive(Debug, Clone)]
enum Step {
    Send { lengths: Vec<usize>, segment: usize },
    Receive,
    SenderReturns,
    ReceiverReturns,
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![4 => 1..2_000_usize, 1 => 1..MESSAGE_MAX];
    let send = (proptest::collection::vec(length, 1..4), 1..9_000_usize)
        .prop_map(|(lengths, segment)| Step::Send { lengths, segment });
    prop_oneof![8 => send, 8 => Just(Step::Receive), 1 => Just(Step::SenderReturns), 1 => Just(Step::ReceiverReturns)]
}

/// Two nodes, and the queue that the window from the first to the second should be.
struct Pair<'a> {
    words: &'a Words,
    shape: Shape,
    time: Duration,
    epoch: u32,
    sender: Seat<&'a Words>,
    receiver: Seat<&'a Words>,
    queue: VecDeque<(Vec<u8>, usize)>,
    filler: u8,
}

impl<'a> Pair<'a> {
    fn new(words: &'a Words, shape: Shape) -> Self {
        let (sender, receiver) = (Seat::take(words, shape, 0, 0, 1), Seat::take(words, shape, 0, 1, 2));
        let (time, queue) = (Duration::ZERO, VecDeque::new());
        let mut pair = Self { words, shape, time, epoch: 2, sender, receiver, queue, filler: 0 };
        pair.meet();
        pair
    }

    /// Both see each other, and what was sent before one of them was there is gone.
    fn meet(&mut self) {
        for _ in 0..2 {
            self.time += Duration::from_millis(10);
            self.sender.service(self.time);
            self.receiver.service(self.time);
        }
        assert!(self.sender.has_company() && self.receiver.has_company());
        // What the old sender left is taken first; it then follows the new one.
        self.queue.drain(..).for_each(|_| {
            self.receiver.receive(&mut [0; 1 << 16]);
        });
        self.receiver.receive(&mut [0; 1 << 16]);
    }

    fn units(&self, length: usize) -> usize {
        (8 + length).div_ceil(self.shape.unit())
    }

    fn send(&mut self, lengths: &[usize], segment: usize) {
        let slices: Vec<Vec<u8>> = lengths.iter().map(|length| self.fill(*length)).collect();
        let message = slices.concat();
        let slices: Vec<&[u8]> = slices.iter().map(Vec::as_slice).collect();
        let waiting: usize = self.queue.iter().map(|(bytes, _)| self.units(bytes.len())).sum();
        let room = self.shape.units() as usize - waiting;
        let fits = message.len() <= MESSAGE_MAX && message.len().div_ceil(segment) <= Message::DATAGRAMS_MAX;
        let expected = match (fits, self.units(message.len()) <= room) {
            (false, _) => Err(Unsent::Misshapen),
            (true, false) => Err(Unsent::Full),
            (true, true) => Ok(()),
        };
        assert_eq!(self.sender.send(1, &slices, segment), expected);
        if expected.is_ok() {
            let segment = segment.min(message.len());
            self.queue.push_back((message, segment));
        }
    }

    fn fill(&mut self, length: usize) -> Vec<u8> {
        self.filler = self.filler.wrapping_add(37);
        (0..length).map(|index| self.filler.wrapping_add(index.to_le_bytes()[0])).collect()
    }

    fn receive(&mut self) {
        let mut into = [0; 1 << 16];
        assert_eq!(self.receiver.has_news(), !self.queue.is_empty());
        let received = self.receiver.receive(&mut into);
        let received = received.map(|(message, from)| {
            assert_eq!(from, 0);
            (into[..message.length].to_vec(), message.segment)
        });
        assert_eq!(received, self.queue.pop_front());
    }

    fn perform(&mut self, step: &Step) {
        match step {
            Step::Send { lengths, segment } => self.send(lengths, *segment),
            Step::Receive => self.receive(),
            Step::SenderReturns => {
                self.epoch += 1;
                self.sender = Seat::take(self.words, self.shape, 0, 0, self.epoch);
                self.meet();
            }
            Step::ReceiverReturns => {
                self.epoch += 1;
                self.receiver = Seat::take(self.words, self.shape, 0, 1, self.epoch);
                self.queue.clear();
                self.meet();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn it_is_a_queue(steps in proptest::collection::vec(step(), 1..60)) {
        let shape = Shape::new(512, 128 << 10, 2, 1).expect("allowed");
        let words = Words::new(shape);
        let mut pair = Pair::new(&words, shape);
        steps.iter().for_each(|step| pair.perform(step));
        while !pair.queue.is_empty() {
            pair.receive();
        }
        pair.receive();
        assert_eq!((pair.sender.faults(), pair.receiver.faults()), Default::default());
    }
}

/// Seats of `count` nodes that see each other at the time that is returned.
fn company(words: &Words, shape: Shape) -> (Vec<Seat<&Words>>, Duration) {
    let mut seats: Vec<_> =
        (0..shape.slots()).map(|slot| Seat::take(words, shape, 0, slot, u32::from(slot) + 1)).collect();
    let mut time = Duration::ZERO;
    for _ in 0..2 {
        time += Duration::from_millis(10);
        seats.iter_mut().for_each(|seat| assert!(seat.service(time)));
    }
    // Nothing is there yet, but receivers confirm the epochs.
    seats.iter_mut().for_each(|seat| assert_eq!(seat.receive(&mut [0; 8]), None));
    (seats, time)
}

#[test]
fn who_leaves_is_missed_at_once_and_who_dies_after_a_second() {
    let shape = Shape::new(512, 128 << 10, 3, 1).expect("allowed");
    let words = Words::new(shape);
    let (mut seats, mut time) = company(&words, shape);
    assert_eq!(seats[0].company().collect::<Vec<_>>(), [1, 2]);
    seats[1].leave();
    time += Duration::from_millis(10);
    seats[0].service(time);
    assert_eq!(seats[0].company().collect::<Vec<_>>(), [2]);
    assert_eq!(seats[0].send(1, &[&b"x"[..]], 1), Err(Unsent::Absent));
    // The heartbeat of node 2 stops.
    for (later, there) in [(990, true), (1_000, false)] {
        seats[0].service(time + Duration::from_millis(later));
        assert_eq!(seats[0].has_company(), there, "after {later} ms");
    }
}

#[test]
fn who_takes_nothing_does_not_keep_others_waiting() {
    let shape = Shape::new(64 << 10, 128 << 10, 3, 1).expect("allowed");
    let words = Words::new(shape);
    let (mut seats, mut time) = company(&words, shape);
    let [zero, one, two] = seats.as_mut_slice() else { panic!("three") };
    assert_eq!(zero.send(1, &[&b"a"[..]], 1), Ok(()));
    assert_eq!(zero.send(1, &[&b"b"[..]], 1), Ok(()));
    assert_eq!(zero.waiting(), 128 << 10);
    assert_eq!(zero.send(1, &[&b"c"[..]], 1), Err(Unsent::Full));
    assert!(!zero.has_room_again());
    assert_eq!(one.receive(&mut [0; 8]).map(|(message, from)| (message.length, from)), Some((1, 0)));
    assert!(zero.has_room_again());
    assert_eq!(zero.send(1, &[&b"c"[..]], 1), Ok(()));
    assert_eq!(zero.send(1, &[&b"d"[..]], 1), Err(Unsent::Full));
    for _ in 0..5 {
        assert!(!zero.has_room_again());
        time += Duration::from_millis(10);
        [&mut *zero, &mut *one, &mut *two].into_iter().for_each(|seat| assert!(seat.service(time)));
    }
    assert!(zero.has_room_again(), "it is not waited for any more");
    assert_eq!(zero.send(1, &[&b"d"[..]], 1), Err(Unsent::Absent));
    assert_eq!(zero.waiting(), 0);
    assert_eq!(zero.send(2, &[&b"e"[..]], 1), Ok(()));
    assert_eq!(two.receive(&mut [0; 8]).map(|(_, from)| from), Some(0));
    assert!(one.receive(&mut [0; 8]).is_some());
    assert_eq!(zero.send(1, &[&b"d"[..]], 1), Ok(()));
}

#[test]
fn a_limit_keeps_the_window_short() {
    let shape = Shape::new(512, 128 << 10, 2, 1).expect("allowed");
    let words = Words::new(shape);
    let (mut seats, _) = company(&words, shape);
    seats[0].set_limit(1_000);
    let message = [0_u8; 1_400];
    assert_eq!(seats[0].send(1, &[&message[..]], 1_400), Ok(()), "one may go beyond it");
    assert_eq!(seats[0].send(1, &[&message[..]], 1_400), Err(Unsent::Full));
    assert_eq!(seats[0].send(1, &[&message[..9]], 9), Ok(()), "a short one does not wait");
    assert!(seats[1].receive(&mut [0; 2_000]).is_some());
    assert_eq!(seats[0].send(1, &[&message[..]], 1_400), Ok(()));
}
