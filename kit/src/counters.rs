//! The kernel's own counters of a namespace: bytes per NIC, TCP and MPTCP events.

use std::thread::available_parallelism;

use nix::unistd::{SysconfVar, sysconf};
use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};

use crate::usual::*;

/// Bytes that each of `nics` has received since it was made, read at one moment.
pub fn received_bytes<const N: usize>(namespace: &Namespace, nics: [&str; N]) -> Result<[u64; N]> {
    let table = read(namespace, "dev")?;
    let mut received = [0; N];
    for (bytes, nic) in received.iter_mut().zip(nics) {
        *bytes = of_device(namespace, &table, nic, RECEIVED_BYTES)?;
    }
    Ok(received)
}

/// Frames that `nics` have sent and received together since they were made.
pub fn packets(namespace: &Namespace, nics: &[String]) -> Result<[u64; 2]> {
    let table = read(namespace, "dev")?;
    let sum = |column| nics.iter().map(|nic| of_device(namespace, &table, nic, column)).sum::<Result<u64>>();
    Ok([sum(SENT_PACKETS)?, sum(RECEIVED_PACKETS)?])
}

/// Frames that `device` should have sent and dropped: its queue was full.
pub fn queue_drops(namespace: &Namespace, device: &str) -> Result<u64> {
    of_device(namespace, &read(namespace, "dev")?, device, QUEUE_DROPS)
}

fn of_device(namespace: &Namespace, table: &str, device: &str, column: usize) -> Result<u64> {
    let count = device_column(table, device, column);
    count.with_context(|| format!("no device {device} in {}", namespace.name()))
}

/// The counter `name` of the group `group`, for example `Tcp` and `RetransSegs`.
pub fn protocol(namespace: &Namespace, group: &str, name: &str) -> Result<u64> {
    let tables = read(namespace, "snmp")? + &read(namespace, "netstat")?;
    protocol_counter(&tables, group, name).with_context(|| format!("the kernel counts no {group} {name}"))
}

/// Segments that TCP has sent again because they were lost. Not counted are those that the receiver reported as doubled,
/// for the first was only late, and those that the device refused, for TCP counts each attempt.
pub fn lost_segments(sender: &Namespace) -> Result<u64> {
    let again = protocol(sender, "Tcp", "RetransSegs")?;
    let in_vain =
        protocol(sender, "TcpExt", "TCPDSACKRecvSegs")? + protocol(sender, "TcpExt", "TCPRetransFail")?;
    Ok(again.saturating_sub(in_vain))
}

/// The thread's own view: `/proc/net` would be that of the process.
fn read(namespace: &Namespace, table: &str) -> Result<String> {
    let path = format!("/proc/thread-self/net/{table}");
    namespace.enter(|| fs::read_to_string(&path))?.context(path)
}

/// Columns of a line of `dev`, behind the name.
const RECEIVED_BYTES: usize = 0;
const RECEIVED_PACKETS: usize = 1;
const SENT_PACKETS: usize = 9;
const QUEUE_DROPS: usize = 11;

fn device_column(table: &str, nic: &str, column: usize) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(nic)?.strip_prefix(':'))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

/// Groups come as two lines, `Group: names` and `Group: values`.
fn protocol_counter(tables: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = tables.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|each| each == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Seconds that have passed.
    pub wall_seconds: f64,
    /// Seconds in which the machine's CPUs were busy; time stolen by a hypervisor is not in it.
    pub machine_seconds: f64,
    pub processes_seconds: f64,
}

impl Usage {
    /// The state now, with the time of all processes `pids` together.
    pub fn now(pids: &[u32]) -> Result<Usage> {
        let machine = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let busy = machine_ticks(&machine).context("/proc/stat: no line `cpu`")?;
        let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.context("the kernel names no CLK_TCK")?;
        Ok(Usage {
            wall_seconds: monotonic_ns()? as f64 / 1e9,
            machine_seconds: busy as f64 / ticks_per_second as f64,
            processes_seconds: pids.iter().copied().map(exact_seconds).sum::<Result<f64>>()?,
        })
    }

    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            wall_seconds: self.wall_seconds - earlier.wall_seconds,
            machine_seconds: self.machine_seconds - earlier.machine_seconds,
            processes_seconds: self.processes_seconds - earlier.processes_seconds,
        }
    }
}

