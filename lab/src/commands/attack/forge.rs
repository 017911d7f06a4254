//! The kinds of attack, and the cells that each is made of.
//!
//! The hostile node knows the wire format, hears the link from the start and sends what it likes under any address; it
//! has not the key. Cells that pretend to be part of a session carry the numbers that come next there.

use std::ops::Range;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::frame::{DATA, Datagram, FROM_ADDRESS, FROM_MAC, GREETING, HANDSHAKE, HEARTBEAT, Recording, kind};

/// EtherType of forged frames (local experiments 1), by which they are known at the victim's device.
pub(super) const FORGED_ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Most that numbers of forged cells are ahead of what was heard.
const AHEAD: Range<u32> = 1..64;
const PER_SECOND: u32 = 10_000;
const FLOOD_PER_SECOND: u32 = 100_000;
/// Length of a handshake cell of noise: about that of a real one.
const HANDSHAKE_BYTES: usize = 200;
/// Places in a cell (docs/wire.md, 3 and 8).
const LINK_SEQ: Range<usize> = 4..8;
const LANE_SEQ: Range<usize> = 8..12;
const BLOCK_OFFSET: Range<usize> = 12..14;
const HEADER: usize = 16;
/// Of a greeting: node and incarnation.
const IDENTITY: Range<usize> = 16..32;
/// Of a heartbeat: its clock, the lengths of its lists, and what each entry takes.
const SENT_AT: Range<usize> = 16..20;
const LISTS: Range<usize> = 28..30;
const SENT_LIST: usize = 32;
const SENT: usize = 8;
const HEARD: usize = 16;
const UP: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Data cells with frames of the attacker's, in the session's numbers
    Forged,
    /// Cells of the session once more
    Replayed,
    /// The same, backwards
    Reordered,
    /// Cells of the session cut short, under numbers that come next
    Truncated,
    /// Cells of the session with a flipped bit, half of them under numbers that come next
    BitFlipped,
    /// 100,000 greetings a second from made-up nodes
    Greetings,
    /// 100,000 handshake cells of noise a second
    Handshakes,
    /// 100,000 recorded greetings and handshake cells a second
    HandshakesReplayed,
    /// 100,000 forged data cells a second, each with another MAC address as its sender
    Addresses,
    /// Heartbeats that say that all links are down
    Reports,
    /// A node with another key, on every link
    WrongKey,
    /// The whole session replayed to a daemon that was started again
    AfterRestart,
}

pub(super) struct Forger {
    attack: Attack,
    stranger: Stranger,
    /// What is replayed when it is not what is heard at the time.
    former: Option<Vec<Datagram>>,
    random: StdRng,
    made: usize,
}

/// Where the hostile node can be reached on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stranger {
    pub(super) mac: [u8; 6],
    pub(super) address: [u8; 16],
}

impl Attack {
    pub(super) const fn per_second(self) -> u32 {
        match self {
            Attack::Greetings | Attack::Handshakes | Attack::HandshakesReplayed | Attack::Addresses => {
                FLOOD_PER_SECOND
            }
            _ => PER_SECOND,
        }
    }

    pub(super) fn name(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_string()
    }

    /// Whether it comes from nobody that the victim knows, so that any answer is one too many.
    pub(super) const fn is_of_a_stranger(self) -> bool {
        matches!(self, Attack::Greetings | Attack::Handshakes)
    }
}

impl Forger {
    /// For `attack`, with random numbers from `seed`; `former`: the session before a restart.
    pub(super) fn new(attack: Attack, stranger: Stranger, former: Option<&Recording>, seed: u64) -> Forger {
        let whole = |former: &Recording| former.beginnings.iter().chain(&former.recent).cloned().collect();
        let (former, random) = (former.map(whole), StdRng::seed_from_u64(seed));
        Forger { attack, stranger, former, random, made: 0 }
    }

