//! Ethernet links on a veth pair: what the kernel does with frames of an EtherType of their own.

use std::io::IoSlice;
use std::net::SocketAddr;

use tabane_io::packet::HEADER;
use tabane_io::{Engine, EtherLink, EtherSpec, Link, PacketSocket, ReceiveBuffer, Sent};

use tabane_engine::reclaim::Method;

use tabane_netns::{Cable, until};

use crate::{Need, Test, shape, sockets};

pub(crate) const TESTS: &[Test] = tests!("ether";
    Namespaces:
        frames_of_a_larger_mtu_come_after_the_first, a_nic_without_address_is_refused,
        a_run_arrives_as_the_same_cells = || the_same_cells(Engine::Packet, Engine::Packet),
        what_ethernet_pads_keeps_its_length = || padding(Engine::Packet),
        the_group_reaches_the_same_port_only = || group(Engine::Packet);
    Tbf: a_full_link_takes_a_run_whole_or_not_at_all;
    Xdp:
        xdp_long_frames_lie_in_several_pieces, xdp_rings_go_round,
        xdp_program_passes_what_is_not_ours_and_leaves_with_the_link,
        xdp_run_arrives_as_the_same_cells = || the_same_cells(Engine::Xdp, Engine::Xdp),
        xdp_run_arrives_at_a_packet_socket = || the_same_cells(Engine::Xdp, Engine::Packet),
        xdp_run_arrives_from_a_packet_socket = || the_same_cells(Engine::Packet, Engine::Xdp),
        xdp_keeps_the_length_of_what_ethernet_pads = || padding(Engine::Xdp),
        xdp_group_reaches_the_same_port_only = || group(Engine::Xdp),
        xdp_every_frame_comes_back_once = || Method::ALL.into_iter().for_each(completion);
);

const PORT: u16 = 7420;
/// Where everyone is: any multicast address.
const ALL: &str = "[ff12::7461:6261]:7420";

fn open(nic: &str, port: u16, engine: Engine) -> EtherLink {
    EtherLink::open(&spec(nic, port, engine)).unwrap()
}

fn spec(nic: &str, port: u16, engine: Engine) -> EtherSpec {
    let completion = Method::default();
    EtherSpec { nic: nic.to_owned(), port, engine, completion, receive_buffer: 4 << 20, send_buffer: 4 << 20 }
}

fn ends(cable: &Cable, near: Engine, far: Engine) -> [EtherLink; 2] {
    [cable.left.run(|| open("left", PORT, near)), cable.right.run(|| open("right", PORT, far))]
}

/// Receives until `wanted` cells have come.
fn collect(link: &mut EtherLink, wanted: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut cells = Vec::new();
    until("all cells", || {
        let (mut first, mut second) = (vec![0; 65_536], vec![0; 65_536]);
        let mut buffers = [ReceiveBuffer::new(&mut first), ReceiveBuffer::new(&mut second)];
        let count = link.receive(&mut buffers).unwrap();
        for buffer in &buffers[..count] {
            cells.extend(buffer.datagrams().map(|cell| (cell.to_vec(), buffer.from)));
        }
        (cells.len() >= wanted).then_some(())
    });
    cells
}

fn send(link: &mut EtherLink, to: SocketAddr, run: &[u8], segment: usize) {
    let slices: Vec<IoSlice<'_>> = run.chunks(1000).map(IoSlice::new).collect();
    let sent = link.send(&to, &slices, segment);
    assert!(matches!(sent, Sent::Done), "{sent:?}");
}

fn the_same_cells(near: Engine, far: Engine) {
    let cable = Cable::new().unwrap();
    let [mut near, mut far] = ends(&cable, near, far);
    let run: Vec<u8> = (0..43 * 1496 - 100).map(|i: u32| i.to_le_bytes()[i as usize % 3]).collect();
    for (segment, end) in [(1496, run.len()), (500, 30_000), (1496, 1496), (1496, 7)] {
        send(&mut near, far.local_addr(), &run[..end], segment);
        let want: Vec<_> =
            run[..end].chunks(segment).map(|cell| (cell.to_vec(), near.local_addr())).collect();
        assert_eq!(collect(&mut far, want.len()), want, "{end} bytes by {segment}");
    }
    assert!(near.take_notice().is_none() && far.take_notice().is_none());
}

