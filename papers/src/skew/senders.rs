//! Four connections from the first host to the second, the first of which starts earlier than the others.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::SENDERS;
use tabane_kit::bundle;
use tabane_kit::topology::Topology;
use tabane_kit::workload::transfer::{Source, Transfer};

/// The TCP port that the first sender's connection leads to; the others follow.
pub(super) const FIRST_PORT: u16 = 7_501;
/// The file that each sends again and again.
const FILE_BYTES: u64 = 1 << 20;

/// The connections at work.
pub(super) struct Senders {
    transfers: Vec<Transfer>,
    seed: u64,
    /// When [`Senders::take`] was asked last, and what had arrived by then.
    taken: (Instant, [u64; SENDERS]),
}

impl Senders {
    /// Starts the first one.
    pub(super) fn start(topology: &Topology, seed: u64) -> Result<Senders> {
        let mut senders = Senders { transfers: Vec::new(), seed, taken: (Instant::now(), [0; SENDERS]) };
        senders.start_next(topology)?;
        Ok(senders)
    }

    /// Starts the others.
    pub(super) fn start_others(&mut self, topology: &Topology) -> Result<()> {
        (1..SENDERS).try_for_each(|_| self.start_next(topology))
    }

    fn start_next(&mut self, topology: &Topology) -> Result<()> {
        let number = u16::try_from(self.transfers.len())?;
        let at = SocketAddr::new(bundle::address(1), FIRST_PORT + number);
        let source = Source::random(FILE_BYTES, self.seed + u64::from(number));
        self.transfers.push(Transfer::start(topology.host(0), topology.host(1), at, source)?);
        Ok(())
    }

    /// Mbit/s of each since this was called last.
    pub(super) fn take(&mut self) -> [f64; SENDERS] {
        let mut arrived = [0; SENDERS];
        for (arrived, transfer) in arrived.iter_mut().zip(&self.transfers) {
            *arrived = transfer.arrived();
        }
        let (since, before) = std::mem::replace(&mut self.taken, (Instant::now(), arrived));
        let seconds = since.elapsed().as_secs_f64();
        std::array::from_fn(|sender| (arrived[sender] - before[sender]) as f64 * 8e-6 / seconds)
    }

    /// Ends all of them, which must have survived.
    pub(super) fn finish(self) -> Result<()> {
        self.transfers.iter().for_each(Transfer::end);
        for transfer in self.transfers {
            let outcome = transfer.finish()?;
            ensure!(outcome.is_whole, "a connection was lost or damaged: {:?}", outcome.lost);
        }
        Ok(())
    }
}
