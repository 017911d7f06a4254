//! The TAP device.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use socket2::{Domain, Protocol, Socket, Type};
use tabane_io::netlink::{self, DeviceSettings};
use tabane_io::tap::FRAME_MAX;
use tabane_io::{Gates, Interest, Offload, Poll, Tap, TapError, TapQueue, TapSpec, Waker};
use tabane_proto::gate::gate_of;

use tabane_netns::Namespace;

use crate::{Need, Test};

pub(crate) const TESTS: &[Test] = tests!("tap";
    Tun:
        superframes_cross_whole, without_offloads_frames_are_segmented_to_the_mtu,
        a_name_is_taken_until_the_last_handle_goes, without_privilege_it_says_so, queues_share_one_device,
        carrier_follows_us, noqueue_reports_a_full_ring, a_contradictory_vnet_header_is_refused;
    Bpf: closed_gates_refuse_their_flows_alone;
);

fn spec(offload: Offload) -> TapSpec {
    TapSpec { name: "tb0".into(), queues: 1, offload }
}

/// A host with a TAP that is up.
struct Node {
    host: Namespace,
    tap: Tap,
    queue: TapQueue,
}

impl Node {
    fn new(address: &str, offload: Offload) -> Self {
        let host = Namespace::new().unwrap();
        let (tap, mut queues) = host.run(|| Tap::open(&spec(offload)).unwrap());
        host.ip(&format!("address add {address} dev tb0")).unwrap();
        host.ip("link set tb0 up").unwrap();
        Self { host, tap, queue: queues.remove(0) }
    }
}

/// Carries frames between two queues until `stop`; gives the length of the longest, vnet header included.
fn relay(left: &TapQueue, right: &TapQueue, stop: &Waker) -> usize {
    const STOP: u64 = 2;
    let (mut poll, mut frame, mut longest) = (Poll::new().unwrap(), vec![0; FRAME_MAX], 0);
    poll.add(left, 0, Interest::Read).unwrap();
    poll.add(right, 1, Interest::Read).unwrap();
    poll.add(stop, STOP, Interest::Read).unwrap();
    loop {
        let ready: Vec<u64> = poll.wait(None).unwrap().map(|ready| ready.token).collect();
        if ready.contains(&STOP) {
            return longest;
        }
        for token in ready {
            let (from, to) = if token == 0 { (left, right) } else { (right, left) };
            while let Some(length) = from.read(&mut [IoSliceMut::new(&mut frame)]).unwrap() {
                longest = longest.max(length);
                to.write(&[IoSlice::new(&frame[..length])]).unwrap();
            }
        }
    }
}

/// Sends 8 MB by TCP from one TAP to another and gives the longest frame seen on the way.
fn longest_frame_of_a_transfer(offload: Offload) -> usize {
    let (left, right) = (Node::new("10.0.0.1/24", offload), Node::new("10.0.0.2/24", offload));
    assert_eq!((left.tap.offload(), left.tap.notices()), (offload, &[][..]));
    let stop = Waker::new().unwrap();
    let sent: Vec<u8> = (0..8_000_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    thread::scope(|scope| {
        let relay = scope.spawn(|| relay(&left.queue, &right.queue, &stop));
        let listener = right.host.run(|| TcpListener::bind("10.0.0.2:7").unwrap());
        let received = scope.spawn(move || {
            let mut bytes = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            bytes
        });
        left.host.run(|| TcpStream::connect("10.0.0.2:7").unwrap().write_all(&sent).unwrap());
        assert!(received.join().unwrap() == sent, "the bytes arrive as they were sent");
        stop.wake().unwrap();
        relay.join().unwrap()
    })
}

fn superframes_cross_whole() {
    let longest = longest_frame_of_a_transfer(Offload::ALL);
    assert!((60_000..=FRAME_MAX).contains(&longest), "longest frame: {longest}");
}

fn without_offloads_frames_are_segmented_to_the_mtu() {
    let longest = longest_frame_of_a_transfer(Offload::NONE);
    assert_eq!(longest, 10 + 14 + 1500);
}

fn a_name_is_taken_until_the_last_handle_goes() {
    Namespace::new().unwrap().run(|| {
        let (tap, queues) = Tap::open(&spec(Offload::ALL)).unwrap();
        for queues in [1, 2] {
            let error = Tap::open(&TapSpec { queues, ..spec(Offload::ALL) }).unwrap_err();
            assert!(matches!(error, TapError::NameTaken { .. }), "{error}");
        }
        drop(queues);
        assert!(netlink::nic("tb0").is_ok());
        drop(tap);
        // A program that another trial is just starting has a handle, too, until it runs.
        let end = Instant::now() + Duration::from_secs(2);
        while netlink::nic_names().unwrap() != ["lo"] {
            assert!(Instant::now() < end, "it outlives its handles: {:?}", netlink::nic_names());
            thread::yield_now();
        }
        Tap::open(&spec(Offload::ALL)).unwrap();
    });
}

fn without_privilege_it_says_so() {
    Namespace::new().unwrap().run(|| {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).unwrap();
        let error = Tap::open(&spec(Offload::ALL)).unwrap_err();
        assert!(matches!(error, TapError::NoPermission { .. }), "{error}");
        let settings = DeviceSettings { mtu: Some(9000), ..Default::default() };
        let error = netlink::set_device(1, &settings).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no permission to set up the device: run as root or with CAP_NET_ADMIN"
        );
    });
}

