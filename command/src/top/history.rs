//! What the paths carry: rates, from the counters of some statuses.
//!
//! A rate is that of the last second, so that it is steady enough to be read; the curve of a link has a point per second.

use std::collections::VecDeque;

use tabane_api::Status;
use tabane_api::status::KernelTraffic;

/// A rate is measured over this time, as soon as there is so much.
const WINDOW_NS: u64 = 1_000_000_000;
/// The shortest time that gives a rate.
const WINDOW_NS_MIN: u64 = 200_000_000;
const POINTS: usize = 120;

/// A figure for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Both {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Both {
    pub(super) fn sum(self) -> u64 {
        self.sent.saturating_add(self.received)
    }

    pub(super) fn add(&mut self, other: Both) {
        self.sent += other.sent;
        self.received += other.received;
    }

    /// The sum; `None` of nothing.
    pub(super) fn total(all: impl Iterator<Item = Both>) -> Option<Both> {
        all.reduce(|mut sum, one| {
            sum.add(one);
            sum
        })
    }

    /// Bits per second of a difference of bytes.
    pub(super) fn rate(self, before: Both, ns: u64) -> Both {
        let rate = |now: u64, before: u64| {
            let bits = u128::from(now.saturating_sub(before)) * 8 * 1_000_000_000;
            u64::try_from(bits / u128::from(ns.max(1))).unwrap_or(u64::MAX)
        };
        Both { sent: rate(self.sent, before.sent), received: rate(self.received, before.received) }
    }
}

/// The latest statuses of one process.
#[derive(Default)]
pub(super) struct History {
    pid: u32,
    /// Oldest first; together little more than a window.
    statuses: VecDeque<Status>,
    /// Of each second, what the links carried, oldest first.
    points: VecDeque<Vec<(u32, Both)>>,
    point_ns: u64,
}

impl History {
    /// Takes a status in. Another process counts from zero, and begins a history of its own.
    pub(super) fn add(&mut self, status: &Status) {
        let goes_on = self.statuses.back().is_some_and(|last| last.now_ns < status.now_ns);
        if self.pid != status.pid || !goes_on {
            *self = History { pid: status.pid, point_ns: status.now_ns, ..History::default() };
        }
        self.statuses.push_back(status.clone());
        while self.statuses.get(1).is_some_and(|second| status.now_ns - second.now_ns >= WINDOW_NS) {
            self.statuses.pop_front();
        }
        if status.now_ns - self.point_ns >= WINDOW_NS {
            self.point_ns = status.now_ns;
            self.points.push_back(self.links());
            if self.points.len() > POINTS {
                self.points.pop_front();
            }
        }
    }

    /// Bits per second of a path; `None`: not known yet.
    pub(super) fn path(&self, peer: &str, link: u32) -> Option<Both> {
        let (first, last, ns) = self.window()?;
        let bytes = |status: &Status| {
            let path = status.path(peer, link)?;
            Some(Both { sent: path.all_sent(), received: path.all_received() })
        };
        // A path that is new counts from zero.
        Some(bytes(last)?.rate(bytes(first).unwrap_or_default(), ns))
    }

    /// Bits per second of the device's frames.
    pub(super) fn device(&self) -> Option<Both> {
        let (first, last, ns) = self.window()?;
        Some(device(last).rate(device(first), ns))
    }

    /// How often per second a counter counted.
    pub(super) fn counter(&self, name: &str) -> Option<u64> {
        let (first, last, ns) = self.window()?;
        let more = u128::from(last.counted(name).saturating_sub(first.counted(name))) * 1_000_000_000;
        // What happened at all is not shown as nothing.
        u64::try_from(more.div_ceil(u128::from(ns.max(1)))).ok()
    }

    /// What a link carried, a point per second, oldest first.
    pub(super) fn curve(&self, link: u32) -> Vec<Both> {
        let of = |point: &Vec<(u32, Both)>| point.iter().find(|(of, _)| *of == link).map(|(_, rate)| *rate);
        self.points.iter().map(|point| of(point).unwrap_or_default()).collect()
    }

    /// The first and the last status of the window, and the time between them.
    fn window(&self) -> Option<(&Status, &Status, u64)> {
        let (first, last) = (self.statuses.front()?, self.statuses.back()?);
        let ns = last.now_ns - first.now_ns;
        (ns >= WINDOW_NS_MIN).then_some((first, last, ns))
    }

    /// What each link carries now, over all its paths.
    fn links(&self) -> Vec<(u32, Both)> {
        let mut links: Vec<(u32, Both)> = Vec::new();
        let Some(last) = self.statuses.back() else { return links };
        let paths = last.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path.link)));
        for (peer, link) in paths {
            let rate = self.path(&peer.node, link).unwrap_or_default();
            match links.iter_mut().find(|(known, _)| *known == link) {
                Some((_, sum)) => sum.add(rate),
                None => links.push((link, rate)),
            }
        }
        links
    }
}

/// Bytes of the device's frames since the start.
fn device(status: &Status) -> Both {
    let kernel = |of: fn(&KernelTraffic) -> u64| {
        let paths = status.peers.iter().flat_map(|peer| &peer.paths);
        paths.filter_map(|path| path.kernel.as_ref()).map(of).sum::<u64>()
    };
    Both {
        sent: status.counted("frame_bytes_sent") + kernel(|kernel| kernel.bytes_sent),
        received: status.counted("frame_bytes_delivered") + kernel(|kernel| kernel.bytes_received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::example;

    /// A status `ms` after the first, when so many kilobytes were sent and received.
    fn status(ms: u64, sent: u64, received: u64) -> Status {
        let mut status = example();
        status.now_ns = 5_000_000_000 + ms * 1_000_000;
        status.peers[0].paths[0].bytes_sent = 1_000 * sent;
        status.peers[0].paths[0].bytes_received = 1_000 * received;
        status.counters.insert("cells_repaired".to_owned(), sent / 10);
        status
    }

    #[test]
    fn a_rate_is_that_of_the_last_second() {
        let peer = example().peers[0].node.clone();
        let mut history = History::default();
        history.add(&status(0, 0, 0));
        assert_eq!(history.path(&peer, 0), None);
        for step in 1..=4 {
            history.add(&status(250 * step, 100 * step, 10 * step));
        }
        assert_eq!(history.path(&peer, 0), Some(Both { sent: 3_200_000, received: 320_000 }));
        assert_eq!(history.counter("cells_repaired"), Some(40));
        for step in 5..=8 {
            history.add(&status(250 * step, 400, 40));
        }
        assert_eq!(history.path(&peer, 0), Some(Both::default()), "it is silent for a second");
        assert_eq!(history.curve(0), [Both { sent: 3_200_000, received: 320_000 }, Both::default()]);
        assert_eq!(history.path("another", 0), None);
    }

    #[test]
    fn another_process_begins_anew() {
        let peer = example().peers[0].node.clone();
        let mut history = History::default();
        history.add(&status(0, 1_000, 0));
        history.add(&status(500, 2_000, 0));
        assert!(history.path(&peer, 0).is_some());
        history.add(&Status { pid: 1, ..status(750, 10, 0) });
        assert_eq!(history.path(&peer, 0), None);
        history.add(&Status { pid: 1, ..status(1_750, 20, 0) });
        assert_eq!(history.path(&peer, 0), Some(Both { sent: 80_000, received: 0 }));
    }
}
