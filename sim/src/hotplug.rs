//! A node takes a cable out of its bundle while frames flow, and back in, or drains it.
//!
//! Part of [`crate::node`]. The bundle gives its links numbers of its own; a cable keeps its place. A socket stays open until
//! the bundle has no link of its number any more.

use crate::node::Node;
use crate::socket::Socket;
use crate::surroundings::Surroundings;

impl Node {
    /// The bundle's number of the nic at which a cable ends, if it is in the bundle.
    pub(crate) fn number(&self, nic: u8) -> Option<u8> {
        self.sockets[usize::from(nic)].number
    }

    /// The cable that ends at the bundle's nic of this number.
    pub(crate) fn cable_at(&self, number: u8) -> Option<u8> {
        self.nics().find(|nic| self.number(*nic) == Some(number))
    }

    /// Takes a cable out of the bundle, unless it is the last one or out already.
    pub(crate) fn unplug(&mut self, world: &Surroundings<'_>, nic: u8) {
        let staying = self.sockets.iter().filter(|socket| socket.number.is_some() && !socket.is_leaving);
        let Some(number) = self.number(nic).filter(|_| staying.count() > 1) else { return };
        self.socket(nic).is_leaving = true;
        self.bundle.remove_link(self.clock(world.now), number);
    }

    /// Takes a cable into the bundle; `false`: its last socket is still open.
    pub(crate) fn plug(&mut self, world: &mut Surroundings<'_>, nic: u8) -> bool {
        // A number that is free in the bundle must not be that of a cable here any more when it is given again.
        self.close_sockets(world);
        if self.number(nic).is_some() {
            return !self.socket(nic).is_leaving;
        }
        let settings = self.link_settings(nic);
        let number = self.bundle.add_link(self.clock(world.now), settings);
        let carrier = world.network.cable(self.place(nic)).has_carrier();
        *self.socket(nic) = Socket::new(number, Some(carrier));
        world.greeted_anew();
        true
    }

    /// Drains the link at the end of a cable, or ends that; nothing, when the cable is not in the bundle.
    pub(crate) fn drain(&mut self, world: &Surroundings<'_>, nic: u8, drained: bool) {
        if let Some(number) = self.number(nic) {
            self.bundle.drain_link(self.clock(world.now), number, drained);
        }
    }

    /// Closes the sockets of links that are gone; datagrams in them are lost, and so are those that arrive later.
    pub(crate) fn close_sockets(&mut self, world: &mut Surroundings<'_>) {
        for nic in self.nics() {
            if self.number(nic).is_none_or(|number| !self.bundle.has_link(number)) {
                world.network.losses.receive_buffer += self.socket(nic).waiting();
                *self.socket(nic) = Socket::default();
            }
        }
    }
}
