//! How a packet's fragments reach the device: each by a descriptor of its own, or some copied into one buffer first.
//!
//! A descriptor costs the bus and the processor a fixed time, whatever its length; a copy costs the processor a time
//! for each byte. So the first fragments, among them the short header, are worth copying in packets of few fragments,
//! and none is in long ones. The machine decides where the border lies.
//!
//! Source: Shimizu et al., section 5.3, "adaptive bounce buffer".

use crate::costs::Costs;
use alloc::boxed::Box;

/// Which fragments are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fragments {
    /// None: the device gathers them.
    ScatterGather,
    /// The first so many, or all where there are fewer.
    CopyFirst(usize),
    /// All.
    CopyAll,
    /// As many of the first as was fastest when this machine was measured.
    Auto(Box<Costs>),
}

impl Default for Fragments {
    /// By measurement, before there is one.
    fn default() -> Self {
        Self::Auto(Box::default())
    }
}

/// How one packet reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first fragments that are copied into one buffer; none or at least two.
    pub copied: usize,
    /// Their bytes.
    pub copied_bytes: usize,
    /// Descriptors that the packet takes.
    pub descriptors: usize,
}

impl Fragments {
    /// How many of the first of `count` fragments are copied, which have so many `bytes` together; not 1, for one alone
    /// gains nothing.
    #[must_use]
    pub fn copied(&self, count: usize, bytes: usize) -> usize {
        let first = match self {
            Self::ScatterGather => 0,
            Self::CopyFirst(first) => *first,
            Self::CopyAll => usize::MAX,
            Self::Auto(costs) => costs.best(bytes),
        };
        Some(first.min(count)).filter(|copied| *copied > 1).unwrap_or(0)
    }

    /// How a packet of fragments of these lengths reaches the device.
    #[must_use]
    pub fn plan(&self, lengths: &[usize]) -> Plan {
        let copied = self.copied(lengths.len(), lengths.iter().sum());
        Plan {
            copied,
            copied_bytes: lengths[..copied].iter().sum(),
            descriptors: lengths.len() - copied.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn plan(fragments: &Fragments, lengths: &[usize]) -> (usize, usize, usize) {
        let Plan { copied, copied_bytes, descriptors } = fragments.plan(lengths);
        (copied, copied_bytes, descriptors)
    }

    #[test]
    fn what_is_copied_takes_one_descriptor() {
        let packet = [28, 2_048, 2_048, 2_048];
        assert_eq!(plan(&Fragments::ScatterGather, &packet), (0, 0, 4));
        assert_eq!(plan(&Fragments::CopyFirst(3), &packet), (3, 4_124, 2));
        assert_eq!(plan(&Fragments::CopyFirst(9), &packet), (4, 6_172, 1));
        assert_eq!(plan(&Fragments::CopyAll, &packet), (4, 6_172, 1));
    }

    #[test]
    fn one_fragment_is_never_copied() {
        for fragments in [Fragments::CopyFirst(1), Fragments::CopyAll] {
            assert_eq!(plan(&fragments, &[1_500]), (0, 0, 1), "{fragments:?}");
        }
        assert_eq!(plan(&Fragments::CopyFirst(1), &[28, 1_500]), (0, 0, 2));
        assert_eq!(plan(&Fragments::CopyAll, &[]), (0, 0, 0));
    }

    #[test]
    fn every_byte_and_fragment_is_counted_once() {
        for count in 0..40 {
            let lengths = vec![100; count];
            for first in 0..50 {
                let plan = Fragments::CopyFirst(first).plan(&lengths);
                assert_eq!(plan.copied_bytes, 100 * plan.copied);
                let gathered = plan.descriptors - usize::from(plan.copied > 0);
                assert_eq!(gathered + plan.copied, count);
            }
        }
    }
}
