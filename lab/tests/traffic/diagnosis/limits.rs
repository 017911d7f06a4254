//! What limits one connection, and whether `tabane why` names it.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};

use rustix::process::setpriority_process;
use tabane_kit::machine::processors as processors_of_the_machine;

use super::nics::{BROKEN, Staged, over, staged};
use super::{Group, Said, Way, why};
use crate::traffic::data_path::wrapped;
use crate::traffic::stage::*;

/// What a link carries: so little that a busy machine fills it.
const RATE: Bitrate = Bitrate::mbit(20);
/// More than twice of it.
const FASTER: Bitrate = Bitrate::mbit(50);
/// Percent of the looks at which bytes wait for a link that has an eighth of its rate to carry, at most.
const BUSY_MAX: u64 = 60;
/// The niceness of the trial's own ends of a connection, ahead of everyone who has an ordinary one.
const AHEAD: i32 = -15;
const CONNECTIONS: u64 = 12;
/// What has arrived before anyone asks: the connection has begun by then.
const BEGUN: u64 = 4 << 20;

/// Faults that each bundle can have.
const FAULTS: [Staged; 10] = [
    ("nothing, under load", "links-full", |way| sound(way, |topology| under_load(topology, way, BEGUN))),
    ("nothing, at rest", "nothing-to-send", |way| sound(way, |topology| why(topology.host(0)))),
    ("nothing that shows, where a program receives 5 Mbit/s and no more", "unknown", |way| {
        sound(way, |topology| paced(topology, Bitrate::mbit(5), 1))
    }),
    ("a program that sends 5 Mbit/s and no more", "application", application),
    ("no other node", "no-peer", alone),
    ("a switch that swallows everything", "dead-link", dead),
    ("a cable that loses a tenth of the frames", "link-loss", lossy),
    ("a link of less than half of the other's rate", "link-rate", slow),
    ("a policy that gives one flow one link", "bound-flow", bound),
    ("a tiny receive buffer of TCP at the peer", "receive-window", window),
];
const MORE_FAULTS: [Staged; 1] = [("a tiny send buffer of TCP here", "send-buffer", buffer)];
const OF_CELLS: [Staged; 5] = [
    ("a link of which all comes 300 ms later", "far-link", |_| far()),
    ("other programs on the processor of this node's daemon", "sender-processor", |_| processor(0)),
    ("other programs on the processor of the peer's daemon", "receiver-processor", |_| processor(1)),
    ("bursts of datagrams that are longer than the queue, and no gates", "device-queue", |_| bursts()),
    ("cells that are lost and not sent again", "reordering", |_| unrepaired()),
];

pub(super) fn groups() -> Vec<Group> {
    let mut groups = staged("why", Way::BOTH, &FAULTS);
    groups.extend(staged("why", Way::BOTH, &MORE_FAULTS));
    groups.extend(staged("why", &[Way::Cells], &OF_CELLS));
    groups
}

/// Connections that send as much as they can, of each of which so much has arrived.
fn begin(topology: &Topology, connections: u64, begun: u64) -> Result<Vec<Transfer>> {
    let (to, source) = (SocketAddr::new(address(1), 0), Source::random(64 << 10, 1));
    let start = |_| Transfer::start(topology.host(0), topology.host(1), to, source.clone());
    let transfers = (0..connections).map(start).collect::<Result<Vec<_>>>()?;
    let have_begun = || Ok(transfers.iter().all(|transfer| transfer.arrived() > begun).then_some(()));
    wait_for("connections that send", Duration::from_secs(30), have_begun)?;
    Ok(transfers)
}

/// All of them end at once: none fills the links while another one is waited for.
fn end(transfers: Vec<Transfer>) -> Result<()> {
    transfers.iter().for_each(Transfer::end);
    transfers.into_iter().try_for_each(|transfer| whole(transfer).map(drop))
}

fn under_load(topology: &Topology, way: Way, begun: u64) -> Result<Said> {
    let connections = if way == Way::Cells { 1 } else { CONNECTIONS };
    let transfers = begin(topology, connections, begun / connections)?;
    let said = why(topology.host(0))?;
    end(transfers)?;
    Ok(said)
}

/// Runs `test` over bundles on these links that get a processor before all other programs, as do its own ends of connections: what limits
/// them is what it plants, also on a busy machine.
fn undisturbed(
    way: Way,
    wiring: Wiring,
    links: Vec<LinkPlan>,
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<Said>,
) -> Result<Said> {
    setpriority_process(None, AHEAD)?;
    let done = over(wiring, links, options, |topology, bundles| {
        bundles.iter().try_for_each(|bundle| schedule(bundle, "--rr", 1))?;
        way.ready(bundles, topology.plan().links.len())?;
        test(topology, bundles)
    });
    setpriority_process(None, 0)?;
    done
}

