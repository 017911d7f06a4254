//! What is measured in a trial.

use std::collections::BTreeMap;
use std::iter;
use std::ops::RangeInclusive;

use anyhow::Result;
use serde::Serialize;

use super::fault::VICTIM;
use tabane_kit::bundle::Bundle;
use tabane_kit::clock::{Moment, milliseconds_between};
use tabane_kit::counters;
use tabane_kit::emulator::Direction;
use tabane_kit::netns::Namespace;
use tabane_kit::report::Samples;
use tabane_kit::status::{Event, LINK_DOWN, LINK_UP, Status};
use tabane_kit::topology::{Topology, Wiring};
use tabane_kit::workload::gaps::Gaps;
use tabane_kit::workload::{sequence, transfer};

/// The figures of one trial; sums and maxima over its rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// From each fault to the first event that tells of it, in milliseconds.
    pub(super) detected_ms: Vec<f64>,
    /// The same without traffic.
    pub(super) detected_idle_ms: Vec<f64>,
    /// What the events said.
    pub(super) detected_by: Vec<String>,
    /// Faults of which no event told.
    pub(super) unnoticed: usize,
    /// The same without traffic.
    pub(super) unnoticed_idle: usize,
    /// From the end of each fault until the bundle was whole, in milliseconds; shorter than any poll when it always was.
    pub(super) recovered_ms: Vec<f64>,
    /// Faults after which it was not whole in time.
    pub(super) unrecovered: usize,
    /// Events that took another link for dead, or this one while it was sound.
    pub(super) false_alarms: usize,
    /// When the link was not sound, in nanoseconds of CLOCK_MONOTONIC.
    #[serde(skip)]
    pub(super) faults: Vec<RangeInclusive<u64>>,
    /// Datagrams sent, from the first to the last.
    pub(super) udp_sent: u64,
    /// Of these, lost on the way since the first fault.
    pub(super) udp_lost: u64,
    /// Came, but found the receiving socket full, because its thread did not get to run in time.
    pub(super) udp_overruns: u64,
    /// Lost before it.
    pub(super) udp_lost_before: u64,
    /// Datagrams that came after one with a higher number.
    pub(super) udp_overtaken: u64,
    /// Datagrams that came twice.
    pub(super) udp_doubled: u64,
    /// Datagrams that came with another content.
    pub(super) udp_damaged: u64,
    /// Longest time without a datagram since the first fault, in milliseconds.
    pub(super) udp_stall_ms: f64,
    /// And before it: what this machine does by itself.
    pub(super) udp_stall_before_ms: f64,
    /// TCP segments sent again since the first fault.
    pub(super) tcp_retransmits: u64,
    /// And before it.
    pub(super) tcp_retransmits_before: u64,
    /// Frames since the first fault of which the sender's daemon took a segment out: its queue lasted too long, and TCP is to
    /// slow down. Each makes one retransmit that no cell's loss caused.
    pub(super) frames_trimmed: u64,
    /// Frames since the first fault that the sender's device dropped, because its daemon did not read them in time.
    pub(super) device_drops: u64,
    /// Tail loss probes since the first fault (RFC 8985): sent after a stall of two round trips, some of them retransmits.
    pub(super) tcp_loss_probes: u64,
    /// Segments that the receiver had got twice since the first fault (RFC 2883): what was sent again in vain.
    pub(super) tcp_duplicates: u64,
    /// TCP retransmission timeouts since the first fault.
    pub(super) tcp_timeouts: u64,
    /// Longest time without a byte since the first fault, in milliseconds.
    pub(super) tcp_stall_ms: f64,
    /// And before it, once the connection ran.
    pub(super) tcp_stall_before_ms: f64,
    /// Mean of the whole connection, in 10^9 bits per second.
    pub(super) tcp_gbps: f64,
    /// Why the connection was lost, if it was.
    pub(super) tcp_lost: Option<String>,
    /// Whether all bytes were right.
    pub(super) sha256_ok: bool,
    /// Cells that the sender's daemon sent again.
    pub(super) cells_repaired: u64,
    /// Cells that the receiver's daemon waited for in vain.
    pub(super) cells_given_up: u64,
    /// Frames that the emulated wires lost because the machine was too busy: above 0, the other figures mean little.
    pub(super) wire_overruns: u64,
    /// What the daemons dropped, with their reasons.
    pub(super) drops: BTreeMap<String, u64>,
    /// The latest events of both daemons.
    pub(super) events: Vec<Told>,
}

/// An event, and when it was.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Told {
    /// Since the first fault, in milliseconds; negative: before it.
    at_ms: f64,
    /// The host whose daemon told of it, from 1.
    host: usize,
    what: String,
    link: Option<usize>,
    detail: String,
}

