//! What the list forbids ends the process, and what it allows works. Each call is made by this test program, started
//! once more for it: the kernel ends whole processes.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use tabane_io::netns::{set_signals, signal_thread};

use super::*;

/// Names the call that the inner program is to make.
const MARK: &str = "TABANE_TEST_CALL";

/// `F_SETSIG` and `F_SETOWN_EX`.
const SET_SIGNAL: c_int = 10;
const SET_OWNER: c_int = 15;

/// Calls of a bundle that has links of Ethernet frames.
const FRAMES: [&str; 2] = ["frames", "raw frames"];

/// Calls of a bundle that has programs begin so.
const MAPS: &str = "maps ";

/// Calls of the page begin so, and those of the thread that asks NICs.
const WEB: &str = "web ";
const SPEEDS: &str = "speeds ";
/// Calls of the process that resolves names begin so.
const NAMES: &str = "names ";

/// How a process of its own ends that restricts itself and then makes the call.
fn end_of(call: &str) -> ExitStatus {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "sandbox::calls::tests::inner", "--test-threads", "1"]).env(MARK, call);
    command.output().expect("started").status
}

/// Does nothing unless it is started by [`end_of`].
#[test]
fn inner() {
    let Ok(call) = std::env::var(MARK) else { return };
    let program = match &*call {
        call if call.starts_with(WEB) => Program::Web,
        call if call.starts_with(SPEEDS) => Program::Speeds,
        call => Program::Bundle { frames: FRAMES.contains(&call), maps: call.starts_with(MAPS) },
    };
    let restricted = if call.starts_with(NAMES) { restrict_resolver() } else { restrict(program) };
    restricted.expect("a kernel with seccomp");
    let datagram = |family| {
        socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).expect("allowed");
    };
    match call.as_str() {
        "udp" => drop(UdpSocket::bind("127.0.0.1:0").expect("allowed")),
        "netlink" => drop(tabane_io::netlink::nic("lo").expect("allowed")),
        "thread" => std::thread::spawn(|| ()).join().expect("allowed"),
        "file" => {
            let error = std::fs::read("/etc/hostname").expect_err("no files");
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
        "make a directory" => drop(std::fs::create_dir("/tmp")),
        "start a program" => drop(Command::new("/bin/true").spawn()),
        "tcp" => drop(std::net::TcpStream::connect("127.0.0.1:1")),
        "unix" => datagram(AddressFamily::Unix),
        "packet" => datagram(AddressFamily::Packet),
        // Whether the process may have them is another question.
        "frames" => drop(socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)),
        "raw frames" => drop(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)),
        "netfilter" => {
            let kind = SockType::Raw;
            let protocol = SockProtocol::NetlinkNetFilter;
            socket(AddressFamily::Netlink, kind, SockFlag::empty(), protocol).expect("allowed");
        }
        "bpf" | "maps bpf" => drop(tabane_io::Gates::new()),
        "ethtool" | "speeds ethtool" => assert_eq!(tabane_io::ethtool::speed("lo"), None),
        "speeds unix" => datagram(AddressFamily::Unix),
        "speeds netlink" => drop(tabane_io::netlink::nic("lo")),
        "web bundle" => drop(UnixStream::connect("/nowhere")),
        "web udp" => drop(UdpSocket::bind("127.0.0.1:0")),
        "web tcp" => drop(TcpListener::bind("127.0.0.1:0")),
        "web datagram" => datagram(AddressFamily::Unix),
        "web name" => {
            let stream =
                rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
            let name = rustix::net::SocketAddrUnix::new_abstract_name(b"tabane/tb0").expect("short");
            rustix::net::bind(stream.expect("allowed"), &name).expect("allowed");
        }
        "names sockets" => {
            let unix = UnixStream::connect("/nowhere").expect_err("it could ask bundles");
            assert_eq!(unix.kind(), std::io::ErrorKind::PermissionDenied);
            TcpListener::bind("127.0.0.1:0").expect_err("it could serve");
            drop(UdpSocket::bind("127.0.0.1:0").expect("it asks DNS"));
        }
        "web program" => drop(Command::new("/bin/true").spawn()),
        "own signal" => {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            signal_thread(std::process::id(), own.cast_unsigned(), 0).expect("allowed");
            set_signals(UdpSocket::bind("127.0.0.1:0").expect("allowed"), libc::F_GETOWN, 0)
                .expect("allowed");
        }
        "signal" | "web signal" => drop(signal_thread(1, 1, 0)),
        "owner" | "web owner" => drop(set_signals(std::io::stdin(), libc::F_SETOWN, 1)),
        "which signal" => drop(set_signals(std::io::stdin(), SET_SIGNAL, 0)),
        "thread as owner" => drop(set_signals(std::io::stdin(), SET_OWNER, 0)),
        "become root" => rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).expect("allowed"),
        other => panic!("no call is named {other}"),
    }
}

#[test]
fn what_a_bundle_does_is_allowed() {
    for call in ["udp", "netlink", "thread", "file", "own signal", "frames", "web bundle", "speeds ethtool"] {
        let end = end_of(call);
        assert!(end.success(), "{call}: {end:?}");
    }
}

#[test]
fn who_resolves_names_serves_nothing_and_has_no_unix_sockets() {
    let end = end_of("names sockets");
    assert!(end.success(), "{end:?}");
}

#[test]
fn everything_else_ends_the_process() {
    let forbidden = [
        "make a directory",
        "start a program",
        "tcp",
        "unix",
        "packet",
        "raw frames",
        "netfilter",
        "become root",
        "signal",
        "owner",
        "which signal",
        "thread as owner",
        "ethtool",
        "bpf",
        "maps bpf",
        "speeds unix",
        "speeds netlink",
        "web udp",
        "web tcp",
        "web datagram",
        "web name",
        "web program",
        "web signal",
        "web owner",
    ];
    for call in forbidden {
        assert_eq!(end_of(call).signal(), Some(libc::SIGSYS), "{call}");
    }
}