fn queues_share_one_device() {
    Namespace::new().unwrap().run(|| {
        let (tap, queues) = Tap::open(&TapSpec { queues: 4, ..spec(Offload::ALL) }).unwrap();
        assert_eq!((queues.len(), tap.index()), (4, netlink::nic("tb0").unwrap().index));
        let less = Offload { uso: false, ..Offload::ALL };
        assert_eq!(tap.set_offload(less).unwrap(), less);
        assert_eq!(tap.offload(), less);
    });
}

fn carrier_follows_us() {
    let node = Node::new("10.0.0.1/24", Offload::ALL);
    for up in [false, true] {
        node.tap.set_carrier(up).unwrap();
        assert_eq!(node.host.run(|| netlink::nic("tb0").unwrap()).carrier, up);
    }
}

/// Of 40 broadcasts into a ring of 8 that nobody reads, 32 fail. Under a queueing discipline all 40
/// succeed and 32 are lost in silence (Linux 6.18).
fn noqueue_reports_a_full_ring() {
    let node = Node::new("10.0.0.1/24", Offload::ALL);
    node.host.run(|| {
        let settings = DeviceSettings { tx_queue_len: Some(8), ..Default::default() };
        netlink::set_device(node.tap.index(), &settings).unwrap();
        netlink::set_qdisc_noqueue(node.tap.index()).unwrap();
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.set_broadcast(true).unwrap();
        report_local_congestion(&socket);
        let broadcast: SocketAddr = "10.0.0.255:7".parse().unwrap();
        let failed = |_: &usize| {
            let result = socket.send_to(b"x", broadcast);
            result.is_err_and(|error| error.raw_os_error() == Some(libc::ENOBUFS))
        };
        let failures = (0..40).filter(failed).count();
        assert!(failures >= 32, "{failures} of 40");
    });
}

/// `IP_RECVERR`: the kernel then reports local congestion to a UDP socket, as it always does to TCP.
fn report_local_congestion(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    // SAFETY: the option reads one int, which lives until the call returns.
    let result = unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_IP, libc::IP_RECVERR, value, 4)
    };
    assert_eq!(result, 0);
}

