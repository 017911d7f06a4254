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
mod line;

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use rustix::process::setpriority_process;
use tabane_io::packet::FRAME_MAX;
use tabane_io::{Interest, PacketSocket, Poll, Ready, Waker, now_ns};

use crate::rate::Bitrate;
use crate::usual::*;
use line::Line;

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

#[derive(Debug)]
pub struct Emulator {
    /// `None` once it is told to end.
    commands: Option<Sender<Command>>,
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
        Ok(Emulator { commands: Some(commands), waker, thread: Some(thread) })
    }

    pub fn set(&self, direction: Direction, impairment: Impairment) -> Result<Moment> {
        self.change(move |lines| lines[direction as usize].set(impairment))
    }

    pub fn set_both(&self, impairment: Impairment) -> Result<Moment> {
        self.change(move |lines| lines.iter_mut().for_each(|line| line.set(impairment)))
    }

    /// Sets the black hole of both directions and leaves the rest as it is.
    pub fn set_black_hole(&self, black_hole: bool) -> Result<Moment> {
        self.change(move |lines| lines.iter_mut().for_each(|line| line.set_black_hole(black_hole)))
    }

    pub fn counters(&self, direction: Direction) -> Result<Counters> {
        self.ask(move |pump| pump.counters(direction))?
    }

    /// Joins the NIC `name` of `namespace` at `end`, 0 or 1, in the place of one that is gone.
    pub fn plug(&self, namespace: &Namespace, end: usize, name: &str) -> Result<()> {
        let socket = namespace.enter(|| open(name))??;
        self.ask(move |pump| pump.plug(end, socket))?
    }

    fn change(&self, work: impl FnOnce(&mut [Line; 2]) + Send + 'static) -> Result<Moment> {
        let before_ns = monotonic_ns()?;
        let after_ns = self.ask(move |pump| {
            work(&mut pump.lines);
            now_ns()
        })?;
        Ok(Moment { before_ns, after_ns })
    }

    /// Has the thread do `work` between two frames, and waits for what comes of it.
    fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut Pump) -> T + Send + 'static) -> Result<T> {
        let (answer, answered) = channel();
        let command: Command = Box::new(move |pump| drop(answer.send(work(pump))));
        let is_sent = self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok());
        ensure!(is_sent, "the emulator has ended");
        self.waker.wake()?;
        answered.recv().context("the emulator has ended")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.commands = None;
        if let Err(error) = self.waker.wake().map_err(Into::into).and_then(|()| joined(thread)) {
            eprintln!("an emulated wire broke: {error:#}");
        }
    }
}

fn open(name: &str) -> Result<PacketSocket> {
    let socket = PacketSocket::open(name)?;
    socket.stamp().context("SO_TIMESTAMPNS")?;
    Ok(socket)
}

// The thread: two packet sockets, a line from each to the other, and a timer.
//
// It sleeps to the nanosecond that the kernel grants; what is due within [`SPIN_NS`] is waited for awake. A frame counts
// from when it came in, not from when this thread woke up for it.

/// Most frames taken from one side before the other side and the clock are looked at.
const BATCH: usize = 64;
const SPIN_NS: u64 = 5_000;
/// A wire waits for no processor: it goes before the daemons.
const NICENESS: i32 = -20;
/// Poll token of the waker; the sides have 0 and 1.
const COMMAND: u64 = 2;

/// What is done between two frames.
type Command = Box<dyn FnOnce(&mut Pump) + Send>;

/// Moves frames between two NICs as long as somebody may command it.
struct Pump {
    sides: [PacketSocket; 2],
    lines: [Line; 2],
    commands: Receiver<Command>,
    waker: Arc<Waker>,
    poll: Poll,
    frame: Vec<u8>,
}

impl Pump {
    /// Between the NICs `names` of this thread's namespace.
    fn new(names: [&str; 2], seed: u64, commands: Receiver<Command>, waker: Arc<Waker>) -> Result<Pump> {
        let sides = [open(names[0])?, open(names[1])?];
        let poll = Poll::new()?;
        poll.add(&sides[0], 0, Interest::Read)?;
        poll.add(&sides[1], 1, Interest::Read)?;
        poll.add(&*waker, COMMAND, Interest::Read)?;
        let lines = [Line::new(seed), Line::new(seed.wrapping_add(1))];
        Ok(Pump { sides, lines, commands, waker, poll, frame: vec![0; FRAME_MAX] })
    }

