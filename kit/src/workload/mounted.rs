//! A file system that goes with a value.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

/// A file system that is mounted as long as the value lives.
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

    /// Where it is mounted.
    #[must_use]
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
