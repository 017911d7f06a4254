//! What limits one connection, and whether `tabane why` names it.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::setpriority_process;
use tabane_kit::bundle::{Bundle, DEVICE, Options, address};
use tabane_kit::clock::wait_for;
use tabane_kit::emulator::Impairment;
use tabane_kit::machine::processors as processors_of_the_machine;
use tabane_kit::netns::{Namespace, joined};
use tabane_kit::process::Process;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::{PathState, Status};
use tabane_kit::tool;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring};
use tabane_kit::workload::transfer::{Source, Transfer};

use super::{Said, named, why};
use crate::stage::{FAST, options, options_with, plan, whole, with_bundles};
use crate::{Case, Need};

/// The link that is broken.
const BROKEN: usize = 1;
/// What a link carries: so little that a busy machine fills it.
const RATE: Bitrate = Bitrate::mbit(20);
/// A tenth of it.
const TENTH: Bitrate = Bitrate::mbit(2);
/// Percent of the looks at which bytes wait for a link that has an eighth of its rate to carry, at most.
const BUSY_MAX: u64 = 60;
/// The niceness of the trial's own ends of a connection, ahead of everyone who has an ordinary one.
const AHEAD: i32 = -15;
/// What has arrived before anyone asks: the connection has begun by then.
const BEGUN: u64 = 4 << 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("why_names_links_that_limit", Need::DaemonAndPriority, links),
        Case::new("why_names_a_slow_link", Need::DaemonAndPriority, slow),
        Case::new("why_names_a_policy_that_binds_flows", Need::DaemonAndPriority, bound),
        Case::new("why_names_a_lossy_link", Need::DaemonAndPriority, lossy),
        Case::new("why_names_the_window_and_the_buffer_of_a_connection", Need::DaemonAndPriority, window),
        Case::new("why_names_the_processor_of_either_end", Need::DaemonAndPriority, processors),
    ]
}

/// One connection that sends as much as it can, of which so much has arrived.
fn begin(topology: &Topology, begun: u64) -> Result<Transfer> {
    let to = SocketAddr::new(address(1), 0);
    let transfer = Transfer::start(topology.host(0), topology.host(1), to, Source::random(1 << 20, 1))?;
    let has_begun = || Ok((transfer.arrived() > begun).then_some(()));
    wait_for("a connection that sends", Duration::from_secs(30), has_begun)?;
    Ok(transfer)
}

/// Asks the first host under such a connection.
fn under_load(topology: &Topology, begun: u64) -> Result<Said> {
    let transfer = begin(topology, begun)?;
    let said = why(topology.host(0))?;
    whole(transfer)?;
    Ok(said)
}

/// Sound links, a program that sends little, and a link that dies.
fn links() -> Result<()> {
    undisturbed(plan(&[RATE; 2]), &options()?, |topology, bundles| {
        let said = under_load(topology, BEGUN)?;
        ensure!(said.names.contains("links-full"), "sound links: {:#}", said.answer);
        let said = paced(topology, Bitrate::mbit(5))?;
        for path in said.answer["facts"]["paths"].as_array().context("no paths")? {
            let is_idle = path["waiting"].as_u64().is_some_and(|percent| percent <= BUSY_MAX);
            ensure!(is_idle, "a link of 20 Mbit/s is busy: {path}");
        }
        named("a program that sends 5 Mbit/s and no more", "why", &said)?;
        topology.kill_switch(BROKEN)?;
        let dead = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].tx == PathState::Down);
        bundles[0].wait_until("a dead link", dead)?;
        named("a switch that swallows everything", "why", &under_load(topology, BEGUN)?)
    })
}

/// Runs `test` over bundles that get a processor before all other programs, as do its own ends of connections: what limits them is
/// what it plants, also on a busy machine.
fn undisturbed(
    plan: Plan,
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    setpriority_process(None, AHEAD)?;
    let done = with_bundles(plan, options, |topology, bundles| {
        bundles.iter().try_for_each(|bundle| schedule(bundle, "--rr", 1))?;
        test(topology, bundles)
    });
    setpriority_process(None, 0)?;
    done
}

