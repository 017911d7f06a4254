//! Signals as something to read.

use std::time::Duration;

use libtest_mimic::Trial;
use tabane_io::{Interest, Poll, Signal, Signals};

use crate::kernel::needs::Needs;

pub(crate) fn trials(needs: &Needs) -> Vec<Trial> {
    vec![needs.trial(None, "signals::stop_requests_wake_the_poll", stop_requests_wake_the_poll)]
}

fn stop_requests_wake_the_poll() {
    let (signals, mut poll) = (Signals::block().unwrap(), Poll::new().unwrap());
    poll.add(&signals, 1, Interest::Read).unwrap();
    assert_eq!(signals.next_signal().unwrap(), None);
    for (number, signal) in [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt)] {
        // SAFETY: the signal goes to this thread, which blocks it.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), number) }, 0);
        assert_eq!(poll.wait(Some(Duration::from_secs(5))).unwrap().count(), 1);
        assert_eq!(signals.next_signal().unwrap(), Some(signal));
    }
    assert_eq!(signals.next_signal().unwrap(), None);
}
