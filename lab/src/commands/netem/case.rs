//! Flaws that both emulators can show, and how netem is told of them.

use std::time::Duration;

use tabane_kit::emulator::Impairment;
use tabane_kit::rate::Bitrate;

/// The largest frame, without preamble and checksum.
const FRAME_BYTES: u64 = 1514;
/// Most packets on the way where no rate says how many: a second of what a guest can send.
const LIMIT: u64 = 10_000;

/// A wire's flaws, the same in both directions.
pub(super) struct Case {
    /// Name in the file.
    pub(super) key: &'static str,
    /// Name for people.
    pub(super) label: &'static str,
    delay: Duration,
    mbps: Option<u64>,
    loss: f64,
}

const DELAY: Duration = Duration::from_millis(10);
const MBPS: u64 = 20;

/// One flaw at a time, then all.
pub(super) const CASES: [Case; 4] = [
    Case { key: "delay", label: "10 ms", delay: DELAY, mbps: None, loss: 0.0 },
    Case { key: "rate", label: "20 Mbit/s", delay: Duration::ZERO, mbps: Some(MBPS), loss: 0.0 },
    Case { key: "loss", label: "1 % lost", delay: Duration::ZERO, mbps: Some(MBPS), loss: 0.01 },
    Case { key: "all", label: "10 ms, 20 Mbit/s, 0.1 % lost", delay: DELAY, mbps: Some(MBPS), loss: 0.001 },
];

impl Case {
    /// For the lab's emulator.
    pub(super) fn impairment(&self) -> Impairment {
        let rate = self.mbps.map(Bitrate::mbit);
        Impairment { delay: self.delay, rate, loss: self.loss, ..Impairment::default() }
    }

    /// For netem, as `tc` takes it. Its limit counts what is delayed, too; the queue before the rate is the same.
    pub(super) fn netem(&self) -> String {
        let mut words = Vec::new();
        if self.delay > Duration::ZERO {
            words.push(format!("delay {}us", self.delay.as_micros()));
        }
        if self.loss > 0.0 {
            words.push(format!("loss {}%", self.loss * 100.0));
        }
        let mut limit = LIMIT;
        if let Some(rate) = self.mbps.map(Bitrate::mbit) {
            words.push(format!("rate {}bit", rate.bits_per_second()));
            let delayed =
                rate.bits_per_second() / 8 * u64::try_from(self.delay.as_millis()).unwrap_or(0) / 1000;
            limit = (self.impairment().queue_limit() + delayed).div_ceil(FRAME_BYTES);
        }
        words.push(format!("limit {limit}"));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_is_told_the_same() {
        let words = CASES.each_ref().map(Case::netem);
        assert_eq!(words[0], "delay 10000us limit 10000");
        assert_eq!(words[1], "rate 20000000bit limit 87");
        assert_eq!(words[2], "loss 1% rate 20000000bit limit 87");
        assert_eq!(words[3], "delay 10000us loss 0.1% rate 20000000bit limit 104");
    }
}
