//! Memory of a process.

use std::fs;

use anyhow::{Context, Result};

/// Resident memory of the process `pid`, in MiB; 0 of one that is about to end.
pub fn resident_mib(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).context(path)?;
    Ok(resident_kilobytes(&status).unwrap_or(0) as f64 / 1024.0)
}

/// VmRSS of a process's status.
fn resident_kilobytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status() {
        assert_eq!(resident_kilobytes("Name:\tx\nVmRSS:\t    5120 kB\nVmData:\t1 kB\n"), Some(5120));
        assert_eq!(resident_kilobytes("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_mib(std::process::id()).unwrap() > 0.1);
    }
}
