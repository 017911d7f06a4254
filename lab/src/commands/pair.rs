//! What the experiments with two guests that are joined by cables share: their options, their boot, one end of a path, and what the
//! first guest asks of the other.
//!
//! ```text
//!   guest 0 ──── control ──── guest 1
//!     flows ═══ eth1 ═══> counts what comes
//!           ═══ eth2 ═══>
//! ```
//!
//! The cables are sockets of the two QEMUs. Each guest runs the same command: the first, a [`Caller`], makes one path after the other
//! and fills it; the other makes its end of each, takes what comes, and tells what it has counted, until its machine is ended.

use tabane_kit::guest::pair::{self, ANSWER_WITHIN, Talk};
use tabane_kit::guest::{Model, Visit};
use tabane_kit::workload::delivery::{self, Taker};
use tabane_kit::workload::ping_pong::ping;
use tabane_kit::workload::sequence::Receiving;

use crate::prelude::*;

/// Links that are used together.
const LINKS: usize = 2;
/// How long a path may take to carry its first packet.
const CARRIES_WITHIN: Duration = Duration::from_secs(60);
/// Datagrams that all ways have room for on emulated processors: 22 Mbit/s.
const PACE: Pace = Pace { per_second: 2_000, bytes: 1_400 };
/// Where datagrams are taken, and files: there and at the ports behind it.
const PORT: u16 = 7433;
const FILE_PORT: u16 = 7440;
/// Files that can be taken at once, and bytes of each.
const FILES_MAX: u8 = 4;
const FILE: u64 = 2 << 20;

/// Options of such an experiment.
#[derive(Clone, Debug, Args)]
pub struct PairOptions {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) guest: guest::Flags,
    /// Rounds; medians are taken over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Seconds of each measurement, of which there are two in a trial
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    seconds: u32,
    /// Which of the two guests this is
    #[arg(long, hide = true, requires = guest::HERE)]
    pub(super) side: Option<usize>,
}

impl PairOptions {
    /// Whether this is the work of one of the guests.
    pub fn is_inside(&self) -> bool {
        self.side.is_some()
    }

    /// What the first of two guests with so many processors hands over within `limit`; both run `command` over NICs of this kind, with
    /// further `modules`.
    pub(super) fn ask(
        &self,
        command: &str,
        (model, modules): (Model, &[&str]),
        processors: usize,
        limit: Duration,
    ) -> Result<Measured> {
        let sockets = tempfile::tempdir().context("a directory for the cables")?;
        let (guest, daemon) = (self.guest.guest()?.with_processors(processors), self.common.daemon()?);
        let modules = [&[model.module()], modules].concat();
        let boot = |side: usize| -> Result<Visit> {
            let arguments = [
                command.to_owned(),
                format!("--side={side}"),
                format!("--rounds={}", self.rounds),
                format!("--seconds={}", self.seconds),
                format!("--seed={}", self.common.seed),
            ];
            let cables = pair::cables(sockets.path(), side, LINKS, model);
            guest.clone().with_cables(cables).begin(&arguments, &modules, &daemon)
        };
        let (first, other) = (boot(0)?, boot(1)?);
        let measured = first.finish(limit);
        measured.with_context(|| format!("the other guest said last: \"{}\"", other.last_words()))
    }

