//! A store of keys and values in memory (Redis), and clients that set one value after the other (redis-benchmark).

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::wait_until_listening;
use crate::netns::Namespace;
use crate::process::Process;

const PORT: u16 = 6379;
/// Requests that are made for each second that a load is to take: what two processors answer over a link.
const REQUESTS_PER_SECOND: u32 = 40_000;
/// Bytes of a value.
const VALUE: usize = 100;
/// How much longer than planned a load may take: it ends by its requests.
const OVERTIME: Duration = Duration::from_secs(120);

/// A server that listens at all addresses of a host.
#[derive(Debug)]
pub struct Server {
    _process: Process,
    _directory: TempDir,
}

impl Server {
    /// Starts a server in `host` and waits until it listens.
    pub fn start(host: &Namespace) -> Result<Server> {
        let directory = tempfile::tempdir().context("a directory for Redis")?;
        let mut command = host.command("redis-server");
        command.args(["--port", &PORT.to_string(), "--bind", "0.0.0.0", "--protected-mode", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(directory.path());
        let process = Process::start(command)?;
        wait_until_listening(host, PORT, "Redis")?;
        Ok(Server { _process: process, _directory: directory })
    }
}

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    process: Process,
    limit: Duration,
}

impl Load {
    /// Starts so many clients in `host` of the store at `server`, which have as many requests as take about `seconds`.
    pub fn start(host: &Namespace, server: IpAddr, clients: u16, seconds: u32) -> Result<Load> {
        let mut command = host.command("redis-benchmark");
        command.args(["-h", &server.to_string(), "-p", &PORT.to_string(), "-c", &clients.to_string()]);
        command.args(["-t", "set", "-d", &VALUE.to_string(), "--csv"]);
        command.args(["-n", &(seconds * REQUESTS_PER_SECOND).to_string()]);
        let limit = Duration::from_secs(seconds.into()) + OVERTIME;
        Ok(Load { process: Process::start(command)?, limit })
    }

    /// Waits for its end; returns requests per second.
    pub fn finish(self) -> Result<f64> {
        let output = self.process.wait(self.limit)?.success("redis-benchmark")?;
        rate(&output).with_context(|| format!("what redis-benchmark reports: {output}"))
    }
}

fn rate(output: &str) -> Result<f64> {
    let line = output.lines().find(|line| line.starts_with("\"SET\"")).context("no line of SET")?;
    let rate = line.split(',').nth(1).context("no second column")?;
    rate.trim_matches('"').parse().context("no number in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_second_column() {
        let output = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"51546.39\",\"0.085\"\n";
        assert!((rate(output).unwrap() - 51_546.39).abs() < 1e-9);
        assert!(rate("Could not connect to Redis").is_err());
    }
}
