//! A way from the hostile member to a node: the numbers, session and key that its bundle uses there, so that further cells can
//! continue them.
//!
//! Beside [`super::tap`]. Numbers go on from the highest that was used, by the bundle or beside it.

use super::tap::{Shared, Tap, seal};
use crate::cable::Place;
use tabane_proto::security::{Number, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind, LANES, LINKS, NO_RECORD, unwrap_seq, wire_seq};
use tabane_proto::wire::hello::Hello;

#[derive(Clone, Debug, Default)]
pub struct Lanes {
    session: u16,
    /// The number of each lane's next cell.
    pub next: [u32; LANES],
    /// The lane with a record in cells of one byte, and how many of its bytes have not been sent.
    pub(super) crumbs: Option<(u8, usize)>,
}

pub struct Way {
    pub(super) from: Place,
    pub(super) to: Place,
    session: u16,
    epoch: u8,
    link: u8,
    /// The number after the highest that was used, if one was.
    next: Option<u64>,
    key: Option<Shared>,
    pub hello: Option<Hello>,
    /// The number received last from there, for each link.
    pub received: [u32; LINKS],
}

impl Way {
    pub(super) fn new(from: Place, to: Place, header: Header) -> Self {
        let Header { session, epoch, link, .. } = header;
        Self { from, to, session, epoch, link, next: None, key: None, hello: None, received: [0; LINKS] }
    }

    /// Whether the member knows enough to continue it.
    pub(super) fn is_known(&self) -> bool {
        self.next.is_some() && (self.epoch == 0 || self.key.is_some())
    }

    pub fn is_sealed(&self) -> bool {
        self.key.is_some()
    }

    /// Its bundle sends a cell.
    pub(super) fn watch(&mut self, header: &Header, cell: &[u8], tap: &Tap, lanes: &mut Lanes) {
        if header.session != self.session {
            (self.next, self.key) = (None, None);
        }
        (self.session, self.epoch, self.link) = (header.session, header.epoch, header.link);
        let note = (header.epoch != 0).then(|| tap.take(&cell[..HEADER])).flatten();
        if header.kind == Kind::Hello {
            let said = note.as_ref().map_or(&cell[HEADER..], |note| &note.payload);
            self.hello = Hello::parse(said).ok().or(self.hello);
            if header.epoch == 0 {
                return;
            }
        }
        let open = unwrap_seq(header.link_seq, self.next.unwrap_or(1 << 32 | u64::from(header.link_seq)));
        let Some(seq) = note.as_ref().map(|note| note.number.seq).or(open) else { return };
        self.key = note.map(|note| note.key).or(self.key.take());
        self.next = Some(self.next.map_or(seq + 1, |next| next.max(seq + 1)));
        if lanes.session != header.session {
            *lanes = Lanes { session: header.session, next: [header.link_seq; LANES], crumbs: None };
        }
        if header.kind == Kind::Data {
            let next = &mut lanes.next[usize::from(header.lane)];
            let ahead = header.lane_seq.wrapping_add(1).wrapping_sub(*next).cast_signed();
            *next = next.wrapping_add_signed(ahead.max(0));
        }
    }

    pub fn skip(&mut self, numbers: u64) {
        self.next = self.next.map(|next| next.saturating_add(numbers));
    }

    /// The next cell of a kind that belongs to no lane.
    pub fn control(&mut self, kind: Kind, payload: &[u8]) -> Vec<u8> {
        self.cell(kind, 0, 0, NO_RECORD, payload)
    }

    pub fn data(&mut self, lanes: &mut Lanes, lane: u8, first_record: u16, payload: &[u8]) -> Vec<u8> {
        let next = &mut lanes.next[usize::from(lane)];
        let lane_seq = *next;
        *next = next.wrapping_add(1);
        self.cell(Kind::Data, lane, lane_seq, first_record, payload)
    }

    pub fn cell(
        &mut self,
        kind: Kind,
        lane: u8,
        lane_seq: u32,
        block_offset: u16,
        payload: &[u8],
    ) -> Vec<u8> {
        let seq = self.next.unwrap_or_default();
        self.skip(1);
        self.cell_as(
            (self.session, seq),
            Header { kind, lane, lane_seq, block_offset, ..self.header() },
            payload,
        )
    }

    pub fn cell_as(&self, (session, seq): (u16, u64), header: Header, payload: &[u8]) -> Vec<u8> {
        let header = Header { session, link_seq: wire_seq(seq), ..header };
        let mut bytes = vec![0; HEADER];
        header.emit(&mut bytes);
        let Some(key) = &self.key else {
            bytes.extend_from_slice(payload);
            return bytes;
        };
        let mut sealed = vec![0; payload.len() + TAG];
        seal(key, Number { link: self.link, seq }, &bytes, payload, &mut sealed);
        bytes.append(&mut sealed);
        bytes
    }

    /// A hello; where cells are not sealed, it has no number.
    pub fn hello(&mut self, payload: &[u8]) -> Vec<u8> {
        if self.is_sealed() {
            return self.control(Kind::Hello, payload);
        }
        self.cell_as((self.session, 0), Header { kind: Kind::Hello, ..self.header() }, payload)
    }

    pub fn next(&self) -> u64 {
        self.next.unwrap_or_default()
    }

    /// The header of a cell that belongs to no lane, without its number.
    pub fn header(&self) -> Header {
        Header { epoch: self.epoch, ..Header::new(Kind::Data, self.link, self.session, 0) }
    }
}
