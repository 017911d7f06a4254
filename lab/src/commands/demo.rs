//! The demonstration: one TCP connection over two links, and the death and return of a switch.
//!
//! 1. One link alone, then the bundle, interleaved, medians; at the end also by programs in the kernel.
//! 2. [`outage`]: a switch becomes a black hole while iperf3 and a checksummed transfer run, and comes back.
//! 3. What was found, against what is wanted.

mod outage;

use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::json;
use tabane_kit::bundle::{self, Bundle, Common};
use tabane_kit::clock::monotonic_ns;
use tabane_kit::counters::used_during;
use tabane_kit::prerequisites::{IPERF3, Tool};
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::{Report, Table, Verdict};
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

use crate::scenario::Figure;
use outage::Outage;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3];
/// Rate of each of the two links, in Mbit/s.
const MBIT: u64 = 1_000;

/// One TCP connection over two links, which survives the death of a switch
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rate of each of the two links, in Mbit/s
    #[arg(long, default_value_t = MBIT, value_parser = RangedU64ValueParser::<u64>::new().range(10..=10_000))]
    mbit: u64,
    /// Pairs of measurements of one link and of both
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
}

/// Runs the demonstration.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let mut report = Report::new("demo", common.seed);
    let link = Bitrate::mbit(options.mbit);
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(link); 2]))?;
    println!(
        "\n  Two hosts, two switches, a bundle `{}` over both:\n\n{}",
        bundle::DEVICE,
        topology.drawing()
    );
    let since_ns = monotonic_ns()?;
    let bundles = {
        let _step = progress::step("starting a bundle on each host");
        Bundle::start_all(&topology, &bundle::Options::new(&daemon))?
    };
    measure(&topology, options.rounds, &mut report)?;
    let outage = outage::run(&topology, &bundles, link, since_ns, common.seed)?;
    Bundle::stop_all(bundles)?;
    let no_programs = measure_kernel_path(&topology, &daemon, options.rounds, &mut report)?;
    write(&mut report, &outage, no_programs.as_deref());
    report.finish(common.json.as_deref())
}

/// Length of a measurement.
const SECONDS: u32 = 4;

/// Measures `single`, one link alone, and `bundle`, both, in turn, `rounds` times, from the first host to the second.
fn measure(topology: &Topology, rounds: usize, report: &mut Report) -> Result<()> {
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    for round in 1..=rounds {
        let bare = IpAddr::V4(address(0, 1));
        measure_flow(topology, &format!("one link alone, {round} of {rounds}"), bare, "single", report)?;
        let what = format!("the bundle, {round} of {rounds}");
        measure_flow(topology, &what, bundle::address(1), "bundle", report)?;
    }
    Ok(())
}

/// Measures `kernel`: bundles whose frames are carried by programs in the kernel, or says why this machine has none.
fn measure_kernel_path(
    topology: &Topology,
    daemon: &Path,
    rounds: usize,
    report: &mut Report,
) -> Result<Option<String>> {
    let mut bundles = {
        let _step = progress::step("starting bundles whose frames are carried by programs in the kernel");
        Bundle::start_all(topology, &bundle::Options::by_programs(daemon, "auto"))?
    };
    let why_not = bundles[0].status()?.cells_because;
    if why_not.is_none() {
        Bundle::wait_for_programs(&mut bundles)?;
        let _server = Server::start(topology.host(1), Stream::Tcp)?;
        for round in 1..=rounds {
            let what = format!("the kernel path, {round} of {rounds}");
            measure_flow(topology, &what, bundle::address(1), "kernel", report)?;
        }
    }
    Bundle::stop_all(bundles)?;
    Ok(why_not)
}

/// Measures one connection to `server` over `path`: payload that arrived, TCP segments sent again, and CPU time of the whole machine.
fn measure_flow(
    topology: &Topology,
    what: &str,
    server: IpAddr,
    path: &str,
    report: &mut Report,
) -> Result<()> {
    let step = progress::step(what);
    let (outcome, used) = used_during(&[], || Flow::tcp(server, SECONDS).run(topology.host(0)))?;
    drop(step);
    println!("  {what:<26} {:5.2} Gbit/s, {} retransmits", outcome.gbps, outcome.retransmits);
    report.push(format!("{path}_gbps"), "Gbit/s", outcome.gbps);
    report.push(format!("retransmits_{path}"), "segments", outcome.retransmits as f64);
    report.push(format!("{path}_cpu_s_per_gb"), "s/GB", used.machine_seconds * 1e9 / outcome.bytes as f64);
    Ok(())
}

/// Least speed-up of two links over one.
const RATIO_MIN: f64 = 1.90;
/// Longest time until a black hole is noticed, in milliseconds: that of a bundle in quiet.
const DETECTED_MS_MAX: f64 = 50.0;
/// Longest time until the link is in use again, in milliseconds.
const RECOVERED_MS_MAX: f64 = 1_000.0;
/// Longest time in which an application may get nothing, in milliseconds.
const STALL_MS_MAX: f64 = 100.0;
/// Sound links taken for dead: none is wanted, and docs/limits.md says why there are some.
const FALSE_ALARMS_MAX: f64 = 6.0;
/// Retransmits that the bundle may have above those of one link.
const RETRANSMITS_ABOVE_MAX: f64 = 10.0;

