//! Programs that tests and experiments start in a network namespace: the part that takes `unsafe`.
//!
//! A program sees the namespace's own `/sys`, as after `ip netns exec`, without a further program that is started for it. And two calls
//! that sandboxes refuse.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};

const SYS: &CStr = c"/sys";

pub fn start_in(command: &mut Command, namespace: &Arc<File>) {
    let namespace = Arc::clone(namespace);
    let enter = move || {
        setns(&*namespace, CloneFlags::CLONE_NEWNET)?;
        show_own_sys()
    };
    // SAFETY: between fork and exec the closure makes system calls alone: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
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

/// Has the kernel send a signal to a thread of a process; 0 is none, and asks whether it may.
pub fn signal_thread(process: u32, thread: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes numbers alone.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Says or asks who gets the signals of a descriptor, and which: a command of `fcntl`.
pub fn set_signals(file: impl AsFd, command: libc::c_int, value: libc::c_int) -> io::Result<()> {
    /// `F_SETOWN`, `F_GETOWN`, `F_SETSIG` and `F_SETOWN_EX`.
    const COMMANDS: [libc::c_int; 4] = [8, 9, 10, 15];
    assert!(COMMANDS.contains(&command), "{command} may write memory");
    // SAFETY: these commands write no memory, and where the value is no address that can be read the kernel refuses it.
    crate::sockets::check(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, value) })
}
