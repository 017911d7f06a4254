//! A worker's ports: a socket each, and how they join, leave and are replaced while the worker runs.
//!
//! A port has the number that the core gave it. A port that leaves keeps its socket until the core says that it hears
//! nothing more.

use std::net::{SocketAddr, SocketAddrV6};
use std::sync::mpsc::Sender;

use tabane_io::{AnyLink, Interest, Poll};
use tabane_proto::{Instant, PortSettings};

use super::{GROUP, Worker};

/// One link of a worker.
pub(super) struct Port {
    pub(super) link: AnyLink,
    /// Where greetings to everyone go.
    pub(super) group: SocketAddr,
    /// Whether it waits for room in the socket or window.
    pub(super) wants_room: bool,
    /// Whether epoll tells of room in the socket.
    pub(super) room_watched: bool,
    /// What the send buffer was set to, in bytes.
    pub(super) send_buffer: u64,
    /// When the queue was asked for last.
    pub(super) measured: Instant,
    /// Whether another node is there, as far as the core was told; only of links that are polled.
    pub(super) carrier: bool,
}

impl Port {
    /// Port `number` over `link`, watched by `poll`.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn watched(poll: &Poll, number: usize, link: AnyLink) -> std::io::Result<Port> {
        if let Some(watched) = link.watched() {
            poll.add(watched, number as u64, Interest::Read)?;
        }
        if let Some(watched) = link.also_watched() {
            poll.add(watched, number as u64, Interest::Read)?;
        }
        let scope = if let AnyLink::Udp(link) = &link { link.nic().index } else { 0 };
        let group = SocketAddrV6::new(GROUP, link.local_addr().port(), 0, scope).into();
        let (wants_room, room_watched, send_buffer, measured) = (false, false, 0, Instant::default());
        Ok(Port { link, group, wants_room, room_watched, send_buffer, measured, carrier: true })
    }
}

impl Port {
    /// Whether it waits for room of which the kernel should tell, and was not told to.
    pub(super) fn is_deaf(&self) -> bool {
        self.wants_room && !self.room_watched && self.link.tells_of_room()
    }
}

impl Worker {
    /// A link joins; returns its number, or `None` when it cannot.
    pub(super) fn join(
        &mut self,
        now: Instant,
        (nic, link): (String, AnyLink),
        settings: PortSettings,
    ) -> Option<u8> {
        let number = self.bundle.add_port(now, settings)?;
        match Port::watched(&self.poll, usize::from(number), link) {
            Ok(port) => {
                self.place(number, port, nic);
                Some(number)
            }
            Err(error) => {
                tracing::error!(nic, %error, "cannot watch the link");
                self.bundle.remove_port(now, number);
                None
            }
        }
    }

    /// The NIC of a link was deleted, and there is another of its name.
    pub(super) fn replace(
        &mut self,
        now: Instant,
        number: u8,
        (nic, link): (String, AnyLink),
        settings: PortSettings,
    ) {
        match Port::watched(&self.poll, usize::from(number), link) {
            Ok(port) => {
                self.bundle.replace_port(now, number, settings);
                self.place(number, port, nic);
            }
            Err(error) => tracing::error!(nic, %error, "cannot watch the link"),
        }
    }

    /// A socket that was there before is closed, and so no longer watched.
    fn place(&mut self, number: u8, port: Port, nic: String) {
        let number = usize::from(number);
        if self.ports.len() <= number {
            self.ports.resize_with(number + 1, || None);
            self.nics.resize(number + 1, String::new());
        }
        self.ports[number] = Some(port);
        self.nics[number] = nic;
    }

    /// A link leaves; `gone` is told when its socket is closed.
    pub(super) fn leave(&mut self, now: Instant, number: u8, gone: Sender<()>) {
        self.bundle.remove_port(now, number);
        self.leaving.push((number, gone));
    }

    /// Closes the sockets of ports that are gone.
    pub(super) fn close_left(&mut self) {
        let Self { leaving, bundle, ports, .. } = self;
        leaving.retain(|(number, gone)| {
            if bundle.has_port(*number) {
                return true;
            }
            if let Some(port) = ports.get_mut(usize::from(*number)) {
                *port = None;
            }
            // Whoever asked may have given up waiting.
            let _ = gone.send(());
            false
        });
    }
}
