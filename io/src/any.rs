//! A link of any kind: what a worker holds.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tabane_shm_ring::Faults;

use crate::Notice;
use crate::ether::EtherLink;
use crate::link::{Link, ReceiveBuffer, Sent};
use crate::mem::MemLink;
use crate::udp::UdpLink;

/// One link, of the kind that the user chose.
#[derive(Debug)]
pub enum AnyLink {
    /// Datagrams over a NIC.
    Udp(Box<UdpLink>),
    /// Frames over a NIC.
    Ether(Box<EtherLink>),
    /// Messages in memory. No descriptor reports them, see [`AnyLink::poll`].
    Mem(Box<MemLink>),
}

/// What a poll has found that no descriptor reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polled {
    /// Whether there may be something to receive.
    pub readable: bool,
    /// Whether a run that found no room should be tried again.
    pub writable: bool,
    /// Whether another node is there; `None`: the NIC's carrier says so.
    pub carrier: Option<bool>,
    /// Impossible values that other nodes have written, each time that their number has doubled.
    pub faults: Option<Faults>,
}

impl AnyLink {
    /// The address that peers know this end by.
    pub fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Udp(link) => link.local_addr(),
            Self::Ether(link) => link.local_addr(),
            Self::Mem(link) => link.local_addr(),
        }
    }

    /// The descriptor that is ready when there is something to receive, or room; `None`: there is none.
    pub fn watched(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Udp(link) => Some(link.as_fd()),
            Self::Ether(link) => Some(link.watched()),
            Self::Mem(_) => None,
        }
    }

    /// A further descriptor that is ready when there is something to receive.
    pub fn also_watched(&self) -> Option<BorrowedFd<'_>> {
        if let Self::Ether(link) = self { link.also_watched() } else { None }
    }

    /// Whether [`Self::watched`] is also ready when there is room.
    pub fn signals_room(&self) -> bool {
        match self {
            Self::Udp(_) => true,
            Self::Ether(link) => !link.hides_room(),
            Self::Mem(_) => false,
        }
    }

    /// How often to [`Self::poll`] while there is traffic; `None`: descriptors report all.
    pub fn poll_interval(&self) -> Option<Duration> {
        if let Self::Mem(link) = self { Some(link.poll_interval()) } else { None }
    }

    /// When to [`Self::poll`] at the latest, with or without traffic; `None`: no poll is needed. `room`: a run has
    /// found none.
    pub fn poll_within(&self, room: bool) -> Option<Duration> {
        if let Self::Ether(link) = self { link.service_within(room) } else { None }
    }

    /// Polls and serves rings and memory. `now` is read from a clock that only goes forward; `room`: a
    /// run has found none.
    pub fn poll(&mut self, now: Duration, room: bool) -> Polled {
        match self {
            Self::Udp(_) => Polled::default(),
            Self::Ether(link) => {
                let writable = link.service(room);
                Polled { readable: link.has_news(), writable, ..Polled::default() }
            }
            Self::Mem(link) => {
                let faults = link.service(now);
                let writable = room && link.has_room_again();
                Polled { readable: link.has_news(), writable, carrier: Some(link.has_carrier()), faults }
            }
        }
    }

    /// Limits the bytes that were sent and are not yet on the wire, as [`Link::queued_bytes`] counts them.
    pub fn set_send_buffer(&mut self, bytes: usize) -> io::Result<()> {
        match self {
            Self::Udp(link) => link.set_send_buffer(bytes),
            Self::Ether(link) => link.set_send_buffer(bytes),
            Self::Mem(link) => {
                link.set_send_buffer(bytes);
                Ok(())
            }
        }
    }
}

impl From<UdpLink> for AnyLink {
    fn from(link: UdpLink) -> Self {
        Self::Udp(Box::new(link))
    }
}

impl From<EtherLink> for AnyLink {
    fn from(link: EtherLink) -> Self {
        Self::Ether(Box::new(link))
    }
}

impl From<MemLink> for AnyLink {
    fn from(link: MemLink) -> Self {
        Self::Mem(Box::new(link))
    }
}

impl Link for AnyLink {
    fn send(&mut self, to: &SocketAddr, slices: &[IoSlice<'_>], segment: usize) -> Sent {
        match self {
            Self::Udp(link) => link.send(to, slices, segment),
            Self::Ether(link) => link.send(to, slices, segment),
            Self::Mem(link) => link.send(to, slices, segment),
        }
    }

    fn receive(&mut self, buffers: &mut [ReceiveBuffer<'_>]) -> io::Result<usize> {
        match self {
            Self::Udp(link) => link.receive(buffers),
            Self::Ether(link) => link.receive(buffers),
            Self::Mem(link) => link.receive(buffers),
        }
    }

    fn queued_bytes(&mut self) -> usize {
        match self {
            Self::Udp(link) => link.queued_bytes(),
            Self::Ether(link) => link.queued_bytes(),
            Self::Mem(link) => link.queued_bytes(),
        }
    }

    fn take_notice(&mut self) -> Option<Notice> {
        match self {
            Self::Udp(link) => link.take_notice(),
            Self::Ether(link) => link.take_notice(),
            Self::Mem(link) => link.take_notice(),
        }
    }
}

impl AsFd for AnyLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(link) => link.as_fd(),
            Self::Ether(link) => link.as_fd(),
            Self::Mem(link) => link.as_fd(),
        }
    }
}
