//! A store of keys and values in memory (Redis), and clients that set one value after the other (redis-benchmark).

use super::app::{CLIENTS, Load, Outcome, Server};
use crate::usual::*;

const PORT: u16 = 6379;
/// Requests that are made for each second that a load is to take: what two processors answer over a link.
const REQUESTS_PER_SECOND: u32 = 40_000;
const VALUE: usize = 100;

pub(super) fn serve(host: &Namespace) -> Result<Server> {
    let directory = tempfile::tempdir().context("a directory for Redis")?;
    let mut command = host.command("redis-server");
    command.args(["--port", &PORT.to_string(), "--bind", "0.0.0.0", "--protected-mode", "no"]);
    command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(directory.path());
    Server::listening(Process::start(command)?, "Redis", (host, PORT), directory)
}

/// Starts clients in `host` of the store at `server`, which have as many requests as take about `seconds`.
pub(super) fn load(host: &Namespace, server: IpAddr, seconds: u32) -> Result<Load> {
    let mut command = host.command("redis-benchmark");
    command.args(["-h", &server.to_string(), "-p", &PORT.to_string(), "-c", &CLIENTS.to_string()]);
    command.args(["-t", "set", "-d", &VALUE.to_string(), "--csv"]);
    command.args(["-n", &(seconds * REQUESTS_PER_SECOND).to_string()]);
    Load::start(command, seconds, outcome, None)
}

/// Requests per second; those that fail end the program.
fn outcome(output: &str) -> Result<Outcome> {
    let line = output.lines().find(|line| line.starts_with("\"SET\"")).context("no line of SET")?;
    let rate = line.split(',').nth(1).context("no second column")?;
    Ok(Outcome { speed: rate.trim_matches('"').parse().context("no number in it")?, failed: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_second_column() {
        let output = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"51546.39\",\"0.085\"\n";
        assert_eq!(outcome(output).unwrap(), Outcome { speed: 51_546.39, failed: 0 });
        assert!(outcome("Could not connect to Redis").is_err());
    }
}
