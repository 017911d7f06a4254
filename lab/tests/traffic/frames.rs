//! Frames of all kinds, through a bundle's device and through a veth pair beside it: what arrives is the same, byte by byte
//! and in the same order, nothing more and nothing less; and what the kernel refuses to send is the same.
//!
//! ```text
//!  h1.tb0  ══ two links ══ tb0.h2
//!  h1.ref0 ─── a cable ─── ref0.h2
//! ```
//!
//! Both are sent to and read by the same packet sockets, so that a difference is the device's. Frames of one kind go
//! together, and the next kind when they have arrived: they are one flow, whose order is kept. What arrives besides is taken
//! for a frame of the next kind, and differs from it.

pub(crate) mod build;
mod table;

use std::io;

use tabane_io::PacketSocket;
use tabane_io::packet::{FRAME_MAX, HEADER as VIRTIO};

use build::{EVERYONE, EXPERIMENT, FROM, TO, ethernet, from, tagged, text, to, udp4};
use table::{KINDS, SERVICE, VLAN};

use crate::traffic::stage::*;

const REFERENCE: &str = "ref0";
const FRAMES: u8 = 4;
/// MTUs of the device: the smallest and the largest, and what is usual between them.
const MTUS: [usize; 7] = [68, 576, 1280, 1500, 9000, 65_520, 65_521];
const ARRIVE_WITHIN: Duration = Duration::from_secs(3);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("frames_of_all_kinds_pass_as_on_a_cable", DAEMON, kinds),
        Case::new("frames_of_all_mtus_pass_as_on_a_cable", DAEMON, mtus),
        Case::new("a_frame_that_differs_is_named", NOTHING, differences_are_named),
    ]
}

fn kinds() -> Result<()> {
    let mut failures = Vec::new();
    side_by_side(|_, wires| {
        for kind in KINDS {
            let frames: Vec<Vec<u8>> = (0..FRAMES).map(kind.build).collect();
            let arrive = if kind.arrives { frames.len() } else { 0 };
            failures.extend(wires.differ(kind.name, &frames, arrive)?);
        }
        Ok(())
    })?;
    ensure!(
        failures.is_empty(),
        "{} of {} kinds differ:\n{}",
        failures.len(),
        KINDS.len(),
        failures.join("\n")
    );
    Ok(())
}

fn mtus() -> Result<()> {
    let mut failures = Vec::new();
    side_by_side(|topology, wires| {
        for mtu in MTUS {
            for host in topology.hosts() {
                for device in [DEVICE, REFERENCE] {
                    host.ip(&format!("link set {device} mtu {mtu}"))?;
                }
            }
            for (name, arrives, frames) in around(mtu) {
                let arrive = if arrives { frames.len() } else { 0 };
                failures.extend(wires.differ(&format!("MTU {mtu}: {name}"), &frames, arrive)?);
            }
        }
        Ok(())
    })?;
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Frames as long as a device of this MTU takes, a byte less and a byte more; and whether they arrive, or are refused.
fn around(mtu: usize) -> Vec<(&'static str, bool, Vec<Vec<u8>>)> {
    let numbered = |build: &dyn Fn(u8) -> Vec<u8>| (0..FRAMES).map(build).collect();
    let bare = |length: usize| move |n| ethernet(EXPERIMENT, &text(n, length));
    let datagram = mtu - 28;
    let vlan = |length| move |n| tagged(&[[0x81, 0, 0, 7]], ethernet(EXPERIMENT, &text(n, length)));
    vec![
        ("full", true, numbered(&bare(mtu))),
        ("one byte less", true, numbered(&bare(mtu - 1))),
        ("one byte more", false, numbered(&bare(mtu + 1))),
        ("full with a VLAN tag", true, numbered(&vlan(mtu))),
        ("a byte more with a VLAN tag", false, numbered(&vlan(mtu + 1))),
        (
            "full with two VLAN tags",
            true,
            numbered(&|n| tagged(&[SERVICE, VLAN], ethernet(EXPERIMENT, &text(n, mtu - 8)))),
        ),
        ("half", true, numbered(&bare(mtu / 2))),
        ("UDP, full", true, numbered(&|n| udp4(&text(n, datagram)))),
        ("UDP, one byte less", true, numbered(&|n| udp4(&text(n, datagram - 1)))),
        ("to everyone, full", true, numbered(&|n| to(EVERYONE, ethernet(EXPERIMENT, &text(n, mtu))))),
    ]
}

/// Runs `test` over both wires, on which nobody else sends; in the end they are empty.
fn side_by_side(test: impl FnOnce(&Topology, &mut Wires) -> Result<()>) -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, _| {
        let hosts = [topology.host(0), topology.host(1)];
        hosts[0]
            .ip(&format!("link add {REFERENCE} type veth peer name {REFERENCE} netns {}", hosts[1].name()))?;
        for host in hosts {
            silence(host)?;
        }
        let mut wires =
            Wires { device: Wire::open(hosts, DEVICE)?, reference: Wire::open(hosts, REFERENCE)? };
        for wire in [&mut wires.device, &mut wires.reference] {
            wire.begin()?;
        }
        test(topology, &mut wires)?;
        let rest = wires.differ("the last", &[ethernet(EXPERIMENT, &text(0, 50))], 1)?;
        ensure!(rest.is_none(), "{rest:?}");
        Ok(())
    })
}

