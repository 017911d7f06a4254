//! Frames that leave by a device as those of the stack do: through its programs and its queueing discipline.
//!
//! Source: packet(7), `packet_snd` in `net/packet/af_packet.c` of Linux 6.18.

use std::io;

use libc::c_int;
use socket2::{Domain, Socket, Type};

use crate::sockets::link_layer;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A packet socket that receives nothing.
#[derive(Debug)]
pub struct DeviceSocket {
    socket: Socket,
    index: c_int,
}

impl DeviceSocket {
    /// Opens a socket for the device of this index. Wants CAP_NET_RAW.
    pub fn open(index: u32) -> io::Result<Self> {
        // Of protocol 0 and not bound, it receives nothing.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, index: c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)? })
    }

    /// Sends a frame with its Ethernet header.
    /// Errors: `InvalidInput` for one that is shorter, `WouldBlock` where the device's queue is full, others of the
    /// kernel.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let Some([.., high, low]) = frame.get(..ETHERNET) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let protocol = u16::from_be_bytes([*high, *low]);
        self.socket.send_to(frame, &link_layer(self.index, protocol, [0; 6])).map(drop)
    }
}
