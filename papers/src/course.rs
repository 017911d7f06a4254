//! The course of a run: what was measured before an interruption, and how long the rest takes.
//!
//! Each experiment's outcome is kept in a file beside the report as soon as it is there. `--resume` takes those of the same
//! options. Their commit is kept with them, and the report names it where it is another one.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

/// Where outcomes are kept.
const DIRECTORY: &str = "target/lab/papers";

/// A run over several experiments.
pub(super) struct Course {
    /// What has to be the same for an outcome to be taken: the options.
    manner: String,
    began: Instant,
    /// Planned times: of what is measured so far, and of what is left.
    spent: Duration,
    left: Duration,
}

/// What a file holds.
#[derive(Serialize, Deserialize)]
struct Kept {
    manner: String,
    outcome: Outcome,
}

impl Course {
    /// A run in which measurements that take `planned` altogether are to be made.
    pub(super) fn new(manner: String, planned: Duration) -> Course {
        Course { manner, began: Instant::now(), spent: Duration::ZERO, left: planned }
    }

    /// What was kept of experiment `id`, measured in the same manner.
    pub(super) fn kept(&self, id: &str) -> Option<Outcome> {
        let kept: Kept = serde_json::from_str(&fs::read_to_string(path(id)).ok()?).ok()?;
        (kept.manner == self.manner).then_some(kept.outcome)
    }

    /// Keeps the outcome of experiment `id`; where that is not possible, it cannot be resumed, and nothing else is lost.
    pub(super) fn keep(&self, id: &str, outcome: Outcome) -> Outcome {
        let kept = Kept { manner: self.manner.clone(), outcome };
        if let Ok(text) = serde_json::to_string(&kept) {
            let _ = fs::create_dir_all(DIRECTORY).and_then(|()| fs::write(path(id), text));
        }
        kept.outcome
    }

    /// Something is done that was planned to take so long; `measured`: and took its time.
    pub(super) fn done(&mut self, planned: Duration, measured: bool) {
        self.left = self.left.saturating_sub(planned);
        if measured {
            self.spent += planned;
        }
    }

    /// How long the rest takes, for people: as planned, by the pace so far.
    pub(super) fn left(&self) -> String {
        let pace = if self.spent.is_zero() {
            1.0
        } else {
            self.began.elapsed().as_secs_f64() / self.spent.as_secs_f64()
        };
        words(self.left.as_secs_f64() * pace)
    }
}

fn words(seconds: f64) -> String {
    match (seconds / 60.0).ceil() {
        minutes if minutes <= 1.0 => "about a minute left".to_string(),
        minutes => format!("about {minutes} minutes left"),
    }
}

fn path(id: &str) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("{id}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_shrinks_with_what_is_done() {
        let minute = Duration::from_secs(60);
        let mut course = Course::new(String::new(), 10 * minute);
        assert_eq!(course.left(), "about 10 minutes left");
        course.done(3 * minute, false);
        assert_eq!(course.left(), "about 7 minutes left", "what was kept says nothing of the pace");
        course.done(6 * minute, true);
        assert_eq!(course.left(), "about a minute left");
    }
}
