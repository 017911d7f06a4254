//! Waiting until something happens to a bundle: its event log says so, and not all that changes is an event.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use tabane::control::{Request, open_request};

use crate::netns::Namespace;

/// Longest wait: counters and estimates change without an event.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Pause before the next attempt to follow a daemon that does not listen yet.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Events come in groups, one for each worker, direction and link.
const GROUP: Duration = Duration::from_millis(2);

/// What the bundle `device` of `host` tells of itself, followed from the first wait on.
pub(crate) struct News<'a> {
    host: &'a Namespace,
    device: &'a str,
    events: Option<UnixStream>,
}

impl<'a> News<'a> {
    pub(crate) fn of(host: &'a Namespace, device: &'a str) -> News<'a> {
        News { host, device, events: None }
    }

    /// Returns when something has happened, and after a short time in any case.
    pub(crate) fn wait(&mut self) {
        let Some(events) = &mut self.events else {
            self.events = self.follow();
            return thread::sleep(TRY_AGAIN_AFTER);
        };
        match events.read(&mut [0; 64 << 10]) {
            Ok(1..) => thread::sleep(GROUP),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => self.events = None,
        }
    }

    fn follow(&self) -> Option<UnixStream> {
        let opened = self.host.enter(|| open_request(self.device, &Request::Follow)).ok()?;
        let events = opened.ok()?;
        events.set_read_timeout(Some(LOOK_AGAIN_AFTER)).ok()?;
        Some(events)
    }
}
