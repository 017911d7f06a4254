//! Which policy decides over a frame: the first rule that matches it, else the policy of the bundle.
//!
//! Beside [`crate::policy::classify`], whose headers the rules read. Each rule has a policy of its own, with its own state. A
//! cell holds frames of one class and, when their policy tells flows apart, of one flow, so that one policy decides over it.

use crate::link::paths::Reach;
use crate::policy::classify::{HEADERS_MAX, Headers};
use crate::policy::{Policy, PolicyKind, PolicyOptions};
use alloc::vec::Vec;

/// Rules of one bundle.
pub const CLASSES_MAX: usize = 64;

/// The frames of a class: a frame matches when all fields that are given hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Bytes of the Ethernet frame, at most.
    pub max_size: Option<u16>,
    /// Differentiated services code point, below 64.
    pub dscp: Option<u8>,
    /// Number of the protocol above IP.
    pub protocol: Option<u8>,
    /// Source or destination port of TCP or UDP.
    pub port: Option<u16>,
}

impl Match {
    fn holds(&self, headers: &Headers<'_>, size: usize) -> bool {
        let packet = headers.packet.as_ref();
        self.max_size.is_none_or(|most| size <= usize::from(most))
            && self.dscp.is_none_or(|dscp| packet.is_some_and(|packet| packet.dscp == dscp))
            && self.protocol.is_none_or(|protocol| packet.is_some_and(|packet| packet.protocol == protocol))
            && self.port.is_none_or(|port| packet.is_some_and(|packet| packet.has_port(port)))
    }
}

/// A rule: frames like this have a policy of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Which frames.
    pub matches: Match,
    /// Their policy.
    pub policy: PolicyKind,
}

/// What decides over a frame: the same for all frames in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// 0: the bundle's policy; else that of the rule before this number.
    pub(crate) class: u8,
    /// What the policy takes for a flow; 0 when it does not tell flows apart.
    pub(crate) flow: u32,
    /// By which links its flow goes.
    pub(crate) reach: Reach,
}

pub(crate) struct Policies {
    options: PolicyOptions,
    rules: Vec<Match>,
    /// The bundle's, then each rule's.
    policies: Vec<Policy>,
}

impl Policies {
    /// # Panics
    /// When there are more than [`CLASSES_MAX`] classes.
    pub(crate) fn new(kind: PolicyKind, options: PolicyOptions, classes: &[Class]) -> Self {
        assert!(classes.len() <= CLASSES_MAX, "at most {CLASSES_MAX} classes");
        let kinds = core::iter::once(kind).chain(classes.iter().map(|class| class.policy));
        Self {
            rules: classes.iter().map(|class| class.matches).collect(),
            policies: kinds.map(|kind| Policy::new(kind, &options)).collect(),
            options,
        }
    }

    /// The bundle's policy.
    pub(crate) fn kind(&self) -> PolicyKind {
        self.policies[0].kind()
    }

    /// Whether some frames have a policy of their own.
    pub(crate) fn has_classes(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The bundle's policy, for frames of no class.
    pub(crate) fn bundles(&mut self) -> &mut Policy {
        &mut self.policies[0]
    }

    pub(crate) fn set(&mut self, kind: PolicyKind) {
        self.policies[0] = Policy::new(kind, &self.options);
    }

    /// Changes the options of all policies, and the rules. Cells that wait bear the numbers of the rules of before.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub(crate) fn set_rules(&mut self, options: PolicyOptions, classes: &[Class]) {
        *self = Self::new(self.kind(), options, classes);
    }

    /// Which policy decides over a frame of `size` bytes.
    fn index_of(&self, headers: &Headers<'_>, size: usize) -> usize {
        let rule = self.rules.iter().position(|rule| rule.holds(headers, size));
        rule.map_or(0, |rule| rule + 1)
    }

    /// Whether a policy wants to know what is received.
    pub(crate) fn heed_received(&self) -> bool {
        self.policies.iter().any(|policy| policy.heeds_received())
    }

