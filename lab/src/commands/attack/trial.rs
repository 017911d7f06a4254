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
/// No datagrams are sent longer than this.
const LIMIT: Duration = Duration::from_secs(300);
/// What TCP carries before it is measured: by then it has its speed.
const AT_SPEED_BYTES: u64 = 16 << 20;
const AT_SPEED_WITHIN: Duration = Duration::from_secs(30);
/// How long an attack may have consequences after its end: answers, events, links that are given up.
const CONSEQUENCES: Duration = Duration::from_millis(1_500);
/// A daemon whose memory grows by less than this in this time uses all that its traffic needs; before, it grows by 2 MiB.
const WARM: Duration = Duration::from_secs(1);
const WARM_MIB: f64 = 0.1;
/// How long a group key lasts while handshakes are claimed.
const KEY_LASTS: Duration = Duration::from_secs(5);
const WARM_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Cells put on the link, or nodes started.
    pub(super) tried: u64,
    /// Forged frames at the victim's device.
    pub(super) forged_frames: u64,
    /// Datagrams of the connection that came twice or with another content, and copies of the file that did.
    pub(super) spoiled: u64,
    /// Nodes that were taken for peers, or lost, because of the attack, at both hosts.
    pub(super) peer_events: u64,
    /// Links that were taken for dead meanwhile, at both hosts.
    pub(super) links_lost: u64,
    /// New keys for the session that the hosts have.
    pub(super) rekeys: u64,
    /// Frames that went from the victim to the hostile node.
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
    /// All that was taken although it should not be.
    pub(super) fn taken(&self) -> u64 {
        self.forged_frames + self.spoiled + self.peer_events
    }

    /// What the connection gets during the attack, of what it gets without.
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
        Attack::Claimed => claim(scene, Forger::new(attack, scene.stranger, None, seed), span),
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
        rekeys: rekeys(&ends) - rekeys(&statuses),
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

/// What the transfer gets and the daemon takes while `work` is done.
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

/// Ends the victim's daemon as a crash would, and starts it again.
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

/// Runs a node with another key beside the others; how many there were of it.
fn intrude(scene: &Scene<'_>, span: Duration) -> Result<u64> {
    let options = with_key(scene.daemon, &scene.other_key);
    let host = scene.topology.host(STRANGER);
    let mut intruder = Bundle::start(host, STRANGER, &scene.topology.nics(), &options)?;
    thread::sleep(span);
    intruder.still_running()?;
    intruder.stop()?.success("a daemon told to stop")?;
    Ok(1)
}

/// The group changes its key in three rounds, every few seconds, while handshakes come in the hosts' names; how many there were.
/// With the last round both agree on new keys at once.
fn claim(scene: &mut Scene<'_>, forger: Forger, span: Duration) -> Result<u64> {
    let [first, second] = &scene.node_keys;
    let keys = vec![secret(&scene.key)?, secret(&scene.other_key)?];
    let mut forger = forger.with_keys(keys, [secret(first)?, secret(second)?]);
    let changes = changes_of_key(span);
    (0..changes).map(|_| change_key(scene, &mut forger, span / changes)).sum()
}

/// How often the group changes its key while handshakes are claimed for `span`.
pub(super) fn changes_of_key(span: Duration) -> u32 {
    u32::try_from(span.as_secs() / KEY_LASTS.as_secs()).unwrap_or(1).max(1)
}

/// The group changes its key, in three rounds and one before, within `span`.
fn change_key(scene: &mut Scene<'_>, forger: &mut Forger, span: Duration) -> Result<u64> {
    let (old, new) = (scene.key.clone(), scene.other_key.clone());
    let epochs = |scene: &Scene<'_>| -> Result<Vec<Option<u8>>> {
        let of = |status: Status| Some(status.peers.first()?.sealed.as_ref()?.epoch);
        Ok(scene.statuses()?.into_iter().map(of).collect())
    };
    let before = epochs(scene)?;
    let rounds: [&[&str]; 4] = [&[], &[&old, &new], &[&new, &old], &[&new]];
    let mut tried = 0;
    for keys in rounds {
        for bundle in scene.bundles.iter().filter(|_| !keys.is_empty()) {
            bundle.ask(&[&["key", DEVICE], keys].concat())?;
        }
        tried += scene.hostile.strike(forger, Attack::Claimed.per_second(), span / 4)?;
    }
    let after = epochs(scene)?;
    ensure!(before.iter().zip(&after).all(|(before, after)| before != after), "no new keys: {after:?}");
    (scene.key, scene.other_key) = (new, old);
    Ok(tried)
}

/// The secret key in a file, of the group or of a node.
fn secret(file: &str) -> Result<[u8; 32]> {
    let text = std::fs::read_to_string(file)?;
    let text = text.trim();
    let digits = text.strip_prefix("node-secret:").unwrap_or(text);
    let digits =
        digits.as_bytes().chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    let bytes: Vec<u8> = digits.collect::<Result<_>>()?;
    bytes.try_into().ok().context("a key has 32 bytes")
}

fn watch_device(scene: &Scene<'_>) -> Result<Running<u64>> {
    let is_forged = |frame: &[u8]| frame.get(12..14) == Some(&FORGED_ETHERTYPE[..]);
    watch(scene.topology.host(VICTIM), DEVICE, is_forged)
}

/// Watches for UDP from the victim to the hostile node itself.
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

/// How often the session got new keys: who has begun the handshake counts.
fn rekeys(statuses: &[Status]) -> u64 {
    statuses.iter().filter_map(|status| status.counters.get("rekeys")).sum()
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
