//! `tabane probe send`: how long each `send()` of a stream takes, and which kinds of calls there are (P0.send).
//!
//! P0 sends 1 KB a million times with a timestamp before and after each call, and reports calls 500,001 to 505,000.

mod report;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use socket2::SockRef;

use crate::Error;
use crate::clock::{Clock, microseconds};
use crate::connection::Server;
use crate::machine::Machine;
use crate::output::{Interruption, Progress, Report as _, Source};
use crate::trace::{self, Call};
use crate::window::Window;
use crate::wire::{Ask, ECHO_MAX, Received};
use report::{Measured, Report};

const CALLS_MAX: u64 = 100_000_000;
const REPORT_EVERY: usize = 4_096;

/// How long each `send()` of a stream takes, which kinds of calls there are, and how often each comes
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Machine on which `tabane probe serve` runs
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "from")]
    server: Option<String>,
    /// Bytes of each call
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = RangedU64ValueParser::<u32>::new().range(1..=u64::from(ECHO_MAX)))]
    size: u32,
    /// Calls
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=CALLS_MAX))]
    calls: usize,
    /// The calls that count, first and last, or `all`
    #[arg(long, value_name = "FIRST-LAST", default_value = "500001-505000")]
    window: Window,
    /// Send buffer of the socket in bytes; the kernel doubles it [default: the kernel's choice]
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(1_024..=1 << 30))]
    send_buffer: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Measure nothing: report on the file that --csv wrote, all of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "size", "calls", "window", "send_buffer", "csv"])]
    from: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if let Some(path) = &options.from {
        return Report::new(&trace::read(path)?, Window::All, Source::kept(path)).print(options.json);
    }
    options.window.check(options.calls, "--calls")?;
    let server = Server::find(options.server.as_deref().unwrap_or_default())?;
    let (clock, interruption) = (Clock::start(), Interruption::listen()?);
    let machine = Machine::now(clock);
    let Sent { calls, send_buffer_bytes, received } = stream(&server, options, clock, &interruption)?;
    if let Some(path) = &options.csv {
        trace::write(path, &calls)?;
    }
    let (planned, called) = (options.calls, calls.len());
    let source = Measured { server, machine, send_buffer_bytes, planned, called, received };
    Report::new(&calls, options.window, Source::Measured(source)).print(options.json)
}

struct Sent {
    calls: Vec<Call>,
    /// The send buffer when the calls began: twice what was asked for, within the kernel's bounds.
    send_buffer_bytes: usize,
    received: Received,
}

fn stream(
    server: &Server,
    options: &Options,
    clock: Clock,
    interruption: &Interruption,
) -> Result<Sent, Error> {
    let mut stream = server.ask(Ask::Sink)?;
    let socket = SockRef::from(&stream);
    let set = options.send_buffer.map_or(Ok(()), |bytes| socket.set_send_buffer_size(bytes));
    let send_buffer_bytes =
        set.and_then(|()| socket.send_buffer_size()).map_err(Error::doing("setting the send buffer"))?;
    let message = vec![0; options.size as usize];
    // Written once, so that no page fault disturbs the measurement.
    let mut times = vec![(u64::MAX, u64::MAX); options.calls];
    let progress = Progress::of("send()".to_owned(), options.calls);
    let mut called = 0;
    while called < options.calls && !interruption.came() {
        let before = clock.now_ns();
        stream.write_all(&message).map_err(Error::doing(format!("call {}", called + 1)))?;
        times[called] = (before, clock.now_ns());
        called += 1;
        if called.is_multiple_of(REPORT_EVERY) {
            progress.reached(called);
        }
    }
    let received = server.settle(stream)?;
    let first = times[0].0;
    let row = |(number, (before, after)): (usize, &(u64, u64))| Call {
        call: number + 1,
        start_us: microseconds(before - first),
        duration_us: microseconds(after - before),
    };
    let calls = times[..called].iter().enumerate().map(row).collect();
    Ok(Sent { calls, send_buffer_bytes, received })
}
