//! Ethernet links: a cell is a frame of its own EtherType, and the NIC needs no IP address.
//!
//! A packet socket sends and receives (`socket.rs`), a frame per cell and many per call. Where
//! the NIC allows it, AF_XDP does so in its place (`xdp.rs`); the packet socket then only receives what AF_XDP leaves.
//! The core knows peers by socket addresses, so Ethernet addresses are written as such (`frame.rs`); what goes to a
//! multicast address goes to an Ethernet group of Tabane.
//!
//! - A run is taken as a whole or not at all.
//! - No call allocates once the link is open, except when the NIC's MTU has grown.

mod frame;
mod socket;
mod xdp;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tabane_engine::reclaim;
use thiserror::Error;

use crate::link::{Failure, Link, Polled, ReceiveBuffer, Sent};
use crate::netlink::{self, NetlinkError, Nic};
use crate::{Notice, sockets};
pub use frame::{ETHER_TYPE, ETHERNET, GROUP, HEAD, Mac, ethernet, head};
use frame::{address_of, mac_of};
use socket::{CellSocket, Coalescer, Stage, Way, is_run, send_run};
use xdp::Xdp;

/// How often the rings of AF_XDP are polled for room: a batch leaves in this time at 10 Gbit/s.
const ROOM: Duration = Duration::from_micros(50);

tabane_proto::choices! {
    /// What moves the cells of a link.
    pub Engine {
        /// AF_XDP where it is available, else AF_PACKET.
        Auto = "auto",
        /// AF_XDP, or there is no link.
        Xdp = "xdp",
        #[default]
        Packet = "packet",
    }
}

/// The link that is wanted.
#[derive(Debug, Clone)]
pub struct EtherSpec {
    pub nic: String,
    /// Distinguishes workers, and bundles on one NIC; the same at both ends.
    pub port: u16,
    /// What is to move its cells. AF_XDP wants CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW.
    pub engine: Engine,
    /// How the kernel gives back frames that AF_XDP has sent.
    pub completion: reclaim::Method,
    /// Receive buffer wanted, bytes as accounted by the kernel.
    pub receive_buffer: usize,
    /// Send buffer wanted, see [`EtherLink::set_send_buffer`].
    pub send_buffer: usize,
}

/// Why there is no link. Each reads as one sentence for the user.
#[derive(Debug, Error)]
pub enum EtherError {
    #[error(transparent)]
    Nic(#[from] NetlinkError),
    #[error("NIC {0} has no Ethernet address; allowed: an Ethernet device")]
    NotEthernet(String),
    #[error("no permission to open a packet socket on NIC {0}: run as root or with CAP_NET_RAW")]
    NoPermission(String),
    #[error(
        "NIC {nic}: AF_XDP is not available ({reason}); allowed: engine = \"auto\" or \"packet\" where it is not"
    )]
    NoXdp { nic: String, reason: String },
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A link of Ethernet frames over one NIC, non-blocking.
#[derive(Debug)]
pub struct EtherLink {
    /// Moves the cells; without it the packet socket does.
    xdp: Option<Box<Xdp>>,
    socket: CellSocket,
    nic: Nic,
    port: u16,
    local: SocketAddr,
    stage: Stage,
    /// Notices that the caller has not taken yet; few, for they are made only when the link is opened.
    notices: Vec<Notice>,
}

