//! A hostile node among bundles: it hears one link, sends what it likes there, and has not the key.
//!
//! ```text
//!  h1.eth1 ── port1 [ s1 ] port2 ── eth1.h2       the hostile node hears both ports, and sends out of port2, or of both
//!  h1.eth2 ──────── [ s2 ] ──────── eth2.h2       it is not on this one
//!  h3.eth1 ── port3 [ s1 ]                        its own address, where answers would reach it
//! ```
//!
//! A TCP connection and numbered datagrams run through the bundle all the while. Of each attack the table tells how
//! often it was tried, what of it was taken, and what it costs: CPU, memory and speed of the connection.
//!
//! 1. [`frame`]: what is heard.
//! 2. [`forge`]: the kinds of attack, and the cells that each is made of.
//! 3. [`Hostile`]: sends them.
//! 4. [`trial`]: what becomes of them, against what is wanted.

mod forge;
mod frame;
mod trial;

use std::io::ErrorKind;
use std::net::Ipv6Addr;
use std::process::Command;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tabane_io::PacketSocket;
use tabane_io::packet::FRAME_MAX;

use crate::prelude::*;
use forge::{Attack, Forger, Stranger};
use frame::{Recording, datagrams, frames};
use trial::Figures;

const LINKS: usize = 2;
/// Rate of each: low, for the attacker shares the CPUs of this machine.
const RATE: Bitrate = Bitrate::mbit(100);

/// A hostile node on one link: forged and replayed cells, floods, a wrong key: about 4 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Only this attack; can be repeated [default: all]
    #[arg(long = "attack", value_name = "KIND", value_enum)]
    attacks: Vec<Attack>,
    /// Seconds of each attack, and of the quiet before and after it
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::new().range(1..=60))]
    seconds: u64,
}

/// Two hosts in a bundle, and the hostile node: new ones for each attack, for an attack may spoil them.
struct Scene<'a> {
    topology: &'a Topology,
    bundles: Vec<Bundle<'a>>,
    hostile: Hostile,
    stranger: Stranger,
    daemon: &'a Path,
    other_key: String,
}

/// Runs the wanted attacks.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let attacks = if options.attacks.is_empty() { Attack::value_variants() } else { &options.attacks[..] };
    let mut report = Report::new("attack", common.seed);
    let keys = tempfile::tempdir()?;
    let topology = {
        let _step = progress::step(&format!("joining 3 hosts by {LINKS} switches at {RATE}"));
        let links = vec![LinkPlan::shaped(RATE); LINKS];
        Topology::build(Plan { hosts: 3, addressed: false, ..Plan::two_hosts(links) })?
    };
    let mut seen = Vec::new();
    for (number, attack) in attacks.iter().enumerate() {
        let _step = progress::step(&format!("{} of {}: {}", number + 1, attacks.len(), attack.name()));
        let mut scene = Scene::set(&topology, &daemon, keys.path(), number)?;
        let figures = trial::run(&mut scene, *attack, Duration::from_secs(options.seconds), common.seed)?;
        seen.push((*attack, figures));
        Bundle::stop_all(scene.bundles)?;
    }
    report.field("seconds", options.seconds);
    write(&mut report, &seen);
    report.finish(common.json.as_deref())
}

impl<'a> Scene<'a> {
    /// Starts both bundles, heard from their first cell on, with keys of their `number`.
    fn set(topology: &'a Topology, daemon: &'a Path, keys: &Path, number: usize) -> Result<Scene<'a>> {
        let key = new_key(daemon, &keys.join(format!("group-{number}")))?;
        let other_key = new_key(daemon, &keys.join(format!("other-{number}")))?;
        let stranger = Stranger::of(topology.host(trial::STRANGER))?;
        let hearing = Hostile::enter(topology)?.hear(topology)?;
        let start =
            |host: usize| Bundle::start(topology.host(host), host, &topology.nics(), &with_key(daemon, &key));
        let mut bundles = vec![start(trial::FRIEND)?, start(trial::VICTIM)?];
        for bundle in &mut bundles {
            bundle.wait_until("the other host", |status| status.is_ready(1, LINKS))?;
        }
        let hostile = hearing.end()?;
        Ok(Scene { topology, bundles, hostile, stranger, daemon, other_key })
    }

    fn statuses(&self) -> Result<Vec<Status>> {
        self.bundles.iter().map(Bundle::status).collect()
    }
}

