//! What each guest does. The first one asks for a path, fills it, and asks what came; the other makes its end of each path,
//! and counts.
//!
//! Lines to and fro over the control link: a [`Trial`]; that the path is there; when datagrams were sent; what became of them
//! ([`Paced`]); that the connection is over.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Measured, Options, PACE, Paced, Trial, WAYS, trials};
use crate::commands::pair::{Ending, LINKS};
use tabane_kit::counters::received_bytes;
use tabane_kit::guest::pair::{self, ANSWER_WITHIN, Answers, Talk};
use tabane_kit::netns::Namespace;
use tabane_kit::process;
use tabane_kit::progress;
use tabane_kit::topology::nic;
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::sequence::{self, Receiving};

/// Where datagrams are taken.
const PORT: u16 = 7433;

/// What the guest `side` has to do.
pub(super) fn work(options: &Options, side: usize) -> Result<()> {
    let host = pair::host(side, LINKS)?;
    let daemon = options.common.daemon()?;
    if side == 1 {
        return answer(options, &host, &daemon);
    }
    let measured: Vec<Measured> =
        trials(options).map(|trial| ask(&host, trial, options.seconds, &daemon)).collect::<Result<_>>()?;
    options.guest.hand_over(&measured)
}

/// Has one flow measured.
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

/// Answers as often as it will be asked.
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

/// Has the NICs of the links wait for so long before they interrupt.
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
