//! Two virtual machines and the drivers of real NICs between them: a bare link, and a bundle over two by the kernel path and by
//! cells.
//!
//! Over a veth a superframe stays whole from one stack to the other. Here it is cut into segments in front of the cable, by the NIC
//! or by the kernel for it, and what comes is segments. [`super::pair`] joins the guests.

use tabane_kit::counters::packets;
use tabane_kit::guest::Model;
use tabane_kit::guest::pair::{self, Answers, Talk};
use tabane_kit::machine::processors;
use tabane_kit::workload::delivery::{self, Taker};

use super::pair::{Ending, LINKS, Way, nics};
use crate::prelude::*;

pub use super::pair::PairOptions as Options;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1800);
const CONNECTIONS: [u8; 2] = [1, 4];
/// The ways, with their names in reports and for people.
const WAYS: [(Way, &str, &str); 3] = [
    (Way::Link, "bare", "one bare link"),
    (Way::Kernel, "kernel", "kernel path, hash"),
    (Way::Cells, "cells", "cells, hash"),
];

/// Bytes that no segment has: the links carry packets of 1,500.
const SUPERFRAME_MIN: f64 = 3_000.0;
/// Most frames in cells beside files by the kernel path: neighbours' questions.
const FEW: f64 = 100.0;

type Figure = fn(&Speed) -> f64;

/// All of them: key, unit, and how they are computed.
const FIGURES: [(&str, &str, Figure); 3] = [
    ("throughput", "Mbit/s", |speed| speed.mbit),
    ("cpu", "s/GB", |speed| speed.cpu_s_per_gb),
    ("retransmits", "segments", |speed| speed.retransmits as f64),
];

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Speed {
    connections: u8,
    mbit: f64,
    retransmits: u64,
    /// Time of the processors of both guests for 10^9 bytes, in seconds.
    cpu_s_per_gb: f64,
}

/// What left and came, at both ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Crossed {
    /// Packets of all links that one guest sent and the other received.
    packets: [u64; 2],
    /// Frames and bytes that programs gave to the links, and those that programs at the other end handed on.
    by_programs: [[u64; 2]; 2],
    in_cells: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    way: Way,
    speeds: Vec<Speed>,
    /// Files whose SHA-256 was the same at both ends, of [`CONNECTIONS`] at once each.
    whole: u64,
    crossed: Crossed,
}

/// All ways, in the order in which they are measured.
fn trials(options: &Options) -> impl Iterator<Item = Way> + use<> {
    (0..options.rounds).flat_map(|_| WAYS.map(|(way, ..)| way))
}

/// Measures.
pub fn run(pair: &Options) -> Result<ExitCode> {
    if let Some(side) = pair.side {
        return work(pair, side).map(|()| ExitCode::SUCCESS);
    }
    let mut report = Report::new("nics", pair.common.seed);
    report.field("guest_kernel", pair.guest.guest()?.version());
    // Both guests are busy at once.
    let half = (processors()?.len() / 2).max(1);
    for model in [Model::E1000e, Model::VirtioNet] {
        let measured: Vec<Measured> = pair.ask("nics", (model, &[]), half, LIMIT)?;
        write(&mut report, model, &measured);
    }
    report.show("  emulated processors: speeds compare with each other only");
    report.finish(pair.common.json.as_deref())
}

