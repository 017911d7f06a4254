//! Two virtual machines whose e1000e NICs gather their interrupts, and what becomes of the order of packets over two.
//!
//! A NIC that waits before it interrupts hands over many packets at once. Over two NICs these are two heaps, and who takes
//! packets as they come takes one heap first: P2 names that as the main cause of reordering. [`super::pair`] joins the guests.

use tabane_kit::guest::Model;
use tabane_kit::guest::pair::{self, ANSWER_WITHIN, Answers, Talk};
use tabane_kit::workload::sequence::Receiving;

use crate::prelude::*;

pub use super::pair::PairOptions as Options;
use super::pair::Way;
use crate::commands::pair::{Ending, LINKS};

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3, ETHTOOL];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1200);
/// Datagrams that all ways have room for on emulated processors: 22 Mbit/s.
const PACE: Pace = Pace { per_second: 2_000, bytes: 1_400 };
/// How long the NICs wait before they interrupt, in microseconds; 0: not at all.
const WAITS_US: [u32; 3] = [0, 250, 1000];
const WAYS: [(Way, &str); 3] =
    [(Way::Link, "one link"), (Way::BalanceRr, "balance-rr"), (Way::Bundle, "bundle")];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trial {
    way: Way,
    wait_us: u32,
}

/// What became of datagrams at a steady pace, and what they took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Paced {
    sent: u64,
    lost: u64,
    /// Those that came after one that was sent later.
    overtaken: u64,
    interrupts: u64,
    /// Bytes that both links received, in 10^6.
    megabytes: f64,
}

/// One trial: datagrams at a steady pace, and a connection as fast as it can.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    trial: Trial,
    paced: Paced,
    /// Payload per second of the connection, in Mbit/s.
    mbit: f64,
    /// Segments of it that were sent again.
    retransmits: u64,
}

type Figure = fn(&Measured) -> f64;

/// Figures: key, unit, and how they are computed.
const FIGURES: [(&str, &str, Figure); 5] = [
    ("overtaken", "‰", |one| 1e3 * one.paced.overtaken as f64 / one.paced.sent as f64),
    ("lost", "‰", |one| 1e3 * one.paced.lost as f64 / one.paced.sent as f64),
    ("interrupts", "per MB", |one| one.paced.interrupts as f64 / one.paced.megabytes),
    ("throughput", "Mbit/s", |one| one.mbit),
    ("retransmits", "segments", |one| one.retransmits as f64),
];

/// All flows, in the order in which they are measured.
fn trials(options: &Options) -> impl Iterator<Item = Trial> + use<> {
    let of_wait = |wait_us| WAYS.map(|(way, _)| Trial { way, wait_us });
    (0..options.rounds).flat_map(move |_| WAITS_US.into_iter().flat_map(of_wait))
}

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        return work(options, side).map(|()| ExitCode::SUCCESS);
    }
    let measured: Vec<Measured> = options.ask("moderation", (Model::E1000e, &["bonding"]), 1, LIMIT)?;
    let mut report = Report::new("moderation", options.common.seed);
    report.field("guest_kernel", options.guest.guest()?.version());
    write(&mut report, &measured);
    report.finish(options.common.json.as_deref())
}

/// A row for each way and wait, against what is wanted of a bundle.
fn write(report: &mut Report, measured: &[Measured]) {
    let head = ["", "NICs wait", "overtaken, ‰", "lost, ‰", "interrupts per MB", "TCP, Mbit/s", "sent again"];
    let mut table = Table::new(head);
    for (wait_us, (way, name)) in WAITS_US.into_iter().flat_map(|wait_us| WAYS.map(|way| (wait_us, way))) {
        let mut row = vec![name.to_string(), format!("{wait_us} us")];
        for (key, unit, compute) in FIGURES {
            let id = format!("{name}.{wait_us}.{key}");
            for one in measured.iter().filter(|one| one.trial == Trial { way, wait_us }) {
                report.push(&*id, unit, compute(one));
            }
            row.push(format!("{:.1}", report.median(&id)));
            if way == Way::Bundle && key == "overtaken" {
                report.verdict(Verdict::at_most(&id, report.measured(&id).max(), 0.0));
            }
        }
        table.row(row);
    }
    report.show(table);
    report.show("  datagrams at a steady pace, then a connection as fast as it can; emulated processors are busy before two links\n  are full, so speeds compare with each other only");
}

