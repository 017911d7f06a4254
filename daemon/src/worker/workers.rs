//! The channels to the workers, without their threads. Each thread that asks workers has a copy.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tabane_io::{AnyLink, Waker};

use super::Command;
use super::snapshot::Snapshot;

/// How long a request waits for the workers' answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The workers' channels, in the order of the workers. `S`: the sockets of their links.
pub(crate) struct Workers<S = AnyLink>(Vec<Channel<S>>);

type Channel<S> = (Sender<Command<S>>, Arc<Waker>);

impl<S> Clone for Workers<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> Workers<S> {
    /// With one channel and waker for each worker.
    pub(crate) fn new(channels: impl Iterator<Item = Channel<S>>) -> Self {
        Self(channels.collect())
    }

    pub(crate) fn send(&self, command: impl Fn() -> Command<S>) {
        for (commands, waker) in &self.0 {
            // A worker that has ended no longer listens, and the main thread notices its end.
            let _ = commands.send(command());
            let _ = waker.wake();
        }
    }

    /// Asks every worker; `command` makes the command from the channel for its answer. Gives the answers that come in
    /// time, in any order.
    pub(crate) fn ask<A>(&self, command: impl Fn(Sender<A>) -> Command<S>) -> Vec<A> {
        let (sender, answers) = channel();
        self.send(|| command(sender.clone()));
        drop(sender);
        self.collect(&answers)
    }

    /// The same where the answers of all are needed; `None`: not all have come in time.
    pub(crate) fn ask_all<A>(&self, command: impl Fn(Sender<A>) -> Command<S>) -> Option<Vec<A>> {
        Some(self.ask(command)).filter(|answers| answers.len() == self.count())
    }

    fn collect<A>(&self, answers: &Receiver<A>) -> Vec<A> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        let next = || answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
        self.0.iter().map_while(|_| next()).collect()
    }

    /// Asks every worker, each with its own part of `parts`.
    pub(crate) fn ask_each<P, A>(
        &self,
        parts: Vec<P>,
        command: impl Fn(P, Sender<A>) -> Command<S>,
    ) -> Vec<A> {
        let (sender, answers) = channel();
        for ((commands, waker), part) in self.0.iter().zip(parts) {
            let _ = commands.send(command(part, sender.clone()));
            let _ = waker.wake();
        }
        drop(sender);
        self.collect(&answers)
    }

    /// A snapshot of every worker, in their order.
    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        let mut snapshots = self.ask(Command::Snapshot);
        snapshots.sort_by_key(|snapshot| snapshot.worker);
        snapshots
    }

    /// How many workers there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
