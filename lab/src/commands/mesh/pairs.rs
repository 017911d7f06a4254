//! A checksummed transfer from each host to each other one, all at once, and what they got in a span of time.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use tabane_kit::bundle;
use tabane_kit::topology::Topology;
use tabane_kit::workload::transfer::{Outcome, Source, Transfer};

/// The file that each connection carries again and again: small, so that the last copy ends soon.
const FILE_BYTES: u64 = 1 << 20;

/// All connections at work.
pub(super) struct Pairs(Vec<Transfer>);

impl Pairs {
    /// Connects each host with each other one.
    pub(super) fn start(topology: &Topology, seed: u64) -> Result<Pairs> {
        let hosts = 0..topology.hosts().len();
        let pairs = hosts.clone().flat_map(|from| hosts.clone().map(move |to| (from, to)));
        let transfers = pairs.filter(|(from, to)| from != to).zip(seed..).map(|((from, to), seed)| {
            let source = Source::random(FILE_BYTES, seed)?;
            let at = SocketAddr::new(bundle::address(to), 0);
            Transfer::start(topology.host(from), topology.host(to), at, source)
        });
        Ok(Pairs(transfers.collect::<Result<_>>()?))
    }

    /// Mbit/s of payload that each connection gets during `span`.
    pub(super) fn measure(&self, span: Duration) -> Vec<f64> {
        let (before, since) = (self.arrived(), Instant::now());
        thread::sleep(span);
        let (after, seconds) = (self.arrived(), since.elapsed().as_secs_f64());
        let speed = |(after, before): (u64, u64)| (after - before) as f64 * 8e-6 / seconds;
        after.into_iter().zip(before).map(speed).collect()
    }

    fn arrived(&self) -> Vec<u64> {
        self.0.iter().map(Transfer::arrived).collect()
    }

    /// Ends all connections; one that never was is an error of its own.
    pub(super) fn finish(self) -> Vec<Result<Outcome>> {
        self.0.iter().for_each(Transfer::end);
        self.0.into_iter().map(Transfer::finish).collect()
    }
}
