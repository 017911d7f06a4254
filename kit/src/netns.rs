//! A named network namespace that lives as long as its value, with ways to run commands and threads in it.
//!
//! Duplicate address detection is off, so that addresses are usable at once.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, umount2};
use tabane_io::netns;

use crate::process;

/// Where `ip netns` keeps its names.
pub(crate) const NAMES: &str = "/run/netns";

/// A named network namespace; dropping it deletes the name, and the kernel what is in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    namespace: netns::Namespace,
    /// The processor on which its programs run; `None`: on any.
    processor: Option<usize>,
}

impl Namespace {
    /// Makes the namespace `name` with loopback up.
    pub fn create(name: impl Into<String>) -> Result<Namespace> {
        let name = name.into();
        let making = || format!("the namespace {name}");
        let namespace = netns::Namespace::new().with_context(making)?;
        fs::create_dir_all(NAMES).context(NAMES)?;
        namespace.bind(&path(&name)).with_context(making)?;
        let namespace = Namespace { name, namespace, processor: None };
        for scope in ["all", "default"] {
            namespace.set(&format!("net/ipv6/conf/{scope}/accept_dad"), "0")?;
        }
        Ok(namespace)
    }

    /// The name under which `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Programs that are started from now on run on this processor alone.
    pub fn pin(&mut self, processor: usize) {
        self.processor = Some(processor);
    }

    /// `program`, to be started in the namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let Some(processor) = self.processor else { return self.namespace.command(program) };
        let mut command = self.namespace.command("taskset");
        command.args(["--cpu-list", &processor.to_string()]).arg(program);
        command
    }

    /// Runs `ip ARGUMENTS` in the namespace and returns what it prints.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        process::run(&mut process::words("ip", &format!("-n {} {arguments}", self.name)))
    }

    /// Runs `tc ARGUMENTS` in the namespace.
    pub fn tc(&self, arguments: &str) -> Result<()> {
        process::run(&mut process::words("tc", &format!("-n {} {arguments}", self.name))).map(drop)
    }

    /// Writes the setting `key`, a path below `/proc/sys`.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{key}");
        self.enter(|| fs::write(&path, value))?.with_context(|| format!("{path} = {value}"))
    }

    /// Does `work` on a thread in the namespace and waits for it.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.namespace.enter(work).with_context(|| format!("entering namespace {}", self.name))
    }

    /// Starts a thread named `name` that does `work` in the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let namespace = self.namespace.clone();
        let inside = move || {
            namespace.move_in()?;
            work()
        };
        Ok(thread::Builder::new().name(name.to_string()).spawn(inside)?)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let path = path(&self.name);
        if let Err(error) =
            umount2(&path, MntFlags::MNT_DETACH).map_err(Into::into).and_then(|()| fs::remove_file(&path))
        {
            eprintln!("namespace {} stays until the lab ends: {error}", self.name);
        }
    }
}

/// The file whose name is that of a namespace.
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

    /// Ends it, and tells what came of it.
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
