//! What each guest does. The first one asks for a path, fills it, and asks what came; the other makes its end of each path,
//! and counts.
//!
//! Lines to and fro over the control link: a [`Trial`]; that the path is there; when datagrams were sent; what became of them
//! ([`Paced`]); that the connection is over.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::path::Ending;
use super::{LIMIT, LINKS, Measured, Options, PACE, Paced, Trial, mac};
use tabane_kit::clock::wait_for;
use tabane_kit::counters::received_bytes;
use tabane_kit::netns::Namespace;
use tabane_kit::progress;
use tabane_kit::tool;
use tabane_kit::topology::nic;
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::sequence::{self, Receiving};

/// The control link's NIC, and the port on which is answered there.
const CONTROL: &str = "control";
const PORT: u16 = 7432;
/// How long a driver may take to find its NICs.
const NIC_WITHIN: Duration = Duration::from_secs(30);
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// What the guest `side` has to do.
pub(super) fn work(options: &Options, side: usize) -> Result<()> {
    let host = Namespace::create("h1")?;
    for number in 0..=LINKS {
        let name = if number == 0 { CONTROL.to_string() } else { nic(number - 1) };
        take(&host, number, &mac(number, side), &name)?;
    }
    host.ip(&format!("address add {}/24 dev {CONTROL}", control(side).ip()))?;
    let daemon = options.common.daemon()?;
    if side == 1 {
        return answer(options, &host, &daemon);
    }
    let trials = options.trials();
    let measured: Vec<Measured> =
        trials.map(|trial| ask(&host, trial, options.seconds, &daemon)).collect::<Result<_>>()?;
    options.guest.hand_over(&measured)
}

/// Moves the NIC of this address to `host` under `name`, up.
fn take(host: &Namespace, number: usize, mac: &str, name: &str) -> Result<()> {
    let passing = format!("cable{number}");
    // Meanwhile somebody else may give it a name.
    wait_for(&format!("a NIC with the address {mac}"), NIC_WITHIN, || {
        let Some(nic) = nic_of(mac)? else { return Ok(None) };
        let named = format!("link set {nic} down name {passing}");
        Ok(tool::run(&mut tool::words("ip", &named)).ok())
    })?;
    tool::run(&mut tool::words("ip", &format!("link set {passing} netns {}", host.name())))?;
    host.ip(&format!("link set {passing} name {name} up")).map(drop)
}

/// The NIC of this address that the guest itself has.
fn nic_of(mac: &str) -> Result<Option<String>> {
    let nics = fs::read_dir("/sys/class/net").context("/sys/class/net")?.flatten();
    let has_it = |path: &Path| fs::read_to_string(path.join("address")).is_ok_and(|has| has.trim() == mac);
    let nic = nics.map(|entry| entry.path()).find(|path| has_it(path));
    Ok(nic.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())))
}

/// Has one flow measured.
fn ask(host: &Namespace, trial: Trial, seconds: u32, daemon: &Path) -> Result<Measured> {
    let _step = progress::step(&format!("{}, interrupts after {} us", trial.way.label(), trial.wait_us));
    let stream = wait_for("the other guest", LIMIT, || {
        Ok(host.enter(|| TcpStream::connect_timeout(&control(1), Duration::from_secs(2)))?.ok())
    })?;
    let mut talk = Talk::over(stream)?;
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

/// Answers as often as it will be asked.
fn answer(options: &Options, host: &Namespace, daemon: &Path) -> Result<()> {
    let listener = host.enter(|| TcpListener::bind(control(1)))??;
    for _ in options.trials() {
        let (stream, _) = listener.accept()?;
        let mut talk = Talk::over(stream)?;
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

/// Has the NICs of the links wait for so long before they interrupt.
fn moderate(host: &Namespace, wait_us: u32) -> Result<()> {
    (0..LINKS).try_for_each(|link| {
        let mut ethtool = host.command("ethtool");
        tool::run(ethtool.args(["-C", &nic(link), "rx-usecs", &wait_us.to_string()])).map(drop)
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

/// The guest `side` on the control link.
fn control(side: usize) -> SocketAddr {
    let host = if side == 0 { 1 } else { 2 };
    SocketAddr::from((Ipv4Addr::new(10, 3, 0, host), PORT))
}

/// Lines of JSON over a connection.
struct Talk {
    lines: BufReader<TcpStream>,
}

impl Talk {
    fn over(stream: TcpStream) -> Result<Talk> {
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(Talk { lines: BufReader::new(stream) })
    }

    fn say(&mut self, value: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(value)? + "\n";
        self.lines.get_mut().write_all(line.as_bytes()).context("speaking to the other guest")
    }

    fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.lines.read_line(&mut line).context("hearing the other guest")?;
        ensure!(!line.is_empty(), "the other guest has hung up");
        Ok(serde_json::from_str(&line)?)
    }
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
