//! The progress of a long measurement: a bar on a terminal, nothing elsewhere.
//!
//! A thread of its own draws the bar now and then: the measurement only stores a number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Error;

/// Pause between two drawings.
const REDRAW: Duration = Duration::from_millis(500);
/// Drawings per second at most.
const RATE: u8 = 2;

/// A bar that is erased when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar named `what` that is full after `count` steps.
    pub(crate) fn of(what: String, count: usize) -> Progress {
        let target = ProgressDrawTarget::stderr_with_hz(RATE);
        let bar = ProgressBar::with_draw_target(u64::try_from(count).ok(), target);
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}, {eta} to go") {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(REDRAW);
        Progress { bar }
    }

    /// Notes that `count` steps are done.
    pub(crate) fn reached(&self, count: usize) {
        self.bar.set_position(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

// Ctrl-C ends a measurement, not the program, which reports what was measured until then.

/// Exit code after a second signal: 128 and the number of SIGINT.
const SECOND_SIGNAL: i32 = 130;

/// Whether a signal asks the measurement to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interruption {
    asked: Arc<AtomicBool>,
}

impl Interruption {
    /// Catches SIGINT and SIGTERM from now on; the second one ends the program at once.
    pub(crate) fn listen() -> Result<Interruption, Error> {
        let asked = Arc::new(AtomicBool::new(false));
        let listen = |signal| -> io::Result<()> {
            flag::register_conditional_shutdown(signal, SECOND_SIGNAL, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked)).map(drop)
        };
        [SIGINT, SIGTERM].into_iter().try_for_each(listen).map_err(Error::doing("waiting for signals"))?;
        Ok(Interruption { asked })
    }

    /// Whether a signal has come.
    pub(crate) fn came(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
