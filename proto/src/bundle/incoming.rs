//! A cell's first steps on the way in: parse, open, note its arrival on its path, and hand on to the room that its kind
//! concerns.
//!
//! Invariant: nothing of a cell counts before the core has opened it.

use crate::bundle::Bundle;
use crate::group::greeting::ask;
use crate::group::{Group, Parts};
use crate::receive::pool::{Buffer, Piece};
use crate::session::Origin;
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::cell::{HEADER, Header, Kind};
use crate::wire::heartbeat::Heartbeat;
use crate::wire::hello::Hello;
use crate::wire::repair::Request;
use core::net::SocketAddr;

impl Bundle {
    /// Datagrams came in on a link: `length` bytes of the buffer, one each `segment` bytes.
    pub fn handle_datagrams(
        &mut self,
        now: Instant,
        link: u8,
        from: SocketAddr,
        buffer: Buffer,
        length: usize,
        segment: usize,
    ) {
        let length = length.min(buffer.len());
        let Some(train) = self.receiver.take(buffer, length) else {
            self.out.counters.drop_no_buffer += length.div_ceil(segment.max(1)) as u64;
            return;
        };
        let origin = Origin { link, from };
        let segment = u16::try_from(segment).unwrap_or(u16::MAX).max(1);
        for start in (0..train.length).step_by(usize::from(segment)) {
            let length = segment.min(train.length - start);
            let cell = Piece { buffer: train.buffer, start: train.start + start, length };
            self.out.counters.cells_received += 1;
            if self.handle_cell(now, origin, cell).is_err() {
                self.out.counters.drop_malformed += 1;
            }
        }
        self.receiver.done(train, &self.links, &mut self.out.counters);
    }

    fn handle_cell(&mut self, now: Instant, origin: Origin, cell: Piece) -> Result<(), Malformed> {
        let (group, mut parts) = self.split();
        let header = match Header::parse(parts.receiver.pool().bytes(cell)) {
            Err(Malformed::Version) => return Err(Group::handle_other_version(now, cell, &mut parts)),
            header => header?,
        };
        let origin = Origin { link: parts.links.end_of(header.link, origin.link), ..origin };
        if parts.sessions.is_sealing() && header.epoch == 0 {
            return group.handle_unsealed(now, origin, header.kind, cell, &mut parts);
        }
        if header.kind == Kind::Hello && header.epoch == 0 {
            let hello = Hello::parse(&parts.receiver.pool().bytes(cell)[HEADER..])?;
            group.handle_hello(now, origin, &hello, &mut parts);
            return Ok(());
        }
        let session = parts.sessions.table().of_session(header.session);
        let Some(peer) = session.or_else(|| group.confirm(now, &header, cell, &mut parts)) else {
            parts.out.counters.drop_session += 1;
            return Ok(());
        };
        let Parts { sessions, links, receiver, out, .. } = parts;
        let seq = links.inbound(peer, header.link).and_then(|path| path.unwrap(header.link_seq));
        let bytes = receiver.pool_mut().bytes_mut(cell);
        let Some(tag) = sessions.open(now, peer, &header, seq, bytes, &mut out.counters)? else {
            return Ok(());
        };
        let length = cell.length - tag;
        self.handle_opened(now, origin, peer, &header, Piece { length, ..cell })
    }

    /// A cell of a peer arrived, and is authentic where cells are sealed.
    fn handle_opened(
        &mut self,
        now: Instant,
        origin: Origin,
        peer: u16,
        header: &Header,
        cell: Piece,
    ) -> Result<(), Malformed> {
        let payload = &self.receiver.pool().bytes(cell)[HEADER..];
        match header.kind {
            Kind::Heartbeat => {
                let heartbeat = Heartbeat::parse(payload)?;
                if self.account(now, origin.link, peer, header, 0) {
                    self.links.follow(origin, peer, header);
                    if self.links.add_twin(now, peer, (origin.link, header.link)) {
                        ask(now, peer, (header.link, origin.from), &mut self.links, &mut self.out);
                    }
                    if heartbeat.padding > 0 {
                        self.links.note_probe(peer, header);
                    }
                    self.handle_heartbeat(now, (origin.link, header.link), peer, &heartbeat);
                }
            }
            Kind::Repair => {
                let request = Request::parse(payload)?;
                if self.account(now, origin.link, peer, header, 0) {
                    self.links.handle_missing(now, peer, &request, &mut self.out);
                    let (sender, mut around) = self.sending(now);
                    sender.handle_request(peer, &request, &mut around);
                }
            }
            Kind::Data => {
                #[expect(clippy::cast_possible_truncation, reason = "HEADER is 16")]
                let payload =
                    Piece { start: cell.start + HEADER as u16, length: cell.length - HEADER as u16, ..cell };
                if self.account(now, origin.link, peer, header, cell.length.into()) {
                    self.group.handover_mut().handle_data(now);
                    let Self { receiver, links, out, .. } = self;
                    receiver.handle_data(now, peer, header, payload, links, &mut out.counters);
                }
            }
            Kind::Hello => {
                let hello = Hello::parse_opened(payload)?;
                if self.account(now, origin.link, peer, header, 0) && hello.link == header.link {
                    let (group, mut parts) = self.split();
                    group.handle_sealed_hello(now, origin, peer, &hello, &mut parts);
                }
            }
            Kind::Handshake => return Err(Malformed::Field),
        }
        Ok(())
    }

    /// Notes that a cell with so many bytes of data has arrived over its path, and asks for missing cells; `false` when it is of
    /// another session.
    fn account(&mut self, now: Instant, link: u8, peer: u16, header: &Header, data: usize) -> bool {
        let missing = self.links.account(now, link, peer, header, data, &mut self.out);
        let Some(missing) = missing else { return false };
        if !missing.is_empty() {
            self.out.counters.cells_missed += missing.end - missing.start;
            self.receiver.miss(now, peer, header.link, missing, &mut self.out.outbox);
        }
        true
    }

    /// A heartbeat arrived over a path. `links`: ours, and the peer's. Returns how many numbers were looked up in logs:
    /// none twice, whatever heartbeats say.
    pub(crate) fn handle_heartbeat(
        &mut self,
        now: Instant,
        links: (u8, u8),
        peer: u16,
        heartbeat: &Heartbeat,
    ) -> u64 {
        let times = (now, self.polled);
        let skew = self.links.handle_heartbeat(times, links, peer, heartbeat, &mut self.out);
        if let Some(skew) = skew {
            self.receiver.saw_skew(now, peer, skew);
        }
        if self.links.take_opened() {
            self.sender.unpark();
        }
        let (group, mut parts) = self.split();
        if parts.links.take_rolled_back() {
            group.begin_anew(now, peer, &mut parts);
            return 0;
        }
        let looked_up = parts.send_lost_again();
        if parts.links.take_resized() {
            parts.fit_cells();
        }
        looked_up
    }
}
