//! A wire with flaws, in user space: joins two NICs and does to their frames what an [`Impairment`] says.
//!
//! Rate, queue, delay, jitter, loss, corruption, interrupt coalescing and black hole, for each direction by itself,
//! changed while frames pass. The kernel's own emulator (netem) is not needed.
//!
//! ```text
//!  h1.eth1 ── port1 ═ line ═ port2 ── eth1.h2       both ports in one namespace, a thread between them
//! ```
//!
//! Frames pass as the sender's kernel left them, superframes whole: rate and delay count them by what they are on the
//! wire. What acts on single frames wants them single: the sender's NIC has to cut superframes before
//! ([`Impairment::needs_single_frames`]); [`crate::topology::Topology::impair`] sees to it.

pub mod frame;
mod impairment;
mod line;
mod pump;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tabane_io::{PacketSocket, Waker};

use crate::clock::{Moment, monotonic_ns};
use crate::netns::{Namespace, joined};
pub use impairment::{Coalescing, Direction, Impairment};
use pump::{Command, Pump};

/// What became of the frames of one direction; a superframe counts as the frames that it is on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Came out, corrupted ones included.
    pub passed: u64,
    /// Found the queue full, or too many on the way.
    pub dropped: u64,
    /// Vanished by chance.
    pub lost: u64,
    /// Have a flipped bit.
    pub corrupted: u64,
    /// Went into a black hole.
    pub swallowed: u64,
    /// Came out at a NIC that was down or full.
    pub refused: u64,
    /// Never got in, because the emulator did not get to run in time; a superframe counts as one. What is measured
    /// over such a wire is not due to its flaws.
    pub overrun: u64,
}

/// A wire at work; dropping it ends it.
#[derive(Debug)]
pub struct Emulator {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Emulator {
    /// Joins the NICs `names` of `namespace` by a wire without flaw, whose random numbers come from `seed`.
    pub fn start(namespace: &Namespace, names: [&str; 2], seed: u64) -> Result<Emulator> {
        let waker = Arc::new(Waker::new()?);
        let (commands, received) = channel();
        let pump = namespace.enter(|| Pump::new(names, seed, received, Arc::clone(&waker)))??;
        let thread = namespace.spawn("emulator", move || pump.run())?;
        Ok(Emulator { commands, waker, thread: Some(thread) })
    }

    /// Changes one direction.
    pub fn set(&self, direction: Direction, impairment: Impairment) -> Result<Moment> {
        let mut changes = [None; 2];
        changes[direction as usize] = Some(impairment);
        self.change(|done| Command::Set(Box::new(changes), done))
    }

    /// Changes both directions at one moment.
    pub fn set_both(&self, impairment: Impairment) -> Result<Moment> {
        self.change(|done| Command::Set(Box::new([Some(impairment); 2]), done))
    }

    /// What became of the frames of `direction` so far.
    pub fn counters(&self, direction: Direction) -> Result<Counters> {
        Ok(self.ask(Command::Count)?[direction as usize])
    }

    /// Joins the NIC `name` of `namespace` at `end`, 0 or 1, in the place of one that is gone.
    pub fn plug(&self, namespace: &Namespace, end: usize, name: &str) -> Result<()> {
        let socket = namespace.enter(|| open(name))??;
        self.ask(|done| Command::Plug(end, socket, done))
    }

    /// Sets the black hole of both directions and leaves the rest as it is.
    pub fn set_black_hole(&self, black_hole: bool) -> Result<Moment> {
        self.change(|done| Command::BlackHole(black_hole, done))
    }

    fn change(&self, command: impl FnOnce(Sender<u64>) -> Command) -> Result<Moment> {
        let before_ns = monotonic_ns()?;
        Ok(Moment { before_ns, after_ns: self.ask(command)? })
    }

    /// Gives a command and waits for its answer.
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T> {
        let (answer, answered) = channel();
        self.commands.send(command(answer)).ok().context("the emulator has ended")?;
        self.waker.wake()?;
        answered.recv().context("the emulator has ended")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // Nobody listens when the thread has ended already, of which joining tells.
        self.commands.send(Command::Stop).ok();
        if let Err(error) = self.waker.wake().map_err(Into::into).and_then(|()| joined(thread)) {
            eprintln!("an emulated wire broke: {error:#}");
        }
    }
}

/// A socket on the NIC `name` that knows when frames come in.
fn open(name: &str) -> Result<PacketSocket> {
    let socket = PacketSocket::open(name)?;
    socket.stamp().context("SO_TIMESTAMPNS")?;
    Ok(socket)
}
