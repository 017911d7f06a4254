//! One attack: what the connections get without it, with it and without it again, and what the victim took.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use tabane_io::PacketSocket;
use tabane_io::packet::{FRAME_MAX, HEADER};

use super::forge::{Attack, FORGED_ETHERTYPE, Forger};
use super::frame::{FROM_MAC, TO_MAC};
use super::{LINK, LINKS, Scene, TICK, mac, with_key};
use crate::prelude::*;

/// The host that is attacked, and the one that the hostile node pretends to be.
pub(super) const VICTIM: usize = 1;
pub(super) const FRIEND: usize = 0;
pub(super) const STRANGER: usize = 2;
/// The file that TCP sends again and again: small, so that the last copy ends soon.
const FILE_BYTES: u64 = 1 << 20;
/// The datagrams: 1.6 Mbit/s.
const PACE: Pace = Pace { per_second: 1_000, bytes: 200 };
const LIMIT: Duration = Duration::from_secs(300);
/// What TCP carries before it is measured: by then it has its speed.
const AT_SPEED_BYTES: u64 = 16 << 20;
const AT_SPEED_WITHIN: Duration = Duration::from_secs(30);
/// How long an attack may have consequences after its end: answers, events, links that are given up.
const CONSEQUENCES: Duration = Duration::from_millis(1_500);
/// A daemon whose memory grows by less than this in this time uses all that its traffic needs; before, it grows by 2 MiB.
const WARM: Duration = Duration::from_secs(1);
const WARM_MIB: f64 = 0.1;
const WARM_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Cells put on the link, or nodes started.
    pub(super) tried: u64,
    pub(super) forged_frames: u64,
    /// Datagrams of the connection that came twice or with another content, and copies of the file that did.
    pub(super) spoiled: u64,
    /// Nodes that were taken for peers, or lost, because of the attack, at both hosts.
    pub(super) peer_events: u64,
    pub(super) links_lost: u64,
    pub(super) answered: u64,
    pub(super) dropped: u64,
    /// Mbit/s of the TCP connection without and with the attack.
    pub(super) calm_mbps: f64,
    pub(super) attacked_mbps: f64,
    /// Share of one CPU that the victim's daemon takes without and with it.
    pub(super) calm_cpu: f64,
    pub(super) attacked_cpu: f64,
    pub(super) grown_mib: f64,
    pub(super) lost: Option<String>,
}

impl Figures {
    pub(super) fn taken(&self) -> u64 {
        self.forged_frames + self.spoiled + self.peer_events
    }

    pub(super) fn share(&self) -> f64 {
        self.attacked_mbps / self.calm_mbps
    }
}

struct Window {
    mbps: f64,
    cpu: f64,
}

pub(super) fn run(scene: &mut Scene<'_>, attack: Attack, span: Duration, seed: u64) -> Result<Figures> {
    let former = scene.hostile.heard[FRIEND].clone();
    if attack == Attack::AfterRestart {
        restart_victim(scene)?;
    }
    let (client, server) = (scene.topology.host(FRIEND), scene.topology.host(VICTIM));
    let at = SocketAddr::new(bundle::address(VICTIM), 0);
    let transfer = Transfer::start(client, server, at, Source::random(FILE_BYTES, seed))?;
    let sequence = Sequence::start(client, server, at, PACE, LIMIT)?;
    let at_speed = || Ok((transfer.arrived() >= AT_SPEED_BYTES).then_some(()));
    wait_for("a connection at its speed", AT_SPEED_WITHIN, at_speed)?;

    let pid = scene.bundles[VICTIM].pid().context("the victim's daemon has ended")?;
    wait_for("memory that is in use", WARM_WITHIN, || is_warm(pid))?;
    let before = measure(&transfer, pid, || rest(span))?.0;
    let (memory, statuses, began_ns) = (process::resident_mib(pid)?, scene.statuses()?, monotonic_ns()?);
    let (device, answers) = (watch_device(scene)?, watch_answers(scene)?);
    let (during, tried) = measure(&transfer, pid, || match attack {
        Attack::WrongKey => intrude(scene, span),
        _ => {
            let mut forger = Forger::new(attack, scene.stranger, Some(&former), seed);
            scene.hostile.strike(&mut forger, attack.per_second(), span)
        }
    })?;
    thread::sleep(CONSEQUENCES);
    let (forged_frames, answered) = (device.end()?, answers.end()?);
    let ends = scene.statuses()?;
    let grown_mib = process::resident_mib(pid)? - memory;
    let after = measure(&transfer, pid, || rest(span))?.0;

    let (datagrams, file) = (sequence.finish()?, transfer.finish()?);
    Ok(Figures {
        tried,
        forged_frames,
        spoiled: datagrams.doubled + datagrams.damaged + file.damaged,
        peer_events: events(&ends, began_ns, |what| what.starts_with("peer-") && what != "peer-refused"),
        links_lost: events(&ends, began_ns, |what| what == "link-down"),
        answered,
        dropped: drops(&ends[VICTIM]) - drops(&statuses[VICTIM]),
        calm_mbps: f64::midpoint(before.mbps, after.mbps),
        attacked_mbps: during.mbps,
        calm_cpu: f64::midpoint(before.cpu, after.cpu),
        attacked_cpu: during.cpu,
        grown_mib,
        lost: file.lost,
    })
}