fn links(rates: [Bitrate; 2]) -> Vec<LinkPlan> {
    rates.map(LinkPlan::shaped).to_vec()
}

fn sound(way: Way, ask: impl FnOnce(&Topology) -> Result<Said>) -> Result<Said> {
    undisturbed(way, Wiring::Switch, links([RATE; 2]), &way.options(&[])?, |topology, _| ask(topology))
}

/// Asks a host while a program sends at this rate from the first one, a piece each ten milliseconds.
fn paced(topology: &Topology, rate: Bitrate, asked: usize) -> Result<Said> {
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
    let said = why(topology.host(asked))?;
    joined(source)?;
    ensure!(joined(sink)? > 0, "nothing arrived");
    Ok(said)
}

fn application(way: Way) -> Result<Said> {
    sound(way, |topology| {
        let said = paced(topology, Bitrate::mbit(5), 0)?;
        for path in said.answer["facts"]["paths"].as_array().context("no paths")? {
            let is_idle = path["waiting"].as_u64().is_some_and(|percent| percent <= BUSY_MAX);
            ensure!(is_idle, "a link of 20 Mbit/s is busy: {path}");
        }
        Ok(said)
    })
}

fn alone(way: Way) -> Result<Said> {
    let topology = Topology::build(plan(&[RATE; 2]))?;
    let mut bundle = Bundle::start(topology.host(0), 0, &topology.nics(), &way.options(&[])?)?;
    bundle.wait_until("a bundle that answers", |_| true)?;
    let said = why(topology.host(0))?;
    Bundle::stop_all([bundle])?;
    Ok(said)
}

fn dead(way: Way) -> Result<Said> {
    undisturbed(way, Wiring::Switch, links([RATE; 2]), &way.options(&[])?, |topology, bundles| {
        topology.kill_switch(BROKEN)?;
        let dead = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].tx == PathState::Down);
        bundles[0].wait_until("a dead link", dead)?;
        under_load(topology, way, BEGUN)
    })
}

fn slow(way: Way) -> Result<Said> {
    undisturbed(way, Wiring::Switch, links([FASTER, RATE]), &way.options(&[])?, |topology, _| {
        under_load(topology, way, BEGUN)
    })
}

fn bound(way: Way) -> Result<Said> {
    let options = if way == Way::Cells { way.options(&["--policy", "hash"])? } else { way.options(&[])? };
    undisturbed(way, Wiring::Switch, links([RATE; 2]), &options, |topology, _| {
        under_load(topology, Way::Cells, BEGUN)
    })
}

/// Losses are measured by what is sent.
fn lossy(way: Way) -> Result<Said> {
    undisturbed(way, Wiring::Emulator, links([RATE; 2]), &way.options(&[])?, |topology, bundles| {
        let transfers = begin(topology, 1, BEGUN)?;
        topology.impair_both(BROKEN, Impairment::loss(0.1))?;
        let measured =
            |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].loss_percent > 6.0);
        bundles[0].wait_until("losses", measured)?;
        let said = why(topology.host(0))?;
        end(transfers)?;
        Ok(said)
    })
}

fn far() -> Result<Said> {
    undisturbed(Way::Cells, Wiring::Emulator, links([RATE; 2]), &options()?, |topology, bundles| {
        topology
            .impair_both(BROKEN, Impairment { delay: Duration::from_millis(300), ..Impairment::default() })?;
        let is_far = |status: &Status| {
            status.peers.iter().all(|peer| peer.paths[BROKEN].skew_us.is_some_and(|skew| skew > 250_000))
        };
        let wait = |bundle: &mut Bundle<'_>| bundle.wait_until("a link that is far away", is_far).map(drop);
        bundles.iter_mut().try_for_each(wait)?;
        under_load(topology, Way::Cells, BEGUN)
    })
}

fn buffer(way: Way) -> Result<Said> {
    undisturbed(way, Wiring::Switch, links([FAST; 2]), &way.options(&[])?, |topology, _| {
        topology.host(0).set("net/ipv4/tcp_wmem", "4096 4096 4096")?;
        under_load(topology, Way::Cells, 1 << 20)
    })
}

/// On a path of some milliseconds, buffers of 64 kB are far less than what the links carry in a round trip.
fn window(way: Way) -> Result<Said> {
    undisturbed(way, Wiring::Emulator, links([FAST; 2]), &way.options(&[])?, |topology, _| {
        for link in 0..2 {
            topology.impair_both(link, Impairment::delay(Duration::from_millis(5)))?;
        }
        topology.host(1).set("net/ipv4/tcp_rmem", "4096 16384 65536")?;
        under_load(topology, Way::Cells, 1 << 20)
    })
}

