//! The hosts file of the lab's sandbox: names that have the addresses that a trial gives them.
//!
//! The sandbox has its own mounts, so the machine's file stays as it is.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::NamedTempFile;

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
