//! A sender: a process that connects, waits for its start, sends until its end, and reports what it did.
//!
//! Its protocol is JSON lines: it writes [`Word::Ready`], reads a [`Plan`] and writes [`Word::Done`]. When its standard
//! input ends, it ends as well, so no sender outlives the process that started it.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::clock::{Clock, Pace};
use crate::connection::Server;
use crate::output::print;
use crate::progress::Interruption;
use crate::wire::{Ask, Received};

/// How often a sender that waits for its start checks whether to end.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// When a sender sends, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Where the first interval begins.
    pub(super) origin_ns: u64,
    pub(super) interval_ns: u64,
}

/// A message of a sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    /// It is connected, from this local port.
    Ready(u16),
    /// It has sent all.
    Done(Done),
    /// Why it cannot send.
    Failed(String),
}

/// What a sender did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// Bytes that the socket took, in each interval.
    pub(super) bytes: Vec<u64>,
    pub(super) received: Received,
}

/// A process of `tabane probe stream`
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    server: String,
    size: u32,
    #[arg(long)]
    mbit: Option<f64>,
}

impl Options {
    /// The arguments of a sender.
    pub(super) fn arguments(server: &str, size: u32, mbit: Option<f64>) -> Vec<String> {
        let mbit = mbit.map(|mbit| format!("--mbit={mbit}"));
        [server.to_owned(), size.to_string()].into_iter().chain(mbit).collect()
    }
}

/// Runs a sender; reports a failure to the process that started it.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let last = serve(options).map_or_else(|error| Word::Failed(error.to_string()), Word::Done);
    say(&last)
}

fn serve(options: &Options) -> Result<Done, Error> {
    let interruption = Interruption::listen()?;
    let server = Server::find(&options.server)?;
    let mut stream = server.ask(Ask::Sink)?;
    let port = stream.local_addr().map_err(Error::doing("asking for the local port"))?.port();
    say(&Word::Ready(port))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Error::doing("waiting for the start"))?;
    let plan: Plan = serde_json::from_str(&line).map_err(|_| {
        Error::Refused("a sender is started by `tabane probe stream`, and by nothing else".to_owned())
    })?;
    let ended = watch_input();
    let ends = || interruption.came() || ended.load(Ordering::Relaxed);
    let bytes = send(&mut stream, options, plan, ends)?;
    Ok(Done { bytes, received: server.settle(stream)? })
}

fn say(word: &Word) -> Result<(), Error> {
    let line = serde_json::to_string(word).map_err(io::Error::from).map_err(Error::doing("writing JSON"))?;
    print(&format!("{line}\n"))
}

/// Becomes true when the standard input ends.
fn watch_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    // The thread ends with the process, as a read that waits cannot be ended.
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// Sends from the start to the end of the plan; the bytes of each interval.
fn send(
    stream: &mut TcpStream,
    options: &Options,
    plan: Plan,
    ends: impl Fn() -> bool,
) -> Result<Vec<u64>, Error> {
    let message = vec![0; options.size as usize];
    let intervals = (plan.end_ns - plan.origin_ns).div_ceil(plan.interval_ns.max(1));
    let mut bytes = vec![0; usize::try_from(intervals).unwrap_or(usize::MAX)];
    while now_ns() < plan.start_ns && !ends() {
        let left = Duration::from_nanos(plan.start_ns.saturating_sub(now_ns()));
        thread::sleep(left.min(CHECK_EVERY));
    }
    let clock = Clock::start();
    // One clock of its own is read per message instead of two.
    let (base_ns, mut now) = (now_ns(), now_ns());
    let mut pace = Pace::new(options.size, options.mbit, 0);
    while now < plan.end_ns && !ends() {
        pace.wait(clock);
        stream.write_all(&message).map_err(Error::doing(format!("sending {} B", options.size)))?;
        now = base_ns + clock.now_ns();
        let interval = usize::try_from((now - plan.origin_ns) / plan.interval_ns).unwrap_or(usize::MAX);
        if let Some(count) = bytes.get_mut(interval) {
            *count += message.len() as u64;
        }
    }
    Ok(bytes)
}

/// CLOCK_MONOTONIC in nanoseconds: the same for all processes of a machine.
pub(super) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
