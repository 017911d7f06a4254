//! The lab's own world: a user (when not root), mount, network and PID namespace of its own.
//!
//! [`enter`] is the first thing that a lab program does, while it still has a single thread: it starts the same
//! program once more as process 1 of fresh namespaces and waits for it. Names made by `ip netns add` land on a
//! private tmpfs over `/run/netns`. When process 1 ends, the kernel ends every process of the PID namespace and
//! with them all namespaces, NICs and mounts; process 1 asks to be killed when the process outside dies. So nothing
//! outlives a run, even one that ends by SIGKILL.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, id};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::net::if_::if_nametoindex;
use nix::sched::CloneFlags;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use tabane_io::netlink::{DeviceSettings, set_device};
use tempfile::{NamedTempFile, TempDir};

use crate::netns::{NAMES, leave_the_world};
use crate::prerequisites::{self, IP, Missing, TC, Tool};
use crate::usual::*;

/// Tells the inner program that it is the inner one.
const MARK: &str = "TABANE_LAB_SANDBOX";
/// What ends a run, with the exit code that shells have for it: this and the signal's number.
const ENDING: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];
const ENDED_BY: i32 = 128;

/// On which side of the border [`enter`] returned.
pub enum Side {
    /// In the sandbox: do the work.
    Inside,
    /// The work is done by the inner program; end with its code.
    Outside(ExitCode),
}

pub fn is_inside() -> bool {
    id() == 1 && env::var_os(MARK).is_some()
}

/// Enters the sandbox; `tools` are what the caller needs besides `ip` and `tc`.
pub fn enter(tools: &[Tool]) -> Result<Side> {
    if is_inside() {
        furnish().map(|()| Side::Inside)
    } else {
        // The PID namespace is that of its children.
        let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
        leave_the_world(own)?;
        start_inside(tools).map(Side::Outside)
    }
}

/// Runs this program again as process 1 inside, with the administrator's directories on its search path.
fn start_inside(tools: &[Tool]) -> Result<ExitCode> {
    let mut path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    prerequisites::require_tools(&path, &[&[IP, TC], tools].concat())?;
    let program = env::current_exe().context("the path of this program")?;
    let (ended_by, (mut caught, catch)) = (Arc::new(AtomicUsize::new(0)), UnixStream::pair()?);
    for signal in ENDING {
        flag::register_usize(signal, Arc::clone(&ended_by), usize::try_from(signal)?)?;
        pipe::register(signal, catch.try_clone()?)?;
    }
    pipe::register(SIGCHLD, catch)?;
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).env(MARK, "1").env("PATH", path);
    let mut inside = command.spawn().context("the lab cannot start itself")?;
    // The kernel allows no thread here, whose PID namespace would not be that of its children.
    let status = loop {
        if let Some(status) = inside.try_wait()? {
            break status;
        }
        caught.read_exact(&mut [0])?;
        if ended_by.load(Ordering::Relaxed) > 0 {
            inside.kill()?;
        }
    };
    let code = match ended_by.load(Ordering::Relaxed) {
        0 => status.code(),
        signal => Some(ENDED_BY + i32::try_from(signal)?),
    };
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Makes the inner world usable: own mounts, own names, own /proc, loopback up.
fn furnish() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    let always = Arc::new(AtomicBool::new(true));
    for signal in ENDING {
        flag::register_conditional_shutdown(signal, ENDED_BY + signal, Arc::clone(&always))?;
    }
    let none = None::<&str>;
    let mounted = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .and_then(|()| mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none))
        .and_then(|()| mount(Some("tmpfs"), own_names(), Some("tmpfs"), MsFlags::empty(), none));
    mounted.map_err(|error| {
        Missing::new(format!(
            "the sandbox may not mount ({error}): run as root, outside a restricted container"
        ))
    })?;
    fs::create_dir_all(NAMES).context(NAMES)?;
    prerequisites::require_tun()?;
    let up = DeviceSettings { up: Some(true), ..DeviceSettings::default() };
    Ok(set_device(if_nametoindex("lo")?, &up)?)
}

/// `/run/netns` may only be made on a tmpfs of our own, never on the machine's.
fn own_names() -> &'static str {
    if Path::new(NAMES).is_dir() { NAMES } else { "/run" }
}

// The hosts file of the lab's sandbox: names that have the addresses that a trial gives them.
//
// The sandbox has its own mounts, so the machine's file stays as it is.

/// The file that the resolver reads.
const HOSTS: &str = "/etc/hosts";

/// A file of one's own in the place of [`HOSTS`], for all programs that are started in the sandbox meanwhile.
#[derive(Debug)]
pub struct Hosts(NamedTempFile);

impl Hosts {
    /// A file without names.
    pub fn begin() -> Result<Hosts> {
        let file = NamedTempFile::new()?;
        fs::set_permissions(file.path(), Permissions::from_mode(0o644))?;
        let none = None::<&str>;
        mount(Some(file.path()), HOSTS, none, MsFlags::MS_BIND, none).context(HOSTS)?;
        Ok(Hosts(file))
    }

    /// Gives names these addresses, in place of all that were there.
    pub fn set(&self, names: &[(&str, &str)]) -> Result<()> {
        let lines: String = names.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        fs::write(self.0.path(), lines).context(HOSTS)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Err(error) = umount2(HOSTS, MntFlags::MNT_DETACH) {
            eprintln!("{HOSTS} stays until the lab ends: {error}");
        }
    }
}

#[derive(Debug)]
pub struct Mounted {
    target: PathBuf,
    /// The directory, when it was made for it.
    directory: Option<TempDir>,
}

impl Mounted {
    /// Mounts on `target`, which is there.
    pub fn new(target: &Path, source: &str, kind: &str, data: &str) -> Result<Mounted> {
        mount(Some(source), target, Some(kind), MsFlags::empty(), Some(data))
            .with_context(|| format!("mounting {source} ({kind}) on {}", target.display()))?;
        Ok(Mounted { target: target.to_path_buf(), directory: None })
    }

    /// Mounts on a directory that goes with it.
    pub fn on_new_directory(source: &str, kind: &str, data: &str) -> Result<Mounted> {
        let directory = tempfile::tempdir().context("a directory to mount on")?;
        let mut mounted = Mounted::new(directory.path(), source, kind, data)?;
        mounted.directory = Some(directory);
        Ok(mounted)
    }

    pub fn path(&self) -> &Path {
        &self.target
    }
}

/// At once for everyone here, and in the kernel as soon as nobody uses it.
impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.target, MntFlags::MNT_DETACH) {
            eprintln!("{} stays mounted until the lab ends: {error}", self.target.display());
        }
    }
}
