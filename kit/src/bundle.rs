//! A bundle on a host: the program `tabane` at work in a namespace.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::Ipv6Addr;

use clap::Args;
use nix::sys::signal::Signal;
use tempfile::{NamedTempFile, TempDir};

use crate::prerequisites::require_daemon;
use crate::rate::Bitrate;
use crate::status::{Questions, Status};
use crate::topology::Topology;
use crate::usual::*;

pub const DEVICE: &str = "tb0";
/// The key of all bundles here: their wires are the lab's own, and nobody is kept out.
const KEY: &str = "746865206c6162206b65657073206e6f626f6479206f7574206f662068657265";
/// How long bundles may take to find each other; hellos go out several times a second, but an emulated machine takes
/// seconds to load a program.
const FIND_EACH_OTHER: Duration = Duration::from_secs(30);

/// Pause between two statuses: a daemon has other work, too.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub struct Options {
    pub program: PathBuf,
    /// MTU of the device, in bytes; `None`: the daemon's default.
    pub mtu: Option<u32>,
    /// The rate that the daemon is told its links have; `None`: it measures.
    pub rate: Option<Bitrate>,
    pub protection: Protection,
    pub arguments: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Protection {
    /// Sealed with the key of all bundles here.
    LabKey,
    KeyFile(PathBuf),
    /// Not at all.
    None,
}

#[derive(Debug)]
pub struct Bundle<'a> {
    host: &'a Namespace,
    device: String,
    program: PathBuf,
    /// Arguments of the program, for another start.
    arguments: Vec<String>,
    process: Option<Process>,
    _key: Option<NamedTempFile>,
}

impl Options {
    pub fn new(program: &Path) -> Options {
        Options {
            program: program.to_path_buf(),
            mtu: None,
            rate: None,
            protection: Protection::LabKey,
            arguments: Vec::new(),
        }
    }

    /// Not sealed, each connection over one link, and by programs in the kernel: `data_path` is `auto` or `kernel`.
    pub fn by_programs(program: &Path, data_path: &str) -> Options {
        let arguments = ["--data-path", data_path, "--policy", "hash"].map(String::from).to_vec();
        Options { protection: Protection::None, arguments, ..Options::new(program) }
    }
}

impl<'a> Bundle<'a> {
    /// Starts a bundle over all links on every host and waits until each sees all others over all links.
    pub fn start_all(topology: &'a Topology, options: &Options) -> Result<Vec<Bundle<'a>>> {
        Bundle::start_over(topology, &topology.nics(), options)
    }

    /// The same over `links`, as after `--link`, but of one name on every host.
    pub fn start_over(
        topology: &'a Topology,
        links: &[String],
        options: &Options,
    ) -> Result<Vec<Bundle<'a>>> {
        Bundle::start_each(topology, |_| links.to_vec(), options)
    }

