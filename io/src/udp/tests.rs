//! UDP links over the loopback device, which needs no privilege.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::*;
use crate::link::{RUN_MAX, SEGMENTS_MAX};
use crate::poll::{Interest, Poll};

fn spec(local: IpAddr) -> UdpSpec {
    UdpSpec {
        nic: "lo".to_owned(),
        local: Some(local),
        both_families: false,
        port: 0,
        gso: true,
        gro: true,
        receive_buffer: 400_000,
        send_buffer: 400_000,
        multicast: None,
    }
}

fn localhosts() -> [IpAddr; 2] {
    ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]
}

/// Receives until `wanted` datagrams have come, in order.
fn collect(link: &mut UdpLink, wanted: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let (mut poll, mut datagrams) = (Poll::new().unwrap(), Vec::new());
    poll.add(&*link, 0, Interest::Read).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while datagrams.len() < wanted && Instant::now() < deadline {
        let _ = poll.wait(Some(Duration::from_millis(50))).unwrap().count();
        let (mut first, mut second) = (vec![0; 65_536], vec![0; 65_536]);
        let mut buffers = [ReceiveBuffer::new(&mut first), ReceiveBuffer::new(&mut second)];
        let count = link.receive(&mut buffers).unwrap();
        for buffer in &buffers[..count] {
            datagrams.extend(buffer.datagrams().map(|datagram| (datagram.to_vec(), buffer.from)));
        }
    }
    datagrams
}

/// One socket takes a run over IPv4 and one over IPv6, and names the senders as their own sockets do.
#[test]
fn a_link_of_both_families_takes_ipv4_and_ipv6() {
    let both = UdpSpec { local: None, both_families: true, ..spec(localhosts()[0]) };
    let mut both = UdpLink::bind(&both).unwrap();
    let port = both.local_addr().port();
    for local in localhosts() {
        let mut single = UdpLink::bind(&spec(local)).unwrap();
        let (ours, theirs) = (SocketAddr::new(local, port), single.local_addr());
        let bytes = vec![7; 3 * 1_000];
        assert!(matches!(single.send(&ours, &[IoSlice::new(&bytes)], 1_000), Sent::Done));
        let datagrams = collect(&mut both, 3);
        assert!(datagrams.len() == 3 && datagrams.iter().all(|(_, from)| *from == theirs), "{datagrams:?}");
        assert!(matches!(both.send(&theirs, &[IoSlice::new(&bytes)], 1_000), Sent::Done));
        let datagrams = collect(&mut single, 3);
        assert!(datagrams.len() == 3 && datagrams.iter().all(|(_, from)| *from == ours), "{datagrams:?}");
    }
}

#[test]
fn a_run_arrives_as_the_same_datagrams_with_and_without_offloads() {
    let bytes: Vec<u8> = (0..44 * 1448 - 100).map(|i: u32| i.to_le_bytes()[i as usize % 3]).collect();
    let slices: Vec<IoSlice<'_>> = bytes.chunks(1000).map(IoSlice::new).collect();
    for (local, offloads) in localhosts().into_iter().flat_map(|local| [(local, true), (local, false)]) {
        let spec = UdpSpec { gso: offloads, gro: offloads, ..spec(local) };
        let (mut from, mut to) = (UdpLink::bind(&spec).unwrap(), UdpLink::bind(&spec).unwrap());
        assert_eq!((from.gso(), to.gro()), (offloads, offloads));
        let sent = from.send(&to.local_addr(), &slices, 1448);
        assert!(matches!(sent, Sent::Done), "{sent:?}");
        let expected: Vec<(Vec<u8>, SocketAddr)> =
            bytes.chunks(1448).map(|chunk| (chunk.to_vec(), from.local_addr())).collect();
        assert_eq!(collect(&mut to, 44), expected, "{local}, offloads {offloads}");
        assert!(from.take_notice().is_none() && to.take_notice().is_none());
    }
}