fn with_key(daemon: &Path, key: &str) -> bundle::Options {
    let protection = bundle::Protection::KeyFile(key.into());
    bundle::Options { protection, ..bundle::Options::new(daemon) }
}

fn new_key(daemon: &Path, path: &Path) -> Result<String> {
    process::run(Command::new(daemon).arg("genkey").arg(path))?;
    Ok(path.to_string_lossy().into_owned())
}

// The hostile node at work on one link: it hears what the hosts send and puts forged frames before them.

const LINK: usize = 0;
const TICK: Duration = Duration::from_millis(1);
/// Most cells put on the link in one of these; what is due on top is left out.
const BURST: u64 = 1_000;
const HEAR: usize = 1_000;

/// The hostile node, with the switch's ports to both hosts in its hands: frames of a switch can be heard and sent under
/// any address there, without it learning wrong ones.
struct Hostile {
    ports: [PacketSocket; 2],
    heard: [Recording; 2],
    frame: Vec<u8>,
}

impl Hostile {
    fn enter(topology: &Topology) -> Result<Hostile> {
        let [first, second] =
            ["port1", "port2"].map(|port| topology.switch(LINK).enter(|| PacketSocket::open(port)));
        let ports = [first??, second??];
        Ok(Hostile { ports, heard: Default::default(), frame: vec![0; FRAME_MAX] })
    }

    fn hear(mut self, topology: &Topology) -> Result<Running<Hostile>> {
        Running::start(topology.switch(LINK), "hostile", move |end| {
            while !end.load(Ordering::Relaxed) {
                self.listen()?;
                thread::sleep(TICK);
            }
            Ok(self)
        })
    }

    fn strike(&mut self, forger: &mut Forger, per_second: u32, duration: Duration) -> Result<u64> {
        let (start, mut due, mut tried) = (Instant::now(), 0, 0);
        while start.elapsed() < duration {
            self.listen()?;
            let now_due = u64::try_from(start.elapsed().as_micros())? * u64::from(per_second) / 1_000_000;
            let forged: Vec<_> = (due..now_due)
                .take(usize::try_from(BURST)?)
                .map_while(|_| forger.next(&self.heard[trial::FRIEND]))
                .collect();
            for frame in frames(&forged) {
                // A full NIC takes no more: what does not leave was not tried.
                let has_left = self.ports[trial::VICTIM].send(&frame).is_ok();
                tried += if has_left { datagrams(&frame).len() as u64 } else { 0 };
            }
            due = now_due;
            thread::sleep(TICK);
        }
        ensure!(tried > 0, "nothing was heard of which cells could be made");
        Ok(tried)
    }

    fn listen(&mut self) -> Result<()> {
        for (port, heard) in self.ports.iter().zip(&mut self.heard) {
            for _ in 0..HEAR {
                let length = match port.receive(&mut self.frame) {
                    Ok(length) => length,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("hearing a frame"),
                };
                datagrams(&self.frame[..length]).into_iter().for_each(|datagram| heard.note(datagram));
            }
        }
        Ok(())
    }
}

impl Stranger {
    fn of(host: &Namespace) -> Result<Stranger> {
        let shown = host.ip(&format!("-6 -oneline address show dev {} scope link", nic(LINK)))?;
        let address = word_after(&shown, "inet6").and_then(|address| address.split('/').next());
        let address: Ipv6Addr = address.context("the hostile node has no link-local address")?.parse()?;
        Ok(Stranger { mac: mac(host)?, address: address.octets() })
    }
}

