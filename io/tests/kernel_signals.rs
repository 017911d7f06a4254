//! Signals as something to read.

use std::time::Duration;

use tabane_io::{Interest, Poll, Signal, Signals};

use crate::kernel::hosts::until;
use crate::kernel::needs::{Need, Test};

pub(crate) const TESTS: &[Test] = tests!("signals";
    Nothing: stop_requests_wake_the_poll;
);

fn stop_requests_wake_the_poll() {
    let (signals, mut poll) = (Signals::block().unwrap(), Poll::new().unwrap());
    poll.add(&signals, 1, Interest::Read).unwrap();
    assert_eq!(signals.next_signal().unwrap(), None);
    for (number, signal) in [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt)] {
        // SAFETY: the signal goes to this thread, which blocks it.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), number) }, 0);
        until("signal", || (poll.wait(Some(Duration::from_millis(100))).unwrap().count() == 1).then_some(()));
        assert_eq!(signals.next_signal().unwrap(), Some(signal));
    }
    assert_eq!(signals.next_signal().unwrap(), None);
}
