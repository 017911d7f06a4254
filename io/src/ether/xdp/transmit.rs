//! The transmit ring: packets to send, in one frame each or several.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{SendFlags, send};

use super::ring::Ring;

/// This side puts.
#[derive(Debug)]
pub(super) struct TransmitRing(pub(super) Ring<XdpDesc>);

impl TransmitRing {
    /// Puts in a piece of a packet; `more`: another one follows.
    pub(super) fn put(&mut self, frame: u64, length: u32, more: bool) {
        let options = if more { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
        self.0.put(XdpDesc { addr: frame, len: length, options });
    }

    /// Lets the kernel send the packets in the ring as far as it can now. In copy mode it takes 32 packets per call.
    /// Errors: the kernel's, such as `ENETDOWN`; what is in the ring stays there.
    pub(super) fn kick(&self, socket: &OwnedFd) -> io::Result<()> {
        self.0.publish();
        while !self.0.is_taken() && self.0.needs_wakeup() {
            let room = self.0.room();
            match send(socket, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) if self.0.room() > room => {}
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
