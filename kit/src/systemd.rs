//! systemd as process 1 of a container on a host: real units, as a machine would run them, and nothing of this machine but its
//! files, or those of another root.
//!
//! `boot.sh` furnishes the container. What it writes is kept in memory and ends with it; its control groups are taken away when
//! its value is dropped. Commands enter by `nsenter` and speak to the manager as root does.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use crate::prerequisites::{Missing, is_all_powerful};
use crate::usual::*;

/// Furnishes the container and becomes systemd.
const BOOT: &str = include_str!("systemd/boot.sh");
/// Where units are in the container.
pub const UNITS: &str = "usr/lib/systemd/system";
/// What services have written to their standard error, in the container.
const SAID: &str = "/run/said";
/// Units that others stand upon; without anything that a whole machine would need.
const TARGETS: [&str; 6] = ["basic", "multi-user", "network", "shutdown", "sysinit", "umount"];
/// A service that does not say in time that it has started, or does not end, is a failure.
const MANAGER: &str = "[Manager]\nDefaultTimeoutStartSec=10s\nDefaultTimeoutStopSec=10s\n";
const WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Systemd {
    process: Option<Process>,
    /// Process 1 of the container, as it is called outside.
    pid: u32,
    // Dropped in this order: processes, groups, directories.
    _group: Group,
    _stage: TempDir,
}

pub fn require() -> Result<()> {
    ensure!(is_all_powerful(), Missing::new("systemd needs root outside of user namespaces"));
    let known = fs::read_to_string("/proc/filesystems")?;
    for kind in ["overlay", "cgroup2"] {
        let is_known = known.lines().any(|line| line.split_whitespace().last() == Some(kind));
        ensure!(is_known, Missing::new(format!("the kernel has no {kind}")));
    }
    Group::make().map(drop).map_err(|error| Missing::new(format!("no control group: {error:#}")).into())
}

impl Systemd {
    /// Starts the manager on `host` with this machine's files and these, each with its path in the container, content, and mode.
    pub fn start(host: &Namespace, files: &[(&str, &[u8], u32)]) -> Result<Systemd> {
        Systemd::start_in(Path::new("/"), host, files)
    }

    /// The same with the files below `root` in place of this machine's.
    pub fn start_in(root: &Path, host: &Namespace, files: &[(&str, &[u8], u32)]) -> Result<Systemd> {
        let stage = stage(files).context("the container's files")?;
        let group = Group::make()?;
        let mut inner = process::words("unshare", "--pid --uts --ipc --cgroup --mount --propagation private");
        inner.args(["--fork", "--kill-child", "sh", "-c", BOOT, "boot.sh"]);
        inner.args([&stage.path().join("base"), &stage.path().join("root"), root]);
        let mut command = host.command("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.path.join("cgroup.procs"));
        command.arg(inner.get_program()).args(inner.get_args());
        let process = Process::start(command)?;
        let outer = process.pid();
        let (process, pid) = process.until("a service manager", WITHIN, || {
            let Some(pid) = manager_below(outer) else { return Ok(None) };
            let state = process::run(enter(pid, "systemctl").arg("is-system-running"));
            Ok(state.is_ok_and(|state| state.trim() == "running").then_some(pid))
        })?;
        Ok(Systemd { process: Some(process), pid, _group: group, _stage: stage })
    }

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        enter(self.pid, program)
    }

    pub fn systemctl(&self, arguments: &str) -> Result<String> {
        let answer =
            process::run(self.command("systemctl").arg("--no-pager").args(arguments.split_whitespace()));
        answer.with_context(|| self.said().unwrap_or_default())
    }

    pub fn said(&self) -> Result<String> {
        process::run(self.command("cat").arg(SAID))
    }

    pub fn property(&self, unit: &str, name: &str) -> Result<String> {
        Ok(self.systemctl(&format!("show --value --property={name} {unit}"))?.trim().to_owned())
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        let _ = self.process.take().map(Process::kill);
    }
}

/// The files of a container, in `root`, beside an empty directory `base`.
fn stage(files: &[(&str, &[u8], u32)]) -> Result<TempDir> {
    let stage = tempfile::tempdir()?;
    fs::create_dir(stage.path().join("base"))?;
    let write = |path: &str, content: &[u8], mode| {
        let path = stage.path().join("root").join(path);
        fs::create_dir_all(path.parent().context("a file")?)?;
        fs::write(&path, content)?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        anyhow::Ok(())
    };
    for target in TARGETS {
        let text = format!("[Unit]\nDescription={target}\nDefaultDependencies=no\n");
        write(&format!("{UNITS}/{target}.target"), text.as_bytes(), 0o644)?;
    }
    write(&format!("{UNITS}/default.target"), b"[Unit]\nRequires=multi-user.target\n", 0o644)?;
    let said = format!("[Service]\nStandardError=append:{SAID}\n");
    write(&format!("{UNITS}/service.d/said.conf"), said.as_bytes(), 0o644)?;
    write("etc/systemd/system.conf", MANAGER.as_bytes(), 0o644)?;
    files.iter().try_for_each(|(path, content, mode)| write(path, content, *mode))?;
    Ok(stage)
}

/// The only child of a process, once it is the manager: before that it is not in the container yet, and who entered it would
/// speak to the manager of the machine.
fn manager_below(pid: u32) -> Option<u32> {
    let child = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    (name.trim() == "systemd").then_some(child)
}

fn enter(pid: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command =
        process::words("nsenter", &format!("--target {pid} --mount --uts --ipc --net --pid --cgroup"));
    command.arg(program);
    command
}

/// A control group (version 2) for everything in a container, seen through a mount of its own: it lives as long as its value.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    mounted: PathBuf,
}

impl Group {
    fn make() -> Result<Group> {
        let (mounted, none) = (tempfile::tempdir()?, None::<&str>);
        mount(Some("cgroup2"), mounted.path(), Some("cgroup2"), MsFlags::empty(), none)
            .context("mounting cgroup2")?;
        // What is mounted must not be removed with it.
        let mounted = mounted.keep();
        let name = mounted.file_name().unwrap_or_default().to_string_lossy();
        let path = mounted.join(format!("tabane-lab-{}", name.trim_start_matches('.')));
        let made = fs::create_dir(&path).context("making a group");
        let group = Group { path, mounted };
        made.map(|()| group)
    }

    /// Takes away the group and those in it, once their processes have ended.
    fn remove(&self) -> Result<()> {
        wait_for("the end of all processes", WITHIN, || {
            let events = fs::read_to_string(self.path.join("cgroup.events"))?;
            Ok(events.contains("populated 0").then_some(()))
        })?;
        remove_groups(&self.path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.path.is_dir()
            && let Err(error) = self.remove()
        {
            eprintln!("{} stays: {error:#}", self.path.display());
        }
        let unmounted = umount2(&self.mounted, MntFlags::MNT_DETACH).map_err(anyhow::Error::from);
        if let Err(error) = unmounted.and_then(|()| Ok(fs::remove_dir(&self.mounted)?)) {
            eprintln!("{} stays: {error:#}", self.mounted.display());
        }
    }
}

/// The files of a group go with its directory.
fn remove_groups(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    fs::remove_dir(path).with_context(|| path.display().to_string())
}
