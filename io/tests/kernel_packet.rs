//! Packet sockets on a veth pair.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tabane_io::packet::{FRAME_MAX, HEADER};
use tabane_io::{Link, PacketSocket, Sent, UdpLink, UdpSpec};

use tabane_netns::{Cable, until};

use crate::{Need, Test, sockets, udp};

pub(crate) const TESTS: &[Test] = tests!("packet";
    Namespaces:
        a_run_comes_whole_unless_the_sender_has_to_segment_it, what_leaves_through_the_nic_is_not_seen,
        a_frame_comes_with_its_age, a_vlan_tag_comes_beside_its_frame;
);

const CELL: usize = 1400;
const CELLS: usize = 10;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;
/// `VIRTIO_NET_HDR_GSO_UDP_L4` of linux/virtio_net.h.
const GSO_UDP: u8 = 5;

/// The lab sets `gso_max_segs`, so that superframes are segmented before they reach its wires.
fn a_run_comes_whole_unless_the_sender_has_to_segment_it() {
    let cable = Cable::new().unwrap();
    let far = cable.right.run(|| PacketSocket::open("right").unwrap());
    let local = Some("10.0.0.1".parse().unwrap());
    let mut near = cable.left.run(|| UdpLink::bind(&UdpSpec { local, ..udp("left") }).unwrap());
    assert_eq!(lengths_of_a_run(&mut near, &far), [HEADERS + CELLS * CELL]);
    cable.left.ip("link set left gso_max_segs 1").unwrap();
    assert_eq!(lengths_of_a_run(&mut near, &far), [HEADERS + CELL; CELLS]);
}

fn what_leaves_through_the_nic_is_not_seen() {
    let cable = Cable::new().unwrap();
    let socket = cable.right.run(|| PacketSocket::open("right").unwrap());
    let [receiver, sender] = sockets(&cable, [0, 0]);
    sender.send_to(b"out", receiver.local_addr().unwrap()).unwrap();
    receiver.recv(&mut [0; 8]).unwrap();
    let mut frame = vec![0; FRAME_MAX];
    while let Ok(length) = socket.receive(&mut frame) {
        let datagram = frame[HEADER..length].ends_with(b"out");
        assert!(!datagram, "the socket received what this host sent");
    }
}

fn a_frame_comes_with_its_age() {
    const WAITED: Duration = Duration::from_millis(30);
    let cable = Cable::new().unwrap();
    let socket = cable.right.run(|| PacketSocket::open("right").unwrap());
    socket.stamp().unwrap();
    let [sender, _] = sockets(&cable, [0, 0]);
    let mut frame = vec![0; FRAME_MAX];
    // The kernel begins to stamp some time after it was asked (`net_enable_timestamp` leaves that to a work queue).
    until("a datagram that was stamped when it came", || {
        let sent = Instant::now();
        sender.send_to(b"stamped", "10.0.0.2:9").unwrap();
        std::thread::sleep(WAITED);
        let ago = until("the datagram", || {
            let (length, ago) = socket.receive_stamped(&mut frame).ok()?;
            frame[..length].ends_with(b"stamped").then_some(ago)
        });
        assert!(ago <= sent.elapsed(), "{ago:?}");
        (ago >= WAITED / 2).then_some(())
    });
}

/// The kernel takes the outer tag off whatever comes in; both may be asked for at once.
fn a_vlan_tag_comes_beside_its_frame() {
    let cable = Cable::new().unwrap();
    let near = cable.left.run(|| PacketSocket::open("left").unwrap());
    let far = cable.right.run(|| PacketSocket::open("right").unwrap());
    far.stamp().unwrap();
    far.report_tags().unwrap();
    let addresses = [[0xff; 6], [0x02, 0, 0, 0, 0, 0x99]].concat();
    let rest = [&[0x88, 0xb5][..], &[0x55; 50]].concat();
    for tag in [None, Some([0x81, 0, 0x60, 7]), Some([0x81, 0, 0, 0]), Some([0x88, 0xa8, 0, 100])] {
        let tag_bytes = tag.map(Vec::from).unwrap_or_default();
        near.send(&[&[0; HEADER][..], &addresses, &tag_bytes, &rest].concat()).unwrap();
        let mut frame = vec![0; FRAME_MAX];
        let found = until("the frame", || {
            let (length, tag) = far.receive_tagged(&mut frame).ok()?;
            (frame[HEADER..length] == [&addresses[..], &rest].concat()).then_some(tag)
        });
        assert_eq!(found, tag);
    }
}

/// Sends a run from `near` and gives the lengths of the UDP frames that it is at the far end.
fn lengths_of_a_run(near: &mut UdpLink, far: &PacketSocket) -> Vec<usize> {
    let run = vec![0x55; CELLS * CELL];
    let to: SocketAddr = "10.0.0.2:9".parse().unwrap();
    until("room for a run", || {
        matches!(near.send(&to, &[IoSlice::new(&run)], CELL), Sent::Done).then_some(())
    });
    let (mut lengths, mut bytes, mut frame) = (Vec::new(), 0, vec![0; FRAME_MAX]);
    until("whole run", || {
        while let Ok(length) = far.receive(&mut frame) {
            let frame = &frame[..length];
            if frame[HEADER + 23] != 17 || frame[HEADER + 36..HEADER + 38] != 9_u16.to_be_bytes() {
                continue; // not the run: neighbour discovery and the like
            }
            assert_eq!(frame[1] == GSO_UDP, length > HEADER + HEADERS + CELL);
            lengths.push(length - HEADER);
            bytes += length - HEADER - HEADERS;
        }
        (bytes == run.len()).then_some(())
    });
    lengths
}
