//! What a path carries: the largest cell that arrives, found by probes (packetization layer path MTU discovery).
//!
//! Beside [`crate::link::outbound`], which owns it. A way behind the NIC may carry less than the NIC takes and drop what is longer,
//! without a word. A probe is a heartbeat that padding makes as long as the cell in question, and a short heartbeat follows
//! it. The peer names the latest probe that it has received; when it has received what came behind a probe and
//! not the probe, that is lost. So a path that is dead, or slow, says nothing about its MTU.
//!
//! ```text
//!   Confirm ── arrives ──> Complete ── each RAISE_EVERY, or cells are lost ──> Search, or Confirm
//!      └─ lost ──> Base ── arrives, or is lost ──> Search ── nothing left to try ──> Complete
//! ```
//!
//! Cells are as long as both NICs take until that is shown to be wrong. [`TRIES_CONFIRM`] probes of that length have to be lost
//! one after the other, each at least a round trip and [`PROBE_EVERY`] behind the one before: a full queue drops cells, too. Then
//! cells are made so short that any way takes them, and the search begins.
//!
//! Invariant: one probe is on its way at most.
//!
//! Source: RFC 8899, section 5.2 (phases), 4.3 (black holes). Its timers are those of a single path; here lost cells go over others
//! meanwhile, and reports come each 10 ms, so that all is faster.

use crate::link::nic::CELL_LEAST;
use crate::time::Instant;
use crate::wire::cell::wire_seq;
use core::time::Duration;

/// The least MTU of IPv6, in bytes of a packet: what cells are made for once longer ones are lost.
const BASE: u16 = 1_280;
/// Lengths of packets that are usual: those of links and of tunnels over them (RFC 1191, section 7.1, and today's).
const USUAL: [u16; 16] = [
    576, 1_006, 1_280, 1_300, 1_340, 1_360, 1_380, 1_400, 1_420, 1_440, 1_450, 1_472, 1_480, 1_492, 1_500,
    4_352,
];
/// The search ends when the largest that arrives and the least that does not are so close, in bytes.
const STEP: u16 = 8;
/// Probes lost in a row that show that a length does not pass which did, or which both NICs take.
const TRIES_CONFIRM: u8 = 5;
/// The same of a length that is only tried (RFC 8899, section 5.1.2).
const TRIES: u8 = 3;
/// Pause after a probe that was lost.
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// A path that carries less than the NICs take is tried again each so long.
const RAISE_EVERY: Duration = Duration::from_secs(30);
/// A path that loses cells is asked no more often.
const DOUBT_EVERY: Duration = Duration::from_millis(200);

/// What a report has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing new.
    Nothing,
    /// The path carries cells of the present size.
    Confirmed,
    /// It does not, so that cells are smaller from now on.
    Fell,
    /// The search is over; `is_new`: the size is another than that of the last one.
    Found { is_new: bool },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Whether the present size arrives.
    Confirm,
    /// Whether the base does, for cells of `high` bytes do not.
    Base { high: u16 },
    /// What arrives, at least `low` bytes and less than `high`.
    Search { low: u16, high: u16 },
    /// Nothing, for now.
    #[default]
    Complete,
}

/// The MTU of one path, in bytes of cells.
#[derive(Debug, Default)]
pub(crate) struct PathMtu {
    /// What both NICs take; 0: not known yet.
    full: u16,
    /// Bytes of a packet before its cell.
    headers: u16,
    /// What cells may be.
    size: u16,
    found: u16,
    phase: Phase,
    /// A probe of the present size, or of a greater one, has arrived since the path was left.
    confirmed: bool,
    /// When one arrived last.
    confirmed_at: Instant,
    /// One was due that the link did not take.
    pub(crate) lacks_probe: bool,
    /// The number of the probe that is on its way.
    probe: Option<u64>,
    /// Probes of this size that were lost.
    tries: u8,
    /// When the next probe may leave.
    due: Instant,
    /// When more than the present size is tried.
    raise_at: Instant,
    /// Probes that were lost, modulo 2^32.
    pub(super) lost: u32,
    /// Cells that were lost besides, modulo 2^32.
    lacks: u32,
}

