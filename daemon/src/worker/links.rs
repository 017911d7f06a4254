//! A worker's links: a socket each, and how they join, leave and are replaced while the worker runs.
//!
//! A link has the number that the core gave it. A link that leaves keeps its socket until the core expects
//! no more cells on it.

use std::net::{SocketAddr, SocketAddrV6};
use std::sync::mpsc::Sender;

use tabane_config::address::GROUP;
use tabane_io::{AnyLink, Interest, Poll};
use tabane_proto::wire::cell::LINKS;
use tabane_proto::{Instant, LinkSettings};

use super::Worker;

/// One link of a worker.
pub(super) struct WatchedLink {
    pub(super) io: AnyLink,
    /// Where greetings to everyone go.
    pub(super) group: SocketAddr,
    /// Whether it waits for room in the socket or window.
    pub(super) wants_room: bool,
    pub(super) room_watched: bool,
    /// The size that the send buffer was set to, in bytes.
    pub(super) send_buffer: u64,
    /// When the length of the queue was read last.
    pub(super) measured: Instant,
    /// Whether another node is there, as last reported to the core; only of links that are polled.
    pub(super) carrier: bool,
}

impl WatchedLink {
    /// Link `number` over `io`, watched by `poll`.
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
    /// Whether it waits for room and epoll does not watch for that, although it should.
    pub(super) fn is_unwatched(&self) -> bool {
        self.wants_room && !self.room_watched && self.io.signals_room()
    }
}

impl Worker {
    /// Adds a link; returns its number, or `None` when it cannot.
    pub(super) fn add(
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

    /// Replaces the socket of a link whose NIC was deleted, after another of that name has appeared.
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

    /// Puts a link in its place. A socket that was there before is closed, so epoll forgets it.
    fn place(&mut self, number: u8, link: WatchedLink, nic: String) {
        let number = usize::from(number);
        if self.links.len() <= number {
            self.links.resize_with(number + 1, || None);
            self.nics.resize(number + 1, String::new());
        }
        self.links[number] = Some(link);
        self.nics[number] = nic;
    }

    /// A link at which several of a peer's links end has further numbers, which have its name.
    pub(super) fn name_twins(&mut self) {
        for link in (0..).take(LINKS) {
            let (number, socket) = (usize::from(link), usize::from(self.bundle.socket(link)));
            if socket != number && self.nics.get(number) != self.nics.get(socket) {
                self.nics.resize(self.nics.len().max(number + 1), String::new());
                self.nics[number] = self.nics[socket].clone();
            }
        }
    }

    /// Removes a link; `gone` is signalled when its socket is closed.
    pub(super) fn remove(&mut self, now: Instant, number: u8, gone: Sender<()>) {
        self.bundle.remove_link(now, number);
        self.leaving.push((number, gone));
    }

    pub(super) fn close_left(&mut self) {
        let Self { leaving, bundle, links, .. } = self;
        leaving.retain(|(number, gone)| {
            if bundle.has_link(*number) {
                return true;
            }
            if let Some(link) = links.get_mut(usize::from(*number)) {
                *link = None;
            }
            // The main thread may have given up waiting.
            let _ = gone.send(());
            false
        });
    }
}
