//! Two virtual machines and the drivers of real NICs between them: a bare link, and a bundle over two by the kernel path and by
//! cells.
//!
//! Over a veth a superframe stays whole from one stack to the other. Here it is cut into segments in front of the cable, by the NIC
//! or by the kernel for it, and what comes is segments.
//!
//! ```text
//!   guest 0 ──── control ──── guest 1
//!     flows ═══ eth1 ═══> counts what comes
//!           ═══ eth2 ═══>
//! ```
//!
//! The cables are sockets of the two QEMUs. Each guest runs the same command: the first, a [`Caller`], makes one path after the other
//! and fills it; the other makes its end of each, takes what comes, and tells what it has counted, until its machine is ended.

use tabane_kit::guest::pair::{self, Talk};
use tabane_kit::guest::{Model, Visit};
use tabane_kit::machine::processors;
use tabane_kit::workload::delivery::{self, Taker};
use tabane_kit::workload::ping_pong::ping;

use crate::prelude::*;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3];
const LIMIT: Duration = Duration::from_secs(1800);
const CONNECTIONS: [u8; 2] = [1, 4];
const WAYS: [(Way, &str, &str); 3] = [
    (Way::Link, "bare", "one bare link"),
    (Way::Kernel, "kernel", "kernel path, hash"),
    (Way::Cells, "cells", "cells, hash"),
];
/// Ends of keys, with their units; others have none. Processor time is that of both guests.
const UNITS: [(&str, &str); 5] = [
    ("throughput", "Mbit/s"),
    ("cpu", "s/GB"),
    ("retransmits", "segments"),
    ("frame_bytes_sent", "bytes"),
    ("frame_bytes_received", "bytes"),
];

/// Bytes that no segment has: the links carry packets of 1,500.
const SUPERFRAME_MIN: f64 = 3_000.0;
/// Most frames in cells beside files by the kernel path: neighbours' questions.
const FEW: f64 = 100.0;

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        return options.work(side);
    }
    let mut report = Report::new("nics", options.common.seed);
    report.field("guest_kernel", options.guest.guest()?.version());
    // Both guests are busy at once.
    let half = (processors()?.len() / 2).max(1);
    for model in [Model::E1000e, Model::VirtioNet] {
        let measured = options.ask(model, half)?;
        write(&mut report, model, &measured);
    }
    report.show("  emulated processors: speeds compare with each other only");
    report.finish(options.common.json.as_deref())
}

fn measure(caller: &mut Caller<'_>, (way, key, label): (Way, &str, &str)) -> Result<()> {
    let _step = progress::step(label);
    caller.make(way)?;
    for connections in CONNECTIONS {
        let before = caller.counted()?;
        let flow = caller.fill(connections)?;
        let after = caller.counted()?;
        let used: f64 =
            [0, 1].map(|end| after[end].machine_seconds - before[end].machine_seconds).iter().sum();
        caller.push(format!("{key}.{connections}.throughput"), 1e3 * flow.gbps);
        caller.push(format!("{key}.{connections}.cpu"), used * 1e9 / flow.bytes as f64);
        caller.push(format!("{key}.{connections}.retransmits"), flow.retransmits as f64);
    }
    let before = caller.counted()?;
    for connections in CONNECTIONS {
        let whole = caller.send_files(connections)?;
        caller.push(format!("{key}.files_damaged"), f64::from(connections) - whole as f64);
    }
    let after = caller.counted()?;
    if way == Way::Kernel {
        // What programs gave to the links, and what those at the other end handed on.
        for (end, name) in ["sent", "received"].into_iter().enumerate() {
            let [frames, bytes] =
                [0, 1].map(|which| after[end].by_programs[end][which] - before[end].by_programs[end][which]);
            caller.push(format!("{key}.frame_bytes_{name}"), bytes as f64 / frames as f64);
        }
        caller.push(format!("{key}.in_cells"), (after[0].in_cells - before[0].in_cells) as f64);
    }
    caller.end()
}

