//! The system calls of a running bundle, those of its thread that asks NICs, and those of `tabane web`, whose sockets are
//! others.
//!
//! A call that is not listed ends the process by SIGSYS, and the kernel logs which call it was. The filter checks the
//! arguments of calls with many meanings: no memory becomes executable, no process is made besides threads, no sockets
//! are opened but UDP and `NETLINK_ROUTE`, and packet sockets where a bundle has links of Ethernet frames, no rules
//! of iptables are read or written, no other process is signalled, and of BPF nothing is done but writing maps, where a bundle has
//! programs. Calls that open files fail with "there is none" instead of ending the process, for libraries try files that they can do
//! without, and so does a panic.
//!
//! Source: `seccomp(2)`; the list is what `strace -f` shows of the tests, and what glibc may use instead.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::{c_int, c_long};
use rustix::thread::secure_computing_mode;
use seccompiler::SeccompCmpOp::{self, Eq, Lt, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};

/// Calls that are allowed whatever their arguments are.
const ALLOWED: &[c_long] = &[
    // Frames, cells, requests.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    // Sockets of links that join.
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    // Descriptors and readiness.
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    // Time and randomness.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, their end, and that of the process.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Calls that open files; they fail.
const FILES: &[c_long] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
];

/// Calls that fail as if the kernel had none: the C library then makes threads by `clone`, whose arguments can be
/// checked.
const UNKNOWN: &[c_long] = &[libc::SYS_clone3];

/// The controls of descriptors that are used: of the device, of a socket's queue, of blocking, and the terminal's test.
const CONTROLS: &[u64] =
    &[libc::TUNSETOFFLOAD, libc::TUNSETCARRIER, libc::TIOCOUTQ, libc::FIONBIO, libc::TCGETS];

/// What `fcntl` is not used for: to say who gets the signals of a descriptor, and which (`F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`).
const SIGNALS: [u64; 3] = [8, 10, 15];

/// Whose calls are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Bundle {
        /// Whether links of Ethernet frames may be opened later.
        frames: bool,
        /// Whether it writes the maps of programs that it has loaded.
        maps: bool,
    },
    /// The thread of a bundle that asks NICs for their speed, and has no capability.
    Speeds,
    /// The page, which asks bundles.
    Web,
}

