//! UDP links over a veth pair.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use tabane_io::{
    Interest, Link, LinkError, Poll, RUN_MAX, ReceiveBuffer, SEGMENTS_MAX, Sent, UdpLink, UdpSpec,
};

use tabane_netns::{Cable, Namespace, until};

use crate::{Need, Test, shape, udp};

pub(crate) const TESTS: &[Test] = tests!("udp";
    Namespaces:
        a_run_arrives_as_one_gro_buffer, runs_up_to_the_limits_pass, segments_above_the_mtu_are_refused,
        a_refusal_of_gso_loses_nothing, hellos_reach_the_other_side_only,
        nics_share_a_port, a_nic_that_is_down_is_reported;
    Tbf: queued_bytes_return_to_zero, a_full_buffer_takes_no_part_of_a_run;
);

const PORT: u16 = 7420;
/// A cell on a link of MTU 1500 over IPv6.
const CELL: usize = 1452;

/// A link at each end of a cable.
struct Pair {
    cable: Cable,
    left: UdpLink,
    right: UdpLink,
}

impl Pair {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// With a change of what both ends ask for.
    fn with(change: impl Fn(&mut UdpSpec) + Sync) -> Self {
        let cable = Cable::new().unwrap();
        let bind = |host: &Namespace, nic| {
            let mut spec = udp(nic);
            change(&mut spec);
            host.run(|| UdpLink::bind(&spec).unwrap())
        };
        let (left, right) = (bind(&cable.left, "left"), bind(&cable.right, "right"));
        Self { cable, left, right }
    }

    /// Where `left` finds `right`.
    fn to_right(&self) -> SocketAddr {
        SocketAddrV6::new(self.cable.link_local[1], PORT, 0, self.left.nic().index).into()
    }

    fn send(&mut self, bytes: &[u8], segment: usize) -> Sent {
        let to = self.to_right();
        self.left.send(&to, &[IoSlice::new(bytes)], segment)
    }
}

/// What arrives until `bytes` have come: length, segment and contents of each message.
fn collect(link: &mut UdpLink, bytes: usize) -> Vec<(usize, usize, Vec<u8>)> {
    let (mut room, mut messages, mut total) = (vec![0; 65_536], Vec::new(), 0);
    until("datagrams", || {
        let mut buffers = [ReceiveBuffer::new(&mut room)];
        while link.receive(&mut buffers).unwrap() == 1 {
            let buffer = &buffers[0];
            messages.push((buffer.len, buffer.segment, buffer.bytes[..buffer.len].to_vec()));
            total += buffer.len;
        }
        (total >= bytes).then_some(())
    });
    messages
}

fn pattern(length: usize) -> Vec<u8> {
    (0..).map(|i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).take(length).collect()
}

fn a_run_arrives_as_one_gro_buffer() {
    let mut pair = Pair::new();
    let run = pattern(44 * CELL);
    assert!(matches!(pair.send(&run, CELL), Sent::Done));
    assert_eq!(collect(&mut pair.right, run.len()), [(run.len(), CELL, run)]);
}

fn runs_up_to_the_limits_pass() {
    let mut pair = Pair::new();
    for (length, segment) in [(RUN_MAX, CELL), (SEGMENTS_MAX * 100, 100)] {
        let run = pattern(length);
        let sent = pair.send(&run, segment);
        assert!(matches!(sent, Sent::Done), "{length} by {segment}: {sent:?}");
        let arrived: Vec<u8> = collect(&mut pair.right, length).into_iter().flat_map(|m| m.2).collect();
        assert!(arrived == run, "{length} by {segment}");
        assert!(pair.left.gso(), "{length} by {segment}");
    }
}

fn segments_above_the_mtu_are_refused() {
    let mut pair = Pair::new();
    for length in [1453, 10 * 1453] {
        let Sent::Lost(error) = pair.send(&pattern(length), 1453) else { panic!("{length} pass") };
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{length}");
    }
    assert!(pair.left.gso(), "a cell that is too long says nothing about GSO");
}

/// `SO_NO_CHECK`: the kernel has no GSO for sockets that send without checksums, so it refuses runs.
fn refuse_gso(link: &UdpLink, on: bool) {
    let on = libc::c_int::from(on);
    // SAFETY: the option reads one int, which lives until the call returns.
    let result = unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(link.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, value, 4)
    };
    assert_eq!(result, 0);
}

