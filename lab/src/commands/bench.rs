//! What bundling costs: every path side by side in one run, links as fast as the machine, rounds interleaved.
//!
//! Paths are built anew for every sample; figures are measured one after the other on a path. The receive
//! engines have rows of their own ([`crate::commands::engines`]). Nothing is pinned: client, server, daemons and kernel
//! share the machine's CPUs as they come.

use std::net::Ipv4Addr;

use Bound::{Least, Most};
use tabane_kit::prerequisites::MPTCPIZE;
use tabane_kit::report::Bound;
use tabane_kit::workload::datagrams;

use crate::commands::engines;
use crate::prelude::*;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3, MPTCPIZE];

/// Throughput, CPU, round trips and small datagrams: bare veth, bundles and MPTCP side by side
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Seconds per throughput measurement
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=600))]
    seconds: u32,
    /// Samples per path
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    rounds: u32,
    /// One round of one second: does it work, not how fast
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
}

/// Runs the comparison.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let (seconds, rounds) = if options.quick { (1, 1) } else { (options.seconds, options.rounds) };
    let daemon = common.daemon()?;
    let mut report = Report::new("bench", common.seed);
    for round in 1..=rounds {
        for path in PATHS.iter().chain(&MEMORY_PATHS) {
            let _step = progress::step(&format!("round {round} of {rounds}: {}", path.label));
            take(path, &daemon, seconds, &mut report)?;
        }
        let _step = progress::step(&format!("round {round} of {rounds}: receive engines"));
        let topology = PATHS[BUNDLE_1].lay()?;
        let bundles = PATHS[BUNDLE_1].start(&topology, &daemon)?;
        engines::take_waiting(&topology, &bundles, &mut report)?;
    }
    report.cover_part(options.quick);
    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("pinning", "none");
    write(&mut report);
    report
        .show(format!("  medians of {rounds} rounds, flows of {seconds} s, links unshaped, nothing pinned"));
    report.finish(common.json.as_deref())
}

/// Time that a flow gets to reach its speed before round trips beside it are measured.
const SETTLE: Duration = Duration::from_millis(300);
const SMALL_BYTES: usize = 64;

fn take(path: &Path, daemon: &std::path::Path, seconds: u32, report: &mut Report) -> Result<()> {
    let topology = path.lay()?;
    let bundles = path.start(&topology, daemon)?;
    let mut bench = Bench { path, topology: &topology, seconds, report };
    if path.carrier == Carrier::UnixPair {
        return bench.at_home();
    }
    bench.throughput(&bundles)?;
    bench.round_trips()?;
    if path.carrier == Carrier::Mptcp {
        return bonding::check_subflows(&topology).context(path.label);
    }
    bench.datagrams()
}

struct Bench<'a> {
    path: &'a Path,
    topology: &'a Topology,
    seconds: u32,
    report: &'a mut Report,
}

