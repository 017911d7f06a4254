//! A path that one contender has made, and its two ends.

use std::net::SocketAddr;

use super::case::{Case, Timing};
use tabane_kit::netns::Namespace;
use tabane_kit::topology::Topology;

/// A path under test.
pub(super) struct Bench<'a> {
    pub(super) case: Case,
    pub(super) topology: &'a Topology,
    pub(super) timing: Timing,
    pub(super) seed: u64,
}

impl Bench<'_> {
    /// Sends.
    pub(super) fn client(&self) -> &Namespace {
        self.topology.host(0)
    }

    /// Receives.
    pub(super) fn server(&self) -> &Namespace {
        self.topology.host(1)
    }

    /// Where connection `number` of those that run at once arrives.
    pub(super) fn at(&self, number: usize) -> SocketAddr {
        self.case.contender.at(number)
    }
}
