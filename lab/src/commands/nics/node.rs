//! What each guest does. The first one asks for a path, fills it and sends files; the other makes its end of each path, and takes
//! them.
//!
//! Lines to and fro over the control link: a [`Way`]; that the path is there; for each number of connections that they begin and
//! that they have ended, each answered by the seconds that the other's processors were busy; that all is over, answered by what
//! the other has counted.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{CONNECTIONS, Crossed, Measured, Speed, WAYS, trials};
use crate::commands::pair::{Ending, LINKS, PairOptions, Way, nics};
use tabane_kit::counters::packets;
use tabane_kit::cpu::Usage;
use tabane_kit::guest::pair::{self, Answers, Talk};
use tabane_kit::netns::{Namespace, joined};
use tabane_kit::progress;
use tabane_kit::status::Questions;
use tabane_kit::workload::Stream;
use tabane_kit::workload::delivery::{self, Taker};
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::transfer::Source;

/// Where files are taken: this port and those behind it.
const PORT: u16 = 7440;
/// Bytes of each file.
const FILE: u64 = 2 << 20;

/// What the guest `side` has to do.
pub(super) fn work(options: &PairOptions, side: usize) -> Result<()> {
    let host = pair::host(side, LINKS)?;
    let daemon = options.common.daemon()?;
    if side == 1 {
        return answer(options, &host, &daemon);
    }
    let measured: Vec<Measured> =
        trials(options).map(|way| ask(options, &host, way, &daemon)).collect::<Result<_>>()?;
    options.guest.hand_over(&measured)
}

/// Has one way measured.
fn ask(options: &PairOptions, host: &Namespace, way: Way, daemon: &Path) -> Result<Measured> {
    let _step = progress::step(WAYS.iter().find(|known| known.0 == way).map_or("", |known| known.2));
    let mut talk = Talk::call(host)?;
    talk.say(&way)?;
    let path = Ending::make(way, host, 0, daemon)?;
    talk.hear::<()>()?;
    path.wait_until_it_carries(1)?;
    let speeds = CONNECTIONS.map(|connections| fill(&mut talk, options, host, way, connections));
    let speeds = speeds.into_iter().collect::<Result<_>>()?;
    let before = counted(&mut talk, host, &path)?;
    let whole = CONNECTIONS.map(|connections| send(options, host, way, connections));
    let whole = whole.into_iter().sum::<Result<u64>>()?;
    let after = counted(&mut talk, host, &path)?;
    path.end()?;
    Ok(Measured { way, speeds, whole, crossed: crossed(before, after) })
}

/// Fills the path for some seconds.
fn fill(
    talk: &mut Talk,
    options: &PairOptions,
    host: &Namespace,
    way: Way,
    connections: u8,
) -> Result<Speed> {
    let mut busy = || -> Result<f64> {
        talk.say(&())?;
        Ok(Usage::now(&[])?.machine_seconds + talk.hear::<f64>()?)
    };
    let before = busy()?;
    let (server, seconds) = (way.address(1), options.seconds);
    let flow = Flow { connections, ..Flow::tcp(server, seconds) }.run(host)?;
    let used = busy()? - before;
    Ok(Speed {
        connections,
        mbit: 1e3 * flow.gbps,
        retransmits: flow.retransmits,
        cpu_s_per_gb: used * 1e9 / flow.bytes as f64,
    })
}

/// Sends so many files at once; how many arrived as they were sent.
fn send(options: &PairOptions, host: &Namespace, way: Way, connections: u8) -> Result<u64> {
    let sending = (0..connections).map(|number| {
        let to = SocketAddr::new(way.address(1), PORT + u16::from(number));
        let mut source = Source::random(FILE, options.common.seed + u64::from(number));
        host.spawn("file", move || delivery::send(to, &mut source))
    });
    let sending = sending.collect::<Result<Vec<_>>>()?;
    let sent = sending.into_iter().map(joined).collect::<Result<Vec<_>>>()?;
    Ok(sent.iter().filter(|delivery| delivery.sha256_ok).count() as u64)
}

/// What one end has sent and received so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Counted {
    /// Packets of all links, sent and received.
    packets: [u64; 2],
    /// Frames and bytes that programs sent, and received.
    by_programs: [[u64; 2]; 2],
    /// Frames sent in cells.
    in_cells: u64,
}

impl Counted {
    /// As it is now.
    fn now(host: &Namespace, path: &Ending<'_>) -> Result<Counted> {
        let mut counted = Counted { packets: packets(host, &nics())?, by_programs: [[0; 2]; 2], in_cells: 0 };
        let Some(bundle) = &path.bundle else { return Ok(counted) };
        let status = bundle.status()?;
        counted.in_cells = status.counter("frames_sent");
        for kernel in status.peers.first().context("no peer")?.paths.iter().filter_map(|path| path.kernel) {
            let now =
                [[kernel.frames_sent, kernel.bytes_sent], [kernel.frames_received, kernel.bytes_received]];
            for (sum, more) in counted.by_programs.iter_mut().flatten().zip(now.into_iter().flatten()) {
                *sum += more;
            }
        }
        Ok(counted)
    }
}

/// What both ends have counted: first this one, for the other one's bundle ends with its last answer.
fn counted(talk: &mut Talk, host: &Namespace, path: &Ending<'_>) -> Result<[Counted; 2]> {
    let own = Counted::now(host, path)?;
    talk.say(&())?;
    Ok([own, talk.hear()?])
}

/// What crossed the path from this guest to the other one.
fn crossed(before: [Counted; 2], after: [Counted; 2]) -> Crossed {
    let since = |count: fn(&[Counted; 2]) -> u64| count(&after) - count(&before);
    Crossed {
        packets: [since(|ends| ends[0].packets[0]), since(|ends| ends[1].packets[1])],
        by_programs: [
            [since(|ends| ends[0].by_programs[0][0]), since(|ends| ends[0].by_programs[0][1])],
            [since(|ends| ends[1].by_programs[1][0]), since(|ends| ends[1].by_programs[1][1])],
        ],
        in_cells: since(|ends| ends[0].in_cells),
    }
}

/// Answers as often as it will be asked.
fn answer(options: &PairOptions, host: &Namespace, daemon: &Path) -> Result<()> {
    let _server = Server::start(host, Stream::Tcp)?;
    let answers = Answers::listen(host)?;
    let most = CONNECTIONS.into_iter().max().context("no connections")?;
    let takers = (0..most).map(|number| host.enter(|| Taker::listen(PORT + u16::from(number)))?);
    let takers = takers.collect::<Result<Vec<_>>>()?;
    for _ in trials(options) {
        let mut talk = answers.take()?;
        let way = talk.hear()?;
        let path = Ending::make(way, host, 1, daemon)?;
        talk.say(&())?;
        for _ in 0..2 * CONNECTIONS.len() {
            talk.hear::<()>()?;
            talk.say(&Usage::now(&[])?.machine_seconds)?;
        }
        talk.hear::<()>()?;
        talk.say(&Counted::now(host, &path)?)?;
        CONNECTIONS.into_iter().try_for_each(|connections| take(&takers[..connections.into()]))?;
        talk.hear::<()>()?;
        talk.say(&Counted::now(host, &path)?)?;
        path.end()?;
    }
    options.guest.hand_over(&())
}

/// Each takes a file.
fn take(takers: &[Taker]) -> Result<()> {
    thread::scope(|scope| {
        let taking: Vec<_> = takers.iter().map(|taker| scope.spawn(|| taker.take())).collect();
        taking.into_iter().try_for_each(|taken| taken.join().expect("it does not panic"))
    })
}