fn a_contradictory_vnet_header_is_refused() {
    let node = Node::new("10.0.0.1/24", Offload::ALL);
    // flags NEEDS_CSUM with csum_start beyond the frame
    let header = [1, 0, 0, 0, 0, 0, 0xff, 0x7f, 0, 0];
    let error = node.queue.write(&[IoSlice::new(&header), IoSlice::new(&[0; 60])]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    let plain = [0; 10];
    node.queue.write(&[IoSlice::new(&plain), IoSlice::new(&[0; 60])]).unwrap();
    let mut poll = Poll::new().unwrap();
    poll.add(&node.queue, 0, Interest::Write).unwrap();
    assert!(poll.wait(Some(Duration::ZERO)).unwrap().any(|ready| ready.writable));
}

/// An IP packet of `bytes` with this protocol, from a flow of its own.
fn packet(is_ipv6: bool, protocol: u8, number: u16, bytes: usize) -> Vec<u8> {
    let [high, low] = number.wrapping_mul(40_503).to_be_bytes();
    let mut packet = vec![0; bytes];
    let transport = if is_ipv6 {
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&u16::try_from(bytes - 40).unwrap().to_be_bytes());
        (packet[6], packet[7]) = (protocol, 64);
        packet[8..24].copy_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet[24..40].copy_from_slice(&[0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]);
        40
    } else {
        packet[0] = 0x45;
        (packet[8], packet[9]) = (64, protocol);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[10, 1, high, low]);
        20
    };
    packet[transport..transport + 4].copy_from_slice(&[low, high, 0, 80]);
    packet
}

fn gate(packet: &[u8]) -> u16 {
    let (addresses, ports) = if packet[0] == 0x60 { (8..40, 40) } else { (12..20, 20) };
    gate_of(&packet[addresses], packet[ports..ports + 4].try_into().unwrap())
}

/// Sends packets out of a device; gives those that its queue then holds, by their ports.
fn pass(node: &Node, packets: &[Vec<u8>]) -> Vec<bool> {
    let raw = |domain, protocol| node.host.run(|| Socket::new(domain, Type::RAW, Some(protocol)).unwrap());
    let (four, six) = (raw(Domain::IPV4, Protocol::from(255)), raw(Domain::IPV6, Protocol::from(255)));
    let ports = |packet: &[u8]| {
        let at = if packet[0] == 0x60 { 40 } else { 20 };
        (packet[0], packet.get(at..at + 4).map(<[u8]>::to_vec))
    };
    let mut frame = vec![0; FRAME_MAX];
    let mut passes = |packet: &Vec<u8>| {
        let (socket, to) = if packet[0] == 0x60 {
            (&six, SocketAddr::new(<[u8; 16]>::try_from(&packet[24..40]).unwrap().into(), 0))
        } else {
            (&four, SocketAddr::new(<[u8; 4]>::try_from(&packet[16..20]).unwrap().into(), 0))
        };
        // A packet that is refused is an error to some senders.
        let _ = socket.send_to(packet, &to.into());
        let mut passed = false;
        while let Some(length) = node.queue.read(&mut [IoSliceMut::new(&mut frame)]).unwrap() {
            passed |= ports(&frame[24..length]) == ports(packet);
        }
        passed
    };
    packets.iter().map(&mut passes).collect()
}

/// The gates refuse only frames that are long, of TCP, local, and at a closed gate.
fn closed_gates_refuse_their_flows_alone() {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let node = Node::new("10.0.0.1/24", Offload::ALL);
    node.host.ip("address add fd00::1/64 dev tb0 nodad").unwrap();
    for (via, net) in [("10.0.0.2", "10.1.0.0/16"), ("fd00::2", "fd01::/16")] {
        node.host.ip(&format!("neighbour add {via} lladdr 02:00:00:00:00:02 dev tb0")).unwrap();
        node.host.ip(&format!("route add {net} via {via}")).unwrap();
    }
    let gates = Gates::new().unwrap();
    node.tap.set_gates(&gates).unwrap();
    let kinds = [(false, TCP, 1_400), (true, TCP, 1_400), (false, UDP, 1_400), (false, TCP, 200)];
    for (is_ipv6, protocol, bytes) in kinds {
        let packets: Vec<_> = (0..40).map(|number| packet(is_ipv6, protocol, number, bytes)).collect();
        assert_eq!(pass(&node, &packets), [true; 40], "all gates are open");
        let closed = |number: usize| number.is_multiple_of(2);
        for (number, packet) in packets.iter().enumerate() {
            gates.set(gate(packet), closed(number));
        }
        let refused = protocol == TCP && bytes > 256;
        let expected: Vec<_> = (0..40).map(|number| !(refused && closed(number))).collect();
        assert_eq!(pass(&node, &packets), expected, "protocol {protocol}, {bytes} bytes");
        packets.iter().for_each(|packet| gates.set(gate(packet), false));
        assert_eq!(pass(&node, &packets), [true; 40]);
    }
}
