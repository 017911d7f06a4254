//! The flows of the device: who talks to whom, and how much.
//!
//! The bundle does not count by flow. So this process captures the headers of the device's frames and adds up their
//! lengths: the bundle does nothing for it, and the kernel copies a hundred bytes of a superframe. When many frames pass, only
//! one in so many is captured, by chance, and stands for the others; then the rates are estimates.

mod headers;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use tabane_config::problem::one_line;
use tabane_io::capture::{Cast, Packet, Wanted};
use tabane_io::{Capture, CaptureSpec};

use super::history::Both;
pub(super) use headers::Flow;
pub(crate) use headers::head;
use headers::{Data, Head};

/// Bytes of a frame that hold its headers: Ethernet, two VLAN tags, IPv6, ports; IPv4 with options.
const HEADERS: u32 = 96;
/// The ring holds what is captured in a second, whether frames are many or few.
const BLOCKS: u32 = 40;
const BLOCK_BYTES: u32 = 64 << 10;
const DELAY: Duration = Duration::from_millis(25);
/// Frames that are captured in a second, about; beyond twice of it, one in so many.
const CAPTURED: u64 = 10_000;
/// No rarer than one frame in so many.
const ONE_IN_MAX: u32 = 1 << 10;
/// Flows that are counted one by one; those that come later share a line.
const FLOWS_MAX: usize = 4_096;
/// How long a silent flow stays.
const SILENT: Duration = Duration::from_secs(10);
/// A rate is that of so many turns: about a second.
const TURNS: usize = 4;

/// The flows as far as they can be seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Flows {
    /// With those that carry most first; each frame that was captured stood for so many.
    Seen(Vec<Seen>, u32),
    /// They cannot be seen, and why.
    Hidden(String),
}

/// A flow, and what it carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) flow: Flow,
    /// Bits per second.
    pub(super) rate: Both,
    /// Bytes since this process sees it.
    pub(super) bytes: Both,
}

/// Sees flows.
pub(super) struct Meter {
    capture: Result<Capture, String>,
    one_in: u32,
    /// Frames that were captured until the last call.
    captured: u64,
    counted: Counted,
    since: Instant,
}

impl Meter {
    /// Sees the flows of `device` from now on, if this process may.
    pub(super) fn open(device: &str) -> Meter {
        let spec = CaptureSpec {
            snap: HEADERS,
            blocks: BLOCKS,
            block_bytes: BLOCK_BYTES,
            delay: DELAY,
            wanted: Wanted::Everything,
        };
        let capture = Capture::open(device, spec).map_err(|error| one_line(&error.to_string()));
        Meter { capture, one_in: 1, captured: 0, counted: Counted::default(), since: Instant::now() }
    }

    /// Counts what passed since the last call.
    pub(super) fn update(&mut self) {
        let Ok(capture) = &mut self.capture else { return };
        let (one_in, counted) = (u64::from(self.one_in), &mut self.counted);
        let taken = capture.take(|packet| {
            counted.count(packet, one_in);
            Ok(())
        });
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.since, now);
        self.counted.pass(now, passed);
        let seen = taken.and_then(|()| capture.seen()).and_then(|seen| {
            let new = seen.packets - std::mem::replace(&mut self.captured, seen.packets);
            let wanted = rarity(new * one_in, passed);
            if wanted != self.one_in {
                capture.want(Wanted::OneIn(wanted))?;
                self.one_in = wanted;
            }
            Ok(())
        });
        if let Err(error) = seen {
            self.capture = Err(one_line(&error.to_string()));
        }
    }

    /// Whether it sees nothing: the device that it watched has gone, or was not there yet.
    pub(super) fn is_blind(&mut self) -> bool {
        match &self.capture {
            Ok(capture) => capture.take_error().is_ok_and(|error| error.is_some()),
            Err(_) => true,
        }
    }

    /// The flows now.
    pub(super) fn flows(&self) -> Flows {
        match &self.capture {
            Ok(_) => Flows::Seen(self.counted.flows(), self.one_in),
            Err(reason) => Flows::Hidden(reason.clone()),
        }
    }
}