/// Does `work`, which goes before all else that wants a processor, with all programs that it starts.
pub fn first<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    const HIGHEST: i32 = -20;
    let before = getpriority_process(None)?;
    setpriority_process(None, HIGHEST).context("a priority above others")?;
    let done = work();
    setpriority_process(None, before)?;
    done
}

/// Does `work`; returns also what was used meanwhile, with the time of all processes `pids` together.
pub fn used_during<T>(pids: &[u32], work: impl FnOnce() -> Result<T>) -> Result<(T, Usage)> {
    let before = Usage::now(pids)?;
    let done = work()?;
    Ok((done, Usage::now(pids)?.since(before)))
}

/// Does `work`; returns also which share of this machine's processors was busy meanwhile, 0 to 1.
pub fn busy_during<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let (done, used) = used_during(&[], work)?;
    Ok((done, used.machine_seconds / used.wall_seconds / available_parallelism()?.get() as f64))
}

/// Seconds that the threads of process `pid` have run, to the nanosecond (`/proc/PID/task/TID/schedstat`): ticks are too coarse for
/// what is nearly idle. A thread that ends takes its time with it.
pub fn exact_seconds(pid: u32) -> Result<f64> {
    let directory = format!("/proc/{pid}/task");
    let mut nanoseconds = 0;
    for thread in fs::read_dir(&directory).context(directory)? {
        let path = thread?.path().join("schedstat");
        let line = match fs::read_to_string(&path) {
            // It has ended since it was listed.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH)) => {
                continue;
            }
            read => read.with_context(|| path.display().to_string())?,
        };
        let ran = line.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
        nanoseconds += ran.with_context(|| format!("{}: {line}", path.display()))?;
    }
    Ok(nanoseconds as f64 / 1e9)
}

/// user, nice, system, irq and softirq of the line `cpu`; guest time is part of user time already.
fn machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(fields.get(..3)?.iter().chain(fields.get(5..7)?).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_is_found_by_its_whole_name() {
        let table = "Inter-| Receive\n eth11: 7 1\n  eth1: 1234 5 0 0 0 0 0 0 99 4 0 17 0 0 0 0\n";
        assert_eq!(device_column(table, "eth1", RECEIVED_PACKETS), Some(5));
        assert_eq!(device_column(table, "eth1", SENT_PACKETS), Some(4));
        assert_eq!(device_column(table, "eth1", RECEIVED_BYTES), Some(1234));
        assert_eq!(device_column(table, "eth1", QUEUE_DROPS), Some(17));
        assert_eq!(device_column(table, "eth", RECEIVED_BYTES), None);
    }

    #[test]
    fn a_protocol_counter_is_found_by_group_and_name() {
        let tables = "Tcp: InSegs RetransSegs\nTcp: 10 3\nTcpExt: RetransSegs\nTcpExt: 9\n";
        assert_eq!(protocol_counter(tables, "Tcp", "RetransSegs"), Some(3));
        assert_eq!(protocol_counter(tables, "TcpExt", "RetransSegs"), Some(9));
        assert_eq!(protocol_counter(tables, "Udp", "InErrors"), None);
    }

    #[test]
    fn busy_time_leaves_out_idle_wait_and_steal() {
        assert_eq!(machine_ticks("cpu  1 2 4 1000 2000 8 16 4000 9 9\ncpu0 1\n"), Some(31));
    }

    #[test]
    fn threads_may_end_while_they_are_counted() {
        for _ in 0..200 {
            let ending = [(); 8].map(|()| std::thread::spawn(|| ()));
            assert!(exact_seconds(std::process::id()).unwrap() > 0.0);
            ending.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}
