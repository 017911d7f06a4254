//! P0.skew: sender A starts 10 s before B, C and D, over two links of 100 Mbit/s.
//!
//! At the next renewal `tlb` takes A for the heaviest, and B, C and D share the other link (P0, finding 6 and figure 10).
//! At later renewals the order decides in which the four happen to send: three share a link again unless two of them send
//! before A. The paper saw it at every renewal of its run. `tlb-history` spreads them.
//!
//! 1. The four connections, and when they start.
//! 2. [`seats`]: which link carries which of them, seen at the switches.

mod seats;

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::workload::transfer::{Source, Transfer};

use seats::Seats;

/// The links, and the rate of each.
const LINKS: usize = 2;
const LINK_RATE: Bitrate = Bitrate::mbit(100);
/// The senders: A, B, C and D.
pub(crate) const SENDERS: usize = 4;
/// When B, C and D start.
pub(crate) const LATER: usize = 10;
/// How long associations last.
const PERIOD: usize = 10;
/// Seconds after the start of the latecomers that do not count: TCP starts, and a second is a sample.
const STARTING: usize = 3;
/// What was seen of each sender in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    /// The link that carried most of it.
    pub(crate) link: Option<usize>,
    /// What arrived of it.
    pub(crate) mbit: f64,
}

/// A policy's run: the senders, second by second.
pub(crate) type Series = Vec<[Second; SENDERS]>;

/// The part of the settled seconds of each period after the latecomers' start, 0 to 1, in which they share one link.
pub(crate) fn three_share_one(series: &Series) -> Vec<f64> {
    let periods = series.get(LATER..).unwrap_or_default().chunks(PERIOD);
    periods.map(|period| part_skewed(&period[STARTING.min(period.len() - 1)..])).collect()
}

/// The part of the seconds in which B, C and D share one link, and A has the other.
fn part_skewed(seconds: &[[Second; SENDERS]]) -> f64 {
    let on = |second: &[Second; SENDERS], link| second.iter().filter(|each| each.link == Some(link)).count();
    let is_skewed = |second: &&[Second; SENDERS]| {
        second[0].link.is_some_and(|link| on(second, link) == 1 && on(second, 1 - link) == SENDERS - 1)
    };
    seconds.iter().filter(is_skewed).count() as f64 / seconds.len() as f64
}

/// One run with one policy, in namespaces with this prefix.
pub(crate) fn play(
    daemon: &Path,
    policy: &str,
    seconds: u64,
    seed: u64,
    prefix: &'static str,
) -> Result<Series> {
    let links = vec![LinkPlan::shaped(LINK_RATE); LINKS];
    let topology = Topology::build(Plan { prefix, addressed: false, ..Plan::two_hosts(links) })?;
    let options = bundle::Options {
        arguments: ["--policy", policy].map(str::to_string).to_vec(),
        // As Linux knows the rate of a NIC; here it would first have to be measured.
        rate: Some(LINK_RATE),
        // The switches read the senders from the cells.
        protection: bundle::Protection::None,
        ..bundle::Options::new(daemon)
    };
    let bundles = Bundle::start_all(&topology, &options)?;
    let seats = Seats::watch(&topology)?;
    let mut senders = Senders::start(&topology, seed)?;
    let mut series = Series::new();
    let began = Instant::now();
    for second in 1..=seconds {
        thread::sleep((began + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
        let (links, mbits) = (seats.take(), senders.take());
        series.push(std::array::from_fn(|sender| Second { link: links[sender], mbit: mbits[sender] }));
        if series.len() == LATER {
            senders.start_others(&topology)?;
        }
    }
    senders.finish()?;
    seats.finish()?;
    Bundle::stop_all(bundles)?;
    Ok(series)
}

// Four connections from the first host to the second, the first of which starts earlier than the others.

/// The TCP port that the first sender's connection leads to; the others follow.
const FIRST_PORT: u16 = 7_501;
/// The file that each sends again and again.
const FILE_BYTES: u64 = 1 << 20;

/// The connections at work.
struct Senders {
    transfers: Vec<Transfer>,
    seed: u64,
    /// When [`Senders::take`] was asked last, and what had arrived by then.
    taken: (Instant, [u64; SENDERS]),
}

impl Senders {
    /// Starts the first one.
    fn start(topology: &Topology, seed: u64) -> Result<Senders> {
        let mut senders = Senders { transfers: Vec::new(), seed, taken: (Instant::now(), [0; SENDERS]) };
        senders.start_next(topology)?;
        Ok(senders)
    }

    /// Starts the others.
    fn start_others(&mut self, topology: &Topology) -> Result<()> {
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
    fn take(&mut self) -> [f64; SENDERS] {
        let mut arrived = [0; SENDERS];
        for (arrived, transfer) in arrived.iter_mut().zip(&self.transfers) {
            *arrived = transfer.arrived();
        }
        let (since, before) = std::mem::replace(&mut self.taken, (Instant::now(), arrived));
        let seconds = since.elapsed().as_secs_f64();
        std::array::from_fn(|sender| (arrived[sender] - before[sender]) as f64 * 8e-6 / seconds)
    }

    /// Ends all of them, which must have survived.
    fn finish(self) -> Result<()> {
        self.transfers.iter().for_each(Transfer::end);
        for transfer in self.transfers {
            let outcome = transfer.finish()?;
            ensure!(outcome.is_whole, "a connection was lost or damaged: {:?}", outcome.lost);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_latecomers_on_one_link_are_told_from_two_on_each() {
        let second = |links: [usize; SENDERS]| links.map(|link| Second { link: Some(link), mbit: 1.0 });
        let series = [[0, 1, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0]].map(second);
        assert!((part_skewed(&series) - 1.0 / 3.0).abs() < 1e-9, "A alone, not D");
    }
}
