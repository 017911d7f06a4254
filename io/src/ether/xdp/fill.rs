//! The fill ring: frames into which the kernel may write received packets.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, recv};

use super::ring::Ring;

/// This side puts.
#[derive(Debug)]
pub(super) struct FillRing(pub(super) Ring<u64>);

impl FillRing {
    /// Gives frames to the kernel, by where they begin; the ring has room for twice as many as were ever made.
    pub(super) fn give(&mut self, frames: impl Iterator<Item = u64>) {
        for frame in frames {
            if self.0.room() == 0 {
                debug_assert!(false, "more frames than there are");
                break;
            }
            self.0.put(frame);
        }
        self.0.publish();
    }

    /// Wakes up a driver that waits for frames.
    /// Errors: the kernel's, which the link's health shows anyway.
    pub(super) fn wake(&self, socket: &OwnedFd) -> io::Result<()> {
        if self.0.needs_wakeup() {
            recv(socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT)?;
        }
        Ok(())
    }
}
