//! ICMP echo requests, by busybox.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::netns::Namespace;
use crate::process::Process;

/// Seconds between two requests.
const INTERVAL: &str = "0.2";
/// Longest that all of them take: busybox waits 10 s for the last answer.
const END_WITHIN: Duration = Duration::from_secs(60);

/// Requests, and the answers that came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pings {
    /// Requests sent.
    pub sent: u64,
    /// Round trips of those that were answered, in milliseconds, in order.
    pub trips_ms: Vec<f64>,
}

impl Pings {
    /// Requests that were not answered.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.trips_ms.len() as u64)
    }
}

/// Sends `count` requests, at most 200, from `host` to `to`.
pub fn ping(host: &Namespace, to: IpAddr, count: u32) -> Result<Pings> {
    let mut command = host.command("busybox");
    command.args(["ping", "-c", &count.to_string(), "-i", INTERVAL, &to.to_string()]);
    let ending = Process::start(command)?.wait(END_WITHIN)?;
    parse(&ending.output).with_context(|| format!("ping {to}: {}", ending.last_words()))
}

fn parse(output: &str) -> Option<Pings> {
    let summary = output.lines().find(|line| line.contains("packets transmitted"))?;
    let sent = summary.split_whitespace().next()?.parse().ok()?;
    let trip = |line: &str| line.split_once("time=")?.1.strip_suffix(" ms")?.parse().ok();
    Some(Pings { sent, trips_ms: output.lines().filter_map(trip).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_timed() {
        let output = "PING 10.77.0.2 (10.77.0.2): 56 data bytes\n\
                      64 bytes from 10.77.0.2: seq=0 ttl=64 time=0.185 ms\n\
                      64 bytes from 10.77.0.2: seq=2 ttl=64 time=12.5 ms\n\n\
                      --- 10.77.0.2 ping statistics ---\n\
                      3 packets transmitted, 2 packets received, 33% packet loss\n\
                      round-trip min/avg/max = 0.185/6.342/12.5 ms\n";
        let pings = parse(output).unwrap();
        assert_eq!((pings.lost(), pings), (1, Pings { sent: 3, trips_ms: vec![0.185, 12.5] }));
        assert_eq!(parse("ping: bad address"), None);
    }
}
