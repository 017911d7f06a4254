//! What is measured on a path, and the samples of one path.

use tabane_kit::report::Samples;

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// One TCP flow.
    Throughput,
    /// TCP segments sent again during it, counted by the kernel.
    Retransmits,
    /// CPU time of the whole machine per 10^9 bytes.
    Cpu,
    /// CPU time of the daemons of both hosts per 10^9 bytes.
    DaemonCpu,
    /// Median round trip on a quiet path.
    IdleMedian,
    /// 99th percentile of it.
    IdleTail,
    /// Median round trip beside a TCP flow.
    LoadedMedian,
    /// 99th percentile of it.
    LoadedTail,
    /// Datagrams of 64 B accepted per second.
    DatagramsSent,
    /// Datagrams of 64 B delivered per second.
    DatagramsReceived,
    /// Share of those sent that were lost.
    DatagramsLost,
}

/// Name in the file, name for people, unit, digits behind the point.
pub(super) struct Form {
    pub(super) key: &'static str,
    pub(super) label: &'static str,
    pub(super) unit: &'static str,
    pub(super) digits: usize,
}

impl Figure {
    pub(super) const ALL: [Figure; 11] = [
        Figure::Throughput,
        Figure::Retransmits,
        Figure::Cpu,
        Figure::DaemonCpu,
        Figure::IdleMedian,
        Figure::IdleTail,
        Figure::LoadedMedian,
        Figure::LoadedTail,
        Figure::DatagramsSent,
        Figure::DatagramsReceived,
        Figure::DatagramsLost,
    ];

    pub(super) const fn form(self) -> Form {
        let (key, label, unit, digits) = match self {
            Figure::Throughput => ("gbps", "one TCP flow", "Gbit/s", 2),
            Figure::Retransmits => ("retransmits", "retransmits", "segments", 0),
            Figure::Cpu => ("cpu_s_per_gb", "CPU, machine", "s/GB", 3),
            Figure::DaemonCpu => ("daemon_cpu_s_per_gb", "CPU, daemons", "s/GB", 3),
            Figure::IdleMedian => ("rtt_idle_p50_us", "round trip idle p50", "µs", 0),
            Figure::IdleTail => ("rtt_idle_p99_us", "round trip idle p99", "µs", 0),
            Figure::LoadedMedian => ("rtt_loaded_p50_us", "round trip loaded p50", "µs", 0),
            Figure::LoadedTail => ("rtt_loaded_p99_us", "round trip loaded p99", "µs", 0),
            Figure::DatagramsSent => ("udp64_sent_per_s", "64 B UDP sent", "1/s", 0),
            Figure::DatagramsReceived => ("udp64_received_per_s", "64 B UDP received", "1/s", 0),
            Figure::DatagramsLost => ("udp64_lost_percent", "64 B UDP lost", "%", 1),
        };
        Form { key, label, unit, digits }
    }
}

/// Samples of every figure on one path; a figure that the path does not have stays empty.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    samples: Vec<Samples>,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures { samples: Figure::ALL.map(|figure| Samples::new(figure.form().unit, Vec::new())).to_vec() }
    }
}

impl Figures {
    pub(super) fn push(&mut self, figure: Figure, value: f64) {
        self.samples[figure as usize].push(value);
    }

    /// NaN for a figure that the path does not have.
    pub(super) fn median(&self, figure: Figure) -> f64 {
        self.samples[figure as usize].median()
    }

    pub(super) fn samples(&self, figure: Figure) -> &Samples {
        &self.samples[figure as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_place_of_its_own() {
        let mut figures = Figures::default();
        for (place, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, place);
            figures.push(figure, place as f64);
        }
        assert_eq!(figures.median(Figure::DatagramsLost).to_bits(), 10.0_f64.to_bits());
    }
}
