//! `tabane probe` between hosts: which NIC carries which sender, what the links' rates allow, where round trips spend their time,
//! and the same over a bundle; and all pairs of a cluster under MPI, whose ranks sit on a host each without a server that lets
//! them in.

use tabane_kit::prerequisites::MPIRUN;
use tabane_kit::topology::address;
use tabane_kit::workload::mpi::Mpi;

use crate::traffic::stage::*;

const SLOW: Duration = Duration::from_millis(10);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("probe_tells_which_nic_carries_which_sender", DAEMON, seats),
        Case::new("probe_measures_over_a_bundle", DAEMON, over_a_bundle),
        Case::new("probe_says_that_a_slow_wire_is_the_place", DAEMON, stages),
        // Exercises: probe pairs --names --rounds --seconds --port --json --csv --svg
        Case::new("all_pairs_of_a_cluster_are_measured_under_mpirun", [Daemon, Tool(MPIRUN)], pairs),
    ]
}

fn seats() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST); 2]))?;
    let probe = probe(&topology, address(0, 1).into())?;
    let servers = [address(1, 1).to_string(), address(0, 1).to_string()];
    let flags = ["--senders", "2", "--seconds", "3", "--nic", "eth1", "--nic", "eth2"];
    let report = probe.measure(&["stream", &servers[0], &servers[1]], &flags)?;
    for (sender, expected) in [(0, [0.0, 1.0]), (1, [1.0, 0.0])] {
        let intervals = report["senders"][sender]["nics"].as_array().context("intervals")?;
        let shares: Vec<Vec<f64>> = intervals.iter().map(numbers).collect();
        let seen = shares.iter().filter(|shares| !shares.is_empty()).count();
        ensure!(seen >= 1 && shares.len() == 3, "seen in {seen} of {} seconds", shares.len());
        ensure!(shares.iter().all(|shares| shares.is_empty() || *shares == expected), "{sender}: {shares:?}");
    }
    for sender in [0, 1] {
        let mbit = report["senders"][sender]["received_mbit"].as_f64().context("a rate")?;
        ensure!(mbit > 0.0 && mbit < 205.0, "{mbit:.0} Mbit/s over a link of {FAST}");
    }
    probe.stop()
}

fn over_a_bundle() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, _| {
        let there = bundle::address(1);
        let probe = probe(topology, there)?;
        let there = there.to_string();
        let report =
            probe.measure(&["stream", &there], &["--seconds", "4", "--nic", "eth1", "--nic", "eth2"])?;
        let sent: Vec<f64> = [0, 1].map(|nic| numbers(&report["nics"][nic]["mbit"]).iter().sum()).to_vec();
        let both: f64 = sent.iter().sum();
        ensure!(
            both > 0.0 && sent.iter().all(|one| *one > 0.3 * both),
            "a device of two links used them {sent:?}"
        );
        let received = report["senders"][0]["received"]["bytes"].as_f64().context("a count")?;
        ensure!(received > 0.0, "nothing arrived");
        let report = probe.measure(&["rtt", &there], &[])?;
        ensure!(report["sizes"][1]["rtt_us"]["count"] == 200, "{report}");
        // A TAP device stamps as other devices do.
        let report = probe.measure(&["rtt", &there], &["--stages"])?;
        ensure!(report["sizes"][1]["stages"]["rounds"] == 200, "{report}");
        probe.stop()
    })
}

/// Round trips over a wire that is slow each way: `network` has that time, whatever else took some.
fn stages() -> Result<()> {
    let wired = Plan { wiring: Wiring::Emulator, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
    let topology = Topology::build(wired)?;
    topology.impair_both(0, Impairment::delay(SLOW))?;
    let there = address(0, 1);
    let probe = probe(&topology, there.into())?;
    let flags = ["--stages", "--rounds", "60", "--window", "all"];
    let report = probe.measure(&["rtt", &there.to_string()], &flags)?;
    for size in report["sizes"].as_array().context("sizes")? {
        let stages = &size["stages"];
        ensure!(stages["rounds"] == size["rtt_us"]["count"], "stamps are missing: {stages}");
        let median = |stage: &Value| stage["median_us"].as_f64().unwrap_or(f64::INFINITY);
        for stage in stages["stages"].as_array().context("stages")? {
            let is_network = stage["stage"] == "network";
            ensure!(is_network == (median(stage) >= 2.0 * SLOW.as_secs_f64() * 1e6), "{stages}");
        }
    }
    probe.stop()
}

fn probe(topology: &Topology, address: IpAddr) -> Result<Probe<'_>> {
    Probe::start(&bundle::program(None)?, topology.host(0), topology.host(1), address)
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().map_or(Vec::new(), |list| list.iter().filter_map(Value::as_f64).collect())
}

const SLOW_HOST: usize = 2;
const HOSTS: usize = 3;

/// Bundles of two links join three hosts, one of which sends slowly: its directions stand out, and the heat map has all.
fn pairs() -> Result<()> {
    let topology = Topology::build(Plan { hosts: HOSTS, ..plan(&[FAST; 2]) })?;
    for link in 0..2 {
        let rate = "root tbf rate 20mbit burst 32kb limit 256kb";
        topology.host(SLOW_HOST).tc(&format!("qdisc replace dev {} {rate}", nic(link)))?;
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
