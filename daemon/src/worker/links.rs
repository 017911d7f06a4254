//! A worker's links: a socket each, and how they join, leave and are replaced while the worker runs.
//!
//! A link has the number that the core gave it. A link that leaves keeps its socket until the core says that it hears
//! nothing more.

use std::net::{SocketAddr, SocketAddrV6};
use std::sync::mpsc::Sender;

use tabane_io::{AnyLink, Interest, Poll};
use tabane_proto::{Instant, LinkSettings};

use super::{GROUP, Worker};

/// One link of a worker.
pub(super) struct WatchedLink {
    pub(super) io: AnyLink,
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

impl WatchedLink {
    /// WatchedLink `number` over `io`, watched by `poll`.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn watched(poll: &Poll, number: usize, io: AnyLink) -> std::io::Result<WatchedLink> {
        if let Some(watched) = io.watched() {
            poll.add(watched, number as u64, Interest::Read)?;
        }
        if let Some(watched) = io.also_watched() {
            poll.add(watched, number as u64, Interest::Read)?;
        }
        let scope = if let AnyLink::Udp(io) = &io { io.nic().index } else { 0 };
        let group = SocketAddrV6::new(GROUP, io.local_addr().port(), 0, scope).into();
        let (wants_room, room_watched, send_buffer, measured) = (false, false, 0, Instant::default());
        Ok(WatchedLink { io, group, wants_room, room_watched, send_buffer, measured, carrier: true })
    }
}

impl WatchedLink {
    /// Whether it waits for room of which the kernel should tell, and was not told to.
    pub(super) fn is_deaf(&self) -> bool {
        self.wants_room && !self.room_watched && self.io.tells_of_room()
    }
}

impl Worker {
    /// A link joins; returns its number, or `None` when it cannot.
    pub(super) fn join(
        &mut self,
        now: Instant,
        (nic, io): (String, AnyLink),
        settings: LinkSettings,
    ) -> Option<u8> {
        let number = self.bundle.add_link(now, settings)?;
        match WatchedLink::watched(&self.poll, usize::from(number), io) {
            Ok(link) => {
                self.place(number, link, nic);
                Some(number)
            }
            Err(error) => {
                tracing::error!(nic, %error, "cannot watch the link");
                self.bundle.remove_link(now, number);
                None
            }
        }
    }

    /// The NIC of a link was deleted, and there is another of its name.
    pub(super) fn replace(
        &mut self,
        now: Instant,
        number: u8,
        (nic, io): (String, AnyLink),
        settings: LinkSettings,
    ) {
        match WatchedLink::watched(&self.poll, usize::from(number), io) {
            Ok(link) => {
                self.bundle.replace_link(now, number, settings);
                self.place(number, link, nic);
            }
            Err(error) => tracing::error!(nic, %error, "cannot watch the link"),
        }
    }

    /// A socket that was there before is closed, and so no longer watched.
    fn place(&mut self, number: u8, link: WatchedLink, nic: String) {
        let number = usize::from(number);
        if self.links.len() <= number {
            self.links.resize_with(number + 1, || None);
            self.nics.resize(number + 1, String::new());
        }
        self.links[number] = Some(link);
        self.nics[number] = nic;
    }

    /// A link leaves; `gone` is told when its socket is closed.
    pub(super) fn leave(&mut self, now: Instant, number: u8, gone: Sender<()>) {
        self.bundle.remove_link(now, number);
        self.leaving.push((number, gone));
    }

    /// Closes the sockets of links that are gone.
    pub(super) fn close_left(&mut self) {
        let Self { leaving, bundle, links, .. } = self;
        leaving.retain(|(number, gone)| {
            if bundle.has_link(*number) {
                return true;
            }
            if let Some(link) = links.get_mut(usize::from(*number)) {
                *link = None;
            }
            // Whoever asked may have given up waiting.
            let _ = gone.send(());
            false
        });
    }
}