    /// The next datagram to the victim, by what its friend has sent; `None`: nothing that it could be made of has been heard.
    pub(super) fn next(&mut self, heard: &Recording) -> Option<Datagram> {
        self.made += 1;
        match self.attack {
            Attack::Forged => self.data(heard, [2, 0, 0, 0, 0xbe, 0xef]),
            Attack::Addresses => {
                let mut mac: [u8; 6] = self.random.random();
                mac[0] = mac[0] & 0xfe | 2;
                self.data(heard, mac)
            }
            Attack::Replayed => {
                heard.recent.get(self.random.random_range(0..heard.recent.len().max(1))).cloned()
            }
            Attack::Reordered => {
                heard.recent.iter().rev().nth(self.made % heard.recent.len().max(1)).cloned()
            }
            Attack::Truncated => self.truncated(heard),
            Attack::BitFlipped => self.flipped(heard),
            Attack::Greetings => self.greeting(heard),
            Attack::Handshakes => self.noise(heard),
            Attack::HandshakesReplayed => nth(&heard.beginnings, self.made),
            Attack::Reports => self.report(heard),
            Attack::AfterRestart => nth(self.former.as_deref()?, self.made),
            Attack::WrongKey => None,
        }
    }

    fn data(&mut self, heard: &Recording, sender: [u8; 6]) -> Option<Datagram> {
        let mut forged = heard.latest(DATA)?.clone();
        forged.cell.truncate(HEADER);
        self.advance(&mut forged.cell);
        forged.cell.get_mut(BLOCK_OFFSET)?.fill(0);
        let frame = [&[0xff; 6][..], &sender, &FORGED_ETHERTYPE, &[0x5a; 46]].concat();
        let length = u32::try_from(10 + frame.len()).ok()? | 1 << 24;
        forged.cell.extend(length.to_be_bytes());
        forged.cell.extend([0; 10]);
        forged.cell.extend(frame);
        // Where a tag would stand; unsealed, padding.
        forged.cell.extend([0; 16]);
        Some(forged)
    }

    fn truncated(&mut self, heard: &Recording) -> Option<Datagram> {
        let mut forged = self.any(heard)?;
        self.advance(&mut forged.cell);
        forged.cell.truncate(self.random.random_range(1..forged.cell.len().max(2)));
        Some(forged)
    }

    fn flipped(&mut self, heard: &Recording) -> Option<Datagram> {
        let mut forged = self.any(heard)?;
        if self.made.is_multiple_of(2) {
            self.advance(&mut forged.cell);
        }
        let place = self.random.random_range(0..forged.cell.len());
        forged.cell[place] ^= 1 << self.random.random_range(0..8_u8);
        Some(forged)
    }

    /// A greeting of a node that does not exist. Its mark, if it has one, is that of a real one.
    fn greeting(&mut self, heard: &Recording) -> Option<Datagram> {
        let mut forged = heard.beginnings.iter().find(|heard| kind(&heard.cell) == Some(GREETING))?.clone();
        self.random.fill_bytes(forged.cell.get_mut(IDENTITY)?);
        Some(self.as_stranger(forged))
    }

    fn noise(&mut self, heard: &Recording) -> Option<Datagram> {
        let mut forged = heard.latest(DATA).or_else(|| heard.latest(HEARTBEAT))?.clone();
        forged.cell = vec![0; HANDSHAKE_BYTES];
        self.random.fill_bytes(&mut forged.cell[HEADER..]);
        forged.cell[0] = 1 << 4 | HANDSHAKE;
        // A first message, as far as its type says.
        forged.cell[HEADER] = 1;
        Some(self.as_stranger(forged))
    }

    /// The latest heartbeat, a second younger and with bad news.
    fn report(&mut self, heard: &Recording) -> Option<Datagram> {
        let mut forged = heard.latest(HEARTBEAT)?.clone();
        let cell = &mut forged.cell;
        let sent_at = u32::from_be_bytes(cell.get(SENT_AT)?.try_into().ok()?).wrapping_add(1_000_000);
        cell[SENT_AT].copy_from_slice(&sent_at.to_be_bytes());
        let [sent, heard] = [LISTS.start, LISTS.start + 1].map(|place| usize::from(cell[place]));
        let first = SENT_LIST + sent * SENT;
        for entry in 0..heard {
            if let Some(up) = cell.get_mut(first + entry * HEARD + UP) {
                *up &= 0xfe;
            }
        }
        self.advance(&mut forged.cell);
        Some(forged)
    }