/// The frame on the wire is as long as a NIC would pad it to.
fn padding(engine: Engine) {
    const SHORTEST: usize = 60;
    let cable = Cable::new().unwrap();
    let wire = cable.left.run(|| PacketSocket::open("left").unwrap());
    let mut far = cable.right.run(|| open("right", PORT, engine));
    let mut frame = vec![0; HEADER + SHORTEST];
    let header =
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[0x88, 0xb5], &PORT.to_be_bytes(), &[0, 3], b"abc"].concat();
    frame[HEADER..HEADER + header.len()].copy_from_slice(&header);
    wire.send(&frame).unwrap();
    let from = "[100::6574:200:0:9]:7420".parse().unwrap();
    assert_eq!(collect(&mut far, 1), [(b"abc".to_vec(), from)]);
}

fn group(engine: Engine) {
    let cable = Cable::new().unwrap();
    let [mut near, mut far] = ends(&cable, engine, engine);
    let mut other = cable.right.run(|| open("right", PORT + 1, Engine::Packet));
    let mut other_near = cable.left.run(|| open("left", PORT + 1, Engine::Packet));
    send(&mut near, ALL.parse().unwrap(), b"hello", 5);
    assert_eq!(collect(&mut far, 1), [(b"hello".to_vec(), near.local_addr())]);
    send(&mut other_near, ALL.parse().unwrap(), b"other", 5);
    assert_eq!(collect(&mut other, 1), [(b"other".to_vec(), other_near.local_addr())]);
    let mut room = [0; 100];
    assert_eq!(far.receive(&mut [ReceiveBuffer::new(&mut room)]).unwrap(), 0);
    assert_eq!(near.receive(&mut [ReceiveBuffer::new(&mut room)]).unwrap(), 0, "its own do not come back");
}

fn a_full_link_takes_a_run_whole_or_not_at_all() {
    const CELLS: usize = 40;
    let cable = Cable::new().unwrap();
    shape(&cable.left, "left").unwrap();
    let [mut near, mut far] = ends(&cable, Engine::Packet, Engine::Packet);
    near.set_send_buffer(32 << 10).unwrap();
    let (to, run) = (far.local_addr(), vec![0x5a; CELLS * 1400]);
    let mut runs = 0;
    while matches!(near.send(&to, &[IoSlice::new(&run)], 1400), Sent::Done) {
        runs += 1;
        assert!(runs < 100, "the link never fills");
    }
    assert!(runs >= 1 && near.queued_bytes() > 0);
    assert_eq!(collect(&mut far, runs * CELLS).len(), runs * CELLS);
}

fn frames_of_a_larger_mtu_come_after_the_first() {
    let cable = Cable::new().unwrap();
    let [mut near, mut far] = ends(&cable, Engine::Packet, Engine::Packet);
    cable.left.ip("link set left mtu 9000").unwrap();
    cable.right.ip("link set right mtu 9000").unwrap();
    let (to, run) = (far.local_addr(), vec![1; 8996]);
    let mut room = vec![0; 65_536];
    send(&mut near, to, &run, run.len());
    until("a lost frame", || {
        let got = far.receive(&mut [ReceiveBuffer::new(&mut room)]).unwrap();
        send(&mut near, to, &run, run.len());
        (got == 1).then_some(())
    });
}

fn a_nic_without_address_is_refused() {
    let cable = Cable::new().unwrap();
    let error = cable.left.run(|| EtherLink::open(&spec("lo", PORT, Engine::Packet)).unwrap_err());
    assert_eq!(error.to_string(), "NIC lo has no Ethernet address; allowed: an Ethernet device");
}

fn xdp_long_frames_lie_in_several_pieces() {
    let cable = Cable::new().unwrap();
    cable.left.ip("link set left mtu 9000").unwrap();
    cable.right.ip("link set right mtu 9000").unwrap();
    let [mut near, mut far] = ends(&cable, Engine::Xdp, Engine::Xdp);
    let run: Vec<u8> = (0..6 * 8996 + 5000).map(|i: u32| i.to_le_bytes()[i as usize % 3]).collect();
    send(&mut near, far.local_addr(), &run, 8996);
    let want: Vec<_> = run.chunks(8996).map(|cell| (cell.to_vec(), near.local_addr())).collect();
    assert_eq!(collect(&mut far, want.len()), want);
}