    /// A frame of `size` bytes was delivered that came over this link of ours: the policy that decides over its answers is told.
    /// `head`: its first bytes; where the headers are not whole, the frame is not counted.
    pub(crate) fn handle_received(&mut self, head: &[u8], size: usize, link: Option<u8>) {
        if head.len() < size.min(HEADERS_MAX) {
            return;
        }
        let headers = &Headers::parse(head);
        let index = self.index_of(headers, size);
        let policy = &mut self.policies[index];
        if let Some(layers) = policy.layers().filter(|_| policy.heeds_received()) {
            policy.handle_received(headers.hash_of_answer(layers), link, size as u64);
        }
    }

    /// What decides over a frame of `size` bytes.
    pub(crate) fn classify(&self, headers: &Headers<'_>, size: usize) -> Treatment {
        let index = self.index_of(headers, size);
        let flow = self.policies[index].layers().map_or(0, |layers| headers.hash(layers));
        #[expect(clippy::cast_possible_truncation, reason = "at most CLASSES_MAX")]
        let class = index as u8;
        Treatment { class, flow, reach: Reach::Near }
    }

    /// The policy of this treatment; the bundle's, when the rule is gone.
    pub(crate) fn of(&mut self, treatment: Treatment) -> &mut Policy {
        let class = usize::from(treatment.class);
        let known = if class < self.policies.len() { class } else { 0 };
        &mut self.policies[known]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame to UDP port 53.
    fn query(dscp: u8) -> Vec<u8> {
        let mut frame = [2; 12].to_vec();
        frame.extend([0x08, 0x00, 0x45, dscp << 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x30, 0x39, 0, 53]);
        frame
    }

    fn holds(rule: Match, frame: &[u8], size: usize) -> bool {
        rule.holds(&Headers::parse(frame), size)
    }

    #[test]
    fn all_that_a_rule_names_must_hold() {
        let dns = Match { protocol: Some(17), port: Some(53), ..Match::default() };
        assert!(holds(dns, &query(0), 60));
        assert!(holds(Match { port: Some(0x3039), ..dns }, &query(0), 60), "source ports count");
        assert!(!holds(Match { port: Some(54), ..dns }, &query(0), 60));
        assert!(!holds(Match { protocol: Some(6), ..dns }, &query(0), 60));
        let voice = Match { dscp: Some(46), ..Match::default() };
        assert!(holds(voice, &query(46), 60) && !holds(voice, &query(0), 60));
        let small = Match { max_size: Some(256), ..Match::default() };
        assert!(holds(small, &query(0), 256) && !holds(small, &query(0), 257));
        assert!(!holds(dns, &[0; 60], 60), "not IP");
        assert!(holds(Match::default(), &[], 0), "a rule that names nothing matches everything");
    }

    #[test]
    fn a_cell_that_waits_outlives_the_rule_that_it_fell_under() {
        let voice = Match { dscp: Some(46), ..Match::default() };
        let rule = Class { matches: voice, policy: PolicyKind::Duplicate };
        let options = PolicyOptions::default();
        let mut policies = Policies::new(PolicyKind::Adaptive, options, &[rule, rule]);
        let waits = [1, 2].map(|class| Treatment { class, ..Treatment::default() });
        policies.set_rules(options, &[Class { policy: PolicyKind::RoundRobin, ..rule }]);
        let kinds = waits.map(|treatment| policies.of(treatment).kind());
        assert_eq!(kinds, [PolicyKind::RoundRobin, PolicyKind::Adaptive]);
        assert_eq!(policies.classify(&Headers::parse(&query(46)), 60).class, 1);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let small = Match { max_size: Some(256), ..Match::default() };
        let voice = Match { dscp: Some(46), ..Match::default() };
        let classes = [
            Class { matches: small, policy: PolicyKind::Duplicate },
            Class { matches: voice, policy: PolicyKind::Hash },
        ];
        let mut policies = Policies::new(PolicyKind::Adaptive, PolicyOptions::default(), &classes);
        let mut of = |frame: &[u8], size| {
            let treatment = policies.classify(&Headers::parse(frame), size);
            (policies.of(treatment).kind(), treatment.flow != 0)
        };
        assert_eq!(of(&query(46), 60), (PolicyKind::Duplicate, false));
        assert_eq!(of(&query(46), 1_000), (PolicyKind::Hash, true));
        assert_eq!(of(&query(0), 1_000), (PolicyKind::Adaptive, false));
    }
}