    /// Does what the guest `side` has to do; in each round the first one does `measure`.
    pub(super) fn work(
        &self,
        side: usize,
        measure: impl Fn(&mut Caller<'_>) -> Result<()>,
    ) -> Result<ExitCode> {
        let (host, daemon) = (pair::host(side, LINKS)?, self.common.daemon()?);
        if side == 1 {
            answer(&host, &daemon)?;
        }
        let talk = Talk::call(&host)?;
        let mut caller =
            Caller { options: self, daemon, host: &host, talk, path: None, measured: Vec::new() };
        (0..self.rounds).try_for_each(|_| measure(&mut caller))?;
        self.guest.hand_over(&caller.measured)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the first guest has measured: figures by their keys.
pub(super) type Measured = Vec<(String, f64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// The first link alone.
    Link,
    /// The kernel's bonding.
    BalanceRr,
    /// A bundle.
    Bundle,
    /// A bundle whose frames programs in the kernel carry.
    Kernel,
    /// The same, whose frames travel in cells.
    Cells,
}

/// What the first guest asks of the other, which answers when it is done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Errand {
    /// Its end of a path. The links' NICs wait so many microseconds before they interrupt; `None`: as they are.
    Make(Way, Option<u32>),
    /// Readiness for datagrams; then it is told when each was sent, and answers how many came, and how many were overtaken.
    Receive,
    /// So many files at once.
    Take(u8),
    /// What it has counted.
    Count,
    /// The end of the path.
    End,
}

/// What a guest has counted so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Seconds that its processors were busy.
    pub(super) machine_seconds: f64,
    /// Interrupts of both links, and bytes that they received.
    pub(super) interrupts: u64,
    pub(super) received_bytes: u64,
    /// Frames and bytes that programs sent, and received.
    pub(super) by_programs: [[u64; 2]; 2],
    /// Frames that it sent in cells.
    pub(super) in_cells: u64,
}

/// The first guest, with its end of a path.
pub(super) struct Caller<'a> {
    options: &'a PairOptions,
    daemon: PathBuf,
    host: &'a Namespace,
    talk: Talk,
    path: Option<Ending<'a>>,
    measured: Measured,
}

impl Caller<'_> {
    /// Notes a figure.
    pub(super) fn push(&mut self, key: impl Into<String>, value: f64) {
        self.measured.push((key.into(), value));
    }

    /// Has both ends of a path made, and waits until packets come back.
    pub(super) fn make(&mut self, way: Way, wait_us: Option<u32>) -> Result<()> {
        self.talk.say(&Errand::Make(way, wait_us))?;
        self.path = Some(Ending::make(way, wait_us, self.host, 0, &self.daemon)?);
        self.talk.hear::<()>()?;
        wait_for("a path that carries packets", CARRIES_WITHIN, || {
            let pings = ping(self.host, way.address(1), 1).ok();
            Ok(pings.filter(|pings| pings.lost() == 0).map(drop))
        })
    }

    /// What this guest and the other one have counted.
    pub(super) fn counted(&mut self) -> Result<[Counted; 2]> {
        let own = self.path.as_ref().context("there is no path")?.counted()?;
        Ok([own, self.asked(&Errand::Count)?])
    }

    /// Fills the path by so many connections at once.
    pub(super) fn fill(&self, connections: u8) -> Result<iperf::Outcome> {
        let flow = Flow::tcp(self.other()?, self.options.seconds);
        Flow { connections, ..flow }.run(self.host)
    }

    /// Sends datagrams at a steady pace; how many there were, how many came, and how many were overtaken.
    pub(super) fn send_datagrams(&mut self) -> Result<[u64; 3]> {
        let to = SocketAddr::new(self.other()?, PORT);
        self.asked::<()>(&Errand::Receive)?;
        let duration = Duration::from_secs(self.options.seconds.into());
        let sent = sequence::send_to(self.host, to, PACE, duration)?;
        let [received, overtaken] = self.asked(&sent)?;
        Ok([sent.len() as u64, received, overtaken])
    }

    /// Sends so many files at once; how many arrived as they were sent.
    pub(super) fn send_files(&mut self, count: u8) -> Result<u64> {
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
    pub(super) fn end(&mut self) -> Result<()> {
        self.asked::<()>(&Errand::End)?;
        self.path.take().map_or(Ok(()), Ending::end)
    }

    /// The other guest on the path.
    fn other(&self) -> Result<IpAddr> {
        Ok(self.path.as_ref().context("there is no path")?.way.address(1))
    }

    fn asked<T: DeserializeOwned>(&mut self, what: &impl Serialize) -> Result<T> {
        self.talk.say(what)?;
        self.talk.hear()
    }
}

