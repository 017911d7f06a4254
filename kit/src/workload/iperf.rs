//! iperf3: TCP flows (CUBIC) and what both of its ends measured.

use serde::Deserialize;

use super::{CONGESTION, Stream, wait_until_listening};
use crate::usual::*;

pub const PORT: u16 = 5201;
/// How much longer than planned a run may take: an outage, and emulated processors that others keep busy.
const OVERTIME: Duration = Duration::from_secs(90);

/// A server that serves one flow after the other.
#[derive(Debug)]
pub struct Server {
    _process: Process,
}

#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub server: IpAddr,
    /// Duration in whole seconds.
    pub seconds: u32,
    /// Number of connections at once; what they do is added up.
    pub connections: u8,
    /// What carries each.
    pub stream: Stream,
}

#[derive(Debug)]
pub struct Running {
    process: Process,
    limit: Duration,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Payload that arrived, in 10^9 bits per second of the whole run.
    pub gbps: f64,
    pub retransmits: u64,
    /// Payload sent in each tenth of a second, in 10^9 bits per second.
    pub intervals_gbps: Vec<f64>,
}

impl Server {
    pub fn start(host: &Namespace, stream: Stream) -> Result<Server> {
        let mut command = program(host, stream);
        command.args(["--server", "--port", &PORT.to_string()]);
        let process = Process::start(command)?;
        wait_until_listening(host, PORT, "iperf3")?;
        Ok(Server { _process: process })
    }
}

impl Flow {
    pub const fn tcp(server: IpAddr, seconds: u32) -> Flow {
        Flow { server, seconds, connections: 1, stream: Stream::Tcp }
    }

    pub fn start(&self, client: &Namespace) -> Result<Running> {
        let mut command = program(client, self.stream);
        command.args(["--client", &self.server.to_string(), "--port", &PORT.to_string()]);
        command.args(["--time", &self.seconds.to_string(), "--interval", "0.1", "--json"]);
        command.args(["--parallel", &self.connections.to_string(), "--congestion", CONGESTION]);
        let limit = Duration::from_secs(self.seconds.into()) + OVERTIME;
        Ok(Running { process: Process::start(command)?, limit })
    }

    pub fn run(&self, client: &Namespace) -> Result<Outcome> {
        self.start(client)?.finish()
    }
}

impl Running {
    pub fn finish(self) -> Result<Outcome> {
        let report = self.process.wait(self.limit)?.success("iperf3")?;
        outcome(&report).context("the report of iperf3")
    }
}

fn program(host: &Namespace, stream: Stream) -> Command {
    match stream {
        Stream::Tcp => host.command("iperf3"),
        Stream::Mptcp => {
            let mut command = host.command("mptcpize");
            command.args(["run", "iperf3"]);
            command
        }
    }
}

/// Some errors stand in the report alone, and iperf3 ends as if all was well.
#[derive(Deserialize)]
struct Report {
    intervals: Vec<Interval>,
    end: End,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
}

/// A report of failure may have neither.
#[derive(Deserialize)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    bytes: u64,
    bits_per_second: f64,
    #[serde(default)]
    retransmits: u64,
}

fn outcome(report: &str) -> Result<Outcome> {
    let Report { intervals, end, error } = serde_json::from_str(report)?;
    if let Some(error) = error {
        bail!("{error}");
    }
    let (sent, received) = end.sum_sent.zip(end.sum_received).context("no summary in it")?;
    Ok(Outcome {
        bytes: received.bytes,
        gbps: received.bits_per_second / 1e9,
        retransmits: sent.retransmits,
        intervals_gbps: intervals.iter().map(|interval| interval.sum.bits_per_second / 1e9).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tcp_report_is_read_at_the_receiving_end() {
        let report = r#"{"intervals": [{"sum": {"bytes": 100, "bits_per_second": 2e9}}], "end": {
            "sum_sent": {"bytes": 1100, "bits_per_second": 1.1e9, "retransmits": 3},
            "sum_received": {"bytes": 1000, "bits_per_second": 1e9}}}"#;
        let outcome = outcome(report).unwrap();
        assert_eq!((outcome.bytes, outcome.retransmits), (1000, 3));
        assert_eq!(outcome.gbps.to_bits(), 1.0_f64.to_bits());
        assert_eq!(outcome.intervals_gbps.len(), 1);
    }

    #[test]
    fn a_report_of_failure_is_an_error() {
        let why = |report| outcome(report).unwrap_err().to_string();
        assert_eq!(why(r#"{"intervals": [], "end": {}}"#), "no summary in it");
        assert_eq!(
            why(r#"{"intervals": [], "end": {}, "error": "the server is busy"}"#),
            "the server is busy"
        );
    }
}
