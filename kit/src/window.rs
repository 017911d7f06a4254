//! Memory for the windows of `mem` links: a file that no disk holds, as far as the machine has a place for such.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

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

    /// `bytes` of empty memory.
    pub fn of(bytes: u64) -> Result<Window> {
        let window = Window::new()?;
        let made = File::create(&window.path).and_then(|file| file.set_len(bytes));
        made.with_context(|| window.path.display().to_string())?;
        Ok(window)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The link through it, as `tabane up --link` takes it.
    #[must_use]
    pub fn link(&self) -> String {
        format!("mem:{}", self.path.display())
    }
}
