//! Faults planted one by one, and what `tabane doctor` and `tabane why` say of each: the one thing that is wrong, and nothing
//! else. docs/doctor.md has the table of them; each row is compared with what was said, figures left out. With
//! TABANE_WRITE_DOCTOR_PAGE in the environment, the rows are written.

mod bundle;
mod healthy;
mod limits;
mod nics;
mod strangers;
mod wires;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle::{DEVICE, program};
use tabane_kit::netns::Namespace;
use tabane_kit::process::Process;

use crate::Case;

/// How long a command may take on a busy machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// With this in the environment, trials write what was said into the page's table, and do not compare.
const WRITE: &str = "TABANE_WRITE_DOCTOR_PAGE";
/// Exit code of a doctor who has found something.
const FOUND: i32 = 3;

/// All faults, in the order of the page's table: the command that is asked, the fault, and what names it.
const FAULTS: [(&str, &str, &str); 35] = [
    ("doctor", "a NIC with IPv6 switched off", "ipv6-disabled"),
    ("doctor", "a NIC whose address is still being checked (DAD)", "dad-running"),
    ("doctor", "a NIC that belongs to a bridge", "nic-in-bridge"),
    ("doctor", "two MACVLANs over one NIC", "same-nic"),
    ("doctor", "a NIC at 100 Mbit/s, half duplex", "half-duplex"),
    ("doctor", "GRO off at a NIC", "nic-gro-off"),
    ("doctor", "a bundle without GRO", "gro-off"),
    ("doctor", "a NIC that is down", "nic-down"),
    ("doctor", "a cable that is pulled", "no-carrier"),
    ("doctor", "a switch that swallows everything", "path-dead"),
    ("doctor", "UDP port closed by nftables here", "firewall"),
    ("doctor", "UDP port closed by nftables at the peer, which drops", "one-way-out"),
    ("doctor", "UDP port closed by nftables at the peer, which rejects", "port-refused"),
    ("doctor", "unequal MTUs of the NICs", "unequal-mtu"),
    ("doctor", "a small MTU of the peer's NIC", "peer-mtu"),
    ("doctor", "both links on one switch", "one-switch"),
    ("doctor", "a tiny receive buffer of a link", "receive-buffer"),
    ("doctor", "a tiny receive buffer of TCP", "tcp-buffer"),
    ("doctor", "a queueing discipline on the device", "device-qdisc"),
    ("doctor", "another key at the other node", "stranger"),
    ("doctor", "the other node does not seal", "stranger"),
    ("doctor", "this node does not seal, the other does", "stranger"),
    ("doctor", "another port at the other node", "other-port"),
    ("doctor", "a router between that carries 1400 bytes", "path-mtu"),
    ("doctor", "a strict reverse path filter, and the route over the other NIC", "rp-filter"),
    ("doctor", "a cable that loses a part of the frames", "loss"),
    ("why", "a switch that swallows everything", "dead-link"),
    ("why", "a cable that loses a tenth of the frames", "link-loss"),
    ("why", "a link of a tenth of the other's rate", "link-rate"),
    ("why", "a policy that gives one flow one link", "bound-flow"),
    ("why", "a program that sends 5 Mbit/s and no more", "application"),
    ("why", "a tiny receive buffer of TCP at the peer", "receive-window"),
    ("why", "a tiny send buffer of TCP here", "send-buffer"),
    ("why", "other programs on the processor of this node's daemon", "sender-processor"),
    ("why", "other programs on the processor of the peer's daemon", "receiver-processor"),
];

pub(crate) fn cases() -> Vec<Case> {
    let page = Case::new("doctor_page_lists_the_planted_faults", crate::Need::Nothing, page_lists_all);
    let groups = [
        nics::cases(),
        bundle::cases(),
        strangers::cases(),
        wires::cases(),
        limits::cases(),
        healthy::cases(),
    ];
    std::iter::once(page).chain(groups.into_iter().flatten()).collect()
}

/// What a command said.
#[derive(Debug)]
struct Said {
    /// Names of the findings, or of the limit.
    names: BTreeSet<String>,
    /// The first of them in a sentence.
    sentence: String,
    /// All of the answer, for people who look why a trial failed.
    answer: Value,
}

