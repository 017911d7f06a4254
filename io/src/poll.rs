//! Readiness: one epoll instance per worker, and wakers and signals for it.
//!
//! Level-triggered: a descriptor is reported as long as it is ready. Source: `epoll(7)`,
//! `eventfd(2)`, `signalfd(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// What a descriptor is watched for. Errors are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    ReadWrite,
    /// Errors alone.
    Nothing,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::ReadWrite => EventFlags::IN | EventFlags::OUT,
            Self::Nothing => EventFlags::empty(),
        }
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub token: u64,
    /// A read gives data or an error.
    pub readable: bool,
    /// A write succeeds or gives an error.
    pub writable: bool,
    pub error: bool,
}

impl From<Event> for Ready {
    fn from(event: Event) -> Self {
        let Event { flags, data, .. } = event;
        Self {
            token: data.u64(),
            readable: flags.contains(EventFlags::IN),
            writable: flags.contains(EventFlags::OUT),
            error: flags.intersects(EventFlags::ERR | EventFlags::HUP),
        }
    }
}

/// An epoll instance. Descriptors are borrowed only while they are added: closing one removes it.
pub struct Poll {
    epoll: OwnedFd,
    /// Filled by `wait`; its capacity bounds a batch.
    events: Vec<Event>,
    /// The kernel has `epoll_pwait2` (Linux 5.11): timeouts in nanoseconds, else in milliseconds.
    precise: bool,
}

// SAFETY: only the pointer in an event's user data stands against it, and every event here carries a number.
unsafe impl Send for Poll {}

impl Poll {
    const BATCH: usize = 64;

    /// A new instance that watches nothing.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut poll = Self { epoll, events: Vec::with_capacity(Self::BATCH), precise: true };
        poll.precise = poll.wait_precise(Some(Duration::ZERO)).is_ok();
        Ok(poll)
    }

    /// Watches `fd`; `token` comes back with its readiness.
    /// Errors: `EEXIST` when `fd` is watched already.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Changes what `fd` is watched for.
    /// Errors: `ENOENT` when `fd` is not watched.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Watches `fd` no longer.
    /// Errors: `ENOENT` when `fd` is not watched.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Sleeps until a descriptor is ready or `timeout` is over (`None`: without end), then gives
    /// those that are ready, up to 64. A caught signal ends the sleep with nothing ready.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = Ready> + '_> {
        self.events.clear();
        let result = if self.precise { self.wait_precise(timeout) } else { self.wait_millis(timeout) };
        match result {
            Ok(()) | Err(Errno::INTR) => Ok(self.events.iter().copied().map(Ready::from)),
            Err(error) => Err(error.into()),
        }
    }

    fn wait_precise(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        let timeout = timeout.map(timespec);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the kernel writes at most BATCH events, for which `events` has room; Event has
        // the layout of epoll_event, and the timespec lives until the call returns.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                Self::BATCH,
                timeout,
                ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let count = usize::try_from(count).map_err(|_| last_errno())?;
        // SAFETY: the kernel has written `count` events.
        unsafe { self.events.set_len(count) };
        Ok(())
    }

    fn wait_millis(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        let timeout = timeout.map(timespec);
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref())?;
        Ok(())
    }
}

/// A timeout as the kernel wants it; one that is too long for it becomes a day.
fn timespec(timeout: Duration) -> Timespec {
    Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 86_400, tv_nsec: 0 })
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Wakes a worker's [`Poll`] from another thread: add it with [`Interest::Read`].
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes the waker readable; calls before the next [`Waker::clear`] count once.
    pub fn wake(&self) -> io::Result<()> {
        match rustix::io::write(&self.event, &1_u64.to_ne_bytes()) {
            // A full counter is readable already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the waker unreadable again; says whether it was signalled.
    pub fn clear(&self) -> io::Result<bool> {
        match rustix::io::read(&self.event, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGTERM`: somebody stops the process.
    Terminate,
    /// `SIGINT`: the user pressed Ctrl-C.
    Interrupt,
}

/// `SIGTERM` and `SIGINT` as a descriptor. Non-blocking.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks both signals and opens the descriptor that reports them. Call it in the main thread before any other
    /// thread starts: threads inherit what is blocked.
    pub fn block() -> io::Result<Self> {
        let signals: SigSet = [nix::sys::signal::SIGTERM, nix::sys::signal::SIGINT].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// The next signal that came; `None` when none did.
    pub fn next_signal(&self) -> io::Result<Option<Signal>> {
        let interrupt = libc::SIGINT.cast_unsigned();
        let named = |record: siginfo| {
            if record.ssi_signo == interrupt { Signal::Interrupt } else { Signal::Terminate }
        };
        Ok(self.0.read_signal()?.map(named))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_waker_wakes_once_per_clear() {
        let (mut poll, waker) = (Poll::new().unwrap(), Waker::new().unwrap());
        poll.add(&waker, 7, Interest::Read).unwrap();
        assert_eq!(poll.wait(Some(Duration::ZERO)).unwrap().count(), 0);
        waker.wake().unwrap();
        waker.wake().unwrap();
        let ready: Vec<Ready> = poll.wait(None).unwrap().collect();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false, error: false }]);
        assert!(waker.clear().unwrap());
        assert!(!waker.clear().unwrap());
        assert_eq!(poll.wait(Some(Duration::ZERO)).unwrap().count(), 0);
    }

    #[test]
    fn interest_can_change_and_end() {
        let (mut poll, waker) = (Poll::new().unwrap(), Waker::new().unwrap());
        poll.add(&waker, 1, Interest::Read).unwrap();
        poll.modify(&waker, 2, Interest::ReadWrite).unwrap();
        let ready: Vec<Ready> = poll.wait(Some(Duration::ZERO)).unwrap().collect();
        assert_eq!(ready, [Ready { token: 2, readable: false, writable: true, error: false }]);
        waker.wake().unwrap();
        poll.modify(&waker, 2, Interest::Nothing).unwrap();
        assert_eq!(poll.wait(Some(Duration::ZERO)).unwrap().count(), 0, "it is readable");
        poll.modify(&waker, 2, Interest::Read).unwrap();
        assert_eq!(poll.wait(Some(Duration::ZERO)).unwrap().count(), 1);
        poll.remove(&waker).unwrap();
        assert_eq!(poll.wait(Some(Duration::ZERO)).unwrap().count(), 0);
    }

    #[test]
    fn both_kinds_of_timeout_sleep_at_least_as_long_as_asked() {
        for precise in [true, false] {
            let mut poll = Poll::new().unwrap();
            poll.precise &= precise;
            let timeout = Duration::from_micros(300);
            let start = Instant::now();
            assert_eq!(poll.wait(Some(timeout)).unwrap().count(), 0);
            assert!(start.elapsed() >= timeout, "precise: {precise}");
        }
    }

    #[test]
    fn endless_timeouts_are_limited_to_the_kernels_longest() {
        assert_eq!(timespec(Duration::MAX), Timespec { tv_sec: 86_400, tv_nsec: 0 });
    }
}
