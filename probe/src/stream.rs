//! `tabane probe stream`: sender processes that run at once, throughput over time, and the processors while all run
//! (P0.base, P0.matrix, P0.skew).
//!
//! ```text
//!     this process ── start ──> sender A, B, C …   (processes of the same program, `tabane probe sender`)
//!                  ── counts processors and NICs at the end of every interval
//!                  <── bytes of each interval, what arrived ──
//! ```

mod report;
mod samples;
pub(crate) mod sender;

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use clap::Args;
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};

use crate::clock::Clock;
use crate::connection::Server;
use crate::machine::{Machine, Ticks};
use crate::output::{Interruption, Progress, Report as _};
use crate::sweep::{mbit, seconds};
use crate::wire::ECHO_MAX;
use crate::{Error, trace};
use report::Report;
use samples::{Nics, Sampler, Seen, Subject};
use sender::{Done, Plan, Word, now_ns};

/// Time between the order to start and the start, by which every sender has received it.
const RUN_UP: Duration = Duration::from_millis(100);
const CHECK_EVERY: Duration = Duration::from_millis(50);
const INTERVALS_MAX: usize = 36_000;

/// Throughput of several sender processes over time, and what the processors do meanwhile
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Machines on which `tabane probe serve` runs; the senders take them in turn
    #[arg(value_name = "HOST[:PORT]", required = true)]
    servers: Vec<String>,
    /// Sender processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    senders: usize,
    /// Bytes of each send()
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = RangedI64ValueParser::<u32>::new().range(1..=i64::from(ECHO_MAX)))]
    size: u32,
    /// When all senders end
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// How much later than the first one all other senders start [default: together]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    stagger: Option<f64>,
    /// Time over which throughput is counted
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Load that each sender offers [default: as much as goes]
    #[arg(long, value_name = "MBIT/S", value_parser = mbit)]
    mbit: Option<f64>,
    /// Interface of which to count what leaves, and which sender it is of; can be repeated
    #[arg(long = "nic", value_name = "NIC")]
    nics: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a line per interval and sender to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

struct Run {
    ports: Vec<u16>,
    readings: Vec<Reading>,
    /// Of each sender on each NIC, in each interval; `None` when this process may not sample frames.
    seen: Option<Vec<Seen>>,
    done: Vec<Done>,
}

struct Reading {
    ticks: Ticks,
    sent: Vec<u64>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let intervals = options.intervals()?;
    options.servers.iter().try_for_each(|server| Server::find(server).map(drop))?;
    let nics = Nics::open(&options.nics)?;
    let interruption = Interruption::listen()?;
    let machine = Machine::now(Clock::start());
    let run = measure(options, intervals, &nics, &interruption)?;
    let report = Report::new(options, machine, intervals, &run);
    if let Some(path) = &options.csv {
        trace::write(path, &report.lines())?;
    }
    report.print(options.json)
}

fn measure(
    options: &Options,
    intervals: usize,
    nics: &Nics,
    interruption: &Interruption,
) -> Result<Run, Error> {
    let interval_ns = nanoseconds(Duration::from_secs_f64(options.interval));
    let crew = Crew::gather(options)?;
    let ports = crew.ports();
    let origin_ns = now_ns().saturating_add(nanoseconds(RUN_UP));
    let plan = |sender: usize| Plan {
        start_ns: origin_ns + if sender == 0 { 0 } else { nanoseconds(options.stagger()) },
        end_ns: origin_ns + nanoseconds(Duration::from_secs_f64(options.seconds)),
        origin_ns,
        interval_ns,
    };
    let running = crew.start(plan)?;
    let subject = Subject::new(&options.nics, ports.clone(), origin_ns, interval_ns)?;
    let sampler = if options.nics.is_empty() { None } else { Sampler::start(subject) };
    let progress = Progress::of("stream".to_owned(), intervals);
    let mut readings = Vec::with_capacity(intervals + 1);
    for number in 0..=intervals {
        if !wait_until(origin_ns + interval_ns * number as u64, interruption) {
            break;
        }
        readings.push(Reading { ticks: Ticks::now()?, sent: nics.sent()? });
        progress.reached(number);
    }
    let seen = sampler.map(Sampler::finish);
    Ok(Run { ports, readings, seen, done: running.finish(interruption.came())? })
}

impl Options {
    fn stagger(&self) -> Duration {
        Duration::from_secs_f64(self.stagger.unwrap_or(0.0))
    }

