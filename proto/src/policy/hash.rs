//! `hash`: each flow on the link that its headers name, as long as that link is up.
//!
//! The layers that make a flow have the names of bonding's `xmit_hash_policy`; [`crate::policy::classify`] hashes them. The
//! link is the one for which the flow and the link together hash highest, so that a link that fails or
//! comes moves only the flows that were or will be its own.
//!
//! Source: Linux bonding (balance-xor); rendezvous hashing, Thaler and Ravishankar 1998.

use super::{Choice, Distribute, InKernel, PolicyOptions, Waiting};
use crate::policy::classify::{HashLayers, mix};

pub(crate) struct Hash {
    layers: HashLayers,
}

impl Hash {
    pub(crate) fn new(options: &PolicyOptions) -> Self {
        Self { layers: options.hash }
    }
}

impl Distribute for Hash {
    fn layers(&self) -> Option<HashLayers> {
        Some(self.layers)
    }

    fn in_kernel(&mut self, choices: &[Choice], _: &Waiting) -> Option<InKernel> {
        let all = choices.iter().fold(0, |links, choice| links | 1 << choice.link);
        (self.layers == HashLayers::Layer34).then_some(InKernel::Hash(all))
    }

    fn seat(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<usize> {
        let rank = |choice: &Choice| {
            let mut bytes = [choice.link; 16];
            bytes[8..12].copy_from_slice(&waiting.flow.to_be_bytes());
            mix(&bytes)
        };
        choices.iter().enumerate().max_by_key(|(_, choice)| rank(choice)).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{choice, waiting};

    fn hash() -> Hash {
        Hash::new(&PolicyOptions::default())
    }

    fn link(choices: &[Choice], flow: u32) -> u8 {
        choices[hash().share(choices, &waiting(flow, 3)).unwrap().index].link
    }

    #[test]
    fn a_flow_stays_on_its_link_and_all_links_are_used() {
        let choices = [0, 1, 2].map(|link| choice(link, None));
        let mut used = [0; 3];
        for flow in 0..3_000 {
            let first = link(&choices, flow);
            assert_eq!(link(&choices, flow), first);
            used[usize::from(first)] += 1;
        }
        assert!(used.iter().all(|flows| (900..1_100).contains(flows)), "{used:?}");
    }

    #[test]
    fn a_link_that_goes_moves_its_own_flows_only() {
        let all = [0, 1, 2].map(|link| choice(link, None));
        for flow in 0..1_000 {
            let before = link(&all, flow);
            assert!(before == 2 || link(&all[..2], flow) == before);
        }
    }

    #[test]
    fn a_flow_waits_for_its_link() {
        let full = [0, 1].map(|link| Choice { full: link == 0, ..choice(link, None) });
        let waits = (0..100).filter(|flow| hash().share(&full, &waiting(*flow, 1)).is_none()).count();
        assert!((30..70).contains(&waits), "{waits}");
    }
}
