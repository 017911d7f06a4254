//! Whole bundles, without I/O.

mod carried;
mod drain;
mod endpoints;
mod handover;
mod heartbeats;
mod hotplug;
mod kernel_path;
mod membership;
pub(crate) mod pair;
mod relief;
mod sealed;

use super::*;
use crate::group::membership::part;
use crate::link::outbound::Outbound;
use crate::link::paths::Paths;
use crate::outputs::Control;
use crate::session::Origin;
use crate::session::table::Session;
use crate::wire::cell::{HEADER, Header, Kind};
use crate::wire::heartbeat::Heartbeat;
use crate::wire::hello::Hello;
use crate::wire::hello::NodeId;
use crate::wire::repair::Request;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn node(number: u8) -> NodeId {
    NodeId::new([2, 0, 0, 0, 0, number], 7420)
}

fn endpoint(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 7420))
}

fn alone(now: Instant, links: usize) -> Bundle {
    let links = alloc::vec![LinkSettings::new(1_452); links];
    Bundle::new(now, Settings { slots: 512, buffers: 16, ..Settings::new(node(1), 1, links) })
}

/// Another node says hello on the first link, unless `change` makes something else of it.
fn say(bundle: &mut Bundle, now: Instant, number: u8, change: impl FnOnce(Hello) -> Hello) {
    let hello = Hello { node: node(number), incarnation: 5, session: 7, ..bundle.hello(0, None) };
    bundle.handle_hello(now, Origin { link: 0, from: endpoint(number) }, &change(hello));
}

/// A bundle reads a frame from its device: a virtio header of zeros, this address, that of host 1, and these bytes.
fn read(bundle: &mut Bundle, now: Instant, to: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let frame = [&[0; 10][..], &to, &[2, 0, 0, 0, 0, 1, 0x88, 0xb5], payload].concat();
    bundle.read_space().flatten().zip(&frame).for_each(|(place, byte)| *place = *byte);
    bundle.handle_frame(now, frame.len());
    frame
}

/// Calls of tests that the I/O does not make.
impl Bundle {
    fn hello(&self, link: u8, peer: Option<u16>) -> Hello {
        self.group.hello(link, peer, &self.sessions, &self.links)
    }

    fn handle_hello(&mut self, now: Instant, origin: Origin, hello: &Hello) {
        let (group, mut parts) = self.split();
        group.handle_hello(now, origin, hello, &mut parts);
    }

    fn handle_farewell(&mut self, now: Instant, origin: Origin, hello: &Hello) -> u64 {
        let (group, mut parts) = self.split();
        group.handle_farewell(now, origin, hello, &mut parts)
    }

    fn handle_pause(&mut self, now: Instant, hello: &Hello) -> bool {
        let (group, mut parts) = self.split();
        group.handle_pause(now, hello, &mut parts)
    }

    fn find(&self, node: NodeId) -> Option<u16> {
        self.sessions.table().find(node)
    }

    fn session(&mut self, index: u16) -> &mut Session {
        self.sessions.table_mut().get_mut(index).expect("it is there")
    }

    fn paths(&mut self, index: u16) -> &mut Paths {
        self.links.paths_mut(index).expect("it is there")
    }

    fn outbound(&mut self) -> &mut [Outbound] {
        &mut self.paths(0).outbound
    }

    fn part(&mut self, index: u16) {
        part(index, &mut self.split().1);
    }
}
