//! The clock of the data path.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: since boot, without the time of suspension, never stepped.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::now_ns;

    #[test]
    fn never_goes_back() {
        let samples: Vec<u64> = (0..1000).map(|_| now_ns()).collect();
        assert!(samples.is_sorted());
    }
}