impl PathMtu {
    pub(crate) fn new(now: Instant) -> Self {
        let (size, found) = (u16::MAX, u16::MAX);
        Self { size, found, confirmed_at: now, due: now, raise_at: now, ..Self::default() }
    }

    /// Both NICs take cells of `full` bytes; packets have `headers` bytes before them. Returns whether that is new.
    pub(crate) fn fit(&mut self, now: Instant, full: u16, headers: u16) -> bool {
        if (self.full, self.headers) == (full, headers) {
            return false;
        }
        let Self { lost, lacks, .. } = *self;
        *self = Self { full, headers, size: full, found: full, lost, lacks, ..Self::new(now) };
        self.ask(now, Phase::Confirm);
        true
    }

    /// As if a probe had arrived.
    #[cfg(test)]
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// The largest cell that may be sent, in bytes; the NICs may take less.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// The largest packet that the path is known to carry, and that which the NICs take, in bytes.
    pub(crate) fn packets(&self) -> Option<(u16, u16)> {
        let packet = |cell: u16| cell.saturating_add(self.headers);
        self.confirmed.then(|| (packet(self.size), packet(self.full)))
    }

    /// Whether the path carries less than packets of [`BASE`] bytes, although its NICs take them.
    pub(crate) fn is_below_base(&self) -> bool {
        self.size < self.full && self.size < BASE.saturating_sub(self.headers)
    }

