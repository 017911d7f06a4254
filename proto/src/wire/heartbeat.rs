//! The heartbeat: on every link, how many cells its sender has put on each of its links and has received over each of the
//! peer's. It shows the receiver on which path cells are missing (burst skew), and the sender which link to leave.
//!
//! Source: P2's two signals (arrival counts in a burst, heartbeat otherwise) in one message. P2 compares the links'
//! arrival counts with each other, which holds for round robin; comparing each with what was sent holds for all policies.

use super::Malformed;
use super::cell::LINKS;
use super::fields::{Reader, Writer};

const FIXED: usize = 4 + 4 + 4 + 1 + 1 + 2;
const SENT: usize = 4 + 4;
const REPORT: usize = 4 + 4 + 4 + 1 + 3;
const PROBED: usize = 1 + 4;
const CARRIED: usize = 4;
/// Bits of an entry of `reports`.
const UP: u8 = 1;
const BEHIND: u8 = 2;
/// The bits above them count heartbeats.
const HEARTBEATS_SHIFT: u32 = 2;
/// Heartbeats are counted modulo this.
pub const HEARTBEATS: u8 = 64;
/// The longest heartbeat without padding and without the cell header.
pub const HEARTBEAT_MAX: usize = FIXED + LINKS * (SENT + REPORT + PROBED + CARRIED) + 2;

/// What the speaker reports of one of its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The link number after the last cell that has left the speaker's own queue.
    pub departed: u32,
    /// Bytes that still wait in the speaker's own queue of this link.
    pub queued: u32,
}

/// What the speaker reports of one of the addressee's links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The link number after the highest that was received.
    pub next: u32,
    /// How many cells were received on it, modulo 2^32.
    pub count: u32,
    /// How much later than on the fastest link a cell arrives, in microseconds.
    pub skew_micros: u32,
    /// Whether the speaker takes the link for usable.
    pub up: bool,
    /// Cells that came in by the link may still wait in the speaker's socket.
    pub behind: bool,
    /// Heartbeats that have arrived on the link, modulo [`HEARTBEATS`].
    pub heartbeats: u8,
    /// Arrival of the latest heartbeat on the link minus its `sent_at`, in microseconds modulo 2^24; each by its own clock.
    pub delay_micros: u32,
}

/// A heartbeat. Entry `i` of `sent` is the speaker's link `i`, of `reports` the addressee's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The speaker's clock in microseconds, modulo 2^32.
    pub sent_at: u32,
    /// `sent_at` of the last heartbeat that the speaker received on this link.
    pub echo: u32,
    /// How long the speaker had it, in microseconds; `u32::MAX`: it has received none.
    pub echo_age: u32,
    /// Orders heartbeats of the same microsecond: rises by 1 with each to this addressee, modulo 2^16.
    pub serial: u16,
    /// How many entries of `sent` count.
    pub sent_links: u8,
    /// How many entries of `reports` count.
    pub reported_links: u8,
    /// The speaker's links.
    pub sent: [Sent; LINKS],
    /// The addressee's links.
    pub reports: [Report; LINKS],
    /// Whether the speaker names the probes that it has received.
    pub names_probes: bool,
    /// The link number of the latest probe that was received on each of the addressee's links; only when `names_probes`.
    pub probed: [Option<u32>; LINKS],
    /// How many entries of `carried` count; only when `names_probes`.
    pub carried_links: u8,
    /// What the speaker's programs have sent to the addressee over each of the speaker's links, in cells' worth, modulo 2^32.
    pub carried: [u32; LINKS],
    /// Bytes of padding, which make the heartbeat a probe; only when `names_probes`.
    pub padding: u16,
}