/// Writes what was measured over NICs of this kind into `report`.
fn write(report: &mut Report, model: Model, measured: &[Measured]) {
    let mut table = Table::new([
        model.module(),
        "flows",
        "Mbit/s",
        "of bare",
        "CPU, s/GB",
        "of bare",
        "sent again",
        "bytes of a frame sent",
        "received",
    ]);
    for (way, key, label) in WAYS {
        let name = format!("{}.{key}", model.module());
        for one in measured.iter().filter(|one| one.way == way) {
            for (speed, (figure, unit, compute)) in
                one.speeds.iter().flat_map(|speed| FIGURES.map(|figure| (speed, figure)))
            {
                report.push(format!("{name}.{}.{figure}", speed.connections), unit, compute(speed));
            }
        }
        let frames = frames(report, &name, way, measured);
        for connections in CONNECTIONS {
            let mut row = vec![label.to_string(), connections.to_string()];
            for figure in ["throughput", "cpu"] {
                let key = format!("{name}.{connections}.{figure}");
                let ratio = report.ratio(&key, &format!("{}.bare.{connections}.{figure}", model.module()));
                row.extend([format!("{:.1}", report.median(&key)), format!("{ratio:.2}")]);
                report.push(format!("{key}_ratio"), "", ratio);
            }
            row.push(format!("{:.0}", report.median(&format!("{name}.{connections}.retransmits"))));
            row.extend(frames.map(|bytes| if bytes > 0.0 { format!("{bytes:.0}") } else { String::new() }));
            table.row(row);
        }
    }
    report.show(table);
}

/// Judges files and what carried them; returns the mean bytes of frames that programs sent, and handed on.
fn frames(report: &mut Report, name: &str, way: Way, measured: &[Measured]) -> [f64; 2] {
    let trials: Vec<&Measured> = measured.iter().filter(|one| one.way == way).collect();
    let files = CONNECTIONS.iter().map(|connections| u64::from(*connections)).sum::<u64>();
    let whole = trials.iter().all(|one| one.whole == files);
    report.verdict(Verdict::equals(&format!("{name}.whole"), whole, true));
    if way != Way::Kernel {
        return [0.0; 2];
    }
    let mut in_cells = 0.0_f64;
    for one in trials {
        for (end, [frames, bytes]) in ["sent", "received"].into_iter().zip(one.crossed.by_programs) {
            report.push(format!("{name}.frame_bytes_{end}"), "bytes", bytes as f64 / frames as f64);
        }
        in_cells = in_cells.max(one.crossed.in_cells as f64);
    }
    let [sent, received] =
        ["sent", "received"].map(|end| report.measured(&format!("{name}.frame_bytes_{end}")));
    report.verdict(Verdict::at_least(&format!("{name}.frame_bytes"), sent.min(), SUPERFRAME_MIN));
    report.verdict(Verdict::at_most(&format!("{name}.in_cells"), in_cells, FEW));
    [sent.median(), received.median()]
}

// What each guest does. The first one asks for a path, fills it and sends files; the other makes its end of each path, and takes
// them.
//
// Lines to and fro over the control link: a [`Way`]; that the path is there; for each number of connections that they begin and
// that they have ended, each answered by the seconds that the other's processors were busy; that all is over, answered by what
// the other has counted.

/// Where files are taken: this port and those behind it.
const PORT: u16 = 7440;
const FILE: u64 = 2 << 20;

fn work(options: &Options, side: usize) -> Result<()> {
    let host = pair::host(side, LINKS)?;
    let daemon = options.common.daemon()?;
    if side == 1 {
        return answer(options, &host, &daemon);
    }
    let measured: Vec<Measured> =
        trials(options).map(|way| ask(options, &host, way, &daemon)).collect::<Result<_>>()?;
    options.guest.hand_over(&measured)
}

fn ask(options: &Options, host: &Namespace, way: Way, daemon: &Path) -> Result<Measured> {
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

fn fill(talk: &mut Talk, options: &Options, host: &Namespace, way: Way, connections: u8) -> Result<Speed> {
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
fn send(options: &Options, host: &Namespace, way: Way, connections: u8) -> Result<u64> {
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
    packets: [u64; 2],
    /// Frames and bytes that programs sent, and received.
    by_programs: [[u64; 2]; 2],
    in_cells: u64,
}

impl Counted {
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

fn answer(options: &Options, host: &Namespace, daemon: &Path) -> Result<()> {
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

fn take(takers: &[Taker]) -> Result<()> {
    thread::scope(|scope| {
        let taking: Vec<_> = takers.iter().map(|taker| scope.spawn(|| taker.take())).collect();
        taking.into_iter().try_for_each(|taken| taken.join().expect("it does not panic"))
    })
}
