//! Which NICs are on one Ethernet segment: a frame that one of them sends to all arrives at another.
//!
//! Seeing the frame proves it. Not seeing it proves little: a switch may keep ports apart, or have just learned that they are up.
//! The frame bears an EtherType for local experiments (IEEE 802, clause 9.2.4), which nobody answers.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use libc::c_int;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use rustix::rand::{GetRandomFlags, getrandom};
use socket2::{Domain, Socket, Type};

use crate::netlink::{self, Nic};
use crate::sockets::{link_layer, set_option};

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
/// Errors: the kernel's, when it opens no packet socket.
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
    while wait_for_any(&stations, deadline)? {
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
    Ok(found)
}

impl Station {
    /// On the NIC of this name; `None`: it is not there, or cannot send.
    fn open(name: &str) -> io::Result<Option<Self>> {
        let Ok(nic) = netlink::nic(name) else { return Ok(None) };
        if !nic.admin_up || !nic.carrier || nic.mac.is_none() {
            return Ok(None);
        }
        // Of protocol 0 it receives nothing until it is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        let on: c_int = 1;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)?;
        let station = Self { nic, socket };
        station.socket.bind(&link_layer(station.index(), ETHER_TYPE, [0; 6]))?;
        Ok(Some(station))
    }

    fn index(&self) -> c_int {
        c_int::try_from(self.nic.index).unwrap_or_default()
    }

    fn ask(&self, token: &[u8; TOKEN], number: u8) -> io::Result<()> {
        let mut payload = [0; PAYLOAD];
        payload[..TOKEN].copy_from_slice(token);
        payload[TOKEN] = number;
        let to = link_layer(self.index(), ETHER_TYPE, TO_ALL);
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

/// Waits until a frame has come; `false`: the time is over.
fn wait_for_any(stations: &[Option<Station>], deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(false);
    }
    let mut fds: Vec<_> =
        stations.iter().flatten().map(|station| PollFd::new(&station.socket, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
