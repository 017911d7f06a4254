//! What tests of several crates share: waiting with a deadline, and trials that cannot run here.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

/// Pause between two looks at a condition: short beside anything that is waited for.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Looks at `ready` until it yields a value.
/// Errors: the error of `ready`, or `what` with the time that was waited when `limit` passes first.
pub fn wait_for<T, E: From<io::Error>>(
    what: &str,
    limit: Duration,
    mut ready: impl FnMut() -> Result<Option<T>, E>,
) -> Result<T, E> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            let missed = format!("{what}: not within {limit:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, missed).into());
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// The trial `name`; where something is `missing`, it is reported as ignored, with the reason.
pub fn trial(
    name: &str,
    missing: Option<&str>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match missing {
        None => Trial::test(name, test),
        Some(reason) => Trial::test(format!("{name} [SKIPPED: {reason}]"), || Ok(())).with_ignored_flag(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_value() {
        let mut looks = 0;
        let value = wait_for("three looks", Duration::from_secs(5), || {
            looks += 1;
            io::Result::Ok((looks == 3).then_some("seen"))
        });
        assert_eq!(value.unwrap(), "seen");
    }

    #[test]
    fn waiting_is_bounded_and_names_what_was_missed() {
        let error = wait_for("a pink elephant", Duration::from_millis(20), || io::Result::Ok(None::<()>));
        assert_eq!(error.unwrap_err().to_string(), "a pink elephant: not within 20ms");
    }

    #[test]
    fn what_cannot_run_is_ignored_and_says_why() {
        let ignored = trial("one", Some("no such thing here"), || panic!("it does not run"));
        assert_eq!((ignored.name(), ignored.has_ignored_flag()), ("one [SKIPPED: no such thing here]", true));
        assert!(!trial("one", None, || Ok(())).has_ignored_flag());
    }
}
