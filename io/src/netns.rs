//! Network namespaces, for tests and the lab: threads and programs enter one, and it vanishes with the last that is in it.
//!
//! A program sees the namespace's own `/sys`, as after `ip netns exec`, without a further program that is started for it.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::netlink::{DeviceSettings, set_device};

/// Loopback, the first interface of each namespace.
const LOOPBACK: u32 = 1;
const SYS: &CStr = c"/sys";

/// A network namespace.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// An empty one, with loopback up.
    /// Errors: the process has no right to make namespaces.
    pub fn new() -> io::Result<Namespace> {
        let make = || -> io::Result<Namespace> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let namespace = Namespace::own()?;
            let up = DeviceSettings { up: Some(true), ..DeviceSettings::default() };
            set_device(LOOPBACK, &up).map_err(io::Error::other)?;
            Ok(namespace)
        };
        on_a_thread(make)
    }

    /// That of the calling thread.
    fn own() -> io::Result<Namespace> {
        Ok(Namespace(Arc::new(File::open("/proc/thread-self/ns/net")?)))
    }

    /// Gives it a name among those of `ip netns`, by an empty file at `path`; it lives as long as the file.
    /// Errors: there is such a file already, or nothing may be mounted.
    pub fn bind(&self, path: &Path) -> io::Result<()> {
        File::create_new(path)?;
        let (own, none) = (Some("/proc/thread-self/ns/net"), None::<&str>);
        self.enter(|| Ok(mount(own, path, none, MsFlags::MS_BIND, none)?))?
    }

    /// Does `work` on a thread in the namespace and waits for it. Sockets made there stay there.
    /// Errors: the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.move_in()?;
            Ok(work())
        })
    }

    /// Moves the calling thread into the namespace for good.
    /// Errors: the process has no right to enter it.
    pub fn move_in(&self) -> io::Result<()> {
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }

    /// `program`, to be started in the namespace.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let namespace = self.clone();
        // SAFETY: between fork and exec the closure makes system calls alone: it allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || namespace.move_in().and_then(|()| show_own_sys())) };
        command
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Gives this process mounts of its own, with the `/sys` of its network namespace, as `ip netns exec` does.
fn show_own_sys() -> io::Result<()> {
    let none = None::<&CStr>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
    // Where the old one is locked, as in a user namespace, the new one lies over it and may not allow more.
    let is_locked = umount2(SYS, MntFlags::MNT_DETACH).is_err();
    let is_read_only = is_locked && statvfs(SYS)?.flags().contains(FsFlags::ST_RDONLY);
    let flags = if is_read_only { MsFlags::MS_RDONLY } else { MsFlags::empty() };
    Ok(mount(Some(c"sysfs"), SYS, Some(c"sysfs"), flags, none)?)
}