impl EtherLink {
    /// Opens the link. [`Link::take_notice`] gives what the kernel lacks.
    pub fn open(spec: &EtherSpec) -> Result<Self, EtherError> {
        let nic = netlink::nic(&spec.nic)?;
        let socket = CellSocket::open(nic.index, spec.port).map_err(|(step, source)| {
            let nic = nic.name.clone();
            match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => EtherError::NoPermission(nic),
                _ => Failure::new(format!("ether link on NIC {nic}"), step)(source).into(),
            }
        })?;
        let mut link = Self::over(socket, nic, spec)?;
        let (device, sizes) = (&link.nic.name, (spec.receive_buffer, spec.send_buffer));
        link.notices.extend(sockets::size_buffers(&link.socket, device, sizes.0, sizes.1));
        link.start_xdp(spec)?;
        Ok(link)
    }

    /// The link over a socket that another process has opened. Its buffers keep their sizes: that process may still use
    /// it. Cells go by AF_PACKET, for AF_XDP takes rights that have been given up by then.
    pub fn adopt(socket: OwnedFd, spec: &EtherSpec) -> Result<Self, EtherError> {
        Self::over(CellSocket::adopt(socket), netlink::nic(&spec.nic)?, spec)
    }

    fn over(socket: CellSocket, nic: Nic, spec: &EtherSpec) -> Result<Self, EtherError> {
        let mac = nic.mac.filter(|mac| *mac != [0; 6]);
        let Some(mac) = mac else { return Err(EtherError::NotEthernet(nic.name)) };
        let stage = Stage::new(usize::try_from(nic.mtu).unwrap_or_default().clamp(1, usize::from(u16::MAX)));
        let local = address_of(mac, spec.port);
        Ok(Self { xdp: None, socket, nic, port: spec.port, local, stage, notices: Vec::new() })
    }

    /// The NIC as it was when the link was opened.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// What moves the cells: `ether/packet`, or `ether/xdp-` and how: `zerocopy`, `copy`, `generic`.
    pub fn engine(&self) -> &'static str {
        self.xdp.as_ref().map_or("ether/packet", |xdp| xdp.mode())
    }

    /// How the kernel gives back frames that were sent, and how often; `None`: AF_PACKET does not show that.
    pub fn completion(&self) -> Option<(reclaim::Method, reclaim::Counters)> {
        self.xdp.as_ref().map(|xdp| (xdp.completion(), xdp.completed()))
    }

    /// Whether there is something to receive that no descriptor reports.
    fn has_news(&self) -> bool {
        self.stage.holds_frames()
    }

    /// Whether no descriptor is ready when there is room.
    pub fn hides_room(&self) -> bool {
        self.xdp.is_some()
    }

    /// Serves the rings; says whether a run that found no room should be tried again. `room`: a run has found none.
    pub fn service(&mut self, room: bool) -> bool {
        let xdp = self.xdp.as_mut().filter(|xdp| xdp.wants_service(room));
        xdp.is_some_and(|xdp| xdp.service() && room)
    }

    /// Hands the link to another process: from now on all cells come to the packet socket, which that process has, too.
    pub fn hand_over(&mut self) {
        self.xdp = None;
    }

    fn start_xdp(&mut self, spec: &EtherSpec) -> Result<(), EtherError> {
        if spec.engine == Engine::Packet {
            return Ok(());
        }
        let (nic, mac) = (&self.nic, mac_of(&self.local).unwrap_or_default());
        let mtu = usize::try_from(nic.mtu).unwrap_or(usize::MAX);
        match Xdp::open(nic.index, mtu, mac, self.port, spec.completion) {
            Ok(xdp) => self.xdp = Some(Box::new(xdp)),
            Err((step, source)) => {
                let reason = format!("{step}: {source}");
                if spec.engine == Engine::Xdp {
                    return Err(EtherError::NoXdp { nic: nic.name.clone(), reason });
                }
                let (device, instead) = (nic.name.clone(), "cells go by AF_PACKET");
                self.notices.push(Notice { device, feature: "AF_XDP", reason, instead });
            }
        }
        Ok(())
    }
}

impl Link for EtherLink {
    fn send(&mut self, to: &SocketAddr, slices: &[IoSlice<'_>], segment: usize) -> Sent {
        let Some(to) = mac_of(to) else {
            return Sent::Refused(io::ErrorKind::AddrNotAvailable.into());
        };
        if !is_run(slices.iter().map(|slice| slice.len()).sum(), segment) {
            return Sent::Refused(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if let Some(xdp) = &mut self.xdp {
            if to == GROUP {
                // The NIC may have got another address; a read of it now and then is enough.
                xdp.mac = self.socket.mac().unwrap_or(xdp.mac);
            }
            return xdp.send(to, slices, segment);
        }
        let way = Way { index: self.nic.index, to, port: self.port };
        send_run(&self.socket, &way, slices, segment)
    }

    fn receive(&mut self, buffers: &mut [ReceiveBuffer<'_>]) -> io::Result<usize> {
        let mut coalescer = Coalescer::new(buffers);
        if let Some(xdp) = &mut self.xdp {
            xdp.receive(&mut coalescer);
        }
        let received = self.stage.receive(&self.socket, self.port, &mut coalescer);
        // An error that lasts comes again with the next call.
        if coalescer.filled() > 0 { Ok(coalescer.filled()) } else { received.map(|()| 0) }
    }

    fn queued_bytes(&mut self) -> usize {
        self.xdp.as_mut().map_or_else(|| sockets::queued_bytes(&self.socket), |xdp| xdp.queued_bytes())
    }

    /// A frame of 1,500 bytes counts as 2,304.
    fn set_send_buffer(&mut self, bytes: usize) -> io::Result<()> {
        match &mut self.xdp {
            Some(xdp) => {
                xdp.set_limit(bytes);
                Ok(())
            }
            None => sockets::set_send_buffer(&self.socket, bytes),
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.xdp.as_ref().map_or_else(|| self.socket.as_fd(), |xdp| xdp.as_fd()))
    }

    /// The packet socket, when AF_XDP leaves frames to it.
    fn also_watched(&self) -> Option<BorrowedFd<'_>> {
        self.xdp.is_some().then(|| self.socket.as_fd())
    }

    fn signals_room(&self) -> bool {
        !self.hides_room()
    }

    fn poll_within(&self, room: bool) -> Option<Duration> {
        if self.has_news() {
            return Some(Duration::ZERO);
        }
        self.xdp.as_ref().filter(|xdp| xdp.wants_service(room)).map(|_| ROOM)
    }

    fn poll(&mut self, _: Duration, room: bool) -> Polled {
        let writable = self.service(room);
        Polled { readable: self.has_news(), writable, ..Polled::default() }
    }

    fn take_notice(&mut self) -> Option<Notice> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0))
    }
}

impl AsFd for EtherLink {
    /// The packet socket: for handing over.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
