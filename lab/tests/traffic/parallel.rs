//! Programs over MPI: each rank sits on a host of its own, though no host has a server to let it in. `tabane-probe pairs` is one
//! of them: it measures a cluster whose hosts are joined by bundles.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address, nic};
use tabane_kit::workload::mpi::Mpi;

use crate::traffic::stage::{FAST, options, plan};
use crate::traffic::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("mpi_ranks_sit_on_their_hosts", Need::Mpirun, ranks),
        Case::new("all_pairs_of_a_cluster_are_measured_under_mpirun", Need::DaemonAndMpirun, pairs),
    ]
}

/// The host whose NICs send at a tenth of the others' rate.
const SLOW: usize = 2;
const HOSTS: usize = 3;

/// Bundles of two links join three hosts, one of which sends slowly: its directions stand out, and the heat map has all.
fn pairs() -> Result<()> {
    let topology = Topology::build(Plan { hosts: HOSTS, ..plan(&[FAST; 2]) })?;
    for link in 0..2 {
        let rate = "root tbf rate 20mbit burst 32kb limit 256kb";
        topology.host(SLOW).tc(&format!("qdisc replace dev {} {rate}", nic(link)))?;
    }
    let options = options()?;
    let bundles = Bundle::start_all(&topology, &options)?;
    let mpi = Mpi::over(&topology, bundle::address(0))?;
    let program = options.program.with_file_name("tabane-probe");
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pairs.svg");
    let hosts: Vec<String> = (0..HOSTS).map(|host| bundle::address(host).to_string()).collect();
    let csv = picture.with_extension("csv");
    let files =
        ["--csv", &csv.display().to_string(), "--svg", &picture.display().to_string()].map(str::to_owned);
    let flags = "--names h1,h2,h3 --rounds 50 --seconds 0.5 --port 7600 --json".split(' ').map(str::to_owned);
    let flags: Vec<String> = flags.chain(files).collect();
    let arguments: Vec<&str> =
        ["pairs"].into_iter().chain(hosts.iter().chain(&flags).map(String::as_str)).collect();
    let output = mpi.run(&program, &arguments, Duration::from_secs(120))?.success("mpirun")?;
    let report: Value = serde_json::from_str(&output).context(output)?;
    let rows = report["rows"].as_array().context("no rows")?;
    ensure!(rows.len() == HOSTS * (HOSTS - 1) && rows.iter().all(|row| row["failed"].is_null()), "{report}");
    let mbit = |slow: bool| {
        rows.iter().filter(move |row| (row["from"] == "h3") == slow).filter_map(|row| row["mbit"].as_f64())
    };
    let (slowest, fastest) = (mbit(false).fold(f64::INFINITY, f64::min), mbit(true).fold(0.0, f64::max));
    ensure!(fastest > 0.0 && fastest < 0.5 * slowest, "h3 sends {fastest} Mbit/s, others at least {slowest}");
    let lines = fs::read_to_string(csv)?.lines().filter(|line| line.starts_with("h3,")).count();
    ensure!(lines == HOSTS - 1, "{lines} lines of h3");
    let picture = fs::read_to_string(picture)?;
    ensure!(picture.matches("<title>").count() == 2 * rows.len(), "{picture}");
    Bundle::stop_all(bundles)
}

fn ranks() -> Result<()> {
    let links = vec![LinkPlan::shaped(Bitrate::gbit(1))];
    let topology = Topology::build(Plan { hosts: 3, ..Plan::two_hosts(links) })?;
    let mpi = Mpi::over(&topology, address(0, 0).into())?;
    fs::write(mpi.directory().join("where"), "ip -oneline -4 address show dev eth1")?;
    let output = mpi.run(Path::new("sh"), &["where"], Duration::from_secs(30))?.success("mpirun")?;
    ensure!(output.lines().count() == 3, "{output}");
    for host in 0..3 {
        ensure!(output.contains(&format!(" {}/24 ", address(0, host))), "no rank on host {host}: {output}");
    }
    Ok(())
}