/// Datagrams that found a socket of `host` full so far.
pub(super) fn socket_overruns(host: &Namespace) -> Result<u64> {
    counters::protocol(host, "Udp", "RcvbufErrors")
}

/// Frames that this daemon has trimmed so far.
pub(super) fn frames_trimmed(sender: &Bundle<'_>) -> Result<u64> {
    Ok(sender.status()?.counter("frames_trimmed"))
}

/// The kernel's TCP counters of the sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp {
    retransmits: u64,
    loss_probes: u64,
    duplicates: u64,
    timeouts: u64,
}

impl Tcp {
    /// As they are now.
    pub(super) fn now(host: &Namespace) -> Result<Tcp> {
        let extended = |name| counters::protocol(host, "TcpExt", name);
        Ok(Tcp {
            retransmits: counters::protocol(host, "Tcp", "RetransSegs")?,
            loss_probes: extended("TCPLossProbes")?,
            duplicates: extended("TCPDSACKRecv")?,
            timeouts: extended("TCPTimeouts")?,
        })
    }
}

impl Figures {
    /// What the daemons noticed of a fault, by what they said right before its end.
    pub(super) fn add_detection(&mut self, ends: &[Status], began: Moment, ended: Moment) {
        match first_notice(ends, began, ended) {
            Some((at_ns, detail)) => {
                self.detected_ms.push(milliseconds_between(began.after_ns, at_ns));
                self.detected_by.push(detail);
            }
            None => self.unnoticed += 1,
        }
    }

    /// A fault after which the link was in use again, or given up, at `whole_ns`; what it did to queues lasts a little.
    pub(super) fn add_fault(&mut self, began: Moment, ended: Moment, whole_ns: u64) {
        self.faults.push(began.before_ns..=whole_ns.max(ended.after_ns + IN_FLIGHT_NS));
    }

    /// Counts what took links for dead that did not fail, in the whole trial.
    pub(super) fn add_false_alarms(&mut self, ends: &[Status]) {
        let is_due = |event: &Event| {
            event.link == Some(VICTIM) && self.faults.iter().any(|fault| fault.contains(&event.at_ns))
        };
        let downs = ends.iter().flat_map(|end| &end.events).filter(|event| event.what == LINK_DOWN);
        self.false_alarms = downs.filter(|event| !is_due(event)).count();
    }

    /// What TCP did before and after the first fault.
    pub(super) fn add_tcp(&mut self, flow: &transfer::Outcome, counted: [Tcp; 3], first_fault: Moment) {
        let [start, fault, end] = counted;
        self.tcp_retransmits_before = fault.retransmits - start.retransmits;
        self.tcp_retransmits = end.retransmits - fault.retransmits;
        self.tcp_loss_probes = end.loss_probes - fault.loss_probes;
        self.tcp_duplicates = end.duplicates - fault.duplicates;
        self.tcp_timeouts = end.timeouts - fault.timeouts;
        [self.tcp_stall_before_ms, self.tcp_stall_ms] = stalls(&flow.gaps, first_fault);
        self.tcp_gbps = flow.gbps();
        self.tcp_lost.clone_from(&flow.lost);
        self.sha256_ok = flow.sha256_ok;
    }

    /// What became of the datagrams before and after the first fault.
    pub(super) fn add_udp(&mut self, flow: &sequence::Outcome, overruns: u64, first_fault: Moment) {
        // A datagram may be in a queue of the victim for some milliseconds before the fault.
        let from_ns = first_fault.before_ns.saturating_sub(IN_FLIGHT_NS);
        self.udp_sent = flow.sent;
        let missing = flow.lost_at_ns.iter().filter(|at_ns| **at_ns >= from_ns).count() as u64;
        self.udp_lost = missing.saturating_sub(overruns);
        self.udp_overruns = overruns;
        self.udp_lost_before = flow.lost_at_ns.len() as u64 - missing;
        (self.udp_overtaken, self.udp_doubled, self.udp_damaged) =
            (flow.overtaken, flow.doubled, flow.damaged);
        [self.udp_stall_before_ms, self.udp_stall_ms] = stalls(&flow.gaps, first_fault);
    }

    /// What the wires lost of their own accord.
    pub(super) fn add_overruns(&mut self, topology: &Topology) -> Result<()> {
        if topology.plan().wiring != Wiring::Emulator {
            return Ok(());
        }
        for link in 0..topology.plan().links.len() {
            for direction in Direction::BOTH {
                self.wire_overruns += topology.emulator(link)?.counters(direction)?.overrun;
            }
        }
        Ok(())
    }

