//! What tests and experiments share: network namespaces, with ways to run commands and threads in them, cables, waiting with a deadline,
//! [programs](process) that end with their value, and [what](needs) the machine has to have.
//!
//! Rule of the crate: it knows no bundle, so that every other crate may test with it. What needs `unsafe` is `tabane_io::netns`.

pub mod needs;
pub mod process;

use std::fs::{self, File};
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};
use tabane_io::netlink::{self, DeviceSettings};
use tabane_io::netns::start_in;

use crate::needs::Missing;

/// That of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";
/// Loopback, the first interface of each namespace.
const LOOPBACK: u32 = 1;
pub const NAMES: &str = "/run/netns";

/// A network namespace. Dropping it deletes its name, if it has one, and the kernel deletes what is in it once no thread and no program
/// is there.
///
/// Duplicate address detection is off, so that addresses are usable at once.
#[derive(Debug)]
pub struct Namespace {
    /// What `ip netns` knows; empty: it has no name.
    name: String,
    file: Arc<File>,
    /// The processor on which its programs run; `None`: on any.
    processor: Option<usize>,
}

impl Namespace {
    /// One without a name, with loopback up.
    /// Errors: the process has no right to make namespaces.
    pub fn new() -> Result<Namespace> {
        let make = || -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let up = DeviceSettings { up: Some(true), ..DeviceSettings::default() };
            netlink::set_device(LOOPBACK, &up)?;
            Ok(File::open(OWN)?)
        };
        let file = Arc::new(on_a_thread(make).context("a network namespace")?);
        let namespace = Namespace { name: String::new(), file, processor: None };
        for scope in ["all", "default"] {
            // Where /proc/sys may not be written, addresses take a second longer.
            let _ = namespace.set(&format!("net/ipv6/conf/{scope}/accept_dad"), "0");
        }
        Ok(namespace)
    }

    pub fn create(name: impl Into<String>) -> Result<Namespace> {
        let name = name.into();
        let making = || format!("the namespace {name}");
        let mut namespace = Namespace::new().with_context(making)?;
        fs::create_dir_all(NAMES).context(NAMES)?;
        // The namespace lives as long as the file.
        let (place, none) = (path(&name), None::<&str>);
        File::create_new(&place).with_context(making)?;
        namespace.enter(|| mount(Some(OWN), &place, none, MsFlags::MS_BIND, none))?.with_context(making)?;
        namespace.name = name;
        Ok(namespace)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Programs that are started from now on run on this processor alone.
    pub fn pin(&mut self, processor: usize) {
        self.processor = Some(processor);
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = match self.processor {
            None => Command::new(program),
            Some(processor) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &processor.to_string()]).arg(program);
                command
            }
        };
        start_in(&mut command, &self.file);
        command
    }

    pub fn ip(&self, arguments: &str) -> Result<String> {
        self.tool("ip", arguments)
    }

    pub fn tc(&self, arguments: &str) -> Result<()> {
        self.tool("tc", arguments).map(drop)
    }

    fn tool(&self, program: &str, arguments: &str) -> Result<String> {
        if self.name.is_empty() {
            return process::run(self.command(program).args(arguments.split_whitespace()));
        }
        process::run(&mut process::words(program, &format!("-n {} {arguments}", self.name)))
    }

    /// Writes the setting `key`, a path below `/proc/sys`.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{key}");
        self.enter(|| fs::write(&path, value))?.with_context(|| format!("{path} = {value}"))
    }

    /// Does `work` on a thread in the namespace and waits for it.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| {
            self.move_in()?;
            Ok(work())
        })
    }

    /// The same for tests.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.enter(work).expect("who made a namespace may enter it")
    }

    /// Moves the calling thread into the namespace for good.
    pub fn move_in(&self) -> Result<()> {
        move_into(&self.file).with_context(|| format!("entering namespace {}", self.name))
    }

    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let file = Arc::clone(&self.file);
        let inside = move || {
            move_into(&file)?;
            work()
        };
        Ok(thread::Builder::new().name(name.to_string()).spawn(inside)?)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let path = path(&self.name);
        if let Err(error) =
            umount2(&path, MntFlags::MNT_DETACH).map_err(Into::into).and_then(|()| fs::remove_file(&path))
        {
            eprintln!("namespace {} stays: {error}", self.name);
        }
    }
}

