//! Ctrl-C ends a measurement, not the program, which reports what was measured until then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::Error;

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
