//! `duplicate`: each cell on every link that is up; the first replica to arrive wins.
//!
//! The policy chooses the link of the first replica, as `adaptive` does. `send::replicate` puts the others on the other
//! links, and says what happens to those that cannot keep up.

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
}
