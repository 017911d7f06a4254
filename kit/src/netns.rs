//! A network namespace that lives as long as its value, with ways to run commands and threads in it.
//!
//! Commands go through `ip netns exec`, which also shows them the namespace's own `/sys`. Threads switch by setns;
//! their sockets stay in the namespace. Duplicate address detection is off, so that addresses are usable at once.

use std::fs::{self, File};
use std::panic::resume_unwind;
use std::process::Command;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};

use crate::tool;

/// A named network namespace; dropping it deletes the name, and the kernel what is in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// The processor on which its programs run; `None`: on any.
    processor: Option<usize>,
}

impl Namespace {
    /// Makes the namespace `name` with loopback up.
    ///
    /// # Errors
    /// The name is taken, or the process has no right to make namespaces.
    pub fn create(name: impl Into<String>) -> Result<Namespace> {
        let name = name.into();
        tool::run(&mut tool::words("ip", &format!("netns add {name}")))?;
        let namespace = Namespace { name, processor: None };
        for scope in ["all", "default"] {
            namespace.set(&format!("net/ipv6/conf/{scope}/accept_dad"), "0")?;
        }
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The name under which `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Programs that are started from now on run on this processor alone.
    pub fn pin(&mut self, processor: usize) {
        self.processor = Some(processor);
    }

    /// `program`, to be started in the namespace.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = match self.processor {
            Some(processor) => tool::words("taskset", &format!("--cpu-list {processor} ip")),
            None => Command::new("ip"),
        };
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `ip ARGUMENTS` in the namespace and returns what it prints.
    ///
    /// # Errors
    /// What `ip` complains about.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        tool::run(&mut tool::words("ip", &format!("-n {} {arguments}", self.name)))
    }

    /// Runs `tc ARGUMENTS` in the namespace.
    ///
    /// # Errors
    /// What `tc` complains about.
    pub fn tc(&self, arguments: &str) -> Result<()> {
        tool::run(&mut tool::words("tc", &format!("-n {} {arguments}", self.name))).map(drop)
    }

    /// Writes the setting `key`, a path below `/proc/sys`.
    ///
    /// # Errors
    /// The kernel does not know the key or refuses the value.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{key}");
        self.enter(|| fs::write(&path, value))?.with_context(|| format!("{path} = {value}"))
    }

    /// Does `work` on a thread in the namespace and waits for it.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let inside = || -> Result<T> {
            self.join()?;
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Starts a thread named `name` that does `work` in the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or no thread can be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let file = self.file()?;
        let inside = move || {
            setns(&file, CloneFlags::CLONE_NEWNET)?;
            work()
        };
        Ok(thread::Builder::new().name(name.to_string()).spawn(inside)?)
    }

    fn join(&self) -> Result<()> {
        setns(self.file()?, CloneFlags::CLONE_NEWNET)
            .with_context(|| format!("entering namespace {}", self.name))
    }

    fn file(&self) -> Result<File> {
        let path = format!("/run/netns/{}", self.name);
        File::open(&path).context(path)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = tool::run(&mut tool::words("ip", &format!("netns delete {}", self.name))) {
            eprintln!("namespace {} stays until the lab ends: {error:#}", self.name);
        }
    }
}

/// The result of a thread started by [`Namespace::spawn`]; its panic goes on here.
///
/// # Errors
/// What the thread returned.
pub fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
