//! `duplicate`: each cell on every link that is up; the first replica to arrive wins.
//!
//! The policy chooses the link of the first replica, as `adaptive` does. `send::replicate` puts the others on the other
//! links, and drops the oldest replicas of a link that is too far behind.

use super::adaptive::Adaptive;
use super::{Choice, Distribute, Share, Waiting};

#[derive(Debug, Default)]
pub(crate) struct Duplicate {
    first: Adaptive,
}

impl Distribute for Duplicate {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        self.first.share(choices, waiting)
    }

    fn replicates(&self) -> bool {
        true
    }
}
