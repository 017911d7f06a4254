//! A node with a ring in shared memory, into which the other side writes as the input says.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use tabane_shm_ring::{Memory, Message, Seat, Shape};

/// Bytes, of which one node may read some and write others.
struct Guarded {
    bytes: RefCell<Vec<u8>>,
    near: Range<usize>,
    far: Range<usize>,
}

impl Guarded {
    fn copy_out(&self, at: usize, into: &mut [u8]) {
        assert!(self.near.start <= at && at + into.len() <= self.near.end, "reads what is not its own");
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
    }
}

impl Memory for &Guarded {
    fn load(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn store(&self, at: usize, word: u64) {
        self.write(at, &word.to_le_bytes());
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.copy_out(at, into);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(self.far.start <= at && at + bytes.len() <= self.far.end, "writes what is not its own");
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// The bytes are a header; then which of two nodes it is, and a list of steps: an action, a place, and a word that the other
/// side writes there, of as many bytes as are left.
pub(crate) fn window(bytes: &[u8]) {
    const MEMORY: usize = 1 << 20;
    let (header, steps) = bytes.split_at(bytes.len().min(16));
    let mut words = [[0; 8]; 2];
    words.as_flattened_mut()[..header.len()].copy_from_slice(header);
    let parsed = Shape::parse(words.map(u64::from_le_bytes), MEMORY);
    let usual = Shape::new(512, 128 << 10, 2, 1).expect("allowed");
    // The memory of the shape in the header has to be there, so that the target does not try shapes of any size.
    let shape =
        parsed.ok().filter(|shape| shape.bytes() <= MEMORY as u64 && shape.slots() == 2).unwrap_or(usual);
    let (near, far) = (shape.window(0, 0, 1).place(), shape.window(0, 1, 0).place());
    let memory = Guarded { bytes: RefCell::new(vec![0; MEMORY]), near: near.clone(), far };
    let mut seat = Seat::take(&memory, shape, 0, 0, 1);
    let mut into = vec![0; 1 << 16];
    for (time, step) in (0..).zip(steps.chunks(12)) {
        let (what, place, word) = (step[0], step.get(1..3), step.get(3..));
        let place = place.map_or(0, |place| usize::from(u16::from_le_bytes([place[0], place[1]])));
        for (offset, byte) in word.into_iter().flatten().enumerate() {
            let at = near.start + (place * 8 + offset) % near.len();
            memory.bytes.borrow_mut()[at] = *byte;
        }
        seat.service(Duration::from_millis(time * 5));
        match what % 4 {
            0 => {
                let _ = seat.send(1, &[step], 1 + usize::from(what));
            }
            1 => {
                let _ = (seat.has_room_again(), seat.waiting(), seat.faults());
            }
            _ => {
                let received = seat.receive(&mut into);
                assert!(received.is_none_or(|(message, _)| is_sound(message, into.len())));
            }
        }
    }
}

fn is_sound(Message { length, segment }: Message, room: usize) -> bool {
    (1..=room).contains(&length)
        && (1..=length).contains(&segment)
        && length.div_ceil(segment) <= Message::DATAGRAMS_MAX
}