impl Bench<'_> {
    fn throughput(&mut self, bundles: &[Bundle<'_>]) -> Result<()> {
        let (client, server) = self.path.hosts(self.topology);
        let _server = Server::start(server, self.path.stream())?;
        let pids = Bundle::pids(bundles);
        let resent = counters::protocol(client, "Tcp", "RetransSegs")?;
        let (outcome, used) = used_during(&pids, || self.flow(self.seconds).run(client))?;
        let gigabytes = outcome.bytes as f64 / 1e9;
        let resent = counters::protocol(client, "Tcp", "RetransSegs")? - resent;
        self.push("gbps", outcome.gbps);
        self.push("retransmits", resent as f64);
        self.push("cpu_s_per_gb", used.machine_seconds / gigabytes);
        if !pids.is_empty() {
            self.push("daemon_cpu_s_per_gb", used.processes_seconds / gigabytes);
        }
        let four = Flow { connections: 4, ..self.flow(self.seconds) }.run(client)?;
        self.push("four_gbps", four.gbps);
        Ok(())
    }

    fn round_trips(&mut self) -> Result<()> {
        let idle = self.ping_pong(Duration::from_secs(1))?;
        self.push("rtt_idle_p50_us", idle.p50_us);
        self.push("rtt_idle_p99_us", idle.p99_us);

        let _server = Server::start(self.path.hosts(self.topology).1, self.path.stream())?;
        let seconds = self.seconds.min(2);
        let load = self.flow(seconds).start(self.topology.host(0))?;
        thread::sleep(SETTLE);
        let loaded = self.ping_pong(Duration::from_secs(seconds.into()) - 2 * SETTLE)?;
        load.finish()?;
        self.push("rtt_loaded_p50_us", loaded.p50_us);
        self.push("rtt_loaded_p99_us", loaded.p99_us);
        Ok(())
    }

    fn datagrams(&mut self) -> Result<()> {
        let (client, server) = self.path.hosts(self.topology);
        let outcome = datagrams::blast(client, server, self.any_port(), SMALL_BYTES, Duration::from_secs(1))?;
        self.push("udp64_sent_per_s", outcome.sent_per_second);
        self.push("udp64_received_per_s", outcome.received_per_second);
        self.push("udp64_lost_percent", outcome.lost * 100.0);
        Ok(())
    }

    /// Between two threads of this process; there is no kernel's stack to count anything.
    fn at_home(&mut self) -> Result<()> {
        let duration = Duration::from_secs(self.seconds.into());
        let (bytes, used) = used_during(&[], || Ok(ping_pong::stream_at_home(duration)? as f64))?;
        self.push("gbps", bytes * 8.0 / 1e9 / duration.as_secs_f64());
        self.push("cpu_s_per_gb", used.machine_seconds / (bytes / 1e9));
        let idle = ping_pong::play_at_home(Duration::from_secs(1))?;
        self.push("rtt_idle_p50_us", idle.p50_us);
        self.push("rtt_idle_p99_us", idle.p99_us);
        Ok(())
    }

    fn push(&mut self, figure: &str, value: f64) {
        let unit = FIGURES.iter().find(|known| known.0 == figure).map_or("", |known| known.2);
        self.report.push(format!("{}.{figure}", self.path.key), unit, value);
    }

    fn flow(&self, seconds: u32) -> Flow {
        Flow { stream: self.path.stream(), ..Flow::tcp(self.path.server(), seconds) }
    }

    fn ping_pong(&self, duration: Duration) -> Result<ping_pong::RoundTrips> {
        let (client, server) = self.path.hosts(self.topology);
        ping_pong::play(client, server, self.any_port(), self.path.stream(), duration)
    }

    fn any_port(&self) -> SocketAddr {
        SocketAddr::new(self.path.server(), 0)
    }
}

// The comparison in the common form: a figure per row, a path per column, and what is wanted.

/// What is measured on a path: name in files, name for people, unit. Of CPU time for 10^9 bytes there is that of the whole machine, and
/// that of the daemons of both hosts; round trips are those on a quiet path, and beside a TCP flow.
const FIGURES: [(&str, &str, &str); 12] = [
    ("gbps", "one TCP flow", "Gbit/s"),
    ("retransmits", "retransmits", "segments"),
    ("cpu_s_per_gb", "CPU, machine", "s/GB"),
    ("daemon_cpu_s_per_gb", "CPU, daemons", "s/GB"),
    ("four_gbps", "four TCP flows", "Gbit/s"),
    ("rtt_idle_p50_us", "round trip idle p50", "µs"),
    ("rtt_idle_p99_us", "round trip idle p99", "µs"),
    ("rtt_loaded_p50_us", "round trip loaded p50", "µs"),
    ("rtt_loaded_p99_us", "round trip loaded p99", "µs"),
    ("udp64_sent_per_s", "64 B UDP sent", "1/s"),
    ("udp64_received_per_s", "64 B UDP received", "1/s"),
    ("udp64_lost_percent", "64 B UDP lost", "%"),
];
const BARE: &str = "veth";
/// Least share of bare veth's throughput that a bundle of two without sealing reaches; a prototype did. What is aimed at; no verdict.
const RATIO_MIN: f64 = 0.55;
const RATIO_AIM: f64 = 0.80;
/// Most CPU time per byte, as a multiple of bare veth's: the prototype's 1.0 s/GB over the 0.45 measured beside it.
const CPU_RATIO_MAX: f64 = 2.22;
const RATIO_MEMORY_MIN: f64 = 1.0;
const RETRANSMITS_ABOVE_MAX: f64 = 10.0;