/// Judges and shows everything; `no_programs`: why this machine has no kernel path.
fn write(report: &mut Report, outage: &Outage, no_programs: Option<&str>) {
    let ratio = report.ratio("bundle_gbps", "single_gbps");
    let [single, bundle] = ["retransmits_single", "retransmits_bundle"].map(|key| report.median(key));
    let stall_ms = outage.transfer.gaps.longest().length.as_secs_f64() * 1e3;
    let lost = connections_lost(outage);
    let told = |figure| outage.told(figure).unwrap_or(f64::NAN);
    let (detected_ms, recovered_ms) = (told(Figure::NoticedMs), told(Figure::RecoveredMs));

    report.field("ratio", ratio);
    report.field("outage", outage_fields(outage, stall_ms, lost.len()));
    report.field("recovered_ms", recovered_ms);
    report.field("whole", outage.transfer.is_whole);

    report.verdict(Verdict::at_least("ratio", ratio, RATIO_MIN));
    report.verdict(Verdict::at_most("retransmits_bundle", bundle, single + RETRANSMITS_ABOVE_MAX));
    report.verdict(Verdict::at_most("outage.detected_ms", detected_ms, DETECTED_MS_MAX));
    report.verdict(Verdict::at_most("outage.longest_stall_ms", stall_ms, STALL_MS_MAX));
    report.verdict(Verdict::equals("outage.connections_lost", lost.len(), 0));
    report.verdict(Verdict::at_most("outage.false_alarms", told(Figure::FalseAlarms), FALSE_ALARMS_MAX));
    report.verdict(Verdict::at_most("recovered_ms", recovered_ms, RECOVERED_MS_MAX));
    report.verdict(Verdict::equals("whole", outage.transfer.is_whole, true));

    report.show(speed_table(report, ratio));
    report.show(kernel_words(no_programs));
    report.show(outage_table(outage, stall_ms));
    for loss in lost {
        report.show(format!("  lost: {loss}"));
    }
}

/// What the kernel path is and costs, or why this machine has none.
fn kernel_words(no_programs: Option<&str>) -> String {
    match no_programs {
        None => "  kernel path: programs in the kernel carry frames whole, not sealed, and each connection over one link".to_owned(),
        Some(why) => format!("  no kernel path here: {why}"),
    }
}

fn connections_lost(outage: &Outage) -> Vec<String> {
    let flow = outage.flow.as_ref().err().map(|why| format!("iperf3 connection: {why}"));
    let transfer = outage.transfer.lost.as_ref().map(|why| format!("checksummed transfer: {why}"));
    flow.into_iter().chain(transfer).collect()
}

fn outage_fields(outage: &Outage, stall_ms: f64, lost: usize) -> serde_json::Value {
    json!({
        "detected_ms": outage.told(Figure::NoticedMs),
        "detected_by": outage.reason,
        "longest_stall_ms": stall_ms,
        "stall_after_kill_ms": outage.stall_after_kill_ms,
        "connections_lost": lost,
        "false_alarms": outage.told(Figure::FalseAlarms),
        "gbps_while_dead": outage.gbps_while_dead,
        "retransmits": outage.flow.as_ref().ok().map(|flow| flow.retransmits),
        "transfer_bytes": outage.transfer.bytes,
        "transfer_copies": outage.transfer.copies,
    })
}

fn speed_table(report: &Report, ratio: f64) -> Table {
    let head = ["one TCP connection (CUBIC)", "Gbit/s", "lowest", "highest", "retransmits", "CPU, s/GB"];
    let mut table = Table::new(&head);
    for (path, label) in [
        ("single", "one link alone"),
        ("bundle", "the bundle of two"),
        ("kernel", "the same by the kernel path"),
    ] {
        let speed = report.measured(&format!("{path}_gbps"));
        if speed.values().is_empty() {
            continue;
        }
        let mut row = vec![label.to_owned()];
        row.extend([speed.median(), speed.min(), speed.max()].map(|gbps| format!("{gbps:.3}")));
        row.push(report.median(&format!("retransmits_{path}")).to_string());
        row.push(format!("{:.2}", report.median(&format!("{path}_cpu_s_per_gb"))));
        table.row(row);
    }
    table.row(vec!["ratio of the bundle to one link".into(), format!("{ratio:.3}")]);
    table
}

fn outage_table(outage: &Outage, stall_ms: f64) -> Table {
    let milliseconds =
        |value: Option<f64>| value.map_or("never".to_string(), |value| format!("{value:.1} ms"));
    let transfer = &outage.transfer;
    let mut table = Table::new(&["switch s2 as a black hole", ""]);
    table.row(vec!["noticed after".into(), milliseconds(outage.told(Figure::NoticedMs))]);
    table.row(vec!["longest stall of the transfer".into(), milliseconds(Some(stall_ms))]);
    table.row(vec!["throughput meanwhile".into(), format!("{:.2} Gbit/s", outage.gbps_while_dead)]);
    table.row(vec!["in use again after revival".into(), milliseconds(outage.told(Figure::RecoveredMs))]);
    table.row(vec![
        "false alarms, whole run".into(),
        outage.told(Figure::FalseAlarms).unwrap_or(0.0).to_string(),
    ]);
    let content = if transfer.is_whole { "equal" } else { "DIFFERENT" };
    let sent = format!("{} x, {:.2} GB", transfer.copies, transfer.bytes as f64 / 1e9);
    table.row(vec!["file sent through it all".into(), sent]);
    table.row(vec!["content at both ends".into(), content.into()]);
    table
}