#[test]
fn one_call_receives_as_many_messages_as_there_are_buffers() {
    let spec = UdpSpec { gro: false, ..spec(localhosts()[0]) };
    let (mut from, mut to) = (UdpLink::bind(&spec).unwrap(), UdpLink::bind(&spec).unwrap());
    for number in 0..20 {
        assert!(matches!(from.send(&to.local_addr(), &[IoSlice::new(&[number])], 1448), Sent::Done));
    }
    let mut room = vec![[0; 100]; 20];
    let mut buffers: Vec<ReceiveBuffer<'_>> = room.iter_mut().map(|b| ReceiveBuffer::new(b)).collect();
    assert_eq!(to.receive(&mut buffers[..5]).unwrap(), 5);
    assert_eq!(to.receive(&mut buffers[5..]).unwrap(), 15);
    assert_eq!(to.receive(&mut buffers).unwrap(), 0);
    assert!(buffers.iter().enumerate().all(|(i, b)| usize::from(b.bytes[0]) == i && b.len == 1));
}

#[test]
fn what_does_not_fit_its_buffer_comes_as_nothing() {
    let spec = spec(localhosts()[1]);
    let (mut from, mut to) = (UdpLink::bind(&spec).unwrap(), UdpLink::bind(&spec).unwrap());
    assert!(matches!(from.send(&to.local_addr(), &[IoSlice::new(&[7; 101])], 1448), Sent::Done));
    let mut room = [0; 100];
    let mut buffers = [ReceiveBuffer::new(&mut room)];
    assert_eq!(to.receive(&mut buffers).unwrap(), 1);
    assert_eq!((buffers[0].len, buffers[0].datagrams().count()), (0, 0));
}

#[test]
fn runs_beyond_the_limits_are_refused() {
    let mut link = UdpLink::bind(&spec(localhosts()[0])).unwrap();
    let (to, bytes) = (link.local_addr(), vec![0; RUN_MAX + 1]);
    for (length, segment) in [(RUN_MAX + 1, 1448), (SEGMENTS_MAX * 10 + 1, 10), (10, 0)] {
        let sent = link.send(&to, &[IoSlice::new(&bytes[..length])], segment);
        assert!(matches!(sent, Sent::Refused(_)), "{length} by {segment}: {sent:?}");
    }
    assert!(link.gso(), "a run beyond the limits says nothing about GSO");
}

#[test]
fn a_datagram_of_too_many_slices_is_refused_without_gso() {
    let mut link = UdpLink::bind(&UdpSpec { gso: false, ..spec(localhosts()[0]) }).unwrap();
    let (to, byte) = (link.local_addr(), [0]);
    let slices = [IoSlice::new(&byte); 200];
    assert!(matches!(link.send(&to, &slices, 199), Sent::Refused(_)));
    assert!(matches!(link.send(&to, &slices, 100), Sent::Done));
}

#[test]
fn a_taken_port_is_named() {
    let first = UdpLink::bind(&spec(localhosts()[1])).unwrap();
    let port = first.local_addr().port();
    let error = UdpLink::bind(&UdpSpec { port, ..spec(localhosts()[1]) }).unwrap_err();
    let expected = format!("UDP port {port} on NIC lo is taken: choose another port");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[test]
fn bad_input_reads_as_one_sentence() {
    let unknown = UdpLink::bind(&UdpSpec { nic: "eth99".into(), ..spec(localhosts()[0]) }).unwrap_err();
    assert!(unknown.to_string().starts_with("NIC eth99 does not exist; there are: "), "{unknown}");
    let foreign = UdpLink::bind(&spec("192.0.2.1".parse().unwrap())).unwrap_err();
    assert!(foreign.to_string().starts_with("192.0.2.1 is not an address of NIC lo"), "{foreign}");
    let group = Some("ff12::7461:6261".parse().unwrap());
    let mixed = UdpLink::bind(&UdpSpec { multicast: group, ..spec(localhosts()[0]) }).unwrap_err();
    assert!(mixed.to_string().contains("multicast discovery needs IPv6"), "{mixed}");
}