fn silence(host: &Namespace) -> Result<()> {
    // A device whose MTU was too small for IPv6 begins with the default.
    host.set("net/ipv6/conf/default/disable_ipv6", "1")?;
    for device in [DEVICE, REFERENCE] {
        host.set(&format!("net/ipv6/conf/{device}/disable_ipv6"), "1")?;
        host.ip(&format!("link set {device} arp off multicast off"))?;
        host.ip(&format!("address flush dev {device}"))?;
        host.ip(&format!("link set {device} up"))?;
    }
    Ok(())
}

struct Wires {
    device: Wire,
    reference: Wire,
}

impl Wires {
    /// Sends `frames` over both, of which so many are to arrive; how they differ, if they do.
    fn differ(&mut self, name: &str, frames: &[Vec<u8>], arrive: usize) -> Result<Option<String>> {
        let expected = self.reference.carry(frames, arrive)?;
        let came = expected.arrived.len();
        ensure!(came == arrive, "{name}: the cable itself carried {came} frames instead of {arrive}");
        let carried = self.device.carry(frames, arrive)?;
        Ok(difference(&expected, &carried).map(|what| format!("{name}: {what}")))
    }
}

struct Wire {
    near: PacketSocket,
    far: PacketSocket,
    frame: Vec<u8>,
}

impl Wire {
    fn open(hosts: [&Namespace; 2], device: &str) -> Result<Wire> {
        let [near, far] = hosts.map(|host| host.enter(|| PacketSocket::open(device)));
        let (near, far) = (near??, far??);
        far.report_tags().context("PACKET_AUXDATA")?;
        Ok(Wire { near, far, frame: vec![0; FRAME_MAX] })
    }

    /// Takes what kernels have sent before, up to a frame of our own, and lets the far end be known.
    fn begin(&mut self) -> Result<()> {
        wait_for("the far end's first frame", ARRIVE_WITHIN, || {
            let hello = from(TO, to(FROM, ethernet(EXPERIMENT, &text(0, 50))));
            Ok(self.far.send(&hello).is_ok().then_some(()))
        })?;
        let first = ethernet(EXPERIMENT, &text(0xfe, 50));
        wait_for("the near end's first frame", ARRIVE_WITHIN, || {
            Ok(self.near.send(&first).is_ok().then_some(()))
        })?;
        wait_for("that frame to arrive", ARRIVE_WITHIN, || {
            Ok((self.next()?.as_ref() == Some(&first)).then_some(()))
        })
    }

