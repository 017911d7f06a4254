//! Capabilities: all are given up, or all but those that links need when they are added later.
//!
//! - `CAP_NET_ADMIN`: socket buffers beyond `net.core.rmem_max` and `wmem_max` (`SO_RCVBUFFORCE`, `SO_SNDBUFFORCE`),
//!   which follow the rate of each link all the time, and those of a link that joins.
//! - `CAP_NET_RAW`: binding the socket of a link that joins to its NIC (`SO_BINDTODEVICE`, before Linux 5.7).
//! - `CAP_NET_BIND_SERVICE`: only when the bundle uses ports below 1024.
//!
//! Source: `capabilities(7)`, `socket(7)`.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};

/// Ports below this one need a capability (`ip_unprivileged_port_start` by default).
const UNPRIVILEGED: u16 = 1024;

/// Gives up for ever all capabilities but those that are needed; returns the names of those that are left.
pub fn reduce(port: u16) -> rustix::io::Result<String> {
    let kept = needed(port) & capabilities(None)?.permitted;
    keep(kept)?;
    let names = kept.iter_names().map(|(name, _)| name.to_lowercase());
    Ok(names.collect::<Vec<_>>().join(" "))
}

/// Gives up all capabilities for ever.
pub fn drop_all() -> rustix::io::Result<()> {
    keep(CapabilitySet::empty())
}

fn keep(kept: CapabilitySet) -> rustix::io::Result<()> {
    // Kernels before 4.3 have no ambient set.
    let _ = clear_ambient_capability_set();
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    set_no_new_privs(true)
}

fn needed(port: u16) -> CapabilitySet {
    let always = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    if port < UNPRIVILEGED { always | CapabilitySet::NET_BIND_SERVICE } else { always }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_low_ports_need_a_third_capability() {
        assert_eq!(needed(1024).bits().count_ones(), 2);
        assert_eq!(needed(1023).bits().count_ones(), 3);
    }
}
