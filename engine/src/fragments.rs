//! How a packet's fragments reach the device: each by a descriptor of its own, or some copied into one buffer first.
//!
//! A descriptor costs the bus and the processor a fixed time, whatever its length; a copy costs the processor a time
//! for each byte. So the first fragments, among them the short header, are worth copying in packets of few fragments,
//! and none is in long ones. The machine decides where the border lies.
//!
//! Source: Shimizu et al., section 5.3, "adaptive bounce buffer".

use alloc::boxed::Box;
use core::time::Duration;

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
    pub fn plan(&self, lengths: &[usize]) -> Plan {
        let copied = self.copied(lengths.len(), lengths.iter().sum());
        Plan {
            copied,
            copied_bytes: lengths[..copied].iter().sum(),
            descriptors: lengths.len() - copied.saturating_sub(1),
        }
    }
}

// The cost of a packet, by its length and by how many of its fragments are copied: measured on this machine at the
// start.
//
// Part of [`super::fragments`]. Copy, descriptor and bus work in parallel, so the time of a packet is not the sum of
// their costs: each combination is tried ([`Costs::trials`]), and the fastest is taken. The owner of the device sends
// some packets for each trial and records the time of one.

/// Numbers of first fragments that are tried; `usize::MAX` is all of them. In order, so that the least of equals is
/// taken.
const CANDIDATES: [usize; 9] = [0, 2, 3, 4, 5, 6, 8, 16, usize::MAX];
/// Lengths that are tried: powers of two from this one on.
const SHORTEST_LOG2: u32 = 7;
/// 128 B to 64 KB.
const CLASSES: usize = 10;
/// A copy must gain more than a twenty-fifth of the time: less is noise, and processors have other work.
const WORTH: u32 = 25;

/// A combination to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Bytes of a packet.
    pub bytes: usize,
    /// How many of its first fragments are copied; `usize::MAX` is all.
    pub first: usize,
    class: usize,
    candidate: usize,
}

/// The measured costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs([[Option<Duration>; CANDIDATES.len()]; CLASSES]);

impl Costs {
    /// All combinations.
    pub fn trials() -> impl Iterator<Item = Trial> {
        (0..CLASSES).flat_map(|class| {
            let bytes = length(class);
            let trial =
                move |(candidate, first): (usize, &usize)| Trial { bytes, first: *first, class, candidate };
            CANDIDATES.iter().enumerate().map(trial)
        })
    }

    /// Records how long a packet of this trial took, on average.
    pub fn record(&mut self, trial: Trial, took: Duration) {
        self.0[trial.class][trial.candidate] = Some(took);
    }

    /// How long a packet of this trial took, if it was measured.
    pub fn took(&self, trial: Trial) -> Option<Duration> {
        self.0[trial.class][trial.candidate]
    }

    /// The lengths at which something is copied, and how many of the first fragments; `usize::MAX` is all.
    pub fn copies(&self) -> impl Iterator<Item = (usize, usize)> {
        let lengths = (0..CLASSES).map(length);
        lengths.map(|bytes| (bytes, self.best(bytes))).filter(|(_, first)| *first > 1)
    }

    /// How many of the first fragments to copy in a packet of so many bytes: none without a measurement.
    pub fn best(&self, bytes: usize) -> usize {
        let row = &self.0[class(bytes)];
        let Some(least) = row.iter().flatten().min() else { return 0 };
        let good = *least + *least / WORTH;
        let place = row.iter().position(|cost| cost.is_some_and(|cost| cost <= good));
        place.map_or(0, |place| CANDIDATES[place])
    }
}

fn length(class: usize) -> usize {
    1 << (SHORTEST_LOG2 as usize + class)
}

/// The class whose length is nearest; three quarters of a length count as that length.
fn class(bytes: usize) -> usize {
    let log2 = (bytes.saturating_mul(4) / 3).max(1).ilog2();
    (log2.saturating_sub(SHORTEST_LOG2) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;

    use super::*;
    use crate::fragments::Fragments;

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

    /// A machine on which a fragment of 2 KB costs 1,000 ns beside the copy, and a copied byte half a nanosecond.
    fn took(trial: Trial) -> Duration {
        let fragments = 1 + trial.bytes.div_ceil(2_048);
        let copied = trial.first.min(fragments);
        let descriptors = fragments - copied.saturating_sub(1);
        // Beyond 16 KB the copy no longer fits into the cache.
        let per_byte = if trial.bytes > 16_384 { 2 } else { 1 };
        Duration::from_nanos((1_000 * descriptors + copied * 2_048 * per_byte / 4) as u64)
    }

    fn measured() -> Costs {
        let mut costs = Costs::default();
        Costs::trials().for_each(|trial| costs.record(trial, took(trial)));
        costs
    }

    #[test]
    fn the_fastest_is_taken_and_of_equals_the_one_that_copies_least() {
        let costs = measured();
        assert_eq!(costs.best(4_096), 3, "all three");
        assert_eq!(costs.best(65_507), 0, "where a copy costs more than a descriptor, none");
        assert_eq!(costs.copies().next(), Some((4_096, 3)));
        assert!(costs.copies().all(|(bytes, _)| bytes <= 16_384));
        let mut level = Costs::default();
        for trial in Costs::trials() {
            level.record(trial, Duration::from_nanos(1_000 - trial.candidate as u64));
        }
        assert_eq!(level.best(1_500), 0, "what gains less than a twenty-fifth is no gain");
    }

    #[test]
    fn auto_is_what_was_measured() {
        let packet = [28, 2_048, 2_048];
        assert_eq!(
            Fragments::Auto(Box::new(measured())).plan(&packet),
            Fragments::CopyFirst(3).plan(&packet)
        );
        assert_eq!(Fragments::Auto(Box::default()).plan(&packet), Fragments::ScatterGather.plan(&packet));
    }

    #[test]
    fn a_length_belongs_to_the_nearest_one_that_was_tried() {
        let near = |bytes| length(class(bytes));
        for (bytes, nearest) in
            [(0, 128), (64, 128), (3_000, 2_048), (3_072, 4_096), (4_124, 4_096), (65_535, 65_536)]
        {
            assert_eq!(near(bytes), nearest, "{bytes}");
        }
        assert_eq!(near(usize::MAX), 65_536);
    }

    #[test]
    fn every_combination_is_tried_once() {
        assert_eq!(Costs::trials().count(), CLASSES * CANDIDATES.len());
        assert!(measured().0.iter().flatten().all(Option::is_some));
    }
}