// What each guest does. The first one asks for a path, fills it, and asks what came; the other makes its end of each path,
// and counts.
//
// Lines to and fro over the control link: a [`Trial`]; that the path is there; when datagrams were sent; what became of them
// ([`Paced`]); that the connection is over.

const PORT: u16 = 7433;

fn work(options: &Options, side: usize) -> Result<()> {
    let host = pair::host(side, LINKS)?;
    let daemon = options.common.daemon()?;
    if side == 1 {
        return answer(options, &host, &daemon);
    }
    let measured: Vec<Measured> =
        trials(options).map(|trial| ask(&host, trial, options.seconds, &daemon)).collect::<Result<_>>()?;
    options.guest.hand_over(&measured)
}

fn ask(host: &Namespace, trial: Trial, seconds: u32, daemon: &Path) -> Result<Measured> {
    let name = WAYS.iter().find(|(way, _)| *way == trial.way).map_or("", |(_, name)| name);
    let _step = progress::step(&format!("{name}, interrupts after {} us", trial.wait_us));
    let mut talk = Talk::call(host)?;
    talk.say(&trial)?;
    moderate(host, trial.wait_us)?;
    let path = Ending::make(trial.way, host, 0, daemon)?;
    talk.hear::<()>()?;
    path.wait_until_it_carries(1)?;
    let at = SocketAddr::new(trial.way.address(1), PORT);
    talk.say(&sequence::send_to(host, at, PACE, Duration::from_secs(seconds.into()))?)?;
    let paced = talk.hear()?;
    let flow = Flow::tcp(trial.way.address(1), seconds).run(host)?;
    talk.say(&())?;
    path.end()?;
    Ok(Measured { trial, paced, mbit: 1e3 * flow.gbps, retransmits: flow.retransmits })
}

fn answer(options: &Options, host: &Namespace, daemon: &Path) -> Result<()> {
    let answers = Answers::listen(host)?;
    for _ in trials(options) {
        let mut talk = answers.take()?;
        let trial: Trial = talk.hear()?;
        moderate(host, trial.wait_us)?;
        let path = Ending::make(trial.way, host, 1, daemon)?;
        let server = Server::start(host, Stream::Tcp)?;
        let at = SocketAddr::new(trial.way.address(1), PORT);
        let receiving = Receiving::start(host, at, PACE, ANSWER_WITHIN)?;
        let (interrupts, bytes) = counted(host)?;
        talk.say(&())?;
        let outcome = receiving.finish(&talk.hear::<Vec<u64>>()?)?;
        let (interrupts_after, bytes_after) = counted(host)?;
        talk.say(&Paced {
            sent: outcome.sent,
            lost: outcome.sent - outcome.received,
            overtaken: outcome.overtaken,
            interrupts: interrupts_after - interrupts,
            megabytes: (bytes_after - bytes) as f64 / 1e6,
        })?;
        talk.hear::<()>()?;
        drop(server);
        path.end()?;
    }
    options.guest.hand_over(&())
}

fn moderate(host: &Namespace, wait_us: u32) -> Result<()> {
    (0..LINKS).try_for_each(|link| {
        let mut ethtool = host.command("ethtool");
        process::run(ethtool.args(["-C", &nic(link), "rx-usecs", &wait_us.to_string()])).map(drop)
    })
}

/// Interrupts of both links since the guest's boot, and bytes that they have received.
fn counted(host: &Namespace) -> Result<(u64, u64)> {
    let bytes: [u64; LINKS] = received_bytes(host, [&nic(0), &nic(1)])?;
    let table = fs::read_to_string("/proc/interrupts").context("/proc/interrupts")?;
    Ok(((0..LINKS).map(|link| interrupts_of(&table, &nic(link))).sum(), bytes.iter().sum()))
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