/// Whether the daemon has touched the memory that its traffic uses, all of which it made room for at its start.
fn is_warm(pid: u32) -> Result<Option<()>> {
    let before = process::resident_mib(pid)?;
    thread::sleep(WARM);
    Ok((process::resident_mib(pid)? - before < WARM_MIB).then_some(()))
}

fn measure<T>(transfer: &Transfer, pid: u32, work: impl FnOnce() -> Result<T>) -> Result<(Window, T)> {
    let bytes = transfer.arrived();
    let (done, used) = used_during(&[pid], work)?;
    let mbps = (transfer.arrived() - bytes) as f64 * 8e-6 / used.wall_seconds;
    Ok((Window { mbps, cpu: used.processes_seconds / used.wall_seconds }, done))
}

fn rest(span: Duration) -> Result<()> {
    thread::sleep(span);
    Ok(())
}

fn restart_victim(scene: &mut Scene<'_>) -> Result<()> {
    let victim = &mut scene.bundles[VICTIM];
    victim.kill()?;
    victim.start_again()?;
    let began_ns = monotonic_ns()?;
    victim.wait_until("the other host", |status| status.is_ready(1, LINKS))?;
    let has_joined = |status: &Status| {
        status.is_ready(1, LINKS)
            && status.events.iter().any(|event| event.what == "peer-joined" && event.at_ns >= began_ns)
    };
    scene.bundles[FRIEND].wait_until("the new daemon", has_joined).map(drop)
}

fn intrude(scene: &Scene<'_>, span: Duration) -> Result<u64> {
    let options = with_key(scene.daemon, &scene.other_key);
    let host = scene.topology.host(STRANGER);
    let mut intruder = Bundle::start(host, STRANGER, &scene.topology.nics(), &options)?;
    thread::sleep(span);
    intruder.still_running()?;
    intruder.stop()?.success("a daemon told to stop")?;
    Ok(1)
}

fn watch_device(scene: &Scene<'_>) -> Result<Running<u64>> {
    let is_forged = |frame: &[u8]| frame.get(12..14) == Some(&FORGED_ETHERTYPE[..]);
    watch(scene.topology.host(VICTIM), DEVICE, is_forged)
}

fn watch_answers(scene: &Scene<'_>) -> Result<Running<u64>> {
    let (stranger, victim) = (scene.stranger.mac, mac(scene.topology.host(VICTIM))?);
    let is_answer = move |frame: &[u8]| {
        frame.get(TO_MAC) == Some(&stranger[..])
            && frame.get(FROM_MAC) == Some(&victim[..])
            && frame.get(12..14) == Some(&[0x86, 0xdd])
            && frame.get(20) == Some(&17)
    };
    watch(scene.topology.host(STRANGER), &nic(LINK), is_answer)
}

fn events(ends: &[Status], began_ns: u64, wanted: impl Fn(&str) -> bool) -> u64 {
    let all = ends.iter().flat_map(|end| &end.events);
    all.filter(|event| event.at_ns >= began_ns && wanted(&event.what)).count() as u64
}

fn drops(status: &Status) -> u64 {
    status.counters.iter().filter(|(name, _)| name.starts_with("drop_")).map(|(_, count)| count).sum()
}

// Counts frames of a kind that come in by a NIC: what must not be there, if all goes well.

/// Counts frames at `nic` of `host` of which `wanted`, which is given the Ethernet frame, says so, until it is ended.
fn watch(
    host: &Namespace,
    nic: &str,
    wanted: impl Fn(&[u8]) -> bool + Send + 'static,
) -> Result<Running<u64>> {
    let socket = host.enter(|| PacketSocket::open(nic))??;
    Running::start(host, "watch", move |ended| {
        let (mut frame, mut seen) = (vec![0; FRAME_MAX], 0);
        loop {
            let is_over = ended.load(Ordering::Relaxed);
            seen += count(&socket, &mut frame, &wanted)?;
            if is_over {
                ensure!(socket.take_overruns()? == 0, "frames were not seen: they came too fast");
                return Ok(seen);
            }
            thread::sleep(TICK);
        }
    })
}

fn count(socket: &PacketSocket, frame: &mut [u8], wanted: impl Fn(&[u8]) -> bool) -> Result<u64> {
    let mut seen = 0;
    loop {
        match socket.receive(frame) {
            Ok(length) => seen += u64::from(frame[..length].get(HEADER..).is_some_and(&wanted)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(seen),
            Err(error) if error.raw_os_error() == Some(Errno::ENETDOWN as i32) => return Ok(seen),
            Err(error) => return Err(error).context("watching a NIC"),
        }
    }
}