    fn carry(&mut self, frames: &[Vec<u8>], wanted: usize) -> Result<Carried> {
        let sent = frames.iter().map(|frame| self.near.send(frame));
        let refused = sent.map(|sent| sent.err().and_then(|error| error.raw_os_error())).collect();
        let mut arrived = Vec::new();
        // What is missing then is seen by the comparison.
        let _missing = wait_for("frames", ARRIVE_WITHIN, || {
            while let Some(frame) = self.next()? {
                arrived.push(frame);
            }
            Ok((arrived.len() >= wanted).then_some(()))
        });
        Ok(Carried { refused, arrived })
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self.far.receive_tagged(&mut self.frame) {
            Ok((length, tag)) => Ok(Some(settled(&self.frame[..length], tag))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("receiving a frame"),
        }
    }
}

const SHOWN: usize = 8;
/// Flag of the virtio header: a checksum is owed. Others are the reading kernel's opinion.
const CHECKSUM_OWED: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Carried {
    /// Of each frame, the error with which the kernel refused it.
    refused: Vec<Option<i32>>,
    arrived: Vec<Vec<u8>>,
}

/// The frame as it is compared: with the VLAN tag that stood beside it, and of the virtio header only what says what is still
/// to be done with the frame. How many bytes of headers lie in one piece of memory is the kernel's own business.
fn settled(frame: &[u8], tag: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[0] &= CHECKSUM_OWED;
    frame[2..4].fill(0);
    match tag {
        Some(tag) => tagged(&[tag], frame),
        None => frame,
    }
}

fn difference(expected: &Carried, carried: &Carried) -> Option<String> {
    if expected.refused != carried.refused {
        return Some(format!("refused were {:?} instead of {:?}", carried.refused, expected.refused));
    }
    let mut pairs = expected.arrived.iter().zip(&carried.arrived).enumerate();
    if let Some((number, (wanted, got))) = pairs.find(|(_, (wanted, got))| wanted != got) {
        let arrived = carried.arrived.len();
        return Some(format!("frame {number} of {arrived} that arrived has {}", other(wanted, got)));
    }
    let (wanted, got) = (expected.arrived.len(), carried.arrived.len());
    (wanted != got).then(|| format!("{got} frames arrived instead of {wanted}"))
}

/// Where a frame is another than was wanted; places in its virtio header are below zero.
fn other(wanted: &[u8], got: &[u8]) -> String {
    let same = wanted.iter().zip(got).take_while(|(wanted, got)| wanted == got).count();
    let around = |frame: &[u8]| {
        let shown = same.saturating_sub(SHOWN)..(same + SHOWN).min(frame.len());
        format!("{:02x?}", &frame[shown])
    };
    format!(
        "{} bytes instead of {}, other from byte {} on: {} instead of {}",
        got.len() - VIRTIO,
        wanted.len() - VIRTIO,
        same.cast_signed() - VIRTIO.cast_signed(),
        around(got),
        around(wanted),
    )
}

fn differences_are_named() -> Result<()> {
    let frames: Vec<Vec<u8>> = (0..3).map(|n| ethernet(EXPERIMENT, &text(n, 60))).collect();
    let whole = Carried { refused: vec![None; 3], arrived: frames };
    ensure!(difference(&whole, &whole).is_none(), "equal wires differ");
    type Fault = fn(&mut Carried);
    let faults: [(&str, Fault); 8] = [
        ("byte 30", |carried| carried.arrived[1][VIRTIO + 30] ^= 1),
        ("byte -10", |carried| carried.arrived[2][0] ^= CHECKSUM_OWED),
        ("frame 0 of 3 that arrived has 73 bytes", |carried| carried.arrived[0].truncate(VIRTIO + 73)),
        ("frame 0 of 3 that arrived has 75 bytes", |carried| carried.arrived[0].push(0)),
        ("byte 14", |carried| carried.arrived.swap(0, 1)),
        ("2 frames arrived instead of 3", |carried| drop(carried.arrived.pop())),
        ("4 frames arrived instead of 3", |carried| carried.arrived.push(carried.arrived[2].clone())),
        ("refused", |carried| carried.refused[1] = Some(90)),
    ];
    for (expected, fault) in faults {
        let mut faulty = whole.clone();
        fault(&mut faulty);
        let named = difference(&whole, &faulty).unwrap_or_default();
        ensure!(named.contains(expected), "`{named}` does not say `{expected}`");
    }
    let (bare, tag) = (&whole.arrived[0], [0x81, 0, 0, 7]);
    ensure!(settled(bare, Some(tag)) != settled(bare, None), "a VLAN tag makes no difference");
    Ok(())
}
