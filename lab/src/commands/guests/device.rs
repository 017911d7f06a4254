//! The PCI device whose memory a guest shares: QEMU's `ivshmem-plain`.
//!
//! Its third region is the memory, as the file `resource2` of the device in sysfs. Source: QEMU's `docs/specs/ivshmem-spec`,
//! "Device Memory"; Linux' `Documentation/PCI/sysfs-pci.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where the kernel shows PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";
/// Red Hat, and its memory between virtual machines.
const IDENTITY: [(&str, &str); 2] = [("vendor", "0x1af4"), ("device", "0x1110")];

/// Finds the device, switches it on, and returns its memory.
pub(super) fn memory() -> Result<PathBuf> {
    memory_in(Path::new(DEVICES))
}

fn memory_in(devices: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(devices).with_context(|| devices.display().to_string())?;
    let found = entries.flatten().map(|entry| entry.path()).find(|device| is_meant(device));
    let device = found.with_context(|| format!("no ivshmem device (1af4:1110) in {}", devices.display()))?;
    // A device that nobody drives may not answer to its addresses yet.
    fs::write(device.join("enable"), "1").with_context(|| format!("{}/enable", device.display()))?;
    Ok(device.join("resource2"))
}

fn is_meant(device: &Path) -> bool {
    let says = |(file, wanted): (&str, &str)| {
        fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == wanted)
    };
    IDENTITY.into_iter().all(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_known_by_its_identity() {
        let devices = tempfile::tempdir().unwrap();
        for (name, vendor, device) in
            [("0000:00:01.0", "0x1af4", "0x1000"), ("0000:00:05.0", "0x1af4", "0x1110")]
        {
            assert!(memory_in(devices.path()).is_err());
            let directory = devices.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(directory.join("device"), format!("{device}\n")).unwrap();
        }
        let memory = memory_in(devices.path()).unwrap();
        assert!(memory.ends_with("0000:00:05.0/resource2"), "{}", memory.display());
        assert_eq!(fs::read_to_string(memory.with_file_name("enable")).unwrap(), "1");
    }
}
