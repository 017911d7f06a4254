//! P4.anomaly: larger messages that are faster than smaller ones, and times that come in a rhythm, found without looking at a plot.
//!
//! The probe's statistics are judged on traces that they know nothing of: of 1,000 pairs of machines that seeds draw
//! ([`crate::device::ping_pong`]), each played as the probe plays. The pairs say themselves what is true.

use tabane_probe::stats::{BLOCK, Round, Summary, inversion, period};
use tabane_sim::random::{Random, Stream};

use super::swept::one;
use crate::device::ping_pong::{Moderation, Pair, Played, Truth};
use crate::prelude::*;

const SEEDS: u64 = 1_000;
/// The paper's rounds that count, of each size, and where they end.
const COUNTED: usize = 200;
const LAST: usize = 400;
/// Most that may be found where there is nothing, and missed where there is something, in percent.
const FALSE_POSITIVES_MAX: f64 = 0.5;
const FALSE_NEGATIVES_MAX: f64 = 5.0;
/// Least pairs of each kind: a judgement over fewer would say little.
const PAIRS_MIN: f64 = 50.0;

const MODERATIONS: [(&str, Moderation); 6] = [
    ("at once", Moderation::None),
    ("20 µs after the last interrupt", Moderation::Fixed(20.0)),
    ("40 µs after the last interrupt", Moderation::Fixed(40.0)),
    ("54 µs after the last interrupt", Moderation::Fixed(54.0)),
    ("10 µs and 0.04 µs for each byte after the last interrupt", Moderation::BySize(10.0, 0.04)),
    ("20 µs after a packet of fewer than 256 bytes", Moderation::AfterShort(20.0, 256)),
];

#[derive(Default)]
struct Score {
    /// There is something: how often, and how often it was missed or taken for another.
    there: u32,
    missed: u32,
    /// There is nothing: how often, and how often something was found.
    nothing: u32,
    invented: u32,
}

pub(super) fn run() -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut inverted, mut rhythmic) = (Score::default(), Score::default());
    for seed in 0..SEEDS {
        let pair = Pair::drawn(seed);
        if let Truth::Clear(is_inverted) = pair.is_inverted() {
            inverted.note(is_inverted.then_some(()), finds_inversion(&pair, seed).then_some(()));
        }
        if let Truth::Clear(rounds) = pair.rhythm() {
            let alone: Vec<f64> = pair.play(&[1; LAST]).iter().map(|round| round.rtt).collect();
            rhythmic.note(rounds, period(&alone[LAST - COUNTED..]).map(|found| found.lag));
        }
    }
    inverted.tell("inversion", "an inversion", &mut outcome);
    rhythmic.tell("rhythm", "a rhythm", &mut outcome);
    tell_of_moderation(&mut outcome);
    let right = inverted.is_right() && rhythmic.is_right();
    outcome.finding(
        "an inversion of size and time, and a rhythm, are told from chance by the round trips alone",
        right,
        format!("{}; {}", inverted.words("inversions"), rhythmic.words("rhythms")),
    );
    outcome.remarks.push(
        "the machines' parameters are drawn by seeds and hidden from the statistics; what is true is computed without \
         the processors' noise, and pairs in which it is not clear are left out"
            .into(),
    );
    Ok(outcome)
}

/// What becomes of round trips when NICs wait before they interrupt, each size played alone.
fn tell_of_moderation(outcome: &mut Outcome) {
    let rows = MODERATIONS.map(|(name, moderation)| {
        let pair = Pair::moderated(moderation);
        let times = [0, 1]
            .map(|place| pair.play(&[place; LAST])[LAST - COUNTED..].iter().map(|round| round.rtt).collect());
        let [small, large]: [Vec<f64>; 2] = times;
        let floor = small.iter().copied().fold(f64::INFINITY, f64::min);
        let below = large.iter().filter(|time| **time < floor).count();
        let figures = [&small, &large].map(|times| Summary::of(times).map(|of| [of.median, of.sd]));
        let figures = figures.into_iter().flatten().flatten().chain([100.0 * below as f64 / COUNTED as f64]);
        (name.to_string(), figures.map(Some).collect())
    });
    let columns = ["1 B: median", "sd", "1 KB: median", "sd", "1 KB below all of 1 B, %"];
    outcome.grid("Simulated round trips where NICs wait before they interrupt, µs", &columns, rows.to_vec());
}

/// Whether the probe's statistics call the larger message faster, over the rounds that the paper counts.
fn finds_inversion(pair: &Pair, seed: u64) -> bool {
    let order = order(seed);
    let mut sizes: [Vec<Round>; 2] = Default::default();
    for (place, Played { rtt, .. }) in order.iter().zip(pair.play(&order)) {
        let number = sizes[*place].len() + 1;
        sizes[*place].push((number, rtt));
    }
    let [smaller, larger] = sizes.map(|rounds| rounds[LAST - COUNTED..].to_vec());
    inversion(&smaller, &larger).is_some_and(|found| found.is_anomaly())
}

/// Both sizes in blocks, each in a random order of its own, as the probe plays.
fn order(seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed, Stream::Traffic);
    let mut order = Vec::new();
    for _ in 0..LAST / BLOCK {
        let mut left = [BLOCK; 2];
        while left != [0; 2] {
            let place = usize::from(random.index(left[0] + left[1]) >= left[0]);
            left[place] -= 1;
            order.push(place);
        }
    }
    order
}

impl Score {
    fn note<T: Copy + PartialEq>(&mut self, truth: Option<T>, found: Option<T>) {
        if truth.is_some() {
            self.there += 1;
            self.missed += u32::from(truth != found);
        } else {
            self.nothing += 1;
            self.invented += u32::from(found.is_some());
        }
    }

    /// In percent of where there is something.
    fn false_negatives(&self) -> f64 {
        100.0 * f64::from(self.missed) / f64::from(self.there)
    }

    /// In percent of where there is nothing.
    fn false_positives(&self) -> f64 {
        100.0 * f64::from(self.invented) / f64::from(self.nothing)
    }

    fn is_right(&self) -> bool {
        self.false_negatives() <= FALSE_NEGATIVES_MAX && self.false_positives() <= FALSE_POSITIVES_MAX
    }

    fn tell(&self, id: &str, what: &str, outcome: &mut Outcome) {
        let (there, nothing) = (f64::from(self.there), f64::from(self.nothing));
        for (name, unit, figure) in [
            (format!("pairs of machines with {what}"), "of 1,000", there),
            (format!("missed of {what}"), "%", self.false_negatives()),
            (format!("pairs without {what}"), "of 1,000", nothing),
            (format!("pairs without {what} in which one was found"), "%", self.false_positives()),
        ] {
            outcome.simulated(name, None, one(unit, figure));
        }
        let id = |figure: &str| format!("P4.anomaly.{id}.{figure}");
        outcome.verdicts.extend([
            Verdict::at_least(&id("pairs"), there.min(nothing), PAIRS_MIN),
            Verdict::at_most(&id("false_negatives_percent"), self.false_negatives(), FALSE_NEGATIVES_MAX),
            Verdict::at_most(&id("false_positives_percent"), self.false_positives(), FALSE_POSITIVES_MAX),
        ]);
    }

    fn words(&self, what: &str) -> String {
        let Score { there, missed, nothing, invented } = self;
        format!("{what}: {missed} of {there} missed, {invented} found in {nothing} pairs without")
    }
}
