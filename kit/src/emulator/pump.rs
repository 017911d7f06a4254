//! The thread of an emulator: two packet sockets, a line from each to the other, and a timer.
//!
//! It sleeps to the nanosecond that the kernel grants; what is due within [`SPIN_NS`] is waited for awake. A frame counts
//! from when it came in, not from when this thread woke up for it.

use std::sync::mpsc::{Receiver, TryRecvError};

use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use rustix::process::setpriority_process;
use tabane_io::packet::FRAME_MAX;
use tabane_io::{Interest, PacketSocket, Poll, Ready, Waker, now_ns};

use super::line::Line;
use super::{Counters, Direction};
use crate::usual::*;

/// Most frames taken from one side before the other side and the clock are looked at.
const BATCH: usize = 64;
const SPIN_NS: u64 = 5_000;
/// A wire waits for no processor: it goes before the daemons.
const NICENESS: i32 = -20;
/// Poll token of the waker; the sides have 0 and 1.
const COMMAND: u64 = 2;

/// What is done between two frames.
pub(super) type Command = Box<dyn FnOnce(&mut Pump) + Send>;

/// Moves frames between two NICs as long as somebody may command it.
pub(super) struct Pump {
    sides: [PacketSocket; 2],
    /// Of each side, what its frames go through to the other.
    pub(super) lines: [Line; 2],
    commands: Receiver<Command>,
    waker: Arc<Waker>,
    poll: Poll,
    frame: Vec<u8>,
}

impl Pump {
    /// Between the NICs `names` of this thread's namespace.
    pub(super) fn new(
        names: [&str; 2],
        seed: u64,
        commands: Receiver<Command>,
        waker: Arc<Waker>,
    ) -> Result<Pump> {
        let sides = [super::open(names[0])?, super::open(names[1])?];
        let poll = Poll::new()?;
        poll.add(&sides[0], 0, Interest::Read)?;
        poll.add(&sides[1], 1, Interest::Read)?;
        poll.add(&*waker, COMMAND, Interest::Read)?;
        let lines = [Line::new(seed), Line::new(seed.wrapping_add(1))];
        Ok(Pump { sides, lines, commands, waker, poll, frame: vec![0; FRAME_MAX] })
    }

    /// Runs until nobody commands it any more.
    pub(super) fn run(mut self) -> Result<()> {
        set_timerslack(1).context("PR_SET_TIMERSLACK")?;
        // Where it is not allowed, daemons go first, which shows as late frames.
        setpriority_process(None, NICENESS).ok();
        loop {
            let timeout = self.timeout();
            let mut is_ready = [false; 3];
            for Ready { token, readable, error, .. } in self.poll.wait(timeout)? {
                is_ready[usize::try_from(token)?] = readable || error;
            }
            if is_ready[2] && !self.obey()? {
                return Ok(());
            }
            for side in [0, 1] {
                if is_ready[side] {
                    self.take_in(side)?;
                }
                self.let_out(side);
            }
        }
    }

    /// Until the next frame is due; `None`: none is on the way.
    fn timeout(&self) -> Option<Duration> {
        let next_ns = self.lines.iter().filter_map(Line::next_ns).min()?;
        let left_ns = next_ns.saturating_sub(now_ns());
        Some(Duration::from_nanos(left_ns.saturating_sub(SPIN_NS)))
    }

    /// Does what was commanded; `false`: nobody commands it any more.
    fn obey(&mut self) -> Result<bool> {
        self.waker.clear()?;
        loop {
            match self.commands.try_recv() {
                Ok(command) => command(self),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// What became of the frames of `direction`, with those that never got in.
    pub(super) fn counters(&mut self, direction: Direction) -> Result<Counters> {
        let (side, line) = (&self.sides[direction as usize], &mut self.lines[direction as usize]);
        line.count_overruns(side.take_overruns()?);
        Ok(line.counters())
    }

    pub(super) fn plug(&mut self, side: usize, socket: PacketSocket) -> Result<()> {
        self.poll.add(&socket, side as u64, Interest::Read)?;
        self.sides[side] = socket;
        Ok(())
    }

    /// Takes frames from `side`; those that nothing holds up go out at once.
    fn take_in(&mut self, side: usize) -> Result<()> {
        for _ in 0..BATCH {
            let (length, ago) = match self.sides[side].receive_stamped(&mut self.frame) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.raw_os_error() == Some(Errno::ENETDOWN as i32) => continue,
                Err(error) => return Err(error).context("receiving a frame"),
            };
            let frame = &mut self.frame[..length];
            let came_ns = now_ns() - u64::try_from(ago.as_nanos())?;
            if self.lines[side].arrive(came_ns, frame) {
                send(&self.sides[1 - side], &mut self.lines[side], frame);
            }
        }
        Ok(())
    }

    /// Sends what has come through the line of `side` by now.
    fn let_out(&mut self, side: usize) {
        let now_ns = now_ns();
        while let Some(frame) = self.lines[side].depart(now_ns) {
            send(&self.sides[1 - side], &mut self.lines[side], &frame);
        }
    }
}

/// A NIC that is down or full loses the frame, as real ones do.
fn send(to: &PacketSocket, line: &mut Line, frame: &[u8]) {
    let sent = to.send(frame);
    line.count_sent(frame, sent.is_ok());
}