    fn any(&mut self, heard: &Recording) -> Option<Datagram> {
        let place = self.random.random_range(0..heard.recent.len().max(1));
        heard.recent.get(place).filter(|datagram| datagram.cell.len() >= HEADER).cloned()
    }

    fn advance(&mut self, cell: &mut [u8]) {
        let ahead = self.random.random_range(AHEAD);
        for field in [LINK_SEQ, LANE_SEQ] {
            if let Some(Ok(number)) = cell.get(field.clone()).map(<[u8; 4]>::try_from) {
                cell[field].copy_from_slice(&u32::from_be_bytes(number).wrapping_add(ahead).to_be_bytes());
            }
        }
    }

    fn as_stranger(&self, mut forged: Datagram) -> Datagram {
        forged.headers[FROM_MAC].copy_from_slice(&self.stranger.mac);
        forged.headers[FROM_ADDRESS].copy_from_slice(&self.stranger.address);
        forged
    }
}

fn nth(datagrams: &[Datagram], number: usize) -> Option<Datagram> {
    datagrams.get(number.checked_rem(datagrams.len())?).cloned()
}

#[cfg(test)]
mod tests {
    use tabane_proto::wire::cell::{Header, Kind};
    use tabane_proto::wire::heartbeat::{Heartbeat, Report};
    use tabane_proto::wire::record;

    use super::super::frame::tests::datagram;
    use super::*;

    fn heard(kind: Kind, payload: &[u8]) -> Recording {
        let mut cell = vec![0; HEADER];
        Header::new(kind, 0, 7, 1_000).emit(&mut cell);
        cell.extend(payload);
        let mut recording = Recording::default();
        recording.note(datagram(&cell));
        recording
    }

    fn forge(attack: Attack, heard: &Recording) -> Vec<u8> {
        let stranger = Stranger { mac: [6; 6], address: [9; 16] };
        Forger::new(attack, stranger, None, 1).next(heard).unwrap().cell
    }

    #[test]
    fn a_forged_cell_is_what_an_unsealed_bundle_would_take() {
        let forged = forge(Attack::Forged, &heard(Kind::Data, &[0; 40]));
        let header = Header::parse(&forged).unwrap();
        assert_eq!((header.session, header.block_offset), (7, 0));
        assert!(AHEAD.contains(&(header.link_seq - 1_000)));
        assert!(matches!(record::parse(&forged[HEADER..]), Ok(record::Start::Frame(70))));
    }

    #[test]
    fn a_forged_report_takes_every_link_for_down() {
        let report_up = Report { up: true, ..Report::default() };
        let beat = Heartbeat {
            sent_at: 5,
            echo: 0,
            echo_age: 0,
            serial: 0,
            sent_links: 1,
            reported_links: 2,
            reports: [report_up; 16],
            ..Heartbeat::default()
        };
        let mut payload = [0; 256];
        let length = beat.emit(&mut payload);
        let forged = forge(Attack::Reports, &heard(Kind::Heartbeat, &payload[..length]));
        let forged = Heartbeat::parse(&forged[HEADER..]).unwrap();
        assert_eq!((forged.sent_at, forged.reported_links), (1_000_005, 2));
        assert!(forged.reports[..2].iter().all(|report| !report.up));
    }

    #[test]
    fn what_was_not_heard_cannot_be_forged() {
        let stranger = Stranger { mac: [6; 6], address: [9; 16] };
        for attack in Attack::value_variants() {
            assert_eq!(Forger::new(*attack, stranger, None, 1).next(&Recording::default()), None);
        }
    }
}
