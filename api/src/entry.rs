//! One line of the event log: the schema of `tabane events --json` and of the events in `tabane status --json`.
//!
//! `docs/events.md` is its description for users, with an example of each kind; tests compare the two.

use serde::{Deserialize, Serialize};

use tabane_config::problem::one_line;

/// Something that happened. A field that does not apply is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entry {
    /// Counts the events of the bundle since its start, from 0.
    pub number: u64,
    /// When, by the wall clock: RFC 3339, UTC.
    pub time: String,
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What, in one word: `link-up`, `link-down`, `peer-joined`, ….
    pub what: String,
    /// The worker that it concerns; absent when it concerns the whole bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// The peer that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Number of the link: this node's own when sending, the peer's when receiving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<u32>,
    /// Network interface, when the link is this node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Direction in which the link is used: `sending` or `receiving`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What showed that the link is dead: the first column of the table in `docs/events.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// How many cells had not arrived, where the signal counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<u64>,
    /// How long nothing had arrived, in microseconds, where the signal measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_us: Option<u64>,
    /// Share of the cells sent that is lost on the link, in parts per million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ppm: Option<u32>,
    /// The largest packet that the path carries, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// The largest packet that the NICs at both ends take, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_of_nics: Option<u16>,
    /// The policy from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The policy until now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_policy: Option<String>,
    /// Events that were overwritten before this reader took them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// The event as a sentence, for people.
    pub detail: String,
}

impl Entry {
    /// An entry in place of `skipped` events that are no longer kept; the next one that is kept has the number `next`.
    pub fn skipped(skipped: u64, next: &Entry) -> Entry {
        Entry {
            number: next.number - 1,
            time: next.time.clone(),
            at_ns: next.at_ns,
            what: "skipped".to_owned(),
            skipped: Some(skipped),
            detail: format!("{skipped} events came faster than they were read"),
            ..Entry::default()
        }
    }

    /// The event as one line of text. Names and details may come from other nodes: control characters are escaped.
    pub fn line(&self) -> String {
        let time = self.time.replacen('T', " ", 1);
        let (date, fraction) = time.split_once('.').unwrap_or((&time, ""));
        let millis = fraction.get(..3).unwrap_or("000");
        let peer = self.peer.as_deref().map_or(String::new(), |peer| format!(" {peer}"));
        let worker = self.worker.filter(|worker| *worker > 0);
        let worker = worker.map_or(String::new(), |worker| format!(" (worker {worker})"));
        one_line(&format!("{date}.{millis}Z {:<12}{peer} {}{worker}", self.what, self.detail))
    }
}

/// What users read about events.
#[cfg(test)]
pub(crate) const PAGE: &str = include_str!("../../docs/events.md");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_the_documented_one() {
        let examples: Vec<&str> = PAGE.lines().filter(|line| line.starts_with('{')).collect();
        assert!(examples.len() >= 8);
        for line in examples {
            let entry: Entry = serde_json::from_str(line).expect("the documented example follows the schema");
            assert_eq!(serde_json::to_string(&entry).expect("serializable"), line);
        }
    }

    #[test]
    fn a_line_for_people() {
        let entry = Entry {
            time: "2026-11-21T03:05:28.000123Z".to_owned(),
            what: "link-down".to_owned(),
            worker: Some(1),
            peer: Some("02:00:00:00:00:02".to_owned()),
            detail: "sending over eth2: silence\u{1b}".to_owned(),
            ..Entry::default()
        };
        let want = "2026-11-21 03:05:28.000Z link-down    02:00:00:00:00:02 sending over eth2: silence\\u{1b} (worker 1)";
        assert_eq!(entry.line(), want);
    }
}
