//! Shows the service manager that the bundle is alive (`WatchdogSec=`, `sd_watchdog_enabled(3)`).
//!
//! The main thread shows it, and only while every worker does what it is told: a worker that hangs, in a loop or in the
//! kernel, carries no frames although its process lives. The service manager then ends that process and starts another.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::notify::Notify;
use crate::worker::Command;
use crate::worker::workers::Workers;

/// A sign of life is sent so many times in the time after which the service manager gives the process up. The answers of
/// the workers to one question are waited for until the next sign is due.
const SIGNS: u32 = 4;

/// The main thread's watch over the workers, if the service manager wants it.
pub(crate) struct Watchdog<'n> {
    notify: &'n Notify,
    /// Time from one sign of life to the next; `None`: nobody waits for them.
    every: Option<Duration>,
    due: Instant,
    /// The workers' answers to the last question.
    answers: Receiver<()>,
    missing: usize,
    /// Whether the log has it that they are late.
    is_reported: bool,
}

impl<'n> Watchdog<'n> {
    /// The first sign is due at once.
    pub(crate) fn new(notify: &'n Notify, now: Instant) -> Self {
        let every = notify.watched().map(|within| within / SIGNS);
        Self { notify, every, due: now, answers: channel().1, missing: 0, is_reported: false }
    }

    /// How long the main thread may wait before it calls [`Self::follow`] again, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Duration {
        self.every.map_or(limit, |every| every.min(limit))
    }

    /// Sends a sign of life when one is due and all workers have answered, and asks them for the next.
    pub(crate) fn follow(&mut self, now: Instant, workers: &Workers) {
        let Some(every) = self.every.filter(|_| now >= self.due) else { return };
        self.missing = self.missing.saturating_sub(self.answers.try_iter().count());
        if self.missing > 0 {
            if !self.is_reported {
                tracing::warn!(
                    workers = self.missing,
                    "workers do not answer; the service manager is told nothing"
                );
            }
            self.is_reported = true;
            return;
        }
        self.notify.alive();
        self.is_reported = false;
        self.due = now + every;
        let (sender, answers) = channel();
        workers.send(|| Command::Answer(sender.clone()));
        (self.answers, self.missing) = (answers, workers.count());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;

    use tabane_io::Waker;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(40);
    const EVERY: Duration = Duration::from_secs(10);

    /// Workers without threads, and what is sent to each.
    fn workers(count: usize) -> (Workers, Vec<Receiver<Command>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let waker = || Arc::new(Waker::new().expect("an eventfd"));
        (Workers::new(senders.into_iter().map(|sender| (sender, waker()))), receivers)
    }

    fn answer(worker: &Receiver<Command>) {
        for command in worker.try_iter() {
            let Command::Answer(answer) = command else { panic!("another command") };
            answer.send(()).expect("waited for");
        }
    }

    /// Signs of life that the manager got since it was last asked.
    fn signs(manager: &UnixDatagram) -> usize {
        let mut word = [0; 32];
        let words = std::iter::from_fn(|| manager.recv(&mut word).ok().map(|length| word[..length].to_vec()));
        words.inspect(|word| assert_eq!(word, b"WATCHDOG=1")).count()
    }

    #[test]
    fn signs_of_life_end_when_one_worker_hangs_and_go_on_when_it_answers() {
        let (manager, socket) = UnixDatagram::pair().expect("a pair");
        manager.set_nonblocking(true).expect("set");
        let notify = Notify::adopt(Some(socket.into()), Some(WITHIN));
        let (workers, received) = workers(2);
        let start = Instant::now();
        let mut watchdog = Watchdog::new(&notify, start);
        assert_eq!(watchdog.wait(Duration::from_secs(60)), EVERY);
        for turn in 0..5 {
            watchdog.follow(start + EVERY * turn, &workers);
            watchdog.follow(start + EVERY * turn + EVERY / 2, &workers);
            assert_eq!(signs(&manager), 1, "turn {turn}");
            received.iter().for_each(answer);
        }
        watchdog.follow(start + EVERY * 5, &workers);
        assert_eq!(signs(&manager), 1);
        answer(&received[0]);
        for turn in 6..20 {
            watchdog.follow(start + EVERY * turn, &workers);
        }
        assert_eq!(signs(&manager), 0, "one of two workers hangs");
        answer(&received[1]);
        watchdog.follow(start + EVERY * 20, &workers);
        assert_eq!(signs(&manager), 1);
    }

    #[test]
    fn nobody_is_asked_when_no_manager_watches() {
        let (manager, socket) = UnixDatagram::pair().expect("a pair");
        manager.set_nonblocking(true).expect("set");
        let notify = Notify::adopt(Some(socket.into()), None);
        let (workers, received) = workers(1);
        let mut watchdog = Watchdog::new(&notify, Instant::now());
        watchdog.follow(Instant::now() + WITHIN, &workers);
        assert_eq!((signs(&manager), received[0].try_iter().count()), (0, 0));
        assert_eq!(watchdog.wait(EVERY), EVERY);
    }
}