fn write(report: &mut Report, model: Model, measured: &Measured) {
    let of = |key: &str| format!("{}.{key}", model.module());
    for (key, value) in measured {
        let unit = UNITS.into_iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| unit);
        report.push(of(key), unit, *value);
    }
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
        let frames =
            ["sent", "received"].map(|end| report.measured(&of(&format!("{key}.frame_bytes_{end}"))));
        let damaged = report.measured(&of(&format!("{key}.files_damaged"))).max();
        report.verdict(Verdict::at_most(&of(&format!("{key}.files_damaged")), damaged, 0.0));
        if way == Way::Kernel {
            // What arrives is segments again, unless the kernel gathers them.
            let sent = frames[0].min();
            report.verdict(Verdict::at_least(&of("kernel.frame_bytes"), sent, SUPERFRAME_MIN));
            let in_cells = report.measured(&of("kernel.in_cells")).max();
            report.verdict(Verdict::at_most(&of("kernel.in_cells"), in_cells, FEW));
        }
        for connections in CONNECTIONS {
            let mut row = vec![label.to_string(), connections.to_string()];
            for figure in ["throughput", "cpu"] {
                let own = of(&format!("{key}.{connections}.{figure}"));
                let ratio = report.ratio(&own, &of(&format!("bare.{connections}.{figure}")));
                row.extend([format!("{:.1}", report.median(&own)), format!("{ratio:.2}")]);
                report.push(format!("{own}_ratio"), "", ratio);
            }
            row.push(number(report.median(&of(&format!("{key}.{connections}.retransmits")))));
            row.extend(frames.each_ref().map(|bytes| number(bytes.median())));
            table.row(row);
        }
    }
    report.show(table);
}

// The guests: how they are booted, one end of a path, and what the first guest asks of the other.

const LINKS: usize = 2;
const CARRIES_WITHIN: Duration = Duration::from_secs(60);
/// Where files are taken: there and at the ports behind it.
const FILE_PORT: u16 = 7440;
const FILES_MAX: u8 = 4;
const FILE: u64 = 2 << 20;

/// Two virtual machines with e1000e and with virtio NICs: a bare link, the kernel path and cells; about 10 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Rounds; medians are taken over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Seconds of each measurement, of which there are two in a trial
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    seconds: u32,
    /// Which of the two guests this is
    #[arg(long, hide = true, requires = guest::HERE)]
    side: Option<usize>,
}

impl Options {
    /// Whether this is the work of one of the guests.
    pub fn is_inside(&self) -> bool {
        self.side.is_some()
    }

    /// What the first of two guests hands over, which are joined by NICs of this kind.
    fn ask(&self, model: Model, processors: usize) -> Result<Measured> {
        let sockets = tempfile::tempdir().context("a directory for the cables")?;
        let (guest, daemon) = (self.guest.guest()?.with_processors(processors), self.common.daemon()?);
        let boot = |side: usize| -> Result<Visit> {
            let arguments = [
                "nics".to_owned(),
                format!("--side={side}"),
                format!("--rounds={}", self.rounds),
                format!("--seconds={}", self.seconds),
                format!("--seed={}", self.common.seed),
            ];
            let cables = pair::cables(sockets.path(), side, LINKS, model);
            guest.clone().with_cables(cables).begin(&arguments, &[model.module()], &daemon)
        };
        let (first, other) = (boot(0)?, boot(1)?);
        let measured = first.finish(LIMIT);
        measured.with_context(|| format!("the other guest said last: \"{}\"", other.last_words()))
    }

    /// Does what the guest `side` has to do.
    fn work(&self, side: usize) -> Result<ExitCode> {
        let (host, daemon) = (pair::host(side, LINKS)?, self.common.daemon()?);
        if side == 1 {
            answer(&host, &daemon)?;
        }
        let talk = Talk::call(&host)?;
        let mut caller =
            Caller { options: self, daemon, host: &host, talk, path: None, measured: Vec::new() };
        for way in (0..self.rounds).flat_map(|_| WAYS) {
            measure(&mut caller, way)?;
        }
        self.guest.hand_over(&caller.measured)?;
        Ok(ExitCode::SUCCESS)
    }
}

