//! A node takes a cable out of its bundle while frames flow, and back in.
//!
//! The bundle gives its ports numbers of its own; a cable keeps its place. A socket stays open until the bundle has no
//! port of its number any more.

use crate::node::Node;
use crate::socket::Socket;
use crate::surroundings::Surroundings;

impl Node {
    /// The bundle's number of the port at which a cable ends, if it is in the bundle.
    pub(crate) fn number(&self, port: u8) -> Option<u8> {
        self.numbers[usize::from(port)]
    }

    /// The cable that ends at the bundle's port of this number.
    pub(crate) fn cable_at(&self, number: u8) -> Option<u8> {
        self.ports().find(|port| self.number(*port) == Some(number))
    }

    /// Takes a cable out of the bundle, unless it is the last one or out already.
    pub(crate) fn unplug(&mut self, world: &Surroundings<'_>, port: u8) {
        let staying =
            self.ports().filter(|other| self.number(*other).is_some() && !self.leaving[usize::from(*other)]);
        let Some(number) = self.number(port).filter(|_| staying.count() > 1) else { return };
        self.leaving[usize::from(port)] = true;
        self.bundle.remove_port(self.clock(world.now), number);
    }

    /// Takes a cable into the bundle; `false`: its last socket is still open.
    pub(crate) fn plug(&mut self, world: &mut Surroundings<'_>, port: u8) -> bool {
        // A number that is free in the bundle must not be that of a cable here any more when it is given again.
        self.close_sockets(world);
        if self.number(port).is_some() {
            return !self.leaving[usize::from(port)];
        }
        let settings = self.port_settings(port);
        self.numbers[usize::from(port)] = self.bundle.add_port(self.clock(world.now), settings);
        let carrier = world.network.cable(self.place(port)).has_carrier();
        *self.socket(port) = Socket::default();
        self.socket(port).carrier = Some(carrier);
        world.greeted_anew();
        true
    }

    /// Closes the sockets whose ports are gone; what was in them is lost, as is what still comes.
    pub(crate) fn close_sockets(&mut self, world: &mut Surroundings<'_>) {
        for port in self.ports() {
            if self.number(port).is_some_and(|number| !self.bundle.has_port(number)) {
                self.numbers[usize::from(port)] = None;
                self.leaving[usize::from(port)] = false;
            }
            if self.number(port).is_none() {
                world.network.losses.receive_buffer += self.socket(port).waiting();
                *self.socket(port) = Socket::default();
            }
        }
    }
}
