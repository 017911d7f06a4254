//! VLAN-tagged frames, single and stacked, up to the full MTU: tags and payload arrive as they were sent. And a VLAN of the
//! kernel's own driver, where there is one.
//!
//! Frames go out by a packet socket and are recorded by tcpdump, which puts back the tag that the kernel takes off
//! a received frame.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, send, socket};
use tabane_kit::bundle::DEVICE;
use tabane_kit::clock::wait_for;
use tabane_kit::netns::Namespace;
use tabane_kit::process::Process;

use crate::traffic::experiments::{lab, median};
use crate::traffic::reorder::GUEST;
use crate::traffic::stage::{FAST, options, plan, with_bundles};
use crate::traffic::{Case, Need};

/// IEEE 802 local experimental EtherType 1: nothing else on the device uses it.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// VLAN 7, priority 3.
const INNER: [u8; 4] = [0x81, 0x00, 0x60, 0x07];
/// Service VLAN 100.
const OUTER: [u8; 4] = [0x88, 0xa8, 0x00, 0x64];
/// Time for all frames to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(5);
/// Time for the guest to boot on emulated processors, to measure and to end.
const GUEST_WITHIN: Duration = Duration::from_secs(600);
/// Least mean length of frames, in bytes: more than segments of the MTU of 1,500 have.
const FRAME_MIN: f64 = 1_600.0;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("vlan_tags_pass_unchanged", Need::DaemonAndTcpdump, tags),
        Case::nightly("vlan_on_the_device_carries_whole_superframes", Need::NewGuestAndMinutes, vlan),
    ]
}

fn tags() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, _| {
        let frames = frames();
        let directory = tempfile::tempdir()?;
        let record = directory.path().join("frames.pcap");
        let _recorder = record_to(topology.host(1), &record)?;
        topology.host(0).enter(|| send_frames(&frames))??;
        let arrived = wait_for("all tagged frames", ARRIVE_WITHIN, || {
            let arrived = recorded(&fs::read(&record)?);
            Ok((arrived.len() >= frames.len()).then_some(arrived))
        })?;
        ensure!(arrived.len() == frames.len(), "{} frames sent, {} arrived", frames.len(), arrived.len());
        for (sent, arrived) in by_tag(&frames).into_iter().zip(by_tag(&arrived)) {
            ensure!(sent == arrived, "a frame differs: sent {sent:02x?}, arrived {arrived:02x?}");
        }
        Ok(())
    })
}

/// Whole bytes, or the run fails, and superframes: without them no frame would be longer than the MTU allows. The command's
/// verdicts on speed and lost segments are for a machine that does nothing else.
fn vlan() -> Result<()> {
    let (_, report) = lab(&["vlan", "--quick", "--vm", GUEST], GUEST_WITHIN)?;
    ensure!(
        report["verdicts"].as_array().is_some_and(|all| all.len() == 4),
        "not all was measured: {report}"
    );
    ensure!(report["verdicts"][0]["ok"] == true, "a run failed: {report}");
    ensure!(median(&report, "guest.vlan.frame_bytes")? > FRAME_MIN, "{report}");
    Ok(())
}

/// Frames of another tag are another flow: order is kept within each.
fn by_tag(frames: &[Vec<u8>]) -> Vec<&Vec<u8>> {
    let mut sorted: Vec<&Vec<u8>> = frames.iter().collect();
    sorted.sort_by_key(|frame| frame[12..16].to_vec());
    sorted
}

/// Broadcast frames with no tag, one tag and two, from the shortest to the longest payload.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for payload in [46, 100, 1000, 1400, 1496, 1500] {
        let tag_sets: [&[u8]; 3] = [&[], &INNER, &[OUTER, INNER].concat()];
        for tags in tag_sets {
            // A packet socket grants room beyond the MTU to a tag of type 0x8100 only; other tags count as payload.
            let room = if tags.len() == 8 { payload.min(1492) } else { payload };
            let mut frame = vec![0xff; 6];
            frame.extend([0x02, 0, 0, 0, 0, 0x99]);
            frame.extend(tags);
            frame.extend(ETHERTYPE);
            frame.extend((0..room).map(|place| (place % 251) as u8));
            frames.push(frame);
        }
    }
    frames
}

fn send_frames(frames: &[Vec<u8>]) -> Result<()> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll)?;
    let mut addresses = getifaddrs()?.filter(|each| each.interface_name == DEVICE);
    let device =
        addresses.find_map(|each| Some(*each.address?.as_link_addr()?)).context("the device's address")?;
    bind(socket.as_raw_fd(), &device)?;
    for frame in frames {
        send(socket.as_raw_fd(), frame, MsgFlags::empty())
            .with_context(|| format!("{} bytes", frame.len()))?;
    }
    Ok(())
}

/// Starts tcpdump and waits until it records: it writes the file's head once it has begun.
fn record_to(host: &Namespace, path: &Path) -> Result<Process> {
    let mut command = host.command("tcpdump");
    command.args(["-Z", "root", "-i", DEVICE, "-U", "-s", "0", "-w"]).arg(path);
    let process = Process::start(command)?;
    wait_for("a tcpdump that records", ARRIVE_WITHIN, || {
        let begun = fs::metadata(path).is_ok_and(|file| file.len() >= PCAP_HEAD as u64);
        Ok(begun.then_some(()))
    })?;
    Ok(process)
}

/// Bytes of a pcap file before its first record.
const PCAP_HEAD: usize = 24;
/// Bytes of a record before its frame; the third word is the frame's length.
const RECORD_HEAD: usize = 16;

/// The frames of a pcap file that are ours.
fn recorded(file: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut rest = file.get(PCAP_HEAD..).unwrap_or_default();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_ne_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(frame) = rest.get(RECORD_HEAD..RECORD_HEAD + length) else { break };
        if frame.starts_with(&[0xff; 6]) && frame[6..12] == [0x02, 0, 0, 0, 0, 0x99] {
            frames.push(frame.to_vec());
        }
        rest = &rest[RECORD_HEAD + length..];
    }
    frames
}