type Measured = Vec<(String, f64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// The first link alone.
    Link,
    /// A bundle whose frames programs in the kernel carry.
    Kernel,
    /// The same, whose frames travel in cells.
    Cells,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Errand {
    /// Its end of a path.
    Make(Way),
    Take(u8),
    Count,
    End,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Counted {
    machine_seconds: f64,
    by_programs: [[u64; 2]; 2],
    in_cells: u64,
}

struct Caller<'a> {
    options: &'a Options,
    daemon: PathBuf,
    host: &'a Namespace,
    talk: Talk,
    path: Option<Ending<'a>>,
    measured: Measured,
}

impl Caller<'_> {
    fn push(&mut self, key: impl Into<String>, value: f64) {
        self.measured.push((key.into(), value));
    }

    fn make(&mut self, way: Way) -> Result<()> {
        self.talk.say(&Errand::Make(way))?;
        self.path = Some(Ending::make(way, self.host, 0, &self.daemon)?);
        self.talk.hear::<()>()?;
        wait_for("a path that carries packets", CARRIES_WITHIN, || {
            let pings = ping(self.host, way.address(1), 1).ok();
            Ok(pings.filter(|pings| pings.lost() == 0).map(drop))
        })
    }

    fn counted(&mut self) -> Result<[Counted; 2]> {
        let own = self.path.as_ref().context("there is no path")?.counted()?;
        Ok([own, self.asked(&Errand::Count)?])
    }

    fn fill(&self, connections: u8) -> Result<iperf::Outcome> {
        let flow = Flow::tcp(self.other()?, self.options.seconds);
        Flow { connections, ..flow }.run(self.host)
    }

    fn send_files(&mut self, count: u8) -> Result<u64> {
        let other = self.other()?;
        self.talk.say(&Errand::Take(count))?;
        let sending = (0..count).map(|number| {
            let to = SocketAddr::new(other, FILE_PORT + u16::from(number));
            let seed = self.options.common.seed + u64::from(number);
            self.host.spawn("file", move || delivery::send(to, FILE, seed))
        });
        let sending = sending.collect::<Result<Vec<_>>>()?;
        let sent = sending.into_iter().map(joined).collect::<Result<Vec<_>>>()?;
        self.talk.hear::<()>()?;
        Ok(sent.iter().filter(|delivery| delivery.is_whole).count() as u64)
    }

    /// Leaves the links as they were, at both ends.
    fn end(&mut self) -> Result<()> {
        self.asked::<()>(&Errand::End)?;
        self.path.take().map_or(Ok(()), Ending::end)
    }

    fn other(&self) -> Result<IpAddr> {
        Ok(self.path.as_ref().context("there is no path")?.way.address(1))
    }

    fn asked<T: DeserializeOwned>(&mut self, what: &impl Serialize) -> Result<T> {
        self.talk.say(what)?;
        self.talk.hear()
    }
}

fn answer(host: &Namespace, daemon: &Path) -> Result<()> {
    let _server = Server::start(host, Stream::Tcp)?;
    let takers = (0..FILES_MAX).map(|number| host.enter(|| Taker::listen(FILE_PORT + u16::from(number)))?);
    let takers = takers.collect::<Result<Vec<_>>>()?;
    let (mut talk, mut path) = (Talk::answer(host)?, None);
    loop {
        let errand = talk.hear()?;
        match (errand, &path) {
            (Errand::Make(way), _) => {
                path = Some(Ending::make(way, host, 1, daemon)?);
                talk.say(&())?;
            }
            (Errand::Take(count), _) => {
                thread::scope(|scope| {
                    let meant = takers[..count.into()].iter();
                    let taking: Vec<_> = meant.map(|taker| scope.spawn(|| taker.take())).collect();
                    taking.into_iter().try_for_each(|taken| taken.join().expect("it does not panic"))
                })?;
                talk.say(&())?;
            }
            (Errand::Count, Some(path)) => talk.say(&path.counted()?)?,
            (Errand::End, Some(_)) => {
                path.take().map_or(Ok(()), Ending::end)?;
                talk.say(&())?;
            }
            (errand, None) => bail!("{errand:?} without a path"),
        }
    }
}

impl Way {
    fn address(self, side: usize) -> IpAddr {
        match self {
            Way::Link => bonding::address(side).into(),
            Way::Kernel | Way::Cells => bundle::address(side),
        }
    }
}

struct Ending<'a> {
    way: Way,
    host: &'a Namespace,
    bundle: Option<Bundle<'a>>,
}

impl<'a> Ending<'a> {
    fn make(way: Way, host: &'a Namespace, side: usize, daemon: &Path) -> Result<Ending<'a>> {
        let nics: Vec<String> = (0..LINKS).map(nic).collect();
        let mut ending = Ending { way, host, bundle: None };
        let options = match way {
            Way::Link => {
                host.ip(&format!("address add {}/24 dev {}", bonding::address(side), nic(0)))?;
                return Ok(ending);
            }
            Way::Kernel => bundle::Options::by_programs(daemon, "kernel"),
            Way::Cells => bundle::Options::by_programs(daemon, "user"),
        };
        let bundle = ending.bundle.insert(Bundle::start(host, side, &nics, &options)?);
        bundle.wait_until("the other guest", |status| {
            status.is_ready(1, LINKS) && status.peers[0].kernel_path == (way == Way::Kernel)
        })?;
        Ok(ending)
    }

    fn counted(&self) -> Result<Counted> {
        let mut counted = Counted {
            machine_seconds: Usage::now(&[])?.machine_seconds,
            by_programs: [[0; 2]; 2],
            in_cells: 0,
        };
        let Some(bundle) = &self.bundle else { return Ok(counted) };
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

    /// Leaves the links as they were.
    fn end(self) -> Result<()> {
        Bundle::stop_all(self.bundle)?;
        match self.way {
            Way::Link => self.host.ip(&format!("address flush dev {} scope global", nic(0))).map(drop),
            Way::Kernel | Way::Cells => Ok(()),
        }
    }
}