/// How rarely frames are to be captured when so many pass in this time: a power of two.
fn rarity(frames: u64, passed: Duration) -> u32 {
    let per_second = u128::from(frames) * 1_000 / passed.as_millis().max(1);
    let rarity = u32::try_from(per_second / u128::from(CAPTURED)).unwrap_or(u32::MAX);
    rarity.clamp(1, ONE_IN_MAX).next_power_of_two().min(ONE_IN_MAX)
}

/// What the flows have carried.
#[derive(Default)]
pub(super) struct Counted {
    flows: HashMap<Flow, Count>,
    /// How long each of the last turns took, the latest first.
    turns: [Duration; TURNS],
}

#[derive(Default)]
struct Count {
    /// Bytes since the last turn.
    new: Both,
    bytes: Both,
    /// Bytes of each of the last turns, the latest first.
    turns: [Both; TURNS],
    /// How far TCP has come, received and sent.
    next: [Next; 2],
    silent_since: Option<Instant>,
}

/// The sequence number of TCP that comes next; `None` before its first data.
///
/// The data of TCP is counted by its numbers, which tell also what frames carried that were not captured. And a frame that
/// the device refuses, so that TCP waits, is captured each time that it is sent, and counts once.
#[derive(Default)]
struct Next(Option<u32>);

impl Next {
    /// The bytes that are new in these data, whose frame has so many.
    fn advance(&mut self, data: Data, frame: u32) -> u64 {
        /// No flow gets that far between two frames that are captured.
        const FAR: u32 = 1 << 28;
        let new = self.0.map_or(frame, |next| data.end.wrapping_sub(next));
        match new {
            0..FAR => {
                self.0 = Some(data.end);
                new.into()
            }
            // What was sent before, or numbers that begin anew.
            _ if new > u32::MAX - FAR => 0,
            _ => {
                self.0 = Some(data.end);
                frame.into()
            }
        }
    }
}

impl Counted {
    fn count(&mut self, packet: &Packet<'_>, frames: u64) {
        let sent = packet.cast == Cast::Sent;
        let Head { flow, data } = head(packet.bytes, packet.length, sent);
        let flow =
            if self.flows.len() < FLOWS_MAX || self.flows.contains_key(&flow) { flow } else { Flow::Others };
        let count = self.flows.entry(flow).or_default();
        let bytes = match data {
            Some(data) => count.next[usize::from(sent)].advance(data, packet.length),
            None => u64::from(packet.length).saturating_mul(frames),
        };
        count.new.add(if sent {
            Both { sent: bytes, received: 0 }
        } else {
            Both { sent: 0, received: bytes }
        });
    }

    /// Ends a turn that took so long.
    fn pass(&mut self, now: Instant, passed: Duration) {
        self.turns.rotate_right(1);
        self.turns[0] = passed;
        for count in self.flows.values_mut() {
            let new = std::mem::take(&mut count.new);
            count.bytes.add(new);
            count.turns.rotate_right(1);
            count.turns[0] = new;
            count.silent_since = if new.sum() > 0 { None } else { count.silent_since.or(Some(now)) };
        }
        self.flows.retain(|_, count| count.silent_since.is_none_or(|since| now - since < SILENT));
    }

