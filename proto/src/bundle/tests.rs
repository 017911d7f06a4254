//! Whole bundles, without I/O.

mod carried;
mod drain;
mod endpoints;
mod fdb;
mod fit;
mod handover;
mod heartbeats;
mod hotplug;
mod kernel_path;
mod membership;
pub(crate) mod pair;
mod relief;
mod requests;
mod sealed;

use super::*;
use crate::group::membership::part;
use crate::link::outbound::Outbound;
use crate::link::paths::Paths;
use crate::outbox::Control;
use crate::session::Origin;
use crate::session::table::Session;
use crate::wire::cell::{HEADER, Header, Kind};
use crate::wire::heartbeat::Heartbeat;
use crate::wire::hello::Hello;
use crate::wire::hello::NodeId;
use crate::wire::repair::Request;

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
