//! When a UDP link uses `UDP_SEGMENT`: until it is refused, and again after a pause.
//!
//! A NIC may lose and regain what GSO needs while the link stands (a tunnel re-routed, checksum
//! offload switched by `ethtool`), so a refusal counts for a pause only, which doubles each time.

use crate::now_ns;

/// State of GSO on one socket.
#[derive(Debug)]
pub(super) enum Gso {
    /// Not wanted, or the kernel lacks it.
    Off,
    /// In use, or to be tried with the next run.
    On {
        /// How long the next refusal counts, ns.
        pause_ns: u64,
    },
    /// Refused lately.
    Refused {
        /// When to try again, as [`now_ns`] counts.
        until_ns: u64,
        /// How long the next refusal counts, ns.
        pause_ns: u64,
    },
}

impl Gso {
    const PAUSE_MIN_NS: u64 = 10 * 1_000_000_000;
    const PAUSE_MAX_NS: u64 = 600 * 1_000_000_000;

    pub(super) fn off() -> Self {
        Self::Off
    }

    pub(super) fn on() -> Self {
        Self::On { pause_ns: Self::PAUSE_MIN_NS }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::On { .. })
    }

    /// Whether to try GSO for the next run. Reads the clock only after a refusal.
    pub(super) fn usable(&mut self) -> bool {
        self.usable_at(now_ns)
    }

    /// The NIC refused a run that it then took as single datagrams.
    pub(super) fn refuse(&mut self) {
        self.refuse_at(now_ns());
    }

    fn usable_at(&mut self, now: impl FnOnce() -> u64) -> bool {
        if let Self::Refused { until_ns, pause_ns } = *self
            && now() >= until_ns
        {
            *self = Self::On { pause_ns };
        }
        self.is_on()
    }

    fn refuse_at(&mut self, now: u64) {
        if let Self::On { pause_ns } = *self {
            let next = (2 * pause_ns).min(Self::PAUSE_MAX_NS);
            *self = Self::Refused { until_ns: now + pause_ns, pause_ns: next };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gso;

    #[test]
    fn pauses_double_up_to_ten_minutes() {
        const SECOND: u64 = 1_000_000_000;
        let (mut gso, mut now) = (Gso::on(), 0);
        for pause in [10, 20, 40, 80, 160, 320, 600, 600] {
            gso.refuse_at(now);
            assert!(!gso.usable_at(|| now + pause * SECOND - 1), "before {pause} s");
            now += pause * SECOND;
            assert!(gso.usable_at(|| now), "after {pause} s");
        }
    }

    #[test]
    fn off_stays_off() {
        let mut gso = Gso::off();
        gso.refuse_at(0);
        assert!(!gso.usable_at(|| u64::MAX));
    }
}