impl Heartbeat {
    /// Reads a heartbeat from the payload of a cell. Bytes behind it are padding.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a heartbeat.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let mut heartbeat =
            Self { sent_at: reader.u32()?, echo: reader.u32()?, echo_age: reader.u32()?, ..Self::default() };
        heartbeat.sent_links = reader.u8()?;
        heartbeat.reported_links = reader.u8()?;
        heartbeat.serial = reader.u16()?;
        if usize::from(heartbeat.sent_links.max(heartbeat.reported_links)) > LINKS {
            return Err(Malformed::Field);
        }
        for sent in &mut heartbeat.sent[..usize::from(heartbeat.sent_links)] {
            *sent = Sent { departed: reader.u32()?, queued: reader.u32()? };
        }
        for report in &mut heartbeat.reports[..usize::from(heartbeat.reported_links)] {
            let (next, count, skew_micros) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let flags = reader.u8()?;
            let (up, behind) = (flags & UP != 0, flags & BEHIND != 0);
            let (heartbeats, delay_micros) = (flags >> HEARTBEATS_SHIFT, reader.u24()?);
            *report = Report { next, count, skew_micros, up, behind, heartbeats, delay_micros };
        }
        heartbeat.names_probes = !reader.0.is_empty();
        if heartbeat.names_probes {
            let probes = reader.u8()?;
            if usize::from(probes) > LINKS {
                return Err(Malformed::Field);
            }
            for _ in 0..probes {
                let (link, seq) = (reader.u8()?, reader.u32()?);
                *heartbeat.probed.get_mut(usize::from(link)).ok_or(Malformed::Field)? = Some(seq);
            }
            // Padding is zeros.
            if reader.0.first().is_some_and(|links| *links > 0) {
                heartbeat.carried_links = reader.u8()?;
                let links = usize::from(heartbeat.carried_links);
                for carried in heartbeat.carried.get_mut(..links).ok_or(Malformed::Field)? {
                    *carried = reader.u32()?;
                }
            }
            heartbeat.padding = u16::try_from(reader.0.len()).unwrap_or(u16::MAX);
        }
        Ok(heartbeat)
    }

    /// How long it is without padding, in bytes.
    pub fn length(&self) -> usize {
        let fixed = FIXED + usize::from(self.sent_links) * SENT + usize::from(self.reported_links) * REPORT;
        if !self.names_probes {
            return fixed;
        }
        let probed = 1 + self.probed.iter().flatten().count() * PROBED;
        let carried = if self.carried_links > 0 { 1 + usize::from(self.carried_links) * CARRIED } else { 0 };
        fixed + probed + carried
    }

    /// Writes the heartbeat to `payload` (at least [`HEARTBEAT_MAX`] bytes and the padding) and returns its length.
    pub fn emit(&self, payload: &mut [u8]) -> usize {
        let mut writer = Writer::new(payload);
        writer.u32(self.sent_at).u32(self.echo).u32(self.echo_age);
        writer.u8(self.sent_links).u8(self.reported_links).u16(self.serial);
        for sent in &self.sent[..usize::from(self.sent_links)] {
            writer.u32(sent.departed).u32(sent.queued);
        }
        for report in &self.reports[..usize::from(self.reported_links)] {
            writer.u32(report.next).u32(report.count).u32(report.skew_micros);
            let up = if report.up { UP } else { 0 };
            let behind = if report.behind { BEHIND } else { 0 };
            let heartbeats = (report.heartbeats % HEARTBEATS) << HEARTBEATS_SHIFT;
            writer.u8(up | behind | heartbeats).u24(report.delay_micros);
        }
        if !self.names_probes {
            return writer.len();
        }
        let probed = || (0..).zip(self.probed).filter_map(|(link, seq)| Some((link, seq?)));
        #[expect(clippy::cast_possible_truncation, reason = "at most LINKS")]
        writer.u8(probed().count() as u8);
        for (link, seq) in probed() {
            writer.u8(link).u32(seq);
        }
        if self.carried_links > 0 {
            writer.u8(self.carried_links);
            for carried in &self.carried[..usize::from(self.carried_links)] {
                writer.u32(*carried);
            }
        }
        let length = writer.len();
        let padded = length + usize::from(self.padding);
        payload[length..padded].fill(0);
        padded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Heartbeat {
        let mut heartbeat = Heartbeat {
            sent_at: 1,
            echo: 2,
            echo_age: 3,
            serial: 9,
            sent_links: 1,
            reported_links: 1,
            names_probes: true,
            carried_links: 1,
            padding: 2,
            ..Heartbeat::default()
        };
        heartbeat.sent[0] = Sent { departed: 4, queued: 5 };
        heartbeat.reports[0] = Report {
            next: 6,
            count: 7,
            skew_micros: 8,
            up: true,
            behind: true,
            heartbeats: 9,
            delay_micros: 0xfe_dcba,
        };
        heartbeat.probed[0] = Some(10);
        heartbeat.carried[0] = 11;
        heartbeat
    }

    #[test]
    fn golden_bytes() {
        let mut bytes = [0; HEARTBEAT_MAX];
        let length = example().emit(&mut bytes);
        assert_eq!(bytes[..length], crate::wire::golden("heartbeat"));
        assert_eq!(Heartbeat::parse(&bytes[..length]), Ok(example()));
    }

    #[test]
    fn too_many_links_and_truncation_are_refused() {
        let mut bytes = [0; HEARTBEAT_MAX];
        let length = example().emit(&mut bytes);
        assert_eq!(length, example().length() + 2);
        let without_probes = FIXED + SENT + REPORT;
        let without_carried = without_probes + 1 + PROBED;
        let is_whole = |cut: &usize| [without_probes, without_carried].contains(cut);
        for cut in (0..length - 2).filter(|cut| !is_whole(cut)) {
            assert_eq!(Heartbeat::parse(&bytes[..cut]), Err(Malformed::Truncated), "cut at {cut}");
        }
        let old = Heartbeat::parse(&bytes[..without_probes]).unwrap();
        assert_eq!((old.names_probes, old.probed, old.padding), (false, [None; LINKS], 0));
        let old = Heartbeat::parse(&bytes[..without_carried]).unwrap();
        assert_eq!((old.probed[0], old.carried_links, old.padding), (Some(10), 0, 0));
        bytes[without_carried] = 17;
        assert_eq!(Heartbeat::parse(&bytes), Err(Malformed::Field), "no such links");
        bytes[without_probes + 1] = 16;
        assert_eq!(Heartbeat::parse(&bytes), Err(Malformed::Field), "no such link");
        bytes[12] = 17;
        assert_eq!(Heartbeat::parse(&bytes), Err(Malformed::Field));
    }
}
