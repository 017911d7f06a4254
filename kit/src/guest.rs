//! A guest: a virtual machine with Debian's kernel, this machine's files, and this very program at work in it.
//!
//! This machine's kernel may lack what a comparison wants (bonding, team, netem); Debian's has it. `make vm-setup`
//! fetches kernel and virtme-ng, which boots the one with QEMU and exports the files, read-only, by 9P. Processors are
//! emulated in software, everywhere: /dev/kvm may exist and yet hang. So figures of a guest are compared among each
//! other only.
//!
//! ```text
//!  a command, outside               the same command, in the guest
//!  Guest::run ── boots ──────────>  tabane-lab COMMAND … --here FIGURES
//!      step shown to people  <────  progress ┐
//!      figures, exit code    <────  …        ┴ files in a directory that both write
//! ```
//!
//! [`Guest::start`] does not wait: several guests can be up at once, and a [`Visit`] can be ended in the middle.

mod errand;
mod machine;
pub mod pair;

use std::thread::available_parallelism;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::prerequisites::Missing;
use crate::progress;
use crate::usual::*;
use errand::Errand;
use machine::Machine;

/// The option that tells a command that it is in the guest, and where its figures go.
pub const HERE: &str = "here";
/// Modules of every guest: its disk's, and what topologies and bundles are made of.
const MODULES: [&str; 5] = ["virtio_blk", "tun", "veth", "bridge", "sch_tbf"];

pub const BOOT_WITHIN: Duration = Duration::from_secs(300);

/// Where `make vm-setup` puts kernel and virtme-ng.
const DIRECTORY: &str = "target/vm";

/// Options of a command that works in a guest.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Where `make vm-setup` has put kernel and virtme-ng
    #[arg(long = "vm", value_name = "DIRECTORY", default_value = DIRECTORY)]
    directory: PathBuf,
    /// Measure on this kernel, and write nothing but figures, to this file: what the command does in the guest
    #[arg(long = HERE, value_name = "PATH", hide = true)]
    here: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct Guest {
    virtme: PathBuf,
    root: PathBuf,
    version: String,
    files: Vec<(&'static str, String)>,
    processors: usize,
    window: Option<Window>,
    cables: Vec<Cable>,
}

/// A cable to another guest, and the NIC at this end. What is sent while the other end is not there is lost.
#[derive(Clone, Debug)]
pub struct Cable {
    pub model: Model,
    /// The socket of this end; the other one's `far`.
    pub near: PathBuf,
    pub far: PathBuf,
    pub mac: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Intel's 82574: it segments superframes of TCP and makes checksums.
    E1000e,
    /// A NIC of virtual machines, which over a cable does neither: the kernel in front of it does.
    VirtioNet,
}

impl Model {
    const fn device(self) -> &'static str {
        match self {
            Model::E1000e => "e1000e",
            Model::VirtioNet => "virtio-net-pci",
        }
    }

    pub const fn module(self) -> &'static str {
        match self {
            Model::E1000e => "e1000e",
            Model::VirtioNet => "virtio_net",
        }
    }
}

/// Memory that guests share: the third region of a PCI device there, a file here.
#[derive(Clone, Debug)]
struct Window {
    path: PathBuf,
    /// Its size, a power of two.
    bytes: u64,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags { directory: PathBuf::from(DIRECTORY), here: None }
    }
}

impl Flags {
    pub fn is_inside(&self) -> bool {
        self.here.is_some()
    }

    pub fn hand_over(&self, figures: &impl Serialize) -> Result<()> {
        let path = self.here.as_deref().context("figures are handed over in a guest only")?;
        fs::write(path, serde_json::to_string(figures)?).with_context(|| path.display().to_string())
    }

    /// Leaves `value` as the file `name`, for [`Visit::left`]; it is there whole or not at all.
    pub fn leave(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.here.as_deref().context("files are left in a guest only")?.with_file_name(name);
        let part = path.with_extension("part");
        fs::write(&part, serde_json::to_string(value)?)?;
        fs::rename(part, &path).with_context(|| path.display().to_string())
    }

    pub fn guest(&self) -> Result<Guest> {
        Guest::find(&self.directory)
    }
}

