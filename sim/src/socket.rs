//! A socket of a node: datagrams that wait to be read, and what the kernel signals to the worker.
//!
//! Stands between [`crate::network`] and [`crate::node`], as the kernel does.
//!
//! Invariant: at most [`RECEIVE_BUFFER`] bytes wait.

use crate::cable::{Arrival, Place};
use std::collections::{VecDeque, vec_deque};
use tabane_proto::BUFFER;

/// Bytes that wait at most: less than the daemon asks the kernel for.
const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Socket {
    received: VecDeque<Arrival>,
    bytes: usize,
    /// It was full and can be written again.
    pub(crate) writable: bool,
    /// Its carrier has changed to this.
    pub(crate) carrier: Option<bool>,
    /// The bundle's number of the nic; `None`: not in the bundle.
    pub(crate) number: Option<u8>,
    /// The bundle gives it up.
    pub(crate) is_leaving: bool,
}

/// Datagrams that go into one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Train {
    pub(crate) from: Place,
    /// How many they are.
    pub(crate) datagrams: usize,
    /// Bytes of all.
    pub(crate) length: usize,
    /// Bytes of each but the last, at least 1.
    pub(crate) segment: usize,
}

impl Socket {
    /// One of the bundle's link of this number, whose carrier is to be told.
    pub(crate) fn new(number: Option<u8>, carrier: Option<bool>) -> Self {
        Self { number, carrier, ..Self::default() }
    }

    /// Takes the datagrams that `fill` puts in, as far as there is room; returns the result of `fill`, and how many datagrams were
    /// dropped.
    pub(crate) fn receive<R>(&mut self, fill: impl FnOnce(&mut VecDeque<Arrival>) -> R) -> (R, u64) {
        let before = self.received.len();
        let filled = fill(&mut self.received);
        self.bytes += self.received.range(before..).map(|arrival| arrival.bytes.len()).sum::<usize>();
        let mut dropped = 0;
        while self.bytes > RECEIVE_BUFFER {
            self.bytes -= self.received.pop_back().map_or(0, |arrival| arrival.bytes.len());
            dropped += 1;
        }
        (filled, dropped)
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.received.len() as u64
    }

    /// The next train. With GRO the kernel merges neighbours from one sender as long as they are equal, and one shorter
    /// behind them; without, every datagram is a train.
    pub(crate) fn next_train(&self, gro: bool) -> Option<Train> {
        let first = self.received.front()?;
        let segment = first.bytes.len();
        let mut train = Train { from: first.from, datagrams: 1, length: segment, segment: segment.max(1) };
        for next in self.received.iter().skip(1).take_while(|_| gro) {
            let bytes = next.bytes.len();
            if next.from != train.from || bytes > segment || train.length + bytes > BUFFER {
                break;
            }
            train.datagrams += 1;
            train.length += bytes;
            if bytes < segment {
                break;
            }
        }
        Some(train)
    }

    pub(crate) fn take(&mut self, train: &Train) -> vec_deque::Drain<'_, Arrival> {
        self.bytes -= train.length;
        self.received.drain(..train.datagrams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tabane_proto::Instant;

    fn socket(datagrams: &[(u8, usize)]) -> Socket {
        let mut socket = Socket::default();
        let arrival = |(node, length): &(u8, usize)| Arrival {
            at: Instant::default(),
            from: Place { node: *node, nic: 0 },
            is_injected: false,
            bytes: Rc::from(vec![0; *length]),
        };
        socket.receive(|received| received.extend(datagrams.iter().map(arrival)));
        socket
    }

    #[test]
    fn a_train_is_what_gro_merges() {
        let mut socket = socket(&[(1, 100), (1, 100), (1, 40), (1, 40), (2, 40), (2, 90)]);
        let mut trains = Vec::new();
        while let Some(train) = socket.next_train(true) {
            trains.push((train.datagrams, train.length, train.segment));
            assert_eq!(socket.take(&train).count(), train.datagrams);
        }
        assert_eq!(trains, [(3, 240, 100), (1, 40, 40), (1, 40, 40), (1, 90, 90)]);
    }

    #[test]
    fn without_gro_every_datagram_is_alone() {
        let socket = socket(&[(1, 100), (1, 100)]);
        assert_eq!(socket.next_train(false).map(|train| train.datagrams), Some(1));
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let mut socket = socket(&[(1, 1_000_000); 3]);
        let two = [Arrival {
            at: Instant::default(),
            from: Place { node: 1, nic: 0 },
            is_injected: false,
            bytes: Rc::from(vec![0; 1_500_000]),
        }];
        let ((), dropped) = socket.receive(|received| received.extend(two));
        assert_eq!((dropped, socket.waiting()), (1, 3));
    }
}