/// What is wanted: a figure of a path as a multiple of another's. With sealing and by the kernel path that is what holds where all share
/// two processors; docs/limits.md says what is wanted, and why there is no more.
const WANTED: [(&str, &str, &str, &str, Bound); 11] = [
    ("unsealed2.ratio", "unsealed2", BARE, "gbps", Least(RATIO_MIN)),
    ("unsealed2_mtu65000.ratio", "unsealed2_mtu65000", BARE, "gbps", Least(0.70)),
    ("unsealed2.cpu_ratio", "unsealed2", BARE, "cpu_s_per_gb", Most(CPU_RATIO_MAX)),
    ("sealing.throughput", "bundle2", "unsealed2", "gbps", Least(0.6)),
    ("sealing.cpu", "bundle2", "unsealed2", "cpu_s_per_gb", Most(1.6)),
    ("kernel.ratio", "kernel1", BARE, "gbps", Least(0.70)),
    ("kernel.cpu_ratio", "kernel1", BARE, "cpu_s_per_gb", Most(1.3)),
    ("kernel.four_flows", "kernel1", BARE, "four_gbps", Least(0.6)),
    ("kernel.datagrams", "kernel1", BARE, "udp64_received_per_s", Least(0.55)),
    ("kernel.round_trip", "kernel1", BARE, "rtt_idle_p50_us", Most(1.10)),
    ("mem_unsealed.ratio", "mem_unsealed", BARE, "gbps", Least(RATIO_MEMORY_MIN)),
];

fn write(report: &mut Report) {
    for (id, path, base, figure, bound) in WANTED {
        let ratio = report.ratio(&format!("{path}.{figure}"), &format!("{base}.{figure}"));
        report.verdict(Verdict::within(id, ratio, bound));
    }
    let [bundle, bare] = ["bundle2", BARE].map(|path| report.median(&format!("{path}.retransmits")));
    report.verdict(Verdict::at_most("bundle2.retransmits", bundle, bare + RETRANSMITS_ABOVE_MAX));

    let (least, most) = (format!(">= {RATIO_MIN}, aim {RATIO_AIM:.2}"), format!("<= {CPU_RATIO_MAX}"));
    report.show(table(report, &PATHS, [&least, &most]));
    report.show(table(report, &MEMORY_PATHS, [&format!(">= {RATIO_MEMORY_MIN:.2}"), ""]));
    engines::write_waiting(report, &format!("{BARE}.rtt_idle_p50_us"));
}

/// `goal`: of throughput and CPU beside bare veth.
fn table(report: &Report, paths: &[Path], goal: [&str; 2]) -> Table {
    let labels = paths.iter().map(|path| path.label);
    let mut table = Table::new(["figure"].into_iter().chain(labels).chain(["goal"]));
    for (key, label, unit) in FIGURES {
        let of = |path: &str| format!("{path}.{key}");
        let medians = paths.iter().map(|path| number(report.median(&of(path.key))));
        table.row([format!("{label}, {unit}")].into_iter().chain(medians).collect());
        let Some(goal) = ["gbps", "cpu_s_per_gb"].iter().zip(goal).find(|(judged, _)| **judged == key) else {
            continue;
        };
        let ratios = paths.iter().map(|path| number(report.ratio(&of(path.key), &of(BARE))));
        table.row(
            ["  of bare veth".to_owned()].into_iter().chain(ratios).chain([goal.1.to_owned()]).collect(),
        );
    }
    table
}

// The paths that are compared: how each is built, from bare cables to a bundle over them, and what stays in memory.