/// Asks the receiver, over links that lose one of a hundred frames.
fn unrepaired() -> Result<Said> {
    let options = Way::Cells.options(&["--no-repair"])?;
    undisturbed(Way::Cells, Wiring::Emulator, links([RATE; 2]), &options, |topology, _| {
        for link in 0..2 {
            topology.impair_both(link, Impairment::loss(0.01))?;
        }
        let transfers = begin(topology, 1, 1 << 20)?;
        let said = why(topology.host(1))?;
        end(transfers)?;
        Ok(said)
    })
}

/// Datagrams faster than the links, and then none, of flows that nothing holds back at the device: the bundle has no right to load gates.
fn bursts() -> Result<Said> {
    const BURST: usize = 8_000;
    const FLOWS: usize = 40;
    const EACH: Duration = Duration::from_millis(1_500);
    const TIMES: usize = 4;
    let directory = tempfile::tempdir()?;
    let program = wrapped(directory.path(), "setpriv --bounding-set=-bpf,-sys_admin --")?;
    let options = Options { program, ..Way::Cells.options(&[])? };
    undisturbed(Way::Cells, Wiring::Switch, links([FASTER; 2]), &options, |topology, _| {
        topology.host(0).ip(&format!("link set {DEVICE} txqueuelen 10000"))?;
        let receiver = topology.host(1).enter(|| UdpSocket::bind(SocketAddr::new(address(1), 0)))??;
        let to = receiver.local_addr()?;
        let source = topology.host(0).spawn("bursts", move || {
            let socket = || UdpSocket::bind("0.0.0.0:0");
            let sockets = (0..FLOWS).map(|_| socket()).collect::<std::io::Result<Vec<_>>>()?;
            for _ in 0..TIMES {
                let next = Instant::now() + EACH;
                for socket in sockets.iter().cycle().take(BURST) {
                    // What finds no room in the device's own queue is none of this trial's business.
                    let _ = socket.send_to(&[7; 1_400], to);
                }
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            Ok(())
        })?;
        // A burst that a busy machine draws out finds room.
        let mut said = why(topology.host(0))?;
        for _ in 1..TIMES {
            if said.names.contains("device-queue") {
                break;
            }
            said = why(topology.host(0))?;
        }
        joined(source)?;
        Ok(said)
    })
}

/// Links as fast as the machine, and programs that take the one processor that the daemon of `host` may use.
fn processor(host: usize) -> Result<Said> {
    const LOOKS: usize = 3;
    let links = vec![LinkPlan::unshaped(); 2];
    let plan = Plan { addressed: false, ..Plan::two_hosts(links) };
    with_bundles(plan, &options()?, |topology, bundles| {
        let all = processors_of_the_machine()?;
        let only = *all.get(host).or(all.first()).context("a processor")?;
        let hogs = hog(topology.host(host), only)?;
        allow(&bundles[host], &[only])?;
        schedule(&bundles[1 - host], "--rr", 1)?;
        // Who sends and who receives take their share before all of them.
        setpriority_process(None, AHEAD)?;
        let mut asked = under_load(topology, Way::Cells, 1 << 20);
        // The scheduler may let the daemon run whenever cells come.
        for _ in 1..LOOKS {
            if !asked.as_ref().is_ok_and(|said| said.names.contains("unknown")) {
                break;
            }
            asked = under_load(topology, Way::Cells, 1 << 20);
        }
        setpriority_process(None, 0)?;
        hogs.into_iter().try_for_each(|hog| hog.kill().map(drop))?;
        allow(&bundles[host], &all)?;
        asked
    })
}

fn allow(bundle: &Bundle<'_>, processors: &[usize]) -> Result<()> {
    let pid = bundle.pid().with_context(|| format!("{DEVICE} runs"))?;
    let list: Vec<String> = processors.iter().map(ToString::to_string).collect();
    let arguments = format!("--all-tasks --cpu-list --pid {} {pid}", list.join(","));
    process::run(&mut process::words("taskset", &arguments)).map(drop)
}

/// How the daemon gets its processor; `--rr` is before any other program, whatever else runs on this machine.
fn schedule(bundle: &Bundle<'_>, policy: &str, priority: u8) -> Result<()> {
    let pid = bundle.pid().with_context(|| format!("{DEVICE} runs"))?;
    let arguments = format!("{policy} --all-tasks --pid {priority} {pid}");
    process::run(&mut process::words("chrt", &arguments)).map(drop)
}

fn hog(host: &Namespace, processor: usize) -> Result<Vec<Process>> {
    const HOGS: usize = 4;
    let hog = |_| {
        let mut command = host.command("taskset");
        command.args(format!("--cpu-list {processor} nice -n -10 sh -c").split(' '));
        command.arg("while :; do :; done");
        Process::start(command)
    };
    (0..HOGS).map(hog).collect()
}
