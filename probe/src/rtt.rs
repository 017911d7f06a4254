//! `tabane probe rtt`: a ping-pong, timed from before the send to after the receive (P4).
//!
//! P4 plays 1,000 rounds with messages of 1 B and 1 KB over TCP, and counts rounds 201 to 400. Here one connection
//! carries all sizes, in the order of [`Order`], so that they differ in nothing but their size.

mod play;
mod report;
mod stages;

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::Error;
use crate::clock::Clock;
use crate::connection::Server;
use crate::machine::Machine;
use crate::output::{Interruption, Report as _, Source};
use crate::trace::{self, RoundTrip};
use crate::window::Window;
use crate::wire::{ECHO_MAX, SIZES_MAX, STAMPED_MAX};
use play::{Game, Order};
use report::{Measured, Report};
pub(crate) use stages::Stages;

const ROUNDS_MAX: u64 = 100_000_000;

/// How round trips are played and judged.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Machine on which `tabane probe serve` runs
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "from")]
    server: Option<String>,
    /// Sizes of the message in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [1, 1024], value_parser = RangedU64ValueParser::<u32>::new().range(1..=u64::from(ECHO_MAX)))]
    sizes: Vec<u32>,
    /// Round trips of each size
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=ROUNDS_MAX))]
    rounds: usize,
    /// The round trips that count, first and last, or `all`
    #[arg(long, value_name = "FIRST-LAST", default_value = "201-400")]
    window: Window,
    /// Seed of the order in which sizes are played [default: a random one; the report names it]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Have the kernel stamp each message, and say where round trips spend their time
    #[arg(long)]
    stages: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Measure nothing: report on the file that --csv wrote, all of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "sizes", "rounds", "window", "seed", "stages", "csv"])]
    from: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if let Some(path) = &options.from {
        let rows: Vec<stages::Line> = trace::read(path)?;
        let trace: Vec<RoundTrip> = rows.into_iter().map(RoundTrip::from).collect();
        return Report::new(&trace, Window::All, Source::kept(path)).print(options.json);
    }
    options.window.check(options.rounds, "--rounds")?;
    let server = Server::find(options.server.as_deref().unwrap_or_default())?;
    let (clock, interruption) = (Clock::start(), Interruption::listen()?);
    let machine = Machine::now(clock);
    let mut sizes = options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let seed = options.seed.unwrap_or_else(|| fastrand::u32(..));
    let places = u8::try_from(sizes.len()).ok().filter(|places| usize::from(*places) <= SIZES_MAX);
    let too_many = || format!("--sizes names {} sizes; allowed: up to {SIZES_MAX}", sizes.len());
    let order = Order::new(places.ok_or_else(|| Error::Refused(too_many()))?, options.rounds, seed);
    let planned = sizes.len() * options.rounds;
    if options.stages && planned > STAMPED_MAX {
        let sentence =
            format!("--stages with {planned} round trips; allowed: up to {STAMPED_MAX}, all sizes together");
        return Err(Error::Refused(sentence));
    }
    let game = Game { server: &server, sizes: &sizes, planned, stages: options.stages };
    let trace = game.play(order, clock, &interruption)?;
    match &options.csv {
        Some(path) if options.stages => {
            trace::write(path, &trace.iter().map(stages::Line::from).collect::<Vec<_>>())?;
        }
        Some(path) => trace::write(path, &trace)?,
        None => {}
    }
    let source = Measured { server, machine, seed, planned, played: trace.len() };
    Report::new(&trace, options.window, Source::Measured(source)).print(options.json)
}

/// Round trips of a message of one byte, in microseconds, as many as there is time for.
pub(crate) fn times(server: &Server, rounds: usize, interruption: &Interruption) -> Result<Vec<f64>, Error> {
    let game = Game { server, sizes: &[1], planned: rounds, stages: false };
    let trace = game.play(Order::new(1, rounds, 0), Clock::start(), interruption)?;
    Ok(trace.iter().map(|round| round.rtt_us).collect())
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::play::Order;
    use super::report::Report;
    use crate::output::Source;
    use crate::trace::RoundTrip;
    use crate::window::Window;

    /// Runs of each network. A run names an anomaly by chance with a probability of 0.001 at most.
    const RUNS: u32 = 200;
    /// Runs in which chance may do so: 4 of 200 or more have a probability below 0.0001.
    const BY_CHANCE: usize = 3;
    const ROUNDS: usize = 200;
    const SIZES: [u32; 3] = [1, 64, 1024];

    /// A network: the time of each round trip, in the order in which they are played.
    type Network = fn(&mut Rng) -> Box<dyn FnMut(usize) -> f64 + '_>;

    const NETWORKS: [(&str, Network); 5] = [
        ("noise", |random| Box::new(|_| 20.0 + noise(random))),
        ("drift", |random| Box::new(|round| 20.0 + round as f64 * 0.05 + noise(random))),
        ("warming up", |random| Box::new(|round| (if round < 250 { 45.0 } else { 20.0 }) + noise(random))),
        // Each round trip resembles the one before.
        ("correlated", |random| {
            let mut level = 0.0;
            Box::new(move |_| {
                level = 0.97 * level + noise(random) - 1.0;
                40.0 + level
            })
        }),
        // A processor that falls asleep, a link that changes: fast and slow stretches, of 40 round trips in the mean.
        ("stretches", |random| {
            let mut slow = false;
            Box::new(move |_| {
                slow ^= random.u8(..40) == 0;
                (if slow { 60.0 } else { 20.0 }) + noise(random)
            })
        }),
    ];

    /// One in the mean, mostly less, and seldom twenty times as much.
    fn noise(random: &mut Rng) -> f64 {
        let seldom = if random.u8(..100) == 0 { 20.0 } else { 1.0 };
        -(1.0 - random.f64()).ln() * seldom
    }

    /// Runs over `network` that name an anomaly, when messages of the smallest size take so much longer.
    fn named(network: Network, slower: f64) -> usize {
        let names = |seed: &u32| {
            let mut random = Rng::with_seed(u64::from(*seed) + 1_000_000);
            let mut time = network(&mut random);
            let mut rounds = [0; SIZES.len()];
            let trace: Vec<RoundTrip> = Order::new(3, ROUNDS, *seed)
                .enumerate()
                .map(|(number, place)| {
                    let place = usize::from(place);
                    rounds[place] += 1;
                    let rtt_us = time(number) + if place == 0 { slower } else { 0.0 };
                    RoundTrip { size_bytes: SIZES[place], round: rounds[place], rtt_us, stages: None }
                })
                .collect();
            Report::new(&trace, Window::All, Source::Kept(String::new())).findings().next().is_some()
        };
        (0..RUNS).filter(names).count()
    }

    #[test]
    fn an_unquiet_network_is_no_anomaly() {
        for (name, network) in NETWORKS {
            let named = named(network, 0.0);
            assert!(named <= BY_CHANCE, "{name}: {named} of {RUNS}");
        }
    }

    #[test]
    fn a_slower_small_message_is_found_in_an_unquiet_network() {
        for (name, network) in NETWORKS {
            let named = named(network, 10.0);
            assert_eq!(named, RUNS as usize, "{name}");
        }
    }
}