/// Asks while a program sends at this rate, a piece each ten milliseconds.
fn paced(topology: &Topology, rate: Bitrate) -> Result<Said> {
    const EACH: Duration = Duration::from_millis(10);
    const FOR: Duration = Duration::from_secs(4);
    let (sender, receiver) = (topology.host(0), topology.host(1));
    let listener = receiver.enter(|| TcpListener::bind(SocketAddr::new(address(1), 0)))??;
    let to = listener.local_addr()?;
    let sink = receiver.spawn("sink", move || {
        let (mut connection, _) = listener.accept()?;
        Ok(std::io::copy(&mut connection, &mut std::io::sink())?)
    })?;
    let piece = vec![7; usize::try_from(rate.bytes_in(10))?];
    let source = sender.spawn("source", move || {
        let mut connection = TcpStream::connect(to)?;
        let begin = Instant::now();
        let mut next = begin;
        while begin.elapsed() < FOR {
            connection.write_all(&piece)?;
            next += EACH;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    })?;
    let said = why(sender)?;
    joined(source)?;
    ensure!(joined(sink)? > 0, "nothing arrived");
    Ok(said)
}

fn slow() -> Result<()> {
    undisturbed(plan(&[RATE, TENTH]), &options()?, |topology, _| {
        named("a link of a tenth of the other's rate", "why", &under_load(topology, BEGUN)?)
    })
}

fn bound() -> Result<()> {
    undisturbed(plan(&[RATE; 2]), &options_with(&["--policy", "hash"])?, |topology, _| {
        named("a policy that gives one flow one link", "why", &under_load(topology, BEGUN)?)
    })
}

fn emulated(rate: Bitrate) -> Plan {
    let links = vec![LinkPlan::shaped(rate); 2];
    Plan { wiring: Wiring::Emulator, addressed: false, ..Plan::two_hosts(links) }
}

/// Losses are measured by what is sent.
fn lossy() -> Result<()> {
    undisturbed(emulated(RATE), &options()?, |topology, bundles| {
        let transfer = begin(topology, BEGUN)?;
        topology.impair_both(BROKEN, Impairment::loss(0.1))?;
        let measured =
            |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].loss_percent > 6.0);
        bundles[0].wait_until("losses", measured)?;
        let said = why(topology.host(0))?;
        whole(transfer)?;
        named("a cable that loses a tenth of the frames", "why", &said)
    })
}

/// On a path of some milliseconds, buffers of 64 kB are far less than what the links carry in a round trip.
fn window() -> Result<()> {
    undisturbed(emulated(FAST), &options()?, |topology, _| {
        topology.host(0).set("net/ipv4/tcp_wmem", "4096 4096 4096")?;
        named("a tiny send buffer of TCP here", "why", &under_load(topology, 1 << 20)?)?;
        topology.host(0).set("net/ipv4/tcp_wmem", "4096 16384 4194304")?;
        for link in 0..2 {
            topology.impair_both(link, Impairment::delay(Duration::from_millis(5)))?;
        }
        topology.host(1).set("net/ipv4/tcp_rmem", "4096 16384 65536")?;
        named("a tiny receive buffer of TCP at the peer", "why", &under_load(topology, 1 << 20)?)
    })
}

/// Links as fast as the machine, and programs that take the one processor that a daemon may use.
fn processors() -> Result<()> {
    let links = vec![LinkPlan::unshaped(); 2];
    let plan = Plan { addressed: false, ..Plan::two_hosts(links) };
    with_bundles(plan, &options()?, |topology, bundles| {
        for (host, fault) in [
            (0, "other programs on the processor of this node's daemon"),
            (1, "other programs on the processor of the peer's daemon"),
        ] {
            let all = processors_of_the_machine()?;
            let only = *all.get(host).or(all.first()).context("a processor")?;
            let hogs = hog(topology.host(host), only)?;
            allow(&bundles[host], &[only])?;
            schedule(&bundles[1 - host], "--rr", 1)?;
            // Who sends and who receives take their share before all of them.
            setpriority_process(None, AHEAD)?;
            let said = under_load(topology, 1 << 20);
            setpriority_process(None, 0)?;
            hogs.into_iter().try_for_each(|hog| hog.kill().map(drop))?;
            allow(&bundles[host], &all)?;
            schedule(&bundles[1 - host], "--other", 0)?;
            named(fault, "why", &said?)?;
        }
        Ok(())
    })
}

/// Lets the daemon run on these processors alone.
fn allow(bundle: &Bundle<'_>, processors: &[usize]) -> Result<()> {
    let pid = bundle.pid().with_context(|| format!("{DEVICE} runs"))?;
    let list: Vec<String> = processors.iter().map(ToString::to_string).collect();
    let arguments = format!("--all-tasks --cpu-list --pid {} {pid}", list.join(","));
    tool::run(&mut tool::words("taskset", &arguments)).map(drop)
}

/// How the daemon gets its processor; `--rr` is before any other program, whatever else runs on this machine.
fn schedule(bundle: &Bundle<'_>, policy: &str, priority: u8) -> Result<()> {
    let pid = bundle.pid().with_context(|| format!("{DEVICE} runs"))?;
    let arguments = format!("{policy} --all-tasks --pid {priority} {pid}");
    tool::run(&mut tool::words("chrt", &arguments)).map(drop)
}

/// Programs that do nothing but run, on this processor, with the daemon's priority.
fn hog(host: &Namespace, processor: usize) -> Result<Vec<Process>> {
    const HOGS: usize = 4;
    let hog = |_| {
        let mut command = host.command("taskset");
        command.args([
            "--cpu-list",
            &processor.to_string(),
            "nice",
            "-n",
            "-10",
            "sh",
            "-c",
            "while :; do :; done",
        ]);
        Process::start(command)
    };
    (0..HOGS).map(hog).collect()
}
