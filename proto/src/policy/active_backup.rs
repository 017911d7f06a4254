//! `active-backup`: one link carries everything, and another when it fails.
//!
//! The policy uses the primary from the moment it is up first. After the primary has failed and come back it takes over
//! again only with preemption; without, the link in use stays until it fails. Without a primary, the lowest number begins.
//!
//! Source: Linux bonding (active-backup, `primary`, `primary_reselect` always or failure).

use super::{Choice, Distribute, InKernel, PolicyOptions, Share, Waiting};
use crate::session::peers::ByPeer;

pub(crate) struct ActiveBackup {
    primary: Option<u8>,
    preempt: bool,
    /// Those that have been sent to.
    peers: ByPeer<Active>,
}

/// The link in use to one peer.
#[derive(Clone, Copy, Debug, Default)]
struct Active {
    link: Option<u8>,
    had_primary: bool,
}

impl ActiveBackup {
    pub(crate) fn new(options: &PolicyOptions) -> Self {
        Self { primary: options.primary, preempt: options.preempt, peers: ByPeer::default() }
    }
}

impl Distribute for ActiveBackup {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let active = self.peers.of(waiting.peer);
        let find = |link: Option<u8>| choices.iter().position(|choice| Some(choice.link) == link);
        let primary = find(self.primary);
        let in_use = find(active.link);
        let reselect = in_use.is_none() || self.preempt || !active.had_primary;
        let index = primary.filter(|_| reselect).or(in_use).unwrap_or(0);
        active.link = Some(choices[index].link);
        active.had_primary |= primary == Some(index);
        Share::all(choices, index, waiting)
    }

    fn in_kernel(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<InKernel> {
        self.share(choices, waiting).map(|share| InKernel::Hash(1 << choices[share.index].link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{choice, waiting};
    use std::vec::Vec;

    /// The link in use after each change of the links that are up.
    fn follow(primary: Option<u8>, preempt: bool, ups: &[&[u8]]) -> Vec<u8> {
        let options = PolicyOptions { primary, preempt, ..PolicyOptions::default() };
        let mut policy = ActiveBackup::new(&options);
        ups.iter()
            .map(|up| {
                let choices: Vec<_> = up.iter().map(|link| choice(*link, None)).collect();
                choices[policy.share(&choices, &waiting(0, 1)).unwrap().index].link
            })
            .collect()
    }

    #[test]
    fn the_primary_returns_only_with_preemption() {
        let ups: [&[u8]; 4] = [&[0, 1, 2], &[0, 2], &[0, 1, 2], &[1, 2]];
        assert_eq!(follow(Some(1), true, &ups), [1, 0, 1, 1]);
        assert_eq!(follow(Some(1), false, &ups), [1, 0, 0, 1]);
        assert_eq!(follow(None, true, &ups), [0, 0, 0, 1]);
    }

    #[test]
    fn a_primary_that_comes_up_last_at_the_start_is_used_all_the_same() {
        assert_eq!(follow(Some(1), false, &[&[0], &[0, 1], &[0], &[0, 1]]), [0, 1, 0, 0]);
    }

    #[test]
    fn each_peer_has_its_own_and_a_full_link_is_waited_for() {
        let mut policy = ActiveBackup::new(&PolicyOptions { primary: Some(0), ..PolicyOptions::default() });
        let mut choices = [choice(0, None), choice(1, None)];
        let other = Waiting { peer: 9, ..waiting(0, 1) };
        assert_eq!(policy.share(&choices[1..], &other), Some(Share { index: 0, cells: 1 }));
        choices[0].full = true;
        assert_eq!(policy.share(&choices, &waiting(0, 1)), None);
    }
}
