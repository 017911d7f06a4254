//! Switch ports that pass frames or swallow them, set by messages to the kernel that take effect within microseconds.
//!
//! A port that swallows takes nothing in and lets nothing out, and says so to nobody: carrier stays. What it
//! had queued still goes out, at most the port's queue; it is empty as a rule, since hosts send no faster than it.
//! Replacing the port's queue by one that drops all was tried first: the kernel waits several milliseconds between
//! one port and the next, in which half of the switch lives on.

use anyhow::{Context, Result};
use nix::net::if_::if_nametoindex;
use tabane_io::netlink::set_port;

use crate::clock::{Moment, monotonic_ns};

/// Name of the switch port to which `host` is plugged.
pub(super) fn name(host: usize) -> String {
    format!("port{}", host + 1)
}

/// Has `ports`, of the namespace in which the calling thread is, pass frames or swallow them.
pub(super) fn set(ports: &[String], passes: bool) -> Result<Moment> {
    let index = |port: &String| if_nametoindex(port.as_str()).with_context(|| port.clone());
    let indices: Vec<u32> = ports.iter().map(index).collect::<Result<_>>()?;
    let before_ns = monotonic_ns()?;
    indices.into_iter().try_for_each(|index| set_port(index, passes))?;
    Ok(Moment { before_ns, after_ns: monotonic_ns()? })
}
