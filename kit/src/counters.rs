//! The kernel's own counters of a namespace: bytes per NIC, TCP and MPTCP events.

use std::fs;

use anyhow::{Context, Result};

use crate::netns::Namespace;

/// Bytes that each of `nics` has received since it was made, read at one moment.
pub fn received_bytes<const N: usize>(namespace: &Namespace, nics: [&str; N]) -> Result<[u64; N]> {
    let table = read(namespace, "dev")?;
    let mut received = [0; N];
    for (bytes, nic) in received.iter_mut().zip(nics) {
        *bytes = device_column(&table, nic, RECEIVED_BYTES)
            .with_context(|| format!("no NIC {nic} in {}", namespace.name()))?;
    }
    Ok(received)
}

/// Frames that `nics` have sent and received together since they were made.
pub fn packets(namespace: &Namespace, nics: &[String]) -> Result<[u64; 2]> {
    let table = read(namespace, "dev")?;
    let sum = |column| {
        let of = |nic: &String| {
            device_column(&table, nic, column)
                .with_context(|| format!("no NIC {nic} in {}", namespace.name()))
        };
        nics.iter().map(of).sum::<Result<u64>>()
    };
    Ok([sum(SENT_PACKETS)?, sum(RECEIVED_PACKETS)?])
}

/// Frames that `device` should have sent and dropped: its queue was full.
pub fn queue_drops(namespace: &Namespace, device: &str) -> Result<u64> {
    device_column(&read(namespace, "dev")?, device, QUEUE_DROPS)
        .with_context(|| format!("no device {device} in {}", namespace.name()))
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
}
