//! What keeps a path from carrying more: a part of the judgement of [`super::health`].

use super::figures::short;
use super::health::{clock, described, reason};
use super::{PathState, PathStatus, PeerStatus, Status};

/// A path carries all that it can from this part of its rate on, in percent.
const FULL_PERCENT: u64 = 85;
/// Loss from this share on is worth to be named, in percent.
pub const LOSS_PERCENT: f64 = 1.0;

impl Status {
    /// What keeps more from being sent over the path, beside its NIC's name.
    #[must_use]
    pub fn limit(&self, peer: &PeerStatus, path: &PathStatus, sent: u64) -> String {
        if path.tx != PathState::Up || path.rx != PathState::Up {
            let why = reason(self, peer, path);
            let Some(why) = why else { return "-".to_owned() };
            let what = described(&path.nic, why);
            let own = |words: &str| what.strip_prefix(&format!("{} {words}", path.nic));
            let what = own("is ").or_else(|| own("")).unwrap_or(&what);
            return format!("{what} since {}", clock(&why.time));
        }
        let rate = path.rate_bps.map(|rate| format!("its rate, {}", short(rate, "bit/s")));
        let is_full = path.rate_bps.is_some_and(|rate| sent >= rate / 100 * FULL_PERCENT);
        match rate {
            Some(rate) if is_full => rate,
            _ if path.loss_percent >= LOSS_PERCENT => "loss".to_owned(),
            Some(rate) if path.congested && sent > 0 => rate,
            None if path.congested && sent > 0 => "the way or the receiver".to_owned(),
            _ => "-".to_owned(),
        }
    }
}