    /// What the daemons counted and told.
    pub(super) fn add_reports(&mut self, ends: &[Status], first_fault: Moment) {
        let total = |name: &str| ends.iter().map(|end| end.counter(name)).sum();
        self.cells_repaired = total("cells_repaired");
        self.cells_given_up = total("cells_given_up");
        for (name, count) in ends.iter().flat_map(|end| &end.counters) {
            if name.starts_with("drop_") && *count > 0 {
                *self.drops.entry(name.clone()).or_default() += count;
            }
        }
        for (end, host) in ends.iter().zip(1..) {
            self.events.extend(end.events.iter().map(|event| Told::new(event, host, first_fault)));
        }
        self.events.sort_by(|one, other| one.at_ms.total_cmp(&other.at_ms));
    }
}

impl Told {
    fn new(event: &Event, host: usize, first_fault: Moment) -> Told {
        Told {
            at_ms: (event.at_ns as f64 - first_fault.after_ns as f64) / 1e6,
            host,
            what: event.what.clone(),
            link: event.link,
            detail: event.detail.clone(),
        }
    }
}

/// What a fault that nobody noticed counts as, in milliseconds: no fault is waited for any longer.
const UNNOTICED_MS: f64 = 1_000.0;

/// Times until faults were noticed, with those that were not.
pub(super) fn with_unnoticed(noticed_ms: &[f64], unnoticed: usize) -> impl Iterator<Item = f64> {
    noticed_ms.iter().copied().chain(iter::repeat_n(UNNOTICED_MS, unnoticed))
}

/// The median of some times; `None`: there are none.
pub(super) fn median_ms(times_ms: &[f64]) -> Option<f64> {
    let median = Samples::new("ms", times_ms.to_vec()).median();
    (!median.is_nan()).then_some(median)
}

/// Longest time between the sending of a datagram and its place on a wire.
const IN_FLIGHT_NS: u64 = 50_000_000;
/// Time before the first fault in which stalls are the machine's own.
const CALM_NS: u64 = 500_000_000;

/// The earliest event about the victim, other than that it is up, while the fault lasted.
fn first_notice(ends: &[Status], began: Moment, ended: Moment) -> Option<(u64, String)> {
    let events = ends.iter().flat_map(|end| &end.events);
    let notices = events.filter(|event| {
        event.link == Some(VICTIM)
            && event.what != LINK_UP
            && (began.before_ns..=ended.after_ns).contains(&event.at_ns)
    });
    notices.map(|event| (event.at_ns, event.detail.clone())).min()
}

/// The earliest event of either daemon about the victim since `began`, if there is one by now.
pub(super) fn noticed_ms(bundles: &[Bundle<'_>], began: Moment) -> Result<Option<f64>> {
    let ends = bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>()?;
    let for_ever = Moment { before_ns: u64::MAX, after_ns: u64::MAX };
    Ok(first_notice(&ends, began, for_ever).map(|(at_ns, _)| milliseconds_between(began.after_ns, at_ns)))
}

/// The longest stalls before and after the first fault, in milliseconds.
fn stalls(gaps: &Gaps, first_fault: Moment) -> [f64; 2] {
    let until = first_fault.before_ns.saturating_sub(IN_FLIGHT_NS);
    let calm = gaps.longest_within(until.saturating_sub(CALM_NS), until);
    let faulty = gaps.longest_within(first_fault.before_ns, u64::MAX);
    [calm, faulty].map(|gap| milliseconds(gap.length))
}

fn milliseconds(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_that_is_down_while_it_is_sound_is_a_false_alarm() {
        let moment = |at_ms: u64| Moment { before_ns: at_ms * 1_000_000, after_ns: at_ms * 1_000_000 };
        let mut figures = Figures::default();
        figures.add_fault(moment(1_000), moment(1_800), 1_900_000_000);
        figures.add_fault(moment(3_000), moment(3_800), 3_810_000_000);
        let down =
            |link: usize, at_ms: u64| json!({ "at_ns": at_ms * 1_000_000, "what": LINK_DOWN, "link": link });
        let status = |events: &[serde_json::Value]| {
            let status = json!({ "pid": 1, "node": "", "peers": [], "counters": {}, "events": events });
            vec![serde_json::from_value::<Status>(status).unwrap()]
        };
        figures.add_false_alarms(&status(&[down(VICTIM, 1_005), down(VICTIM, 3_840)]));
        assert_eq!(figures.false_alarms, 0, "these are the faults, and what is left of the second");
        let between = [down(VICTIM, 900), down(VICTIM, 2_500), down(VICTIM, 3_900), down(VICTIM - 1, 1_005)];
        figures.add_false_alarms(&status(&between));
        assert_eq!(figures.false_alarms, 4, "before, between and after them, and another link");
    }
}
