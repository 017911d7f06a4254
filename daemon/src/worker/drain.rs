//! A worker whose place another process takes: it delivers what it holds, and stands still.

use std::sync::mpsc::Sender;
use std::time::Duration;

use tabane_io::AnyLink;
use tabane_proto::Instant;

use super::{Command, Worker, clock};

/// How long a worker tries to have everything delivered: peers send what waits in their queues, too.
const DELIVER_WITHIN: Duration = Duration::from_millis(60);
/// How often it looks whether all is.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// A worker is about to stand still.
pub(super) struct Drain {
    /// When it does at the latest.
    until: Instant,
    /// Who is told that it does.
    answer: Sender<()>,
}

impl Drain {
    pub(super) fn new(now: Instant, answer: Sender<()>) -> Drain {
        Drain { until: now + DELIVER_WITHIN, answer }
    }
}

impl Worker {
    /// Until when to wait, `due` at the latest.
    pub(super) fn wait_until(&self, due: Instant, now: Instant) -> Instant {
        let due = if self.has_left { now } else { due };
        let due = self.read_again.map_or(due, |again| due.min(again));
        if self.drain.is_some() { due.min(now + LOOK_EVERY) } else { due }
    }

    /// Stands still when it is to and everything is delivered; `true`: end.
    pub(super) fn drain(&mut self, now: Instant) -> bool {
        let Some(drain) = self.drain.take_if(|drain| now >= drain.until || self.bundle.is_settled(now))
        else {
            return false;
        };
        self.leave_programs();
        // Whoever asked may have given up waiting; then it says so next.
        let _ = drain.answer.send(());
        self.stand_still()
    }

    /// Waits until it is told to go on; `true`: end.
    pub(super) fn stand_still(&mut self) -> bool {
        loop {
            match self.commands.recv() {
                Ok(command) => {
                    let goes_on = matches!(command, Command::Resume | Command::Succeed { .. });
                    let ends = self.execute(clock(), command);
                    if ends {
                        self.leave_seats_to_others();
                    }
                    if ends || goes_on {
                        return ends;
                    }
                }
                Err(_) => return true,
            }
        }
    }

    /// Programs at the NICs end with this process; from now on their cells come where the next one finds them.
    fn leave_programs(&mut self) {
        let Self { links, bundle, .. } = self;
        for (number, link) in (0..).zip(links).filter_map(|(number, link)| Some((number, link.as_mut()?))) {
            let AnyLink::Ether(io) = &mut link.io else { continue };
            if io.hides_room() {
                io.hand_over();
                link.send_buffer = 0;
                // From now on a descriptor tells of room; whether there is some shows when cells are sent.
                if std::mem::take(&mut link.wants_room) {
                    bundle.handle_writable(number);
                }
            }
        }
    }

    /// The process that has taken over sits in the windows of memory now.
    fn leave_seats_to_others(&mut self) {
        for link in self.links.iter_mut().flatten() {
            if let AnyLink::Mem(io) = &mut link.io {
                io.hand_over();
            }
        }
    }
}
