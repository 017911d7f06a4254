//! A link of any kind: what a worker holds.

use std::ops::{Deref, DerefMut};

use crate::ether::EtherLink;
use crate::link::Link;
use crate::mem::MemLink;
use crate::udp::UdpLink;

/// One link, of the kind that the user chose.
#[derive(Debug)]
pub enum AnyLink {
    /// Datagrams over a NIC.
    Udp(Box<UdpLink>),
    /// Frames over a NIC.
    Ether(Box<EtherLink>),
    /// Messages in memory. No descriptor reports them, see [`Link::poll`].
    Mem(Box<MemLink>),
}

impl Deref for AnyLink {
    type Target = dyn Link;

    fn deref(&self) -> &(dyn Link + 'static) {
        match self {
            Self::Udp(link) => &**link,
            Self::Ether(link) => &**link,
            Self::Mem(link) => &**link,
        }
    }
}

impl DerefMut for AnyLink {
    fn deref_mut(&mut self) -> &mut (dyn Link + 'static) {
        match self {
            Self::Udp(link) => &mut **link,
            Self::Ether(link) => &mut **link,
            Self::Mem(link) => &mut **link,
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