fn move_into(namespace: &File) -> Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// The result of a thread started by [`Namespace::spawn`]; its panic goes on here.
pub fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A thread that goes on until it is ended, or this value is dropped.
#[derive(Debug)]
pub struct Running<T> {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<T>>>,
}

impl<T: Send + 'static> Running<T> {
    /// Starts it under `name`, in this namespace or in the one of `host`; `work` looks now and then whether it has ended.
    pub fn start<'a>(
        host: impl Into<Option<&'a Namespace>>,
        name: &str,
        work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
    ) -> Result<Running<T>> {
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let work = move || work(&end);
        let thread = match host.into() {
            Some(host) => host.spawn(name, work)?,
            None => thread::Builder::new().name(name.to_string()).spawn(work)?,
        };
        Ok(Running { ended, thread: Some(thread) })
    }

    pub fn end(mut self) -> Result<T> {
        self.ended.store(true, Ordering::Relaxed);
        joined(self.thread.take().context("a thread that has ended already")?)
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("a thread beside the measurement failed: {error:#}");
        }
    }
}

/// Two namespaces and the cable between them.
#[derive(Debug)]
pub struct Cable {
    /// Has the NIC `left`, 10.0.0.1.
    pub left: Namespace,
    /// Has the NIC `right`, 10.0.0.2.
    pub right: Namespace,
    pub link_local: [Ipv6Addr; 2],
}

impl Cable {
    /// Lays a veth pair and waits until both ends are usable.
    pub fn new() -> Result<Cable> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        left.enter(|| netlink::add_cable("left", "right", &right))??;
        let ends = [(&left, "left", 1), (&right, "right", 2)];
        for (host, nic, number) in ends {
            host.ip(&format!("address add 10.0.0.{number}/24 dev {nic}"))?;
            host.ip(&format!("link set {nic} up"))?;
        }
        let [first, second] = ends.map(|(host, nic, _)| {
            wait_for("a link-local address", READY_WITHIN, || {
                Ok(host.enter(|| netlink::nic(nic))??.link_local)
            })
        });
        let link_local = [first?, second?];
        Ok(Cable { left, right, link_local })
    }
}

/// Gives the process namespaces of these kinds; without the right to, those of a user namespace whose root it becomes. Nothing else may
/// run in the process.
pub fn leave_the_world(own: CloneFlags) -> Result<()> {
    if geteuid().is_root() && unshare(own).is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | own).map_err(no_user_namespace)?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        fs::write(format!("/proc/self/{file}"), text).context(file)?;
    }
    Ok(())
}

fn no_user_namespace(error: Errno) -> Missing {
    let reason = match error {
        Errno::EPERM => "sysctl kernel.unprivileged_userns_clone=1, or a container that allows it",
        Errno::ENOSPC => "sysctl user.max_user_namespaces=1000",
        Errno::EINVAL => "a kernel with CONFIG_USER_NS",
        _ => "a kernel that allows it",
    };
    Missing::new(format!("user namespaces are not available ({error}): run as root, or with {reason}"))
}

// Waiting with a deadline.

/// Longest wait for what is about to happen.
pub const READY_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two questions: short beside anything that is waited for.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Asks `ready` until it yields a value.
/// Errors: the error of `ready`, or `what` with the time that was waited when `limit` passes first.
pub fn wait_for<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            let missed = format!("{what}: not within {limit:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, missed).into());
        }
        thread::sleep(ASK_AGAIN_AFTER);
    }
}

/// Asks `probe` until it yields a value, for 10 s.
pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    wait_for(what, READY_WITHIN, || Ok(probe())).unwrap_or_else(|missed| panic!("{missed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_value_or_names_what_was_missed() {
        let mut asked = 0;
        let third = || {
            asked += 1;
            Ok((asked == 3).then_some("seen"))
        };
        assert_eq!(wait_for("three questions", Duration::from_secs(5), third).unwrap(), "seen");
        let never = wait_for("a pink elephant", Duration::from_millis(20), || Ok(None::<()>));
        assert_eq!(never.unwrap_err().to_string(), "a pink elephant: not within 20ms");
    }
}
