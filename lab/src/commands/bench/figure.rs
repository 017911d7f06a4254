//! What is measured on a path.

use crate::figures::{Sheet, quantities};

quantities! {
    /// A measured quantity.
    Figure {
        /// One TCP flow.
        Throughput: "gbps", "one TCP flow", "Gbit/s";
        /// TCP segments sent again during it, counted by the kernel.
        Retransmits: "retransmits", "retransmits", "segments";
        /// CPU time of the whole machine per 10^9 bytes, and that of the daemons of both hosts.
        Cpu: "cpu_s_per_gb", "CPU, machine", "s/GB";
        DaemonCpu: "daemon_cpu_s_per_gb", "CPU, daemons", "s/GB";
        /// Four TCP flows at once.
        FourFlows: "four_gbps", "four TCP flows", "Gbit/s";
        /// Median round trip on a quiet path, and its 99th percentile.
        IdleMedian: "rtt_idle_p50_us", "round trip idle p50", "µs";
        IdleTail: "rtt_idle_p99_us", "round trip idle p99", "µs";
        /// The same beside a TCP flow.
        LoadedMedian: "rtt_loaded_p50_us", "round trip loaded p50", "µs";
        LoadedTail: "rtt_loaded_p99_us", "round trip loaded p99", "µs";
        /// Datagrams of 64 B accepted and delivered per second.
        DatagramsSent: "udp64_sent_per_s", "64 B UDP sent", "1/s";
        DatagramsReceived: "udp64_received_per_s", "64 B UDP received", "1/s";
        /// Share of those sent that were lost.
        DatagramsLost: "udp64_lost_percent", "64 B UDP lost", "%";
    }
}

/// Samples of every figure on one path.
pub(super) type Figures = Sheet<Figure>;
