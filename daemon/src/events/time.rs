//! Wall-clock time as RFC 3339 writes it, in UTC.

use std::time::{Duration, SystemTime};

const DAY: u64 = 86_400;

/// `time` to the microsecond: `2026-11-21T03:05:28.000123Z`. Times before 1970 become its beginning.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let (year, month, day) = civil(seconds / DAY);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// The date of a day that is `days` after 1970-01-01.
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`: years begin in March, so that
/// the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_at_their_bounds() {
        let at = |seconds| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59.000000Z");
        let micros = SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_230_328_000_123);
        assert_eq!(rfc3339(micros), "2026-11-21T03:05:28.000123Z");
    }
}
