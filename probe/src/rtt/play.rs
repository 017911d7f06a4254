//! Plays round trips over one connection, with or without the kernel's stamps.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use fastrand::Rng;

use super::stages::Stages;
use crate::Error;
use crate::clock::{Clock, microseconds};
use crate::connection::Server;
use crate::output::{Interruption, Progress};
use crate::stamped::{Arrivals, Received, Stamped};
use crate::stats::BLOCK;
use crate::trace::RoundTrip;
use crate::wire::{Ask, Passage};

const REPORT_EVERY: usize = 256;
const LINE_MAX: usize = 96;

pub(super) struct Game<'a> {
    pub(super) server: &'a Server,
    pub(super) sizes: &'a [u32],
    pub(super) planned: usize,
    pub(super) stages: bool,
}

enum Line {
    Plain(TcpStream),
    Stamped { stream: Stamped, received: Vec<Received> },
}

impl Game<'_> {
    pub(super) fn play(
        &self,
        order: Order,
        clock: Clock,
        interruption: &Interruption,
    ) -> Result<Vec<RoundTrip>, Error> {
        let mut line = self.open()?;
        let playing = || Error::doing("playing round trips");
        let mut buffer = vec![0; self.sizes.iter().copied().max().unwrap_or_default() as usize];
        // Written once, so that no page fault disturbs the measurement.
        let mut times = vec![(u8::MAX, u64::MAX); self.planned];
        let progress = Progress::of("round trips".to_owned(), self.planned);
        let mut played = 0;
        for place in order {
            if interruption.came() {
                break;
            }
            let message = &mut buffer[..self.sizes[usize::from(place)] as usize];
            message[0] = place;
            let start = clock.now_ns();
            line.strike(message).map_err(playing())?;
            times[played] = (place, clock.now_ns() - start);
            line.settle().map_err(playing())?;
            played += 1;
            if played.is_multiple_of(REPORT_EVERY) {
                progress.reached(played);
            }
        }
        let times = &times[..played];
        let stages = line.end(times).map_err(Error::doing("reading the server's stamps"))?;
        let mut rounds = vec![0; self.sizes.len()];
        let row = |(number, (place, time)): (usize, &(u8, u64))| {
            let place = usize::from(*place);
            rounds[place] += 1;
            let stages = stages.get(number).copied().flatten();
            RoundTrip {
                size_bytes: self.sizes[place],
                round: rounds[place],
                rtt_us: microseconds(*time),
                stages,
            }
        };
        Ok(times.iter().enumerate().map(row).collect())
    }

    fn open(&self) -> Result<Line, Error> {
        let sizes = self.sizes.to_vec();
        let ask = if self.stages { Ask::StampedEcho { sizes } } else { Ask::Echo { sizes } };
        let stream = self.server.ask(ask)?;
        stream.set_nodelay(true).map_err(Error::doing("preparing the connection"))?;
        if !self.stages {
            return Ok(Line::Plain(stream));
        }
        let stamped = Arrivals::begin().and_then(|arrivals| Stamped::new(stream, self.planned, arrivals));
        let stream = stamped.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Error::Refused("--stages needs Linux 6.2 or later".to_owned()),
            _ => Error::doing("having messages stamped")(error),
        })?;
        Ok(Line::Stamped { stream, received: Vec::with_capacity(self.planned) })
    }
}

impl Line {
    fn strike(&mut self, message: &mut [u8]) -> io::Result<()> {
        match self {
            Line::Plain(stream) => stream.write_all(message).and_then(|()| stream.read_exact(message)),
            Line::Stamped { stream, received } => {
                stream.send(message)?;
                received.extend(stream.receive_all(message)?);
                Ok(())
            }
        }
    }

    /// Takes up the stamps of what was sent, which are there before the answer is.
    fn settle(&mut self) -> io::Result<()> {
        match self {
            Line::Plain(_) => Ok(()),
            Line::Stamped { stream, .. } => stream.collect(),
        }
    }

    /// Ends it; where the time of each of the rounds went that took so many nanoseconds.
    fn end(self, times: &[(u8, u64)]) -> io::Result<Vec<Option<Stages>>> {
        let Line::Stamped { stream, received } = self else { return Ok(Vec::new()) };
        let (stream, sent) = stream.end();
        stream.shutdown(Shutdown::Write)?;
        let lines = BufReader::new(stream.take((times.len() * LINE_MAX) as u64));
        let there = serde_json::Deserializer::from_reader(lines).into_iter::<Option<Passage>>();
        let here = times.iter().zip(sent.iter().zip(&received));
        let stages: Vec<Option<Stages>> = here
            .zip(there)
            .map(|(((_, time), (sent, received)), there)| {
                Ok(there?.and_then(|there| Stages::of(microseconds(*time), sent, received, there)))
            })
            .collect::<serde_json::Result<_>>()?;
        if stages.len() < times.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(stages)
    }
}

// The order in which messages of several sizes are played: block after block, each in a random order of its own.
//
// A block has [`BLOCK`] rounds of every size. Sizes that are played one after the other meet different conditions: a
// network that warms up or drifts would look like an effect of the size.

pub(super) struct Order {
    sizes: u8,
    /// Rounds of each size that are not in a block yet.
    left: usize,
    block: Vec<u8>,
    random: Rng,
}

impl Order {
    /// For so many `sizes` and `rounds` of each; the same `seed` gives the same order.
    pub(super) fn new(sizes: u8, rounds: usize, seed: u32) -> Order {
        let block = Vec::with_capacity(usize::from(sizes) * BLOCK);
        Order { sizes, left: rounds, block, random: Rng::with_seed(seed.into()) }
    }
}

impl Iterator for Order {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.block.is_empty() {
            let rounds = self.left.min(BLOCK);
            self.left -= rounds;
            self.block.extend((0..self.sizes).flat_map(|place| std::iter::repeat_n(place, rounds)));
            self.random.shuffle(&mut self.block);
        }
        self.block.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_every_size_as_often_in_an_order_of_its_own() {
        let order: Vec<u8> = Order::new(3, 2 * BLOCK + 4, 7).collect();
        assert_eq!(order.len(), 3 * (2 * BLOCK + 4));
        let blocks: Vec<&[u8]> = order.chunks(3 * BLOCK).collect();
        for block in &blocks {
            for size in 0..3 {
                assert_eq!(block.iter().filter(|place| **place == size).count(), block.len() / 3);
            }
        }
        assert_ne!(blocks[0], blocks[1]);
    }
}
