//! What tests and experiments need of the machine; what is missing is named in one sentence, with the way to get it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::{env, fmt};

use libtest_mimic::{Failed, Trial};
use rustix::net::{AddressFamily, SocketType};

/// Something that this machine lacks. Commands end with exit code 2, tests are reported as ignored.
#[derive(Debug)]
pub struct Missing(String);

impl Missing {
    /// The lack, as one sentence that also says how to mend it.
    pub fn new(sentence: impl Into<String>) -> Missing {
        Missing(sentence.into())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

#[derive(Clone, Copy, Debug)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
}

/// A line for each: what it is called here, the program, and the package.
macro_rules! tools {
    ($($name:ident: $program:literal of $package:literal;)+) => {
        $(
            #[doc = concat!("`", $program, "` of the package ", $package, ".")]
            pub const $name: Tool = Tool { program: $program, package: $package };
        )+
    };
}

tools! {
    MAKE: "make" of "make";
    IP: "ip" of "iproute2";
    TC: "tc" of "iproute2";
    IPERF3: "iperf3" of "iperf3";
    MPTCPIZE: "mptcpize" of "mptcpize";
    ETHTOOL: "ethtool" of "ethtool";
    TEAMNL: "teamnl" of "libteam-utils";
    QEMU: "qemu-system-x86_64" of "qemu-system-x86";
    MODPROBE: "modprobe" of "kmod";
    BUSYBOX: "busybox" of "busybox-static";
    NGINX: "nginx" of "nginx-light";
    WRK: "wrk" of "wrk";
    PGBENCH: "pgbench" of "postgresql-contrib";
    REDIS: "redis-server" of "redis-server";
    REDIS_BENCHMARK: "redis-benchmark" of "redis-tools";
    GANESHA: "ganesha.nfsd" of "nfs-ganesha nfs-ganesha-vfs";
    NFS_CAT: "nfs-cat" of "libnfs-utils";
    SETPRIV: "setpriv" of "util-linux";
    SYSTEMD: "systemd" of "systemd";
    STRACE: "strace" of "strace";
    NFT: "nft" of "nftables";
    CONNTRACK: "conntrack" of "conntrack";
    TSHARK: "tshark" of "tshark";
    TMUX: "tmux" of "tmux";
    NODE: "node" of "nodejs";
    CHROMIUM: "chromium" of "chromium";
    CNI_MACVLAN: "/usr/lib/cni/macvlan" of "containernetworking-plugins";
    ETCD: "etcd" of "etcd-server";
    ETCDCTL: "etcdctl" of "etcd-client";
    DNSMASQ: "dnsmasq" of "dnsmasq-base";
    MPIRUN: "mpirun" of "openmpi-bin";
    BONNIE: "bonnie++" of "bonnie++";
}

/// Checks that all `tools` stand in a directory of this process's search path.
pub fn require(tools: &[Tool]) -> Result<(), Missing> {
    require_tools(&env::var_os("PATH").unwrap_or_default(), tools)
}

/// Checks that all `tools` stand in a directory of the search path `path`.
pub fn require_tools(path: &OsStr, tools: &[Tool]) -> Result<(), Missing> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !is_on_path(path, tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let each_once = |name: fn(&Tool) -> &'static str| {
        missing.iter().map(|tool| name(tool)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let (programs, packages) = (each_once(|tool| tool.program), each_once(|tool| tool.package));
    Err(Missing::new(format!(
        "{} not found: install it with `apt-get install {}`",
        programs.join(", "),
        packages.join(" ")
    )))
}

/// Checks that this process may open /dev/net/tun, without which there is no TAP device.
pub fn require_tun() -> Result<(), Missing> {
    let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") else { return Ok(()) };
    Err(Missing::new(match error.kind() {
        ErrorKind::NotFound => {
            "/dev/net/tun does not exist: load the module with `modprobe tun` as root".to_string()
        }
        ErrorKind::PermissionDenied => {
            "/dev/net/tun is closed to this user: run as root, or open it with `chmod 0666 /dev/net/tun`"
                .to_string()
        }
        _ => format!("/dev/net/tun cannot be opened: {error}"),
    }))
}

/// Checks that this process may have sockets of AF_XDP, and load programs for them. Asks the kernel, not Tabane: where
/// Tabane's own way to AF_XDP fails, that is a failure.
pub fn require_xdp() -> Result<(), Missing> {
    if !is_all_powerful() {
        return Err(Missing::new("AF_XDP needs root outside of user namespaces".to_owned()));
    }
    match rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None) {
        Ok(_) => Ok(()),
        Err(error) => Err(Missing::new(format!("the kernel has no AF_XDP: {error}"))),
    }
}

/// Checks that this process may give programs priorities above the usual one.
pub fn require_priority() -> Result<(), Missing> {
    let lack = || Missing::new("priorities need root outside of user namespaces".to_owned());
    if is_all_powerful() { Ok(()) } else { Err(lack()) }
}

/// Whether this process is root, and not of a user namespace only.
pub fn is_all_powerful() -> bool {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::getuid().is_root() && users.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Checks that the executable `tabane` stands at `path`.
pub fn require_daemon(path: &Path) -> Result<(), Missing> {
    require_program(path, "tabane")
}

/// Checks that the executable of `package` stands at `path`.
pub fn require_program(path: &Path, package: &str) -> Result<(), Missing> {
    if path.is_file() {
        return Ok(());
    }
    let path = path.display();
    Err(Missing::new(format!("no executable `{path}`: build it with `cargo build -p {package}`")))
}

/// Whether `program` stands in a directory of this process's search path.
pub fn is_installed(program: &str) -> bool {
    is_on_path(&env::var_os("PATH").unwrap_or_default(), program)
}

fn is_on_path(path: &OsStr, program: &str) -> bool {
    env::split_paths(path).any(|directory| directory.join(program).is_file())
}

/// The trial `name`; where something is `missing`, it is reported as ignored, with the reason.
pub fn trial(
    name: &str,
    missing: Option<&str>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match missing {
        None => Trial::test(name, test),
        Some(reason) => Trial::test(format!("{name} [SKIPPED: {reason}]"), || Ok(())).with_ignored_flag(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_ignored_and_says_why() {
        let ignored = trial("one", Some("no such thing here"), || panic!("it does not run"));
        assert_eq!((ignored.name(), ignored.has_ignored_flag()), ("one [SKIPPED: no such thing here]", true));
        assert!(!trial("one", None, || Ok(())).has_ignored_flag());
    }

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let absent = Tool { program: "no-such-program", package: "no-such-package" };
        let shell = Tool { program: "sh", package: "dash" };
        let path = OsStr::new("/usr/bin:/bin");
        assert!(require_tools(path, &[shell]).is_ok());
        assert_eq!(
            require_tools(path, &[shell, absent]).unwrap_err().to_string(),
            "no-such-program not found: install it with `apt-get install no-such-package`"
        );
    }

    #[test]
    fn a_missing_daemon_is_named_with_the_way_to_build_it() {
        let sentence = require_daemon(Path::new("/nowhere/tabane")).unwrap_err().to_string();
        assert_eq!(sentence, "no executable `/nowhere/tabane`: build it with `cargo build -p tabane`");
    }
}
