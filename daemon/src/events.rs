//! The event log: what happened to peers and links, for the log, for `tabane status`, and for those who follow it.
//!
//! Workers write, the control socket's thread reads. No worker waits for a reader: the log keeps the latest [`KEPT`]
//! events, and a reader that is too slow gets the number of those that it missed. Entries are shared, so the lock is
//! held for a copy of pointers at most.

mod describe;
mod pace;
mod troubles;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use tabane_io::{Waker, now_ns};
use tabane_proto::Event;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use pace::Pace;
use tabane_api::{Entry, KINDS, kinds};
use tabane_config::problem::one_line;
use tabane_process::locked;
use troubles::Troubles;

pub(crate) const KEPT: usize = 256;

/// The latest events of all workers.
#[derive(Debug)]
pub struct EventLog {
    kept: Mutex<Kept>,
    /// Wakes the reader's thread for new entries.
    news: Waker,
}

#[derive(Debug, Default)]
struct Kept {
    /// Number of the next event.
    next: u64,
    entries: VecDeque<Arc<Entry>>,
    troubles: Troubles,
    /// How many there were, by the place in [`KINDS`].
    counts: [u64; KINDS.len()],
    /// Limits how many are written to stderr.
    pace: Pace,
}

impl EventLog {
    pub fn new() -> io::Result<Self> {
        Ok(Self { kept: Mutex::default(), news: Waker::new()? })
    }

    /// A log that goes on after `entries`. Who tells them may have been taken over: the latest are kept, and their numbers rise by
    /// one and leave room for others.
    pub(crate) fn after(entries: Vec<Entry>) -> io::Result<Self> {
        let superfluous = entries.len().saturating_sub(KEPT);
        let end = entries.last().map_or(0, |last| last.number.min(u64::MAX / 2) + 1);
        let first = end.saturating_sub((entries.len() - superfluous) as u64);
        let entries = (first..).zip(entries.into_iter().skip(superfluous));
        let entries: VecDeque<_> =
            entries.map(|(number, entry)| Arc::new(Entry { number, ..entry })).collect();
        let next = first + entries.len() as u64;
        let mut troubles = Troubles::default();
        entries.iter().for_each(|entry| troubles.note(entry));
        Ok(Self {
            kept: Mutex::new(Kept { next, entries, troubles, ..Kept::default() }),
            news: Waker::new()?,
        })
    }

    /// Records an event of `worker` at CLOCK_MONOTONIC `at_ns`. `nics` name the links of this node.
    pub(crate) fn record(&self, at_ns: u64, worker: u16, event: &Event, nics: &[String]) {
        self.keep(at_ns, Entry { worker: Some(worker), ..describe::describe(event, nics) });
    }

    /// Records that something happened to this bundle now.
    pub(crate) fn tell(&self, what: &str, detail: String) {
        self.keep(now_ns(), Entry { what: what.to_owned(), detail, ..Entry::default() });
    }

    /// Keeps an entry, gives it its number and its time, and writes it to the log.
    pub(crate) fn keep(&self, at_ns: u64, entry: Entry) {
        let time = wall_clock();
        let kind = kinds::place(&entry.what);
        debug_assert!(kind.is_some() || entry.what.is_empty(), "{} stands in KINDS", entry.what);
        let mut kept = locked(&self.kept);
        if let Some(kind) = kind {
            kept.counts[kind] += 1;
        }
        if let Some(left_out) = kept.pace.admit(at_ns) {
            write_to_log(&entry, left_out);
        }
        let entry = Arc::new(Entry { number: kept.next, time, at_ns, ..entry });
        kept.next += 1;
        kept.troubles.note(&entry);
        if kept.entries.len() == KEPT {
            kept.entries.pop_front();
        }
        kept.entries.push_back(entry);
        drop(kept);
        // If this fails, followers get the event together with the next one.
        let _ = self.news.wake();
    }

    pub(crate) fn latest(&self) -> Vec<Entry> {
        let entries = locked(&self.kept).entries.clone();
        entries.iter().map(|entry| Entry::clone(entry)).collect()
    }

    /// Events whose state lasts now, at CLOCK_MONOTONIC `now_ns`, oldest first.
    pub(crate) fn troubles(&self, now_ns: u64) -> Vec<Entry> {
        locked(&self.kept).troubles.last(now_ns)
    }

    /// How many there were since the start, by kind; those that there were.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let counts = locked(&self.kept).counts;
        let counted = KINDS.iter().zip(counts).filter(|(_, count)| *count > 0);
        counted.map(|((kind, _), count)| ((*kind).to_owned(), count)).collect()
    }

    /// Up to `most` events from number `from` on. Before them comes an entry that counts those that are no longer kept.
    pub(crate) fn since(&self, from: u64, most: usize) -> Vec<Arc<Entry>> {
        let kept = locked(&self.kept);
        let Some(first) = kept.entries.front() else { return Vec::new() };
        let lost = first.number.saturating_sub(from);
        let skipped = (lost > 0).then(|| Arc::new(Entry::skipped(lost, first)));
        let later = kept.entries.iter().filter(|entry| entry.number >= from).take(most);
        skipped.into_iter().chain(later.cloned()).collect()
    }

    pub(crate) fn oldest(&self) -> u64 {
        locked(&self.kept).entries.front().map_or(0, |entry| entry.number)
    }

    /// The reader has woken up, and reads all entries next.
    pub(crate) fn clear_news(&self) {
        // A waker that cannot be cleared wakes the reader again; the entries say what is new.
        let _ = self.news.clear();
    }
}