/// Asks the doctor on `host`.
fn doctor(host: &Namespace, arguments: &[&str]) -> Result<Said> {
    let answer = ask(host, &[&["doctor", "--json"], arguments].concat())?;
    let areas = answer["areas"].as_array().context("no areas")?;
    let findings: Vec<&Value> =
        areas.iter().filter_map(|area| area["findings"].as_array()).flatten().collect();
    let name = |finding: &&Value| finding["check"].as_str().unwrap_or_default().to_owned();
    let sentence = findings.first().map(|finding| {
        let about = finding["about"].as_str().map(|about| format!("{about}: ")).unwrap_or_default();
        format!("{about}{}", finding["what"].as_str().unwrap_or_default())
    });
    let (names, sentence) = (findings.iter().map(name).collect(), sentence.unwrap_or_default());
    Ok(Said { names, sentence, answer })
}

/// Asks on `host` what limits the bundle there.
fn why(host: &Namespace) -> Result<Said> {
    let answer = ask(host, &["why", DEVICE, "--json"])?;
    let word = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    Ok(Said { names: [word("limit")].into(), sentence: word("sentence"), answer })
}

fn ask(host: &Namespace, arguments: &[&str]) -> Result<Value> {
    let mut command = host.command(program(None)?);
    command.args(arguments);
    let ending = Process::start(command)?.wait(ANSWER_WITHIN)?;
    let code = ending.status.code();
    ensure!(
        code == Some(0) || code == Some(FOUND),
        "tabane {arguments:?} ends with {code:?}: {}",
        ending.last_words()
    );
    let answer: Value = serde_json::from_str(&ending.output).with_context(|| ending.output.clone())?;
    let is_sound = answer.get("sound").and_then(Value::as_bool).unwrap_or(true);
    ensure!(is_sound == (code == Some(0)), "exit code {code:?} of {answer:#}");
    Ok(answer)
}

/// Checks that the fault was named, that nothing else was, and that the page says so, too.
fn named(fault: &str, command: &str, said: &Said) -> Result<()> {
    let known = FAULTS.iter().find(|(of, planted, _)| *of == command && *planted == fault);
    let (_, _, name) =
        known.with_context(|| format!("{fault} is not among the faults of `tabane {command}`"))?;
    let row = row(command, fault, name, &said.sentence);
    println!("{row}");
    ensure!(said.names.len() == 1 && said.names.contains(*name), "{fault}: {:#}", said.answer);
    if env::var_os(WRITE).is_some() {
        return write(command, fault, &row);
    }
    let page = page()?;
    let told = page.lines().find(|line| line.starts_with(&head(command, fault)));
    let told = told.with_context(|| format!("docs/doctor.md has no row for this fault: {row}"))?;
    ensure!(masked(told) == masked(&row), "docs/doctor.md says {told}\nand the command: {row}");
    Ok(())
}

/// Puts a row into the page's table in the place of the one for the same fault.
fn write(command: &str, fault: &str, row: &str) -> Result<()> {
    let head = head(command, fault);
    let line = |line: &str| if line.starts_with(&head) { row.to_owned() } else { line.to_owned() } + "\n";
    Ok(fs::write(path(), page()?.lines().map(line).collect::<String>())?)
}

fn head(command: &str, fault: &str) -> String {
    format!("| {fault} | `{command}` |")
}

fn row(command: &str, fault: &str, name: &str, sentence: &str) -> String {
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{} `{name}` | {} |", head(command, fault), sentence.replace(&own, "hostb"))
}

/// A row without its figures and their units.
fn masked(row: &str) -> String {
    let mut words = Vec::new();
    for word in row.split_whitespace() {
        let is_unit = ["B", "kB", "kbit/s", "Mbit/s", "Gbit/s"]
            .iter()
            .any(|unit| word.trim_end_matches([')', '.', ',', ';', ':']) == *unit);
        let kept: String = word.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect();
        if !is_unit {
            words.push(kept);
        }
    }
    words.join(" ")
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/doctor.md")
}

fn page() -> Result<String> {
    fs::read_to_string(path()).context("docs/doctor.md")
}

/// The table has a row for each fault, in this order, and no other.
fn page_lists_all() -> Result<()> {
    let page = page()?;
    let table = page.split("| Fault | Command |").nth(1).context("no table of faults in docs/doctor.md")?;
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    ensure!(rows.len() == FAULTS.len(), "{} rows for {} faults", rows.len(), FAULTS.len());
    for (row, (command, fault, name)) in rows.iter().zip(FAULTS) {
        let wanted = format!("{} `{name}` |", head(command, fault));
        ensure!(row.starts_with(&wanted), "docs/doctor.md says {row}; wanted: {wanted} …");
    }
    Ok(())
}