fn mac(host: &Namespace) -> Result<[u8; 6]> {
    let shown = host.ip(&format!("-oneline link show dev {}", nic(LINK)))?;
    let address = word_after(&shown, "link/ether").context("the NIC has no MAC address")?;
    let bytes: Result<Vec<u8>, _> = address.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes?.try_into().ok().with_context(|| format!("the MAC address {address}"))
}

fn word_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_whitespace().skip_while(|word| *word != name).nth(1)
}

// The attacks in the common form: a row for each, and what is wanted of all.

const SHARE_MIN: f64 = 0.9;
/// Most MiB that the victim's daemon may grow by in one attack: what it makes room for is made at its start.
const GROWN_MIB_MAX: f64 = 2.0;

fn write(report: &mut Report, seen: &[(Attack, Figures)]) {
    report.field("attacks", seen.iter().map(fields).collect::<Vec<_>>());
    report.show(table(seen));
    report.show("  tried: cells, or nodes; dropped: by the victim, for any reason; taken: forged frames at the device,");
    report.show("  datagrams that came twice or changed, peers that came or went; answers: frames to the hostile node");
    report.show("  CPU: of the victim's daemon, in percent of one, without and with the attack; share: of TCP's speed");
    for (attack, figures) in seen {
        if let Some(lost) = &figures.lost {
            report.show(format!("  lost: {}: {lost}", attack.name()));
        }
        judge(report, *attack, figures);
    }
}

fn judge(report: &mut Report, attack: Attack, figures: &Figures) {
    let id = |figure: &str| format!("{}.{figure}", attack.name());
    report.verdict(Verdict::equals(&id("taken"), figures.taken(), 0));
    report.verdict(Verdict::equals(&id("links_lost"), figures.links_lost, 0));
    report.verdict(Verdict::equals(&id("connections_lost"), usize::from(figures.lost.is_some()), 0));
    report.verdict(Verdict::at_least(&id("share"), figures.share(), SHARE_MIN));
    report.verdict(Verdict::at_most(&id("grown_mib"), figures.grown_mib, GROWN_MIB_MAX));
    if attack.is_of_a_stranger() {
        report.verdict(Verdict::equals(&id("answers"), figures.answered, 0));
    }
}

fn fields((attack, figures): &(Attack, Figures)) -> Value {
    json!({ "attack": attack.name(), "taken": figures.taken(), "share": figures.share(), "figures": figures })
}

type Cell = fn(&Figures) -> String;

const COLUMNS: [(&str, Cell); 11] = [
    ("tried", |figures| figures.tried.to_string()),
    ("dropped", |figures| figures.dropped.to_string()),
    ("taken", |figures| figures.taken().to_string()),
    ("links lost", |figures| figures.links_lost.to_string()),
    ("answers", |figures| figures.answered.to_string()),
    ("CPU", |figures| format!("{:.0}", figures.calm_cpu * 100.0)),
    ("attacked", |figures| format!("{:.0}", figures.attacked_cpu * 100.0)),
    ("MiB", |figures| format!("{:+.1}", figures.grown_mib)),
    ("Mbit/s", |figures| format!("{:.1}", figures.calm_mbps)),
    ("attacked", |figures| format!("{:.1}", figures.attacked_mbps)),
    ("share", |figures| format!("{:.2}", figures.share())),
];

fn table(seen: &[(Attack, Figures)]) -> Table {
    let heads = COLUMNS.iter().map(|(head, _)| *head);
    let mut table = Table::new(["attack"].into_iter().chain(heads));
    for (attack, figures) in seen {
        let cells = COLUMNS.iter().map(|(_, cell)| cell(figures));
        table.row([attack.name()].into_iter().chain(cells).collect());
    }
    table
}