    /// Runs until nobody commands it any more.
    fn run(mut self) -> Result<()> {
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

    fn counters(&mut self, direction: Direction) -> Result<Counters> {
        let (side, line) = (&self.sides[direction as usize], &mut self.lines[direction as usize]);
        line.count_overruns(side.take_overruns()?);
        Ok(line.counters())
    }

    fn plug(&mut self, side: usize, socket: PacketSocket) -> Result<()> {
        self.poll.add(&socket, side as u64, Interest::Read)?;
        self.sides[side] = socket;
        Ok(())
    }

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

// What a wire does to frames, as data.

/// Time that the queue before a rate holds unless told otherwise, in milliseconds.
const QUEUE_MILLISECONDS: u64 = 50;
/// Least such queue: two superframes.
const QUEUE_BYTES_MIN: u64 = 128 << 10;
/// Below this rate a superframe takes more than a millisecond, and would come as a burst that no real wire shows.
const SUPERFRAME_RATE_MIN: Bitrate = Bitrate::mbit(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward = 0,
    Backward = 1,
}

/// What happens to the frames of one direction, in this order. The default is a wire without any flaw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// Nothing comes out.
    pub black_hole: bool,
    /// Share of the frames that vanish, 0 to 1.
    pub loss: f64,
    /// Share of the frames in which one bit is flipped, 0 to 1.
    pub corruption: f64,
    /// How fast frames go, Ethernet headers counted; `None`: at once.
    pub rate: Option<Bitrate>,
    /// Most bytes that wait for that; what comes on top is dropped. `None`: 50 ms of the rate, at least 128 KiB.
    pub queue_bytes: Option<u64>,
    pub delay: Duration,
    /// Most time added to that, uniformly distributed; frames keep their order.
    pub jitter: Duration,
    /// How the NIC at the end tells of frames; `None`: each at once.
    pub coalescing: Option<Coalescing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    pub frames: usize,
    pub wait: Duration,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];
}

impl Impairment {
    pub fn black_hole() -> Impairment {
        Impairment { black_hole: true, ..Impairment::default() }
    }

    pub fn loss(share: f64) -> Impairment {
        Impairment { loss: share, ..Impairment::default() }
    }

    pub fn corruption(share: f64) -> Impairment {
        Impairment { corruption: share, ..Impairment::default() }
    }

    pub fn delay(delay: Duration) -> Impairment {
        Impairment { delay, ..Impairment::default() }
    }

    pub fn rate(rate: Bitrate) -> Impairment {
        Impairment { rate: Some(rate), ..Impairment::default() }
    }

    /// Whether it acts on single frames, so that a superframe must not pass whole.
    pub fn needs_single_frames(&self) -> bool {
        self.loss > 0.0
            || self.corruption > 0.0
            || self.jitter > Duration::ZERO
            || self.coalescing.is_some()
            || self.rate.is_some_and(|rate| rate < SUPERFRAME_RATE_MIN)
    }

    /// In bytes.
    pub fn queue_limit(&self) -> u64 {
        let usual = |rate: Bitrate| QUEUE_BYTES_MIN.max(rate.bytes_in(QUEUE_MILLISECONDS));
        self.queue_bytes.or(self.rate.map(usual)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superframes_pass_where_nothing_acts_on_single_frames() {
        let whole = [
            Impairment::default(),
            Impairment::black_hole(),
            Impairment::delay(Duration::from_millis(20)),
            Impairment::rate(Bitrate::gbit(1)),
        ];
        assert!(whole.iter().all(|impairment| !impairment.needs_single_frames()));
        let single =
            [Impairment::loss(0.01), Impairment::corruption(0.01), Impairment::rate(Bitrate::mbit(100))];
        assert!(single.iter().all(Impairment::needs_single_frames));
    }

    #[test]
    fn a_queue_follows_the_rate_unless_it_is_given() {
        assert_eq!(Impairment::rate(Bitrate::gbit(1)).queue_limit(), 6_250_000);
        assert_eq!(Impairment::rate(Bitrate::mbit(1)).queue_limit(), 128 << 10);
        let given = Impairment { queue_bytes: Some(3000), ..Impairment::rate(Bitrate::gbit(1)) };
        assert_eq!((given.queue_limit(), Impairment::default().queue_limit()), (3000, u64::MAX));
    }
}
