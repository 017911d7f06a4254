//! What a test needs of the machine, and whether it is there.

use std::fs;
use std::process::Command;

use libtest_mimic::Trial;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{getgid, getuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tabane_io::trial::trial;

use super::hosts::Host;

/// What a test needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    Nothing,
    /// Network namespaces and the `ip` command.
    Namespaces,
    /// `/dev/net/tun` besides.
    Tun,
    /// That, and the right to load programs into the kernel.
    Bpf,
    /// The `tc` command and the discipline `tbf` besides.
    Tbf,
    /// AF_XDP, and the rights to use it.
    Xdp,
}

/// A test: what it needs, its name and its body.
pub(crate) type Test = (Need, &'static str, fn());

/// For each need, why it is not met.
#[derive(Debug)]
pub(crate) struct Needs([Option<&'static str>; 6]);

impl Needs {
    /// Probes once, before any other thread starts.
    pub(crate) fn probe() -> Self {
        if !getuid().is_root() {
            become_root_of_a_user_namespace();
        }
        let unless = |met: bool, reason| (!met).then_some(reason);
        let namespaces = unless(has("ip"), "needs the ip command (package iproute2)")
            .or_else(|| unless(Host::new().is_ok(), "needs root or user namespaces"));
        let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        let may_load = getuid().is_root() && rights_of_init();
        let tun = namespaces.or(unless(tun.is_ok(), "needs /dev/net/tun"));
        let bpf = tun.or(unless(may_load, "needs root outside of user namespaces"));
        let tbf = || has("tc") && Host::new().is_ok_and(|host| host.try_shape("lo").is_ok());
        let tbf = namespaces.or_else(|| unless(tbf(), "needs tc and the tbf queueing discipline"));
        let xdp = bpf.or(unless(has_xdp(), "needs AF_XDP"));
        Self([None, namespaces, tun, bpf, tbf, xdp])
    }

    /// A test that passes when its body returns; ignored, with the reason, when what it needs is missing.
    pub(crate) fn trial(&self, (need, name, body): &Test) -> Trial {
        let body = *body;
        trial(name, self.0[*need as usize], move || {
            body();
            Ok(())
        })
    }
}

/// Whether this is the first user namespace, in which alone programs may be loaded.
fn rights_of_init() -> bool {
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Whether the kernel has such sockets. The tests show whether Tabane can open one.
fn has_xdp() -> bool {
    rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).is_ok()
}

fn has(command: &str) -> bool {
    Command::new(command).arg("-V").output().is_ok()
}

/// Enters a user namespace where those are allowed. Else the probe of namespaces fails.
fn become_root_of_a_user_namespace() {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: the process has one thread, and no file descriptor is shared by the flag.
    if unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.is_ok() {
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ];
        for (file, text) in maps {
            // A map that is refused leaves the process without privilege, which the probe finds.
            let _ = fs::write(format!("/proc/self/{file}"), text);
        }
    }
}
