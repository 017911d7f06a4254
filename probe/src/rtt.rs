//! `tabane probe rtt`: a ping-pong, timed from before the send to after the receive (P4).
//!
//! P4 plays 1,000 rounds with messages of 1 B and 1 KB over TCP, and counts rounds 201 to 400.

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
use crate::wire::{Ask, ECHO_MAX};
use report::{Report, Source};

/// Most rounds: their times fit into memory.
const ROUNDS_MAX: u64 = 100_000_000;
/// Rounds after which the progress is told.
const TELL_AFTER: usize = 256;

/// Round trips of messages of several sizes
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Machine on which `tabane probe serve` runs
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "from")]
    server: Option<String>,
    /// Sizes of the message in bytes, each played for itself
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [1, 1024], value_parser = RangedU64ValueParser::<u32>::new().range(1..=u64::from(ECHO_MAX)))]
    sizes: Vec<u32>,
    /// Round trips of each size
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=ROUNDS_MAX))]
    rounds: usize,
    /// The round trips that count, first and last, or `all`
    #[arg(long, value_name = "FIRST-LAST", default_value = "201-400")]
    window: Window,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Measure nothing: report on the file that --csv wrote, all of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "sizes", "rounds", "window", "csv"])]
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
    let machine = Machine::look(clock);
    let mut sizes = options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let mut trace = Vec::new();
    for size in &sizes {
        trace.extend(play(&server, *size, options.rounds, clock, &interruption)?);
    }
    if let Some(path) = &options.csv {
        trace::write(path, &trace)?;
    }
    let planned = sizes.len() * options.rounds;
    Report::new(&trace, options.window, Source::measured(&server, machine, planned)).print(options.json)
}

/// Plays `rounds` rounds, or as many as there is time for.
fn play(
    server: &Server,
    size: u32,
    rounds: usize,
    clock: Clock,
    interruption: &Interruption,
) -> Result<Vec<RoundTrip>, Error> {
    let mut stream = server.ask(Ask::Echo { size })?;
    let playing = || Error::doing(format!("round trips of {size} B"));
    stream.set_nodelay(true).map_err(playing())?;
    let mut message = vec![0; size as usize];
    // Written once, so that no page is fetched while measuring.
    let mut times = vec![u64::MAX; rounds];
    let progress = Progress::of(format!("{size} B"), rounds);
    let mut played = 0;
    while played < rounds && !interruption.came() {
        let start = clock.now_ns();
        stream.write_all(&message).and_then(|()| stream.read_exact(&mut message)).map_err(playing())?;
        times[played] = clock.now_ns() - start;
        played += 1;
        if played.is_multiple_of(TELL_AFTER) {
            progress.reached(played);
        }
    }
    let row = |(number, time): (usize, &u64)| RoundTrip {
        size_bytes: size,
        round: number + 1,
        rtt_us: microseconds(*time),
    };
    Ok(times[..played].iter().enumerate().map(row).collect())
}