    /// Those that carry most first.
    pub(super) fn flows(&self) -> Vec<Seen> {
        let window = self.turns.iter().sum::<Duration>().as_nanos();
        let window = u64::try_from(window).unwrap_or(u64::MAX);
        let seen = self.flows.iter().map(|(flow, count)| {
            let bytes = Both::total(count.turns.iter().copied()).unwrap_or_default();
            Seen { flow: flow.clone(), rate: bytes.rate(Both::default(), window), bytes: count.bytes }
        });
        let mut seen: Vec<Seen> = seen.collect();
        let order = |seen: &Seen| Reverse((seen.rate.sum(), seen.bytes.sum()));
        seen.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.flow.cmp(&b.flow)));
        seen
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two connections, for the screens.
    pub(in crate::top) fn count_some(counted: &mut Counted) {
        let connections = [(51_234, 5_201, 45_000_000_u32), (22, 40_022, 9_000)];
        for (port, there, bytes) in connections {
            let frame =
                |seq, bytes| headers::tests::tcp([10, 77, 0, 1], port, [10, 77, 0, 2], there, seq, bytes);
            counted.count(&packet(&frame(0, 1_000), Cast::Sent, 1_054), 1);
            counted.count(&packet(&frame(bytes, 1_000), Cast::Sent, 1_054), 1);
            let answer = headers::tests::tcp([10, 77, 0, 2], there, [10, 77, 0, 1], port, 0, 0);
            counted.count(&packet(&answer, Cast::Host, bytes / 150), 1);
        }
        counted.pass(Instant::now(), Duration::from_secs(1));
    }

    fn packet(bytes: &[u8], cast: Cast, length: u32) -> Packet<'_> {
        Packet { at: Duration::ZERO, cast, length, bytes, tag: None }
    }

    const HERE: [u8; 4] = [10, 0, 0, 1];
    const THERE: [u8; 4] = [10, 0, 0, 2];

    #[test]
    fn a_flow_has_the_rate_of_its_frames() {
        let mut counted = Counted::default();
        let frame = headers::tests::udp(HERE, 5000, THERE, 53);
        let answer = headers::tests::udp(THERE, 53, HERE, 5000);
        let (mut now, turn) = (Instant::now(), Duration::from_millis(250));
        for _ in 0..20 {
            counted.count(&packet(&frame, Cast::Sent, 62_500), 1);
            counted.count(&packet(&answer, Cast::Host, 625), 10);
            now += turn;
            counted.pass(now, turn);
        }
        let flows = counted.flows();
        assert_eq!(flows.len(), 1, "both directions are one flow: {flows:?}");
        assert_eq!(flows[0].flow.to_string(), "10.0.0.1:5000 > 10.0.0.2:53 udp");
        assert_eq!(flows[0].rate, Both { sent: 2_000_000, received: 200_000 });
        assert_eq!(flows[0].bytes, Both { sent: 1_250_000, received: 125_000 });
        for _ in 0..TURNS {
            now += turn;
            counted.pass(now, turn);
        }
        assert_eq!(counted.flows()[0].rate, Both::default(), "it is silent for a second");
        now += SILENT;
        counted.pass(now, turn);
        assert!(counted.flows().is_empty());
    }

    #[test]
    fn what_tcp_sends_again_counts_once_and_what_is_not_captured_counts() {
        let mut counted = Counted::default();
        let mut data = |seq: u32| {
            let frame = headers::tests::tcp(HERE, 5000, THERE, 443, seq, 1_000);
            counted.count(&packet(&frame, Cast::Sent, 1_054), 16);
            counted.pass(Instant::now(), Duration::from_secs(1));
            counted.flows()[0].bytes.sent
        };
        let near_the_end = u32::MAX - 1_499;
        assert_eq!(data(near_the_end), 1_054);
        assert_eq!(data(near_the_end), 1_054, "refused, and sent again");
        assert_eq!(data(near_the_end + 1_000), 2_054, "the numbers begin anew");
        assert_eq!(data(9_500), 12_054, "frames between them were not captured");
        assert_eq!(data(9_000), 12_054, "an older one");
        assert_eq!(data(2_000_000_000), 13_108, "another connection of the same ports");
        let pure = headers::tests::tcp(HERE, 5000, THERE, 443, 9, 0);
        counted.count(&packet(&pure, Cast::Sent, 54), 16);
        counted.pass(Instant::now(), Duration::from_secs(1));
        assert_eq!(counted.flows()[0].bytes.sent, 13_108 + 54 * 16, "an acknowledgement stands for others");
    }

    #[test]
    fn many_flows_take_no_more_memory() {
        let mut counted = Counted::default();
        for number in 0..20_000_u32 {
            let [_, a, b, c] = number.to_be_bytes();
            let frame = headers::tests::udp([10, a, b, c], 5000, [10, 9, 9, 9], 443);
            counted.count(&packet(&frame, Cast::Sent, 100), 1);
        }
        assert!(counted.flows.len() <= FLOWS_MAX + 1);
        assert!(counted.flows.contains_key(&Flow::Others));
    }

    #[test]
    fn the_more_frames_the_rarer_one_is_captured() {
        let second = Duration::from_secs(1);
        let frames = [0, 10_000, 19_999, 20_000, 300_000, u64::MAX];
        assert_eq!(frames.map(|frames| rarity(frames, second)), [1, 1, 1, 2, 32, 1_024]);
    }
}