    /// Whether nothing is known of the path yet.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.full != 0 && !self.confirmed
    }

    /// Whether a cell of the present size is known to have arrived since then, or nobody can know.
    pub(crate) fn has_passed_since(&self, then: Instant) -> bool {
        self.full == 0 || self.confirmed && self.confirmed_at >= then
    }

    /// When a probe is due, if none is on its way.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = if self.phase == Phase::Complete { self.due.max(self.raise_at) } else { self.due };
        (self.full != 0 && self.probe.is_none()).then_some(due)
    }

    /// Whether a probe has to be written now: [`Self::length`] says how long.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        if self.due().is_none_or(|due| now < due) {
            return false;
        }
        if self.phase == Phase::Complete {
            let larger = Phase::Search { low: self.size, high: self.full + 1 };
            self.ask(now, if self.size < self.full { larger } else { Phase::Confirm });
        }
        self.due = now + PROBE_EVERY;
        true
    }

    /// How long the cell is that is being asked about, in bytes.
    pub(crate) fn length(&self) -> Option<u16> {
        match self.phase {
            Phase::Confirm | Phase::Base { .. } => Some(self.size),
            Phase::Search { low, high } => self.between(low, high),
            Phase::Complete => None,
        }
    }

    /// A probe leaves with this number.
    pub(crate) fn handle_sent(&mut self, seq: u64) {
        (self.probe, self.lacks_probe) = (Some(seq), false);
    }

    /// The link took none: it is sent when the link takes more.
    pub(crate) fn take_back(&mut self) {
        (self.probe, self.lacks_probe) = (None, true);
    }

    /// Cells are lost: perhaps because they are too long.
    pub(crate) fn doubt(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Search { .. } | Phase::Complete) && self.full != 0 {
            self.ask(now, Phase::Confirm);
        }
    }

    /// The path leads nowhere any more.
    pub(crate) fn withdraw(&mut self) {
        (self.full, self.size, self.probe) = (0, u16::MAX, None);
    }

    /// The path is left, and may be another when it is used again.
    pub(crate) fn leave(&mut self, now: Instant) {
        if self.full != 0 {
            self.confirmed = false;
            self.ask(now, Phase::Confirm);
            self.raise_at = now;
        }
    }

    /// It was left in error. `is_confirmed`: it carried cells of the present size.
    pub(crate) fn trust(&mut self, is_confirmed: bool) {
        self.confirmed |= is_confirmed;
    }

    /// The peer has received `count` cells (modulo 2^32), of which `next` is the number after the highest, and names the latest
    /// probe.
    pub(crate) fn handle_report(
        &mut self,
        now: Instant,
        next: u64,
        count: u32,
        probed: Option<u32>,
    ) -> Finding {
        let finding = match self.probe {
            Some(seq) if probed == Some(wire_seq(seq)) => self.arrived(now),
            Some(seq) if seq < next => self.missed(now),
            _ => Finding::Nothing,
        };
        let lacks = wire_seq(next).wrapping_sub(count).wrapping_sub(self.lost);
        let more = lacks.wrapping_sub(core::mem::replace(&mut self.lacks, lacks)).cast_signed();
        if more > 0 && self.phase == Phase::Complete && now.since(self.confirmed_at) >= DOUBT_EVERY {
            self.doubt(now);
        }
        finding
    }

    fn arrived(&mut self, now: Instant) -> Finding {
        let length = self.length().unwrap_or(self.size);
        let finding = if self.confirmed { Finding::Nothing } else { Finding::Confirmed };
        (self.confirmed, self.confirmed_at) = (true, now);
        match self.phase {
            Phase::Confirm => {
                self.ask(now, Phase::Complete);
                if self.size == self.full {
                    self.raise_at = now + RAISE_EVERY;
                }
                finding
            }
            Phase::Base { high } => self.search(now, length, high),
            Phase::Search { high, .. } => self.search(now, length, high),
            Phase::Complete => finding,
        }
    }

    fn missed(&mut self, now: Instant) -> Finding {
        self.probe = None;
        self.lost = self.lost.wrapping_add(1);
        self.tries += 1;
        let confirms = self.phase == Phase::Confirm;
        if self.tries < if confirms { TRIES_CONFIRM } else { TRIES } {
            return Finding::Nothing;
        }
        match self.phase {
            Phase::Confirm if self.size > CELL_LEAST => self.fall(now),
            Phase::Base { .. } if self.size > CELL_LEAST => {
                let high = core::mem::replace(&mut self.size, CELL_LEAST);
                let _ = self.search(now, CELL_LEAST, high);
                Finding::Fell
            }
            Phase::Search { low, high } => self.search(now, low, self.length().unwrap_or(high)),
            Phase::Confirm | Phase::Base { .. } | Phase::Complete => {
                self.confirmed = true;
                self.complete(now)
            }
        }
    }

    /// Cells of the present size do not arrive.
    fn fall(&mut self, now: Instant) -> Finding {
        let base = BASE.saturating_sub(self.headers).max(CELL_LEAST);
        let base = if base < self.size { base } else { CELL_LEAST };
        let high = core::mem::replace(&mut self.size, base);
        self.ask(now, Phase::Base { high });
        Finding::Fell
    }

    /// Cells of `low` bytes arrive, and such of `high` do not.
    fn search(&mut self, now: Instant, low: u16, high: u16) -> Finding {
        if self.between(low, high).is_some() {
            self.ask(now, Phase::Search { low, high });
            return Finding::Nothing;
        }
        self.size = low;
        self.complete(now)
    }

    fn complete(&mut self, now: Instant) -> Finding {
        self.ask(now, Phase::Complete);
        self.confirmed = true;
        self.raise_at = now + RAISE_EVERY;
        let is_new = core::mem::replace(&mut self.found, self.size) != self.size;
        Finding::Found { is_new }
    }

    fn ask(&mut self, now: Instant, phase: Phase) {
        (self.phase, self.probe, self.tries, self.due) = (phase, None, 0, now);
    }

    /// What to try between two lengths: all that there is, when nothing is known to be lost; a usual one; the middle.
    fn between(&self, low: u16, high: u16) -> Option<u16> {
        if high > self.full {
            return (low < self.full).then_some(self.full);
        }
        let usual = || {
            let lengths = USUAL.iter().filter_map(|packet| packet.checked_sub(self.headers));
            lengths.filter(|length| (low + 1..high).contains(length))
        };
        let middle = usual().nth(usual().count() / 2);
        middle.or_else(|| (high - low > STEP).then(|| low.midpoint(high)))
    }
}

#[cfg(test)]
mod tests;