    /// The same over the links that `links` tells for each host, as many for one as for another.
    pub fn start_each(
        topology: &'a Topology,
        links: impl Fn(usize) -> Vec<String>,
        options: &Options,
    ) -> Result<Vec<Bundle<'a>>> {
        let hosts = topology.hosts().iter().enumerate();
        let start = |(number, host)| Bundle::start(host, number, &links(number), options);
        let mut bundles: Vec<Bundle<'a>> = hosts.map(start).collect::<Result<_>>()?;
        let (peers, links) = (bundles.len() - 1, links(0).len());
        for bundle in &mut bundles {
            bundle.wait_until(&format!("{peers} peers over {links} links"), |status| {
                status.is_ready(peers, links)
            })?;
        }
        Ok(bundles)
    }

    /// Waits until programs in the kernel carry frames to the only peer, at all ends.
    pub fn wait_for_programs(bundles: &mut [Bundle<'_>]) -> Result<()> {
        let is_so = |status: &Status| status.peers.len() == 1 && status.peers[0].kernel_path;
        bundles.iter_mut().try_for_each(|bundle| bundle.wait_until("the kernel path", is_so).map(drop))
    }

    pub fn start(
        host: &'a Namespace,
        number: usize,
        nics: &[String],
        options: &Options,
    ) -> Result<Bundle<'a>> {
        let mut arguments = ["up", "--name", DEVICE].map(String::from).to_vec();
        for nic in nics {
            let rate = options.rate.map(|rate| format!(",rate={rate}")).unwrap_or_default();
            arguments.extend(["--link".into(), format!("{nic}{rate}")]);
        }
        arguments.extend(["--address".into(), format!("{}/24", address(number))]);
        arguments.extend(["--address".into(), format!("{}/64", address_v6(number))]);
        if let Some(mtu) = options.mtu {
            arguments.extend(["--mtu".into(), mtu.to_string()]);
        }
        let own_key = matches!(options.protection, Protection::LabKey);
        let key = own_key.then(key_file).transpose().context("a key file for the bundle")?;
        let with_key = |path: &Path| ["--key".into(), path.display().to_string()].to_vec();
        arguments.extend(match (&options.protection, &key) {
            (Protection::KeyFile(path), _) => with_key(path),
            (Protection::LabKey, Some(file)) => with_key(file.path()),
            _ => vec!["--insecure".into()],
        });
        arguments.extend(options.arguments.iter().cloned());
        let program = options.program.clone();
        let device = DEVICE.to_owned();
        let mut bundle = Bundle { host, device, program, arguments, process: None, _key: key };
        bundle.start_again()?;
        Ok(bundle)
    }

    /// Starts `tabane up CONFIG` on `host`, where the file makes the bundle `device`, without waiting for anything.
    pub fn start_from(
        host: &'a Namespace,
        program: &Path,
        device: &str,
        config: &Path,
    ) -> Result<Bundle<'a>> {
        let arguments = vec!["up".to_owned(), config.display().to_string()];
        let (device, program) = (device.to_owned(), program.to_path_buf());
        let mut bundle = Bundle { host, device, program, arguments, process: None, _key: None };
        bundle.start_again()?;
        Ok(bundle)
    }

    /// Starts the daemon once more, after it has ended, without waiting for anything.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.host.command(&self.program);
        command.args(&self.arguments);
        self.process = Some(Process::start(command)?);
        Ok(())
    }

    pub fn kill(&mut self) -> Result<()> {
        self.still_running()?;
        self.process.take().map_or(Ok(()), |process| process.kill().map(drop))
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("the daemon has ended already")?.signal(signal)
    }

    /// Process id of the daemon; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    pub fn pids(bundles: &[Bundle<'_>]) -> Vec<u32> {
        bundles.iter().filter_map(Bundle::pid).collect()
    }

    pub fn status(&self) -> Result<Status> {
        let status = self.host.enter(|| tabane_api::status_of(&self.device))?;
        status.with_context(|| format!("the status of {}", self.host.name()))
    }

    pub fn ask(&self, arguments: &[&str]) -> Result<String> {
        process::run(self.host.command(&self.program).args(arguments))
    }

    pub fn wait_until(&mut self, what: &str, wanted: impl Fn(&Status) -> bool) -> Result<Status> {
        let deadline = Instant::now() + FIND_EACH_OTHER;
        let at = self.host.name();
        loop {
            self.still_running()?;
            let is_late = Instant::now() >= deadline;
            match self.status() {
                Ok(status) if wanted(&status) => return Ok(status),
                Ok(status) if is_late => {
                    bail!("{what} at {at}: not within {FIND_EACH_OTHER:?}; the last status was {status:?}")
                }
                Err(silence) if is_late => {
                    return Err(silence.context(format!("{what} at {at}: not within {FIND_EACH_OTHER:?}")));
                }
                _ => thread::sleep(LOOK_AGAIN_AFTER),
            }
        }
    }

    /// Replaces the daemon by a new process that takes its device over; returns when the old one has ended.
    pub fn upgrade(&mut self) -> Result<()> {
        let mut command = self.host.command(&self.program);
        command.args(["upgrade", &self.device]);
        let old = self.process.replace(Process::start(command)?).context("the daemon has ended already")?;
        let ended = old.wait(FIND_EACH_OTHER);
        if ended.is_err() {
            self.still_running()?;
        }
        ended?.success("the daemon that was replaced").map(drop)
    }

    pub fn end(mut self) -> Result<Ending> {
        self.process.take().context("the daemon has ended already")?.wait(FIND_EACH_OTHER)
    }

    /// Stops the daemon by SIGTERM and tells how it ended; it may be started again.
    pub fn stop_for_now(&mut self) -> Result<Ending> {
        self.process.take().context("the daemon has ended already")?.stop()
    }

    pub fn stop(mut self) -> Result<Ending> {
        self.stop_for_now()
    }

    pub fn stop_all(bundles: impl IntoIterator<Item = Bundle<'a>>) -> Result<()> {
        bundles.into_iter().try_for_each(|bundle| bundle.stop()?.success("a daemon told to stop").map(drop))
    }

    pub fn still_running(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process
            && process.is_running()?
        {
            return Ok(());
        }
        match self.process.take() {
            Some(process) => {
                bail!("the daemon of {} ended: {}", self.host.name(), process.stop()?.last_words())
            }
            None => bail!("the daemon of {} has ended", self.host.name()),
        }
    }
}

fn key_file() -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    writeln!(file, "{KEY}")?;
    Ok(file)
}

pub fn address(number: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, u8::try_from(number + 1).expect("a plan has at most 99 hosts")))
}

pub fn address_v6(number: usize) -> IpAddr {
    let host = u16::try_from(number + 1).expect("a plan has at most 99 hosts");
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host))
}

/// The executable `tabane`: `given`, else the one named by `TABANE_BIN`, else the one beside this program.
pub fn program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_path_buf());
    }
    if let Some(path) = env::var_os("TABANE_BIN").filter(|path| *path != OsString::new()) {
        return Ok(PathBuf::from(path));
    }
    let own = env::current_exe().context("the path of this program")?;
    let directory = own.parent().context("the directory of this program")?;
    let is_test = directory.file_name().is_some_and(|name| name == "deps");
    Ok(if is_test { directory.with_file_name("tabane") } else { directory.join("tabane") })
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Write the report here instead of target/lab/NAME.json
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// The executable `tabane` [default: $TABANE_BIN, else the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub tabane: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Common {
    pub fn daemon(&self) -> Result<PathBuf> {
        let program = program(self.tabane.as_deref())?;
        require_daemon(&program)?;
        Ok(program)
    }
}

/// Where memory is a file, on most machines.
const MEMORY: &str = "/dev/shm";

/// A place for a window; it goes with the value.
#[derive(Debug)]
pub struct Window {
    path: PathBuf,
    _directory: TempDir,
}

impl Window {
    /// A place where the first daemon makes a window.
    pub fn new() -> Result<Window> {
        let place = if Path::new(MEMORY).is_dir() { TempDir::new_in(MEMORY) } else { TempDir::new() };
        let directory = place.context("a directory for a window of memory")?;
        Ok(Window { path: directory.path().join("window"), _directory: directory })
    }

    pub fn of(bytes: u64) -> Result<Window> {
        let window = Window::new()?;
        let made = File::create(&window.path).and_then(|file| file.set_len(bytes));
        made.with_context(|| window.path.display().to_string())?;
        Ok(window)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The link through it, as `tabane up --link` takes it.
    pub fn link(&self) -> String {
        format!("mem:{}", self.path.display())
    }
}
