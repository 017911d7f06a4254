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

/// A program and the Debian package that holds it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Name of the executable.
    pub program: &'static str,
    /// Debian package.
    pub package: &'static str,
}

/// Makes namespaces, NICs and addresses.
pub const IP: Tool = Tool { program: "ip", package: "iproute2" };
/// Sets rates and black holes.
pub const TC: Tool = Tool { program: "tc", package: "iproute2" };
/// Drives and measures one TCP or UDP flow.
pub const IPERF3: Tool = Tool { program: "iperf3", package: "iperf3" };
/// Makes a program use MPTCP.
pub const MPTCPIZE: Tool = Tool { program: "mptcpize", package: "mptcpize" };
/// Sets how NICs interrupt.
pub const ETHTOOL: Tool = Tool { program: "ethtool", package: "ethtool" };
/// Sets what a team of NICs does.
pub const TEAMNL: Tool = Tool { program: "teamnl", package: "libteam-utils" };
/// Emulates the machine of a guest.
pub const QEMU: Tool = Tool { program: "qemu-system-x86_64", package: "qemu-system-x86" };
/// Loads kernel modules.
pub const MODPROBE: Tool = Tool { program: "modprobe", package: "kmod" };
/// Mounts a guest's files.
pub const BUSYBOX: Tool = Tool { program: "busybox", package: "busybox-static" };
/// Serves files.
pub const NGINX: Tool = Tool { program: "nginx", package: "nginx-light" };
/// Asks a web server for files.
pub const WRK: Tool = Tool { program: "wrk", package: "wrk" };
/// Asks a database, whose programs come with it.
pub const PGBENCH: Tool = Tool { program: "pgbench", package: "postgresql-contrib" };
/// Keeps keys and values in memory.
pub const REDIS: Tool = Tool { program: "redis-server", package: "redis-server" };
/// Asks it.
pub const REDIS_BENCHMARK: Tool = Tool { program: "redis-benchmark", package: "redis-tools" };
/// Serves files by NFS, in user space. What it does with a file system is a package of its own.
pub const GANESHA: Tool = Tool { program: "ganesha.nfsd", package: "nfs-ganesha nfs-ganesha-vfs" };
/// Reads files by NFS, in user space.
pub const NFS_CAT: Tool = Tool { program: "nfs-cat", package: "libnfs-utils" };
/// Runs a program as another user.
pub const SETPRIV: Tool = Tool { program: "setpriv", package: "util-linux" };
/// Starts and watches services.
pub const SYSTEMD: Tool = Tool { program: "systemd", package: "systemd" };
/// Shows the system calls of a process, and holds them up.
pub const STRACE: Tool = Tool { program: "strace", package: "strace" };
/// Sets how a router translates addresses.
pub const NFT: Tool = Tool { program: "nft", package: "nftables" };
/// Has a router forget the ports that it has given.
pub const CONNTRACK: Tool = Tool { program: "conntrack", package: "conntrack" };
/// Shows the fields of captured packets.
pub const TSHARK: Tool = Tool { program: "tshark", package: "tshark" };
/// Is a terminal without anybody in front of it.
pub const TMUX: Tool = Tool { program: "tmux", package: "tmux" };
/// Runs the browser's driver, and builds the page.
pub const NODE: Tool = Tool { program: "node", package: "nodejs" };
/// Shows the page.
pub const CHROMIUM: Tool = Tool { program: "chromium", package: "chromium" };
/// Gives a container's network a macvlan.
pub const CNI_MACVLAN: Tool =
    Tool { program: "/usr/lib/cni/macvlan", package: "containernetworking-plugins" };
/// Keeps what a fleet's nodes say of themselves.
pub const ETCD: Tool = Tool { program: "etcd", package: "etcd-server" };
/// Asks etcd.
pub const ETCDCTL: Tool = Tool { program: "etcdctl", package: "etcd-client" };
/// Answers for a zone.
pub const DNSMASQ: Tool = Tool { program: "dnsmasq", package: "dnsmasq-base" };

/// Starts the ranks of MPI programs.
pub const MPIRUN: Tool = Tool { program: "mpirun", package: "openmpi-bin" };
/// Writes and reads a file.
pub const BONNIE: Tool = Tool { program: "bonnie++", package: "bonnie++" };

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