/// Does what the first guest asks for, as long as that one is there.
fn answer(host: &Namespace, daemon: &Path) -> Result<()> {
    let _server = Server::start(host, Stream::Tcp)?;
    let takers = (0..FILES_MAX).map(|number| host.enter(|| Taker::listen(FILE_PORT + u16::from(number)))?);
    let takers = takers.collect::<Result<Vec<_>>>()?;
    let (mut talk, mut path) = (Talk::answer(host)?, None);
    loop {
        let errand = talk.hear()?;
        match (errand, &path) {
            (Errand::Make(way, wait_us), _) => {
                path = Some(Ending::make(way, wait_us, host, 1, daemon)?);
                talk.say(&())?;
            }
            (Errand::Receive, Some(path)) => {
                let at = SocketAddr::new(path.way.address(1), PORT);
                let receiving = Receiving::start(host, at, PACE, ANSWER_WITHIN)?;
                talk.say(&())?;
                let outcome = receiving.finish(&talk.hear::<Vec<u64>>()?)?;
                talk.say(&[outcome.received, outcome.overtaken])?;
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
    /// Address of the guest `side` on its path.
    fn address(self, side: usize) -> IpAddr {
        match self {
            Way::Link | Way::BalanceRr => bonding::address(side).into(),
            Way::Bundle | Way::Kernel | Way::Cells => bundle::address(side),
        }
    }
}

/// One end of a path, while it lasts.
struct Ending<'a> {
    way: Way,
    host: &'a Namespace,
    bundle: Option<Bundle<'a>>,
}

impl<'a> Ending<'a> {
    /// Makes the end of guest `side`, whose links are up.
    fn make(
        way: Way,
        wait_us: Option<u32>,
        host: &'a Namespace,
        side: usize,
        daemon: &Path,
    ) -> Result<Ending<'a>> {
        let nics: Vec<String> = (0..LINKS).map(nic).collect();
        for (nic, wait_us) in nics.iter().zip(wait_us.into_iter().cycle()) {
            process::run(host.command("ethtool").args(["-C", nic, "rx-usecs", &wait_us.to_string()]))?;
        }
        let mut ending = Ending { way, host, bundle: None };
        let options = match way {
            Way::Link => {
                host.ip(&format!("address add {}/24 dev {}", bonding::address(side), nic(0)))?;
                return Ok(ending);
            }
            Way::BalanceRr => {
                bonding::bond_on(host, side, &nics, "balance-rr")?;
                return Ok(ending);
            }
            Way::Bundle => bundle::Options::new(daemon),
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
        let bytes: [u64; LINKS] = received_bytes(self.host, [&nic(0), &nic(1)])?;
        let table = fs::read_to_string("/proc/interrupts").context("/proc/interrupts")?;
        let mut counted = Counted {
            machine_seconds: Usage::now(&[])?.machine_seconds,
            interrupts: (0..LINKS).map(|link| interrupts_of(&table, &nic(link))).sum(),
            received_bytes: bytes.iter().sum(),
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
            Way::BalanceRr => bonding::remove(self.host, &(0..LINKS).map(nic).collect::<Vec<_>>()),
            Way::Bundle | Way::Kernel | Way::Cells => Ok(()),
        }
    }
}

/// Sums up the lines of a NIC, which has one for each of its vectors.
fn interrupts_of(table: &str, nic: &str) -> u64 {
    let is_its =
        |name: &str| name.strip_prefix(nic).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let lines = table.lines().filter(|line| line.split_whitespace().last().is_some_and(is_its));
    let counts = |line: &str| -> u64 {
        line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok()).sum()
    };
    lines.map(counts).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_has_the_interrupts_of_all_its_vectors() {
        let table = "           CPU0       CPU1\n \
                     24:          3          4   PCI-MSIX  eth1-rx-0\n \
                     25:         10          0   PCI-MSIX  eth1-tx-0\n \
                     26:          1          0   PCI-MSIX  eth1\n \
                     27:        100          0   PCI-MSIX  eth10\n";
        assert_eq!((interrupts_of(table, "eth1"), interrupts_of(table, "eth2")), (18, 0));
    }
}