/// Restricts this thread, and those that it starts, to the listed calls. On a machine without seccomp the log says so.
pub fn restrict(program: Program) -> anyhow::Result<()> {
    if secure_computing_mode().is_err() || TargetArch::try_from(ARCH).is_err() {
        tracing::info!("no seccomp on this kernel or processor: any system call remains");
        return Ok(());
    }
    for (calls, errno) in [(FILES, libc::ENOENT), (UNKNOWN, libc::ENOSYS)] {
        apply(plain(calls), SeccompAction::Allow, SeccompAction::Errno(errno.cast_unsigned()))?;
    }
    let mut rules = plain(&[ALLOWED, FILES, UNKNOWN].concat());
    rules.extend(conditional(program)?);
    apply(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Takes Unix sockets from the process that resolves names, and listening: these calls fail, and so do rings of io_uring, whose
/// requests pass no list. It has all others, for nobody lists what libraries of resolvers call.
pub(super) fn restrict_resolver() -> anyhow::Result<()> {
    if secure_computing_mode().is_err() || TargetArch::try_from(ARCH).is_err() {
        return Ok(());
    }
    let mut rules = plain(&[libc::SYS_listen, libc::SYS_io_uring_setup]);
    rules.insert(libc::SYS_socket, vec![rule(&[(0, Eq, number(libc::AF_UNIX))])?]);
    apply(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EACCES.cast_unsigned()))
}

/// The bits that say what kind of socket it is.
const KIND: u64 = 0xf;

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn apply(rules: Rules, others: SeccompAction, listed: SeccompAction) -> anyhow::Result<()> {
    let filter = SeccompFilter::new(rules, others, listed, ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(apply_filter(&program)?)
}

fn plain(calls: &[c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Calls whose arguments decide. A call is allowed when one of its rules holds, a rule when all its conditions do.
fn conditional(program: Program) -> anyhow::Result<Rules> {
    let no_code = || rule(&[(2, MaskedEq(number(libc::PROT_EXEC)), 0)]);
    let thread = number(libc::CLONE_THREAD);
    let controls = if program == Program::Speeds { &[libc::SIOCETHTOOL] } else { CONTROLS };
    let controls = controls.iter().map(|control| rule(&[(1, Eq, *control)]));
    let mut rules = BTreeMap::from([
        (libc::SYS_mmap, vec![no_code()?]),
        (libc::SYS_mprotect, vec![no_code()?]),
        (libc::SYS_clone, vec![rule(&[(0, MaskedEq(thread), thread)])?]),
        (libc::SYS_prctl, vec![rule(&[(0, Eq, number(libc::PR_SET_NAME))])?]),
        (libc::SYS_tgkill, vec![rule(&[(0, Eq, std::process::id().into())])?]),
        (libc::SYS_fcntl, vec![rule(&SIGNALS.map(|command| (1, Ne, command)))?]),
        (libc::SYS_ioctl, controls.collect::<Result<_, _>>()?),
    ]);
    rules.extend(match program {
        Program::Bundle { frames, maps } => {
            let calls =
                [(libc::SYS_socket, sockets(frames)?), (libc::SYS_setsockopt, socket_options(frames)?)];
            let maps = maps.then(|| Ok((libc::SYS_bpf, entries()?)));
            // A process that does not get the bundle, which another was to take over, listens again on the control socket, so that
            // clients see its credentials.
            let serves = plain(&[libc::SYS_accept4, libc::SYS_bind, libc::SYS_listen]).into_iter();
            calls.into_iter().chain(serves).map(Ok).chain(maps).collect::<anyhow::Result<_>>()?
        }
        Program::Speeds => {
            let udp = [(0, Eq, number(libc::AF_INET)), (1, MaskedEq(KIND), number(libc::SOCK_DGRAM))];
            vec![(libc::SYS_socket, vec![rule(&udp)?])]
        }
        Program::Web => web()?,
    });
    Ok(rules)
}

/// Connections to bundles, and the list of those that are up, which is read again and again.
fn web() -> anyhow::Result<Vec<(c_long, Vec<SeccompRule>)>> {
    let unix = [(0, Eq, number(libc::AF_UNIX)), (1, MaskedEq(KIND), number(libc::SOCK_STREAM))];
    let level = |level| rule(&[(1, Eq, number(level))]);
    Ok(vec![
        (libc::SYS_accept4, Vec::new()),
        (libc::SYS_socket, vec![rule(&unix)?]),
        (libc::SYS_setsockopt, vec![level(libc::SOL_SOCKET)?, level(libc::IPPROTO_TCP)?]),
        (libc::SYS_lseek, Vec::new()),
        (libc::SYS_geteuid, Vec::new()),
    ])
}

/// Entries of maps that the process has, read, written and deleted: no map is made and no program is loaded or placed.
fn entries() -> anyhow::Result<Vec<SeccompRule>> {
    // `enum bpf_cmd` of linux/bpf.h.
    const UPDATE: u64 = 2;
    const DELETE: u64 = 3;
    const LOOKUP_BATCH: u64 = 24;
    [UPDATE, DELETE, LOOKUP_BATCH].into_iter().map(|command| rule(&[(0, Eq, command)])).collect()
}

/// UDP, and netlink as far as it is about NICs; packet sockets without Ethernet headers that receive nothing until they
/// are bound.
fn sockets(frames: bool) -> anyhow::Result<Vec<SeccompRule>> {
    let udp = |domain| rule(&[(0, Eq, number(domain)), (1, MaskedEq(KIND), number(libc::SOCK_DGRAM))]);
    let netlink = [(0, Eq, number(libc::AF_NETLINK)), (2, Eq, number(libc::NETLINK_ROUTE))];
    let mut rules = vec![udp(libc::AF_INET)?, udp(libc::AF_INET6)?, rule(&netlink)?];
    if frames {
        let datagrams = (1, MaskedEq(KIND), number(libc::SOCK_DGRAM));
        rules.push(rule(&[(0, Eq, number(libc::AF_PACKET)), datagrams, (2, Eq, 0)])?);
    }
    Ok(rules)
}

/// All of sockets, UDP and, where there are such, packet sockets; of IP what lies below the numbers that iptables has
/// taken.
fn socket_options(frames: bool) -> anyhow::Result<Vec<SeccompRule>> {
    const IPTABLES: u64 = 64;
    let level = |level| (1, Eq, number(level));
    let mut rules = vec![
        rule(&[level(libc::SOL_SOCKET)])?,
        rule(&[level(libc::SOL_UDP)])?,
        rule(&[level(libc::SOL_IP), (2, Lt, IPTABLES)])?,
        rule(&[level(libc::SOL_IPV6), (2, Lt, IPTABLES)])?,
    ];
    if frames {
        rules.push(rule(&[level(libc::SOL_PACKET)])?);
    }
    Ok(rules)
}

/// A rule over arguments: the number of each, how it is compared, and with what.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> anyhow::Result<SeccompRule> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    Ok(SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)?)
}

/// A constant of the C library as an argument of 32 bits.
fn number(value: c_int) -> u64 {
    value.cast_unsigned().into()
}

#[cfg(test)]
mod tests;
