//! All interleavings of a sender and a receiver over a ring of two units, and all orders in which the memory may show
//! what they wrote (loom).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tabane_shm_ring::{Memory, Receiver, Sender, Shape, Unsent};

/// The few words that are used; the others are never read.
struct Words(Vec<(usize, AtomicU64)>);

fn shape() -> Shape {
    Shape::new(64 << 10, 128 << 10, 2, 1).expect("allowed")
}

impl Words {
    fn new() -> Self {
        let (to, from) = (shape().window(0, 1, 0).place().start, shape().window(0, 0, 1).place().start);
        let unit = |unit: usize| to + 4096 + unit * shape().unit();
        let used = [to + 64, from + 128, unit(0), unit(0) + 8, unit(1), unit(1) + 8];
        Self(used.map(|at| (at, AtomicU64::new(0))).into())
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.0.iter().find_map(|(place, word)| (*place == at).then_some(word))
    }
}

impl Memory for Words {
    fn load(&self, at: usize) -> u64 {
        self.word(at).expect("used").load(Ordering::Acquire)
    }

    fn store(&self, at: usize, word: u64) {
        if let Some(place) = self.word(at) {
            place.store(word, Ordering::Release);
        }
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        let word = self.word(at).expect("used").load(Ordering::Relaxed);
        into.copy_from_slice(&word.to_le_bytes());
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let word = u64::from_le_bytes(bytes.try_into().expect("a word"));
        self.word(at).expect("used").store(word, Ordering::Relaxed);
    }
}

fn sender(words: &Words, epoch: u32) -> Sender {
    Sender::begin(words, shape().window(0, 1, 0), shape().window(0, 0, 1), epoch)
}

fn receiver(words: &Words) -> Receiver {
    Receiver::begin(words, shape().window(0, 1, 0), shape().window(0, 0, 1))
}

fn receive(words: &Words, receiver: &mut Receiver) -> Option<u64> {
    let mut bytes = [0; 8];
    let message = receiver.receive(words, &mut bytes)?;
    assert_eq!((message.length, message.segment), (8, 8));
    Some(u64::from_le_bytes(bytes))
}

/// Sends `number`, and says whether there was room and somebody to read.
fn send(words: &Words, sender: &mut Sender, number: u64) -> bool {
    match sender.send(words, &[&number.to_le_bytes()[..]], 8) {
        Ok(()) => true,
        Err(Unsent::Full | Unsent::Absent) => false,
        Err(Unsent::Misshapen) => panic!("it has eight bytes"),
    }
}

fn walk(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn what_was_sent_arrives_whole_and_in_order() {
    walk(|| {
        let words = Arc::new(Words::new());
        let (mut sender, mut receiver) = (sender(&words, 1), receiver(&words));
        assert_eq!(receive(&words, &mut receiver), None, "they have met");
        let there = Arc::clone(&words);
        let sending = thread::spawn(move || {
            let sent = (10..13).filter(|number| send(&there, &mut sender, *number)).collect::<Vec<_>>();
            assert!(sent.len() >= 2, "two have room in any case");
            sent
        });
        let mut received: Vec<u64> = (0..3).filter_map(|_| receive(&words, &mut receiver)).collect();
        let sent = sending.join().expect("no panic");
        while let Some(number) = receive(&words, &mut receiver) {
            received.push(number);
        }
        assert_eq!(received, sent);
    });
}

#[test]
fn a_sender_that_returns_mixes_nothing_of_its_lives() {
    walk(|| {
        let words = Arc::new(Words::new());
        let (mut first, mut receiver) = (sender(&words, 1), receiver(&words));
        assert_eq!(receive(&words, &mut receiver), None, "they have met");
        let there = Arc::clone(&words);
        let sending = thread::spawn(move || {
            assert!(send(&there, &mut first, 10));
            let mut second = sender(&there, 2);
            let early = send(&there, &mut second, 20);
            (second, early)
        });
        let mut received: Vec<u64> = (0..3).filter_map(|_| receive(&words, &mut receiver)).collect();
        let (mut second, early) = sending.join().expect("no panic");
        for _ in 0..2 {
            received.extend(receive(&words, &mut receiver));
        }
        // What of the former life was not taken is lost, what of the present one was sent is not.
        let lost_or_not = if early { vec![10, 20] } else { vec![10] };
        assert!(received == lost_or_not || received == lost_or_not[1..], "{received:?} of {lost_or_not:?}");
        assert!(send(&words, &mut second, 30), "they have met again");
        assert_eq!(receive(&words, &mut receiver), Some(30));
    });
}

#[test]
fn a_receiver_that_returns_gets_what_is_sent_to_it() {
    walk(|| {
        let words = Arc::new(Words::new());
        let (mut sender, mut before) = (sender(&words, 1), receiver(&words));
        assert_eq!(receive(&words, &mut before), None, "they have met");
        let there = Arc::clone(&words);
        let sending = thread::spawn(move || {
            let sent = (10..12).filter(|number| send(&there, &mut sender, *number)).collect::<Vec<_>>();
            (sender, sent)
        });
        let mut after = receiver(&words);
        let mut received: Vec<u64> = (0..2).filter_map(|_| receive(&words, &mut after)).collect();
        let (mut sender, sent) = sending.join().expect("no panic");
        while let Some(number) = receive(&words, &mut after) {
            received.push(number);
        }
        assert!(sent.ends_with(&received), "{received:?} of {sent:?}");
        assert!(send(&words, &mut sender, 30), "they have met again");
        assert_eq!(receive(&words, &mut after), Some(30));
    });
}