fn a_refusal_of_gso_loses_nothing() {
    let cable = Cable::new().unwrap();
    let [left, right]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
    let bind = |host: &Namespace, nic, local| {
        host.run(|| UdpLink::bind(&UdpSpec { local: Some(local), ..udp(nic) }).unwrap())
    };
    let (mut from, mut to) = (bind(&cable.left, "left", left), bind(&cable.right, "right", right));
    refuse_gso(&from, true);
    let run = pattern(40 * CELL + 1);
    let sent = from.send(&SocketAddr::new(right, PORT), &[IoSlice::new(&run)], CELL);
    assert!(matches!(sent, Sent::Done), "{sent:?}");
    let arrived: Vec<u8> = collect(&mut to, run.len()).into_iter().flat_map(|message| message.2).collect();
    assert!(arrived == run);

    assert!(!from.gso());
    let notice = from.take_notice().unwrap().to_string();
    assert!(notice.starts_with("left: UDP_SEGMENT is not available (Invalid argument"), "{notice}");
    assert!(from.take_notice().is_none());
}

fn queued_bytes_return_to_zero() {
    let mut pair = Pair::new();
    shape(&pair.cable.left, "left").unwrap();
    // More than the burst of the shaper: what is beyond has to wait.
    let run = pattern(44 * CELL);
    for _ in 0..3 {
        assert!(matches!(pair.send(&run, CELL), Sent::Done));
    }
    assert!(pair.left.queued_bytes() >= 40 * CELL);
    until("empty queue", || (pair.left.queued_bytes() == 0).then_some(()));
    collect(&mut pair.right, 3 * run.len());
}

fn a_full_buffer_takes_no_part_of_a_run() {
    for gso in [true, false] {
        let mut pair = Pair::with(|spec| spec.gso = gso);
        shape(&pair.cable.left, "left").unwrap();
        pair.left.set_send_buffer(100_000).unwrap();
        let before = pair.left.send_buffer().unwrap();
        let run = pattern(44 * CELL);
        let mut taken = 0;
        while let Sent::Done = pair.send(&run, CELL) {
            taken += 1;
            assert!(taken < 1000, "the buffer never fills");
        }
        assert!(matches!(pair.send(&run, CELL), Sent::Full), "gso {gso}");
        assert_eq!(pair.left.send_buffer().unwrap(), before, "gso {gso}");

        let mut poll = Poll::new().unwrap();
        poll.add(&pair.left, 0, Interest::Write).unwrap();
        // A process that is stopped and goes on wakes up from any wait.
        until("room", || (poll.wait(Some(Duration::from_millis(100))).unwrap().count() == 1).then_some(()));
        until("empty queue", || (pair.left.queued_bytes() == 0).then_some(()));
        let arrived: usize = collect(&mut pair.right, taken * run.len()).iter().map(|m| m.0).sum();
        assert_eq!(arrived, taken * run.len(), "gso {gso}");
    }
}

fn hellos_reach_the_other_side_only() {
    let group = "ff12::7461:6261".parse().unwrap();
    let mut pair = Pair::with(|spec| spec.multicast = Some(group));
    let to = SocketAddr::new(group.into(), PORT);
    assert!(matches!(pair.left.send(&to, &[IoSlice::new(b"hello")], CELL), Sent::Done));
    assert_eq!(collect(&mut pair.right, 5), [(5, 5, b"hello".to_vec())]);
    let mut room = [0; 100];
    assert_eq!(pair.left.receive(&mut [ReceiveBuffer::new(&mut room)]).unwrap(), 0);
}

fn nics_share_a_port() {
    let cable = Cable::new().unwrap();
    cable.left.run(|| {
        let _left = UdpLink::bind(&udp("left")).unwrap();
        let _lo = UdpLink::bind(&udp("lo")).unwrap();
        let error = UdpLink::bind(&udp("left")).unwrap_err();
        assert!(error.to_string().starts_with("UDP port 7420 on NIC left is taken"), "{error}");
    });
}

fn a_nic_that_is_down_is_reported() {
    let cable = Cable::new().unwrap();
    cable.left.ip("link set left down").unwrap();
    let error = cable.left.run(|| UdpLink::bind(&udp("left")).unwrap_err());
    assert!(matches!(error, LinkError::NicDown { .. }));
    assert_eq!(error.to_string(), "NIC left is down: bring it up with `ip link set left up`");
}
