//! P0's senders: processes that send as fast as they can, counted in the paper's periods of 10 s (`tabane probe stream`).

use serde_json::Value;

use crate::prelude::*;

/// Length of a period: after it, balance-tlb associates senders and NICs anew.
pub(super) const PERIOD_SECONDS: usize = 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    pub(super) senders: usize,
    pub(super) seconds: usize,
    /// Throughput is counted over so many seconds.
    pub(super) interval: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Streamed {
    /// Mbit/s of each sender, interval by interval.
    pub(super) senders: Vec<Vec<f64>>,
    /// Shares of all CPUs of this machine, in percent: all that worked, and what interrupts defer.
    pub(super) busy: f64,
    pub(super) softirq: f64,
}

impl Streams {
    pub(super) fn periods(senders: usize, periods: usize) -> Streams {
        Streams { senders, seconds: periods * PERIOD_SECONDS, interval: PERIOD_SECONDS }
    }

    /// Has them send from the first host of `topology` over bundles with `policy` to the second one.
    pub(super) fn over_bundles(
        &self,
        setting: &Setting,
        topology: &Topology,
        policy: &str,
    ) -> Result<Streamed> {
        let bundles = setting.bundles(topology, policy)?;
        let seen = self.between(setting, topology, bundle::address(1))?;
        Bundle::stop_all(bundles)?;
        Ok(seen)
    }

    pub(super) fn between(&self, setting: &Setting, topology: &Topology, there: IpAddr) -> Result<Streamed> {
        let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
        let seen = self.run(&probe, there)?;
        probe.stop()?;
        Ok(seen)
    }

    pub(super) fn run(&self, probe: &Probe<'_>, there: IpAddr) -> Result<Streamed> {
        let [senders, seconds, interval] =
            [self.senders, self.seconds, self.interval].map(|number| number.to_string());
        let flags = ["--senders", &senders, "--seconds", &seconds, "--interval", &interval];
        let report = probe.measure(&["stream", &there.to_string()], &flags)?;
        let number = |value: &Value| value.as_f64().with_context(|| format!("a figure in {report}"));
        let share = |kind: &str| number(&report["all"]["cpu"][kind]).map(|share| 100.0 * share);
        let mbit = |sender: &Value| {
            let intervals = sender["mbit"].as_array().context("Mbit/s of a sender")?;
            intervals.iter().map(number).collect::<Result<Vec<f64>>>()
        };
        let senders = report["senders"].as_array().context("senders")?;
        let softirq = share("softirq")?;
        Ok(Streamed {
            senders: senders.iter().map(mbit).collect::<Result<_>>()?,
            busy: share("user")? + share("system")? + share("irq")? + softirq,
            softirq,
        })
    }
}

impl Streamed {
    /// Mbit/s of all senders together, interval by interval.
    pub(super) fn mbit(&self) -> Samples {
        let intervals = self.senders.first().map_or(0, Vec::len);
        let sum = |interval: usize| self.senders.iter().map(|sender| sender[interval]).sum();
        Samples::new("Mbit/s", (0..intervals).map(sum).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_senders_do_at_once_is_added_up() {
        let streamed = Streamed { senders: vec![vec![1.0, 2.0], vec![10.0, 20.0]], busy: 0.0, softirq: 0.0 };
        assert_eq!(streamed.mbit().values(), [11.0, 22.0]);
    }
}
