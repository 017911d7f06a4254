//! Classes of frames, each with a policy of its own: what each link carries of each is counted at the NICs.

use std::mem;
use std::net::UdpSocket;
use std::thread::sleep;

use socket2::SockRef;

use crate::traffic::live::Files;
use crate::traffic::stage::*;

const DATAGRAMS: u64 = 600;
const BYTES: usize = 1_000;
const FLOWS: u64 = 24;
pub(crate) const VOLUME: u64 = DATAGRAMS * BYTES as u64;
/// The payload of short ones, and the longest frame of their class.
const SHORT: usize = 300;
const SHORT_VOLUME: u64 = DATAGRAMS * SHORT as u64;
const SHORT_FRAME: usize = 400;
const WINDOW: u64 = 24;
/// Expedited Forwarding (RFC 3246), as it stands in the IPv4 header.
const EXPEDITED: u32 = 46 << 2;
const SPREAD: u16 = 5_300;
pub(crate) const OTHER: u16 = 5_301;
/// Links on which fewer bytes come within this time carry heartbeats alone.
const QUIET_FOR: Duration = Duration::from_millis(50);
const QUIET_BYTES: u64 = 4_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: class =, class.policy =, class.match =, class.match.dscp =, class.match.protocol =, class.match.port =
        // Exercises: class.match.max_size =
        Case::new("frames_go_as_their_class_says", DAEMON, classes),
        // Exercises: class list, class add --before, class remove
        Case::new("classes_that_come_and_go_decide_from_then_on", DAEMON, changed),
    ]
}

/// Ordinary frames take the first link alone.
fn classes() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let files = Files::new()?;
    let lines = format!(
        r#"policy = "active-backup"
primary = "eth1"
class = [
  {{ match = {{ dscp = 46 }}, policy = "duplicate" }},
  {{ match = {{ protocol = "tcp", port = {OTHER} }}, policy = "duplicate" }},
  {{ match = {{ protocol = "udp", port = {SPREAD} }}, policy = "hash" }},
  {{ match = {{ max_size = {SHORT_FRAME} }}, policy = "duplicate" }},
]
link = [{{ nic = "eth1" }}, {{ nic = "eth2" }}]
"#
    );
    (0..2).try_for_each(|host| files.write(host, &lines))?;
    let mut bundles = files.start(&topology)?;
    ready(&mut bundles, 2)?;
    let [first, second] = carried(&topology, OTHER, 0)?;
    ensure!(first > VOLUME && second < VOLUME / 4, "ordinary: {first} and {second} bytes of {VOLUME}");
    let [first, second] = carried(&topology, OTHER, EXPEDITED)?;
    ensure!(first.min(second) > VOLUME, "expedited: {first} and {second} bytes, not {VOLUME} on each");
    let [first, second] = carried(&topology, SPREAD, 0)?;
    ensure!(first.min(second) > VOLUME / 6, "spread by flow: {first} and {second} bytes of {VOLUME}");
    ensure!(first + second < VOLUME * 3 / 2, "spread by flow: {first} and {second}: more than one of each");
    // The first class that matches decides.
    let [first, second] = carried(&topology, SPREAD, EXPEDITED)?;
    ensure!(first.min(second) > VOLUME, "both classes: {first} and {second} bytes, not {VOLUME} on each");
    let [first, second] = carried_of(&topology, OTHER, 0, SHORT)?;
    ensure!(
        first.min(second) > SHORT_VOLUME,
        "short: {first} and {second} bytes, not {SHORT_VOLUME} on each"
    );
    Bundle::stop_all(bundles)
}

/// Before the class that sends a port's datagrams over both links another one is put, and taken away again.
fn changed() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options_with(&["--policy", "active-backup"])?, |topology, bundles| {
        let [spread, bound] =
            ["duplicate", "active-backup"].map(|policy| format!("port={OTHER},policy={policy}"));
        bundles[0].ask(&["class", "add", DEVICE, &spread])?;
        let both = || {
            let [first, second] = carried(topology, OTHER, 0)?;
            ensure!(first.min(second) > VOLUME, "{first} and {second} bytes, not {VOLUME} on each");
            Ok(())
        };
        both()?;
        bundles[0].ask(&["class", "add", DEVICE, &bound, "--before", "1"])?;
        let listed = bundles[0].ask(&["class", "list", DEVICE])?;
        ensure!(listed == format!("1  {bound}\n2  {spread}\n"), "{listed}");
        let [first, second] = carried(topology, OTHER, 0)?;
        ensure!(first > VOLUME && second < VOLUME / 4, "the first decides: {first} and {second} bytes");
        bundles[0].ask(&["class", "remove", DEVICE, "1"])?;
        both()
    })
}

pub(crate) fn carried(topology: &Topology, port: u16, service: u32) -> Result<[u64; 2]> {
    carried_of(topology, port, service, BYTES)
}

fn carried_of(topology: &Topology, port: u16, service: u32, bytes: usize) -> Result<[u64; 2]> {
    let (client, server) = (topology.host(0), topology.host(1));
    let to = SocketAddr::new(address(1), port);
    let receiver = server.enter(|| UdpSocket::bind(to))??;
    receiver.set_read_timeout(Some(WITHIN))?;
    let senders = (0..FLOWS).map(|_| {
        let socket = client.enter(|| UdpSocket::bind(SocketAddr::new(address(0), 0)))??;
        SockRef::from(&socket).set_tos_v4(service)?;
        socket.connect(to)?;
        Ok(socket)
    });
    let senders = senders.collect::<Result<Vec<_>>>()?;
    let before = received(topology)?;
    let (datagram, mut buffer) = (vec![0x55; bytes], [0; BYTES]);
    for _ in 0..DATAGRAMS / WINDOW {
        for sender in &senders {
            sender.send(&datagram)?;
        }
        for _ in &senders {
            let length = receiver.recv(&mut buffer).context("a datagram that was lost")?;
            ensure!(length == bytes, "a datagram of {length} bytes");
        }
    }
    // Copies may still wait for their link when the datagrams have come.
    let mut last = received(topology)?;
    let after = wait_for("quiet links", WITHIN, || {
        sleep(QUIET_FOR);
        let earlier = mem::replace(&mut last, received(topology)?);
        Ok((last[0] + last[1] - earlier[0] - earlier[1] < QUIET_BYTES).then_some(last))
    })?;
    Ok([after[0] - before[0], after[1] - before[1]])
}
