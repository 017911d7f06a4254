//! Which trials there are.

use std::fmt;

use clap::ValueEnum;

use super::fault::Fault;

/// Numbers of links of the whole matrix.
const LINKS: [u8; 3] = [2, 3, 4];

/// What the bundle does about cells that a link loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Mode {
    /// Nothing
    Off,
    /// They are sent again over another link
    On,
    /// Every cell goes over every link from the start
    Duplicate,
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) links: u8,
    pub(super) fault: Fault,
    pub(super) mode: Mode,
}

impl Mode {
    /// What `tabane up` is told.
    pub(super) fn arguments(self) -> Vec<String> {
        let words: &[&str] = match self {
            Mode::Off => &["--no-repair"],
            Mode::On => &[],
            Mode::Duplicate => &["--policy", "duplicate"],
        };
        words.iter().map(ToString::to_string).collect()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::On => "on",
            Mode::Duplicate => "duplicate",
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} links, {}, repair {}", self.links, self.fault.label(), self.mode.name())
    }
}

/// All combinations of what is named; nothing named means all.
pub(super) fn wanted(links: &[u8], faults: &[Fault], modes: &[Mode]) -> Vec<Trial> {
    let faults = all_unless(faults, Fault::value_variants());
    let modes = all_unless(modes, Mode::value_variants());
    let mut trials = Vec::new();
    for links in all_unless(links, &LINKS) {
        for fault in &faults {
            trials.extend(modes.iter().map(|mode| Trial { links, fault: *fault, mode: *mode }));
        }
    }
    trials
}

/// The part that shows in a minute whether it works.
pub(super) fn quick() -> Vec<Trial> {
    wanted(&[2], &[Fault::Cable, Fault::BlackHole, Fault::OneWay], &[Mode::Off, Mode::On])
}

/// What is named, each once and in order.
fn all_unless<T: Copy + Ord>(named: &[T], all: &[T]) -> Vec<T> {
    let mut wanted = if named.is_empty() { all.to_vec() } else { named.to_vec() };
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_matrix_and_parts_of_it() {
        assert_eq!(wanted(&[], &[], &[]).len(), 3 * 8 * 3);
        let one = wanted(&[2, 2], &[Fault::BlackHole], &[Mode::On]);
        assert_eq!(one, [Trial { links: 2, fault: Fault::BlackHole, mode: Mode::On }]);
        assert_eq!(one[0].to_string(), "2 links, black hole, repair on");
        assert_eq!(quick().len(), 6);
    }
}