    fn intervals(&self) -> Result<usize, Error> {
        let whole = Duration::from_secs_f64(self.seconds).as_millis()
            / Duration::from_secs_f64(self.interval).as_millis();
        let count = usize::try_from(whole).unwrap_or(usize::MAX);
        if !(1..=INTERVALS_MAX).contains(&count) {
            return Err(Error::Refused(format!(
                "--seconds {} are {count} times --interval {}; allowed: 1 to {INTERVALS_MAX} times",
                self.seconds, self.interval
            )));
        }
        if self.stagger() >= Duration::from_secs_f64(self.seconds) {
            return Err(Error::Refused(format!(
                "--stagger {} leaves the later senders no time; allowed: less than --seconds {}",
                self.stagger().as_secs_f64(),
                self.seconds
            )));
        }
        Ok(count)
    }
}

/// Sleeps until `due` of [`now_ns`]; `false` when a signal comes before.
fn wait_until(due: u64, interruption: &Interruption) -> bool {
    while !interruption.came() {
        let left = Duration::from_nanos(due.saturating_sub(now_ns()));
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(CHECK_EVERY));
    }
    false
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

// The senders, in the process that has started them.

/// Senders that are connected and wait for their start.
struct Crew(Vec<Member>);

/// Senders that have been given their plan.
struct Running(Vec<Member>);

/// A sender's process; it is ended with its value.
struct Member {
    child: Child,
    orders: Option<ChildStdin>,
    words: BufReader<ChildStdout>,
    port: u16,
}

impl Crew {
    fn gather(options: &Options) -> Result<Crew, Error> {
        let server = |number: usize| &options.servers[number % options.servers.len()];
        let start = |number| Member::start(server(number), options);
        let mut members = (0..options.senders).map(start).collect::<Result<Vec<Member>, Error>>()?;
        for member in &mut members {
            match member.receive()? {
                Word::Ready(port) => member.port = port,
                other => return Err(unexpected(&other)),
            }
        }
        Ok(Crew(members))
    }

    fn ports(&self) -> Vec<u16> {
        self.0.iter().map(|member| member.port).collect()
    }

    fn start(mut self, plan: impl Fn(usize) -> Plan) -> Result<Running, Error> {
        for (number, member) in self.0.iter_mut().enumerate() {
            member.send(plan(number))?;
        }
        Ok(Running(self.0))
    }
}

impl Running {
    /// Receives the senders' reports; `now`: they are to end at once.
    fn finish(mut self, now: bool) -> Result<Vec<Done>, Error> {
        if now {
            self.0.iter_mut().for_each(|member| drop(member.orders.take()));
        }
        self.0.iter_mut().map(Member::finish).collect()
    }
}

impl Member {
    fn start(server: &str, options: &Options) -> Result<Member, Error> {
        let starting = || Error::doing("starting a sender");
        let mut child = Command::new(env::current_exe().map_err(starting())?)
            .arg("sender")
            .args(sender::Options::arguments(server, options.size, options.mbit))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(starting())?;
        let missing = || starting()(io::ErrorKind::BrokenPipe.into());
        let orders = Some(child.stdin.take().ok_or_else(missing)?);
        let words = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Member { child, orders, words, port: 0 })
    }

    fn receive(&mut self) -> Result<Word, Error> {
        let mut line = String::new();
        self.words.read_line(&mut line).map_err(Error::doing("listening to a sender"))?;
        serde_json::from_str(&line).map_err(|_| Error::Confused("a sender ended without a word".to_owned()))
    }

    fn send(&mut self, plan: Plan) -> Result<(), Error> {
        let doing = || Error::doing("sending a sender its plan");
        let line = serde_json::to_string(&plan).map_err(io::Error::from).map_err(doing())?;
        let orders = self.orders.as_mut().ok_or_else(|| doing()(io::ErrorKind::BrokenPipe.into()))?;
        writeln!(orders, "{line}").map_err(doing())
    }

    fn finish(&mut self) -> Result<Done, Error> {
        let word = self.receive()?;
        self.child.wait().map_err(Error::doing("waiting for a sender"))?;
        if let Word::Done(done) = word { Ok(done) } else { Err(unexpected(&word)) }
    }
}

fn unexpected(word: &Word) -> Error {
    Error::Confused(match word {
        Word::Failed(why) => format!("a sender cannot send: {why}"),
        Word::Ready(_) | Word::Done(_) => "a sender answers out of turn".to_owned(),
    })
}

impl Drop for Member {
    fn drop(&mut self) {
        // Without effect on one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