/// More cells than any ring has places.
fn xdp_rings_go_round() {
    const RUNS: u32 = 400;
    const CELLS: usize = 40;
    let cable = Cable::new().unwrap();
    let [mut near, mut far] = ends(&cable, Engine::Xdp, Engine::Xdp);
    for number in 0..RUNS {
        let cells: Vec<u8> = (0..CELLS).flat_map(|_| number.to_le_bytes().repeat(100)).collect();
        send(&mut near, far.local_addr(), &cells, 400);
        let came = collect(&mut far, CELLS);
        assert!(came.iter().all(|(cell, _)| *cell == number.to_le_bytes().repeat(100)), "run {number}");
    }
    until("nothing under way", || (near.queued_bytes() == 0).then_some(()));
}

/// Every frame comes back once, whoever says that it can.
fn completion(method: Method) {
    const RUNS: usize = 200;
    const CELLS: usize = 40;
    let cable = Cable::new().unwrap();
    let wanted = EtherSpec { completion: method, ..spec("left", PORT, Engine::Xdp) };
    let mut near = cable.left.run(|| EtherLink::open(&wanted).unwrap());
    let mut far = cable.right.run(|| open("right", PORT, Engine::Xdp));
    near.set_send_buffer(32 << 10).unwrap();
    let run = vec![0x5a; CELLS * 400];
    for _ in 0..RUNS {
        until("room", || {
            let done = matches!(near.send(&far.local_addr(), &[IoSlice::new(&run)], 400), Sent::Done);
            if !done {
                near.service(true);
            }
            done.then_some(())
        });
        collect(&mut far, CELLS);
    }
    until("nothing under way", || {
        near.service(false);
        (near.queued_bytes() == 0).then_some(())
    });
    let (used, counted) = near.completion().unwrap();
    let all = (RUNS * CELLS) as u64;
    assert_eq!((used, counted.reclaimed_at_sends + counted.reclaimed_by_interrupts), (method, all));
    match method {
        Method::Interrupt => assert_eq!(counted.reclaimed_at_sends, 0),
        Method::Lazy => assert_eq!(counted.interrupts, 0),
        Method::Adaptive(_) => assert!(counted.reclaimed_at_sends > counted.reclaimed_by_interrupts),
    }
}

fn xdp_program_passes_what_is_not_ours_and_leaves_with_the_link() {
    let cable = Cable::new().unwrap();
    let mut far = cable.right.run(|| open("right", PORT, Engine::Xdp));
    assert!(far.engine().starts_with("ether/xdp"), "{}", far.engine());
    let taken = cable.right.run(|| EtherLink::open(&spec("right", PORT + 1, Engine::Xdp)).unwrap_err());
    assert!(taken.to_string().contains("attaching a program"), "{taken}");
    let mut auto = cable.right.run(|| open("right", PORT + 1, Engine::Auto));
    assert_eq!(
        (auto.engine(), auto.take_notice().map(|notice| notice.feature)),
        ("ether/packet", Some("AF_XDP"))
    );

    let [sender, receiver] = sockets(&cable, [0, 0]);
    sender.send_to(b"passes", receiver.local_addr().unwrap()).unwrap();
    let mut room = [0; 16];
    assert_eq!(receiver.recv(&mut room).unwrap(), 6);

    far.hand_over();
    assert_eq!(far.engine(), "ether/packet");
    let mut near = cable.left.run(|| open("left", PORT, Engine::Packet));
    send(&mut near, far.local_addr(), b"to the packet socket", 20);
    assert_eq!(collect(&mut far, 1), [(b"to the packet socket".to_vec(), near.local_addr())]);
    // Dropping a link takes its program off, so that the NIC is free for another; at the latest when a process that
    // another trial starts, which has copies of all descriptors, runs its program.
    let opened = || EtherLink::open(&spec("right", PORT, Engine::Xdp)).ok();
    for _ in 0..2 {
        drop(until("NIC without a program", || cable.right.run(opened)));
    }
}
