//! Which NICs are on one Ethernet segment: a frame that one of them sends to all arrives at another.
//!
//! Seeing the frame proves it. Not seeing it proves little: a switch may keep ports apart, or have just learned that they are up.
//! The frame bears an EtherType for local experiments (IEEE 802, clause 9.2.4), which nobody answers.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use rustix::rand::{GetRandomFlags, getrandom};
use socket2::{Socket, Type};

use crate::capture::wait_readable;
use crate::netlink::{self, Nic};
use crate::sockets::{link_layer, packet_socket};

/// The second EtherType for local experiments; the first one is that of cells.
const ETHER_TYPE: u16 = 0x88b6;
const TO_ALL: [u8; 6] = [0xff; 6];
/// Bytes that tell this question from another.
const TOKEN: usize = 16;
/// A frame's shortest payload.
const PAYLOAD: usize = 46;

/// A NIC that asks and listens.
struct Station {
    nic: Nic,
    socket: Socket,
}

/// The pairs of these NICs, by their places, of which one received what the other sent. A NIC that is down takes no part.
/// Takes `wait`. Wants CAP_NET_RAW.
pub fn shared_segments(nics: &[String], wait: Duration) -> io::Result<BTreeSet<(usize, usize)>> {
    let mut token = [0; TOKEN];
    getrandom(&mut token, GetRandomFlags::empty())?;
    let stations = nics.iter().map(|name| Station::open(name)).collect::<io::Result<Vec<_>>>()?;
    for (number, station) in (0..).zip(&stations) {
        if let Some(station) = station {
            // What cannot be sent does not arrive.
            let _ = station.ask(&token, number);
        }
    }
    let (mut found, deadline) = (BTreeSet::new(), Instant::now() + wait);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(found);
        }
        wait_readable(stations.iter().flatten().map(|station| &station.socket), left)?;
        for (at, station) in stations.iter().enumerate() {
            let Some(station) = station else { continue };
            while let Some(from) = station.receive(&token) {
                let from = usize::from(from);
                if from != at {
                    found.insert((from.min(at), from.max(at)));
                }
            }
        }
    }
}

impl Station {
    /// On the NIC of this name; `None`: it is not there, or cannot send.
    fn open(name: &str) -> io::Result<Option<Self>> {
        let Ok(nic) = netlink::nic(name) else { return Ok(None) };
        if !nic.admin_up || !nic.carrier || nic.mac.is_none() {
            return Ok(None);
        }
        let socket = packet_socket(Type::DGRAM)?;
        socket.bind(&link_layer(nic.index, ETHER_TYPE, [0; 6]))?;
        Ok(Some(Self { nic, socket }))
    }

    fn ask(&self, token: &[u8; TOKEN], number: u8) -> io::Result<()> {
        let mut payload = [0; PAYLOAD];
        payload[..TOKEN].copy_from_slice(token);
        payload[TOKEN] = number;
        let to = link_layer(self.nic.index, ETHER_TYPE, TO_ALL);
        self.socket.send_to(&payload, &to).map(drop)
    }

    /// The number of the NIC that sent the next of these frames; `None`: there is none.
    fn receive(&self, token: &[u8; TOKEN]) -> Option<u8> {
        let mut payload = [0; 2 * PAYLOAD];
        loop {
            let length = recv(&self.socket, &mut payload[..], RecvFlags::DONTWAIT).ok()?.0;
            if length > TOKEN && payload[..TOKEN] == *token {
                return Some(payload[TOKEN]);
            }
        }
    }
}
