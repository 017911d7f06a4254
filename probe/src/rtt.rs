//! `tabane probe rtt`: a ping-pong, timed from before the send to after the receive (P4).
//!
//! P4 plays 1,000 rounds with messages of 1 B and 1 KB over TCP, and counts rounds 201 to 400. Here one connection
//! carries all sizes, in the order of [`order`], so that they differ in nothing but their size.

mod order;
mod report;

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::clock::{Clock, microseconds};
use crate::connection::Server;
use crate::error::Error;
use crate::interruption::Interruption;
use crate::machine::Machine;
use crate::output::Report as _;
use crate::progress::Progress;
use crate::trace::{self, RoundTrip};
use crate::window::Window;
use crate::wire::{Ask, ECHO_MAX, SIZES_MAX};
use order::Order;
use report::{Report, Source};

/// Most rounds: their times fit into memory.
const ROUNDS_MAX: u64 = 100_000_000;
/// Rounds between two updates of the progress.
const REPORT_EVERY: usize = 256;

/// Round trips of messages of several sizes
///
/// Sizes are played in blocks of 10 rounds each, in a random order within the block. A larger message counts as faster
/// than a smaller one (an anomaly) when its fastest round trip of a block is the faster one in so many of the blocks
/// that chance has a probability of 0.001 at most (one-sided sign test over the blocks, Dixon and Mood 1946, with
/// Holm's correction for all pairs of sizes), and by 5 % or more in the median over the blocks. To see the rhythm of
/// one size, play it alone.
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
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Measure nothing: report on the file that --csv wrote, all of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "sizes", "rounds", "window", "seed", "csv"])]
    from: Option<PathBuf>,
}

/// Measures, or reads, and reports.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if let Some(path) = &options.from {
        return Report::new(&trace::read(path)?, Window::All, Source::kept(path)).print(options.json);
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
    let trace = play(&server, &sizes, order, planned, clock, &interruption)?;
    if let Some(path) = &options.csv {
        trace::write(path, &trace)?;
    }
    let source = Source::measured(&server, machine, seed, planned);
    Report::new(&trace, options.window, source).print(options.json)
}

/// Round trips of a message of one byte, in microseconds, as many as there is time for.
pub(crate) fn times(server: &Server, rounds: usize, interruption: &Interruption) -> Result<Vec<f64>, Error> {
    let trace = play(server, &[1], Order::new(1, rounds, 0), rounds, Clock::start(), interruption)?;
    Ok(trace.iter().map(|round| round.rtt_us).collect())
}

/// Plays all `planned` rounds in their order, or as many as there is time for.
fn play(
    server: &Server,
    sizes: &[u32],
    order: Order,
    planned: usize,
    clock: Clock,
    interruption: &Interruption,
) -> Result<Vec<RoundTrip>, Error> {
    let mut stream = server.ask(Ask::Echo { sizes: sizes.to_vec() })?;
    let playing = || Error::doing("playing round trips");
    stream.set_nodelay(true).map_err(playing())?;
    let mut buffer = vec![0; sizes.iter().copied().max().unwrap_or_default() as usize];
    // Written once, so that no page fault disturbs the measurement.
    let mut times = vec![(u8::MAX, u64::MAX); planned];
    let progress = Progress::of("round trips".to_owned(), planned);
    let mut played = 0;
    for place in order {
        if interruption.came() {
            break;
        }
        let message = &mut buffer[..sizes[usize::from(place)] as usize];
        message[0] = place;
        let start = clock.now_ns();
        stream.write_all(message).and_then(|()| stream.read_exact(message)).map_err(playing())?;
        times[played] = (place, clock.now_ns() - start);
        played += 1;
        if played.is_multiple_of(REPORT_EVERY) {
            progress.reached(played);
        }
    }
    let mut rounds = vec![0; sizes.len()];
    let row = |(place, time): &(u8, u64)| {
        let place = usize::from(*place);
        rounds[place] += 1;
        RoundTrip { size_bytes: sizes[place], round: rounds[place], rtt_us: microseconds(*time) }
    };
    Ok(times[..played].iter().map(row).collect())
}

#[cfg(test)]
mod tests;