/// The time of day in RFC 3339, in UTC, to the microsecond: the format of the log's own lines.
fn wall_clock() -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// Writes an event to stderr, and how many before it were left out. Names come from other nodes: control characters are
/// escaped.
fn write_to_log(entry: &Entry, left_out: u64) {
    let Entry { what, link, peer, detail, .. } = entry;
    if left_out > 0 {
        tracing::warn!(left_out, "events came faster than they are written to the log");
    }
    tracing::info!(peer, link, "{what}: {}", one_line(detail));
}

/// Readable when there are events for which no reader has been woken.
impl AsFd for EventLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tabane_api::Status;
    use tabane_proto::{Direction, NodeId, Signal};

    use super::*;

    fn log(events: u64) -> EventLog {
        let log = EventLog::new().expect("an eventfd");
        let peer = NodeId::default();
        (0..events).for_each(|at| log.record(at, 0, &Event::PeerLeft { peer }, &[]));
        log
    }

    /// What is written to stderr while `deed` runs.
    fn logged(deed: impl FnOnce()) -> String {
        use std::io::Write;
        use std::sync::mpsc::{Sender, channel};
        struct Lines(Sender<Vec<u8>>);
        impl Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (sender, lines) = channel();
        let log = tracing_subscriber::fmt().compact().with_ansi(false).without_time();
        let log = log.with_writer(move || Lines(sender.clone())).finish();
        tracing::subscriber::with_default(log, deed);
        String::from_utf8(lines.into_iter().flatten().collect()).expect("UTF-8")
    }

    #[test]
    fn a_name_of_another_node_writes_no_line_of_its_own() {
        let log = log(0);
        let detail = "host\n2026-11-21T03:05:28Z  INFO link-up: all is well\u{1b}[2J, not sealed".to_owned();
        let text =
            logged(|| log.keep(7, Entry { what: "peer-joined".to_owned(), detail, ..Entry::default() }));
        assert!(
            text.ends_with("all is well\\u{1b}[2J, not sealed\n") && text.lines().count() == 1,
            "{text:?}"
        );
    }

    #[test]
    fn a_flood_of_events_does_not_fill_the_log() {
        let log = log(0);
        let text = logged(|| (0..10_000).for_each(|_| log.keep(7, Entry::default())));
        assert!(text.lines().count() < 5_000, "{} lines", text.lines().count());
        assert_eq!(log.latest().last().expect("an event").number, 9_999, "who follows sees all");
        let later = logged(|| log.keep(7_000_000_000, Entry::default()));
        assert!(later.contains("events came faster than they are written to the log"), "{later}");
    }

    #[test]
    fn times_are_those_of_rfc_3339_to_the_microsecond() {
        let shape: String = wall_clock().chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000000Z");
    }

    #[test]
    fn only_the_latest_are_kept() {
        let kept = log(KEPT as u64 + 5).latest();
        assert_eq!((kept.len(), kept[0].at_ns, kept[0].number), (KEPT, 5, 5));
    }

    #[test]
    fn what_another_process_tells_takes_no_more_room_and_numbers_go_on() {
        let numbers = |told: &[u64]| {
            let told = told.iter().map(|number| Entry { number: *number, ..Entry::default() });
            let log = EventLog::after(told.collect()).expect("an eventfd");
            log.keep(0, Entry::default());
            log.latest().iter().map(|entry| entry.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&[]), [0]);
        assert_eq!(numbers(&[7, 8]), [7, 8, 9]);
        assert_eq!(numbers(&[9, 9, 0]), [0, 1, 2, 3]);
        let many = numbers(&[u64::MAX; 2 * KEPT]);
        assert!(many.len() == KEPT && many.windows(2).all(|two| two[0] + 1 == two[1]), "{many:?}");
    }

    #[test]
    fn events_that_are_no_longer_kept_are_counted() {
        let log = log(KEPT as u64 + 5);
        log.keep(0, Entry { what: "policy".to_owned(), ..Entry::default() });
        let counted = [("peer-left".to_owned(), KEPT as u64 + 5), ("policy".to_owned(), 1)];
        assert_eq!(log.counts(), counted.into());
    }

    #[test]
    fn a_reader_gets_what_it_has_not_read() {
        let log = log(5);
        let numbers = |from, most| log.since(from, most).iter().map(|entry| entry.number).collect::<Vec<_>>();
        assert_eq!(numbers(0, 2), [0, 1]);
        assert_eq!(numbers(2, 100), [2, 3, 4]);
        assert!(numbers(5, 100).is_empty());
    }

    #[test]
    fn a_reader_that_is_late_gets_the_number_that_it_missed() {
        let log = log(KEPT as u64 + 7);
        let read = log.since(3, 2);
        assert_eq!((read[0].what.as_str(), read[0].skipped, read[0].number), ("skipped", Some(4), 6));
        assert_eq!(read[1..].iter().map(|entry| entry.number).collect::<Vec<_>>(), [7, 8]);
        assert_eq!(log.oldest(), 7);
    }

    #[test]
    fn the_event_of_the_example_of_a_status_is_what_is_logged() {
        let example: Status =
            serde_json::from_str(include_str!("../../docs/status.example.json")).expect("the example");
        let example = &example.events[0];
        let signal = Signal::BurstSkew { overdue: 57, waited: Duration::from_micros(3_100) };
        let (peer, direction) = (NodeId::new([2, 0, 0, 0, 0, 2], 7420), Direction::Receiving);
        let log = log(0);
        log.record(example.at_ns, 0, &Event::LinkDown { peer, link: 1, direction, signal }, &[]);
        let logged = log.latest().remove(0);
        assert_eq!(&Entry { number: example.number, time: example.time.clone(), ..logged }, example);
    }
}
