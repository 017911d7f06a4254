//! The worker's part in a handover: it drains, that is, delivers what it holds, and pauses.

use std::sync::mpsc::Sender;
use std::time::Duration;

use tabane_io::AnyLink;
use tabane_proto::Instant;

use super::{Command, Worker, clock};

/// How long a worker drains at most: peers also send what waits in their queues.
const DELIVER_WITHIN: Duration = Duration::from_millis(60);
const CHECK_EVERY: Duration = Duration::from_micros(500);

/// A drain under way.
pub(super) struct Drain {
    until: Instant,
    /// Signalled when it pauses.
    answer: Sender<()>,
}

impl Drain {
    pub(super) fn new(now: Instant, answer: Sender<()>) -> Drain {
        Drain { until: now + DELIVER_WITHIN, answer }
    }
}

impl Worker {
    /// When the worker has to check next, `due` at the latest.
    pub(super) fn wait_until(&self, due: Instant, now: Instant) -> Instant {
        let due = if self.has_left { now } else { due };
        let due = self.read_again.map_or(due, |again| due.min(again));
        if self.drain.is_some() { due.min(now + CHECK_EVERY) } else { due }
    }

    /// Pauses once it drains and everything is delivered, or time is up; `true`: end.
    pub(super) fn drain(&mut self, now: Instant) -> bool {
        let Some(drain) = self.drain.take_if(|drain| now >= drain.until || self.bundle.is_settled(now))
        else {
            return false;
        };
        self.leave_programs();
        // The main thread may have given up waiting; then its next command is to resume.
        let _ = drain.answer.send(());
        self.stand_still()
    }

    /// Waits for the command to go on; `true`: end.
    pub(super) fn stand_still(&mut self) -> bool {
        loop {
            match self.commands.recv() {
                Ok(command) => {
                    let goes_on = matches!(command, Command::Resume | Command::TakeOver { .. });
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

    /// Detaches the XDP programs, which end with this process, so that cells reach the sockets that the next one holds,
    /// too.
    fn leave_programs(&mut self) {
        let Self { links, bundle, .. } = self;
        for (number, link) in (0..).zip(links).filter_map(|(number, link)| Some((number, link.as_mut()?))) {
            let AnyLink::Ether(io) = &mut link.io else { continue };
            if io.hides_room() {
                io.hand_over();
                link.send_buffer = 0;
                // From now on the descriptor shows when there is room; sending a cell shows whether there is some now.
                if std::mem::take(&mut link.wants_room) {
                    bundle.handle_writable(number);
                }
            }
        }
    }

    /// Leaves the seats in shared memory to the process that has taken over.
    fn leave_seats_to_others(&mut self) {
        for link in self.links.iter_mut().flatten() {
            if let AnyLink::Mem(io) = &mut link.io {
                io.hand_over();
            }
        }
    }
}