impl Guest {
    pub fn find(directory: &Path) -> Result<Guest> {
        let missing = || {
            Missing::new(format!(
                "no kernel and virtme-ng for a guest in `{}`: fetch them with `make vm-setup`",
                directory.display()
            ))
        };
        let directory = fs::canonicalize(directory).map_err(|_| missing())?;
        let (root, virtme) = (directory.join("kernel"), directory.join("venv/bin/virtme-run"));
        let modules = fs::read_dir(root.join("lib/modules")).map_err(|_| missing())?;
        let version = modules.flatten().next().and_then(|entry| entry.file_name().into_string().ok());
        let guest = Guest {
            virtme,
            root,
            version: version.ok_or_else(missing)?,
            files: Vec::new(),
            processors: available_parallelism().map_or(1, Into::into),
            window: None,
            cables: Vec::new(),
        };
        if guest.image().is_file() && guest.virtme.is_file() { Ok(guest) } else { Err(missing().into()) }
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// This guest with a file in its working directory, wherever the original lies.
    pub fn with_file(mut self, name: &'static str, text: String) -> Guest {
        self.files.push((name, text));
        self
    }

    /// The same with so many processors; else it has as many as this machine.
    pub fn with_processors(mut self, processors: usize) -> Guest {
        self.processors = processors;
        self
    }

    /// The same with a PCI device (QEMU's `ivshmem-plain`) whose memory is the file `path` of `bytes`, a power of two: all guests
    /// that have it share it.
    pub fn with_window(mut self, path: &Path, bytes: u64) -> Guest {
        self.window = Some(Window { path: path.to_path_buf(), bytes });
        self
    }

    pub fn with_cables(mut self, cables: Vec<Cable>) -> Guest {
        self.cables = cables;
        self
    }

    /// Boots, runs this program there with `arguments`, and returns the figures that it wrote; `modules` are those that the kernel
    /// needs for it.
    pub fn run<T: DeserializeOwned>(
        &self,
        arguments: &[String],
        modules: &[&str],
        daemon: &Path,
        limit: Duration,
    ) -> Result<T> {
        let mut visit = self.begin(arguments, modules, daemon)?;
        visit.wait(limit)?;
        visit.figures()
    }

    /// As [`Guest::start`], and waits until it has begun. An emulated kernel stops at boot now and then, and is booted once more.
    pub fn begin(&self, arguments: &[String], modules: &[&str], daemon: &Path) -> Result<Visit> {
        let mut visit = self.start(arguments, modules, daemon)?;
        if !visit.begins_within(BOOT_WITHIN)? {
            println!("  the guest's kernel stopped at boot: once more");
            visit = self.start(arguments, modules, daemon)?;
        }
        Ok(visit)
    }

    /// As [`Guest::run`], without waiting for anything.
    pub fn start(&self, arguments: &[String], modules: &[&str], daemon: &Path) -> Result<Visit> {
        let errand = Errand::new(daemon)?;
        for (name, text) in &self.files {
            fs::write(errand.file(name), text).with_context(|| format!("{name} for the guest"))?;
        }
        let script = errand.script(&self.root, &[&MODULES, modules].concat(), arguments);
        let machine = Machine::boot(self, &script, &errand)?;
        Ok(Visit::new(machine, errand, &self.version))
    }

    fn image(&self) -> PathBuf {
        self.root.join(format!("boot/vmlinuz-{}", self.version))
    }
}

// A guest while it is up: what it does, what it leaves, and how it ends.

const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// A guest at work; dropping it ends its machine at once, as a power failure does.
#[derive(Debug)]
pub struct Visit {
    machine: Machine,
    errand: Errand,
    version: String,
}

impl Visit {
    fn new(machine: Machine, errand: Errand, version: &str) -> Visit {
        Visit { machine, errand, version: version.to_string() }
    }

    /// The value that the guest has left as the file `name`, if it has.
    pub fn left<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        if let Ok(text) = fs::read_to_string(self.errand.file(name)) {
            let value = serde_json::from_str(&text);
            return Ok(Some(value.with_context(|| format!("the guest left as {name}: {text}"))?));
        }
        self.still_up().map(|()| None)
    }

    pub fn still_up(&mut self) -> Result<()> {
        if !self.machine.is_running()? {
            bail!("the guest went down before its time: {}", self.errand.last_words());
        }
        Ok(())
    }

    pub fn last_words(&self) -> String {
        self.errand.last_words()
    }

    /// Waits until the guest is down, showing its steps meanwhile, and returns the figures that it handed over.
    pub fn finish<T: DeserializeOwned>(mut self, limit: Duration) -> Result<T> {
        self.wait(limit)?;
        self.figures()
    }

    fn begins_within(&mut self, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        let _step = progress::step(&format!("booting Linux {} in the guest", self.version));
        while self.machine.is_running()? && !self.errand.has_begun() {
            if Instant::now() >= deadline {
                bail!("the guest has not begun within {limit:?}");
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(self.errand.has_begun())
    }

    fn figures<T: DeserializeOwned>(self) -> Result<T> {
        let console = self.machine.last_words()?;
        let figures = self.errand.figures(&console)?;
        serde_json::from_str(&figures).with_context(|| format!("the guest's figures: {figures}"))
    }

    fn wait(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let (mut shown, mut step) = (String::new(), None);
        while self.machine.is_running()? {
            if Instant::now() >= deadline {
                bail!("the guest has not ended within {limit:?}: {}", self.errand.last_words());
            }
            if let Some(says) = self.errand.step().filter(|says| *says != shown) {
                drop(step);
                step = Some(progress::step(&says));
                shown = says;
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_found_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let complaint = Guest::find(directory.path()).unwrap_err();
        assert!(complaint.is::<Missing>() && complaint.to_string().contains("make vm-setup"), "{complaint}");
        for file in
            ["kernel/lib/modules/6.1.0/modules.dep", "kernel/boot/vmlinuz-6.1.0", "venv/bin/virtme-run"]
        {
            assert!(Guest::find(directory.path()).is_err());
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(Guest::find(directory.path()).unwrap().version(), "6.1.0");
    }
}
