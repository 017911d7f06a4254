//! UDP ports: worker i of a node uses the i-th port after that of its first worker, so there must be as many.

use super::problem::{Place, Problem};
use super::{Config, FixedConfig};

/// The ports that this node uses where nothing else is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// That of the first worker.
    pub first: u16,
    /// How many workers there are.
    pub workers: u16,
}

/// Those of a bundle of which nothing is stated.
impl Default for Ports {
    fn default() -> Ports {
        FixedConfig::default().ports()
    }
}

impl Ports {
    /// The highest port that a first worker can have.
    fn highest(self) -> u16 {
        u16::MAX - self.workers.saturating_sub(1)
    }

    /// Refuses a first worker's port, which `subject` has, when no port is left for each of the others.
    pub(super) fn check(self, problems: &mut Vec<Problem>, place: &Place, subject: &str, port: u16) {
        let (workers, highest) = (self.workers, self.highest());
        if port > highest {
            let what = format!("{subject} leaves no port for each of {workers} workers");
            problems.push(Problem::new(place, what, format!("ports up to {highest} with so many workers")));
        }
    }
}

impl FixedConfig {
    /// The ports of this node.
    pub fn ports(&self) -> Ports {
        Ports { first: self.port, workers: self.workers }
    }
}

impl Config {
    /// The lowest port of all links.
    pub fn lowest_port(&self) -> u16 {
        let links = self.links.iter().filter_map(|link| link.port);
        links.fold(self.port, u16::min)
    }
}