struct Path {
    /// Name in the file.
    key: &'static str,
    /// Name for people.
    label: &'static str,
    links: usize,
    carrier: Carrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// The kernel's own stack: over one cable, over all of them, and within one host.
    Bare,
    Mptcp,
    Loopback,
    UnixPair,
    /// A bundle over links of this form, sealed or not, with further arguments of `tabane up`.
    Bundle(&'static str, bool, &'static [&'static str]),
}

/// Forms of links: over a NIC, and a window of memory that both hosts share.
const NIC: &str = "NIC";
const MEMORY: &str = "mem:";
const SEALED: Carrier = Carrier::Bundle(NIC, true, &[]);
const UNSEALED: Carrier = Carrier::Bundle(NIC, false, &[]);
const MTU_65000: Carrier = Carrier::Bundle(NIC, false, &["--mtu", "65000"]);
const BY_PROGRAMS: Carrier = Carrier::Bundle(NIC, false, &["--data-path", "kernel", "--policy", "hash"]);
const ETHER: Carrier = Carrier::Bundle("ether:NIC,engine=packet", true, &[]);
/// By AF_XDP where it can be had.
const ETHER_AUTO: Carrier = Carrier::Bundle("ether:NIC,engine=auto", true, &[]);

const BUNDLE_1: usize = 1;

const PATHS: [Path; 10] = [
    Path { key: "veth", label: "bare veth", links: 1, carrier: Carrier::Bare },
    Path { key: "bundle1", label: "bundle of 1", links: 1, carrier: SEALED },
    Path { key: "bundle2", label: "bundle of 2", links: 2, carrier: SEALED },
    Path { key: "unsealed2", label: "unsealed", links: 2, carrier: UNSEALED },
    Path { key: "unsealed2_mtu65000", label: "and MTU 65000", links: 2, carrier: MTU_65000 },
    Path { key: "ether1", label: "ether of 1", links: 1, carrier: ETHER },
    Path { key: "ether1_auto", label: "engine auto", links: 1, carrier: ETHER_AUTO },
    Path { key: "mptcp2", label: "MPTCP of 2", links: 2, carrier: Carrier::Mptcp },
    Path { key: "unsealed1", label: "unsealed, 1", links: 1, carrier: UNSEALED },
    Path { key: "kernel1", label: "kernel path", links: 1, carrier: BY_PROGRAMS },
];

const MEMORY_PATHS: [Path; 4] = [
    Path { key: "mem", label: "mem", links: 1, carrier: Carrier::Bundle(MEMORY, true, &[]) },
    Path {
        key: "mem_unsealed",
        label: "mem, unsealed",
        links: 1,
        carrier: Carrier::Bundle(MEMORY, false, &[]),
    },
    Path { key: "loopback", label: "loopback TCP", links: 1, carrier: Carrier::Loopback },
    Path { key: "unix", label: "Unix pair", links: 1, carrier: Carrier::UnixPair },
];

impl Path {
    fn lay(&self) -> Result<Topology> {
        let plan = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped(); self.links]) };
        let topology = Topology::build(plan)?;
        if self.carrier == Carrier::Mptcp {
            bonding::announce_subflows(&topology)?;
        }
        Ok(topology)
    }

    fn start<'a>(&self, topology: &'a Topology, daemon: &std::path::Path) -> Result<Vec<Bundle<'a>>> {
        let Carrier::Bundle(form, is_sealed, arguments) = self.carrier else { return Ok(Vec::new()) };
        // Its name is needed no more once both daemons have it open.
        let window = Window::new()?;
        let links: Vec<String> = match form {
            MEMORY => vec![window.link()],
            _ => topology.nics().iter().map(|nic| form.replace(NIC, nic)).collect(),
        };
        let protection = if is_sealed { Protection::LabKey } else { Protection::None };
        let words = arguments.iter().map(|word| (*word).to_owned()).collect();
        let options = bundle::Options { protection, arguments: words, ..bundle::Options::new(daemon) };
        let mut bundles = Bundle::start_over(topology, &links, &options)?;
        if self.carrier == BY_PROGRAMS {
            Bundle::wait_for_programs(&mut bundles)?;
        }
        Ok(bundles)
    }

    fn hosts<'a>(&self, topology: &'a Topology) -> (&'a Namespace, &'a Namespace) {
        let server = if self.carrier == Carrier::Loopback { 0 } else { 1 };
        (topology.host(0), topology.host(server))
    }

    fn server(&self) -> IpAddr {
        match self.carrier {
            Carrier::Bundle(..) => bundle::address(1),
            Carrier::Bare | Carrier::Mptcp => address(0, 1).into(),
            Carrier::Loopback | Carrier::UnixPair => Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn stream(&self) -> Stream {
        if self.carrier == Carrier::Mptcp { Stream::Mptcp } else { Stream::Tcp }
    }
}
