//! Who gives up what it waits for when receive buffers run out, or lanes are too long: the peer that holds most.
//!
//! Beside [`crate::receive::deliver`]. Cells that wait behind a gap, and pieces of records whose end has not come, hold buffers. A peer
//! can begin a record on each lane and never end it, in pieces that hold a buffer each; without a remedy nothing could be
//! received from anybody. So when few buffers are left, the peer that holds most of them loses its gaps and its begun
//! records, then the next one, until [`ENOUGH`] is free. Others keep what they wait for.
//!
//! A single cell makes a lane as long as its window, whatever little it holds. So when the lanes of all peers together are
//! too long, the peer whose lanes have most places loses its gaps, then the next one, until half of [`SURPLUS_MAX`] is free.
//!
//! Invariant: there is a buffer to receive into, unless all hold frames that are to be delivered. One that is lent and not
//! filled yet is such a buffer.

use crate::bundle::Bundle;
use crate::group::peer::{LaneIn, Peer};

/// Below so many free buffers there is a relief.
const BUFFERS_LOW: usize = 8;
/// A relief ends when this share of all buffers is free, so that the next one is not due at once.
const ENOUGH: usize = 4;
/// Places of all lanes together beyond those that empty ones keep: 3.1 MB, twice what the lanes of one peer can have.
const SURPLUS_MAX: usize = 131_072;

impl Bundle {
    /// Frees buffers when few are left.
    pub(crate) fn relieve_if_low(&mut self) {
        if self.pool.usable() < BUFFERS_LOW {
            self.relieve();
        }
    }

    /// Frees buffers when there are none, and none comes back by itself.
    pub(crate) fn relieve_if_stuck(&mut self) {
        if self.pool.usable() == 0 && self.ready.frames() == 0 {
            self.relieve();
        }
    }

    /// Frees buffers. Costs a look at each piece that waits.
    fn relieve(&mut self) {
        let enough = (self.pool.size() / ENOUGH).max(BUFFERS_LOW);
        let mut holders = core::mem::take(&mut self.holders);
        for index in self.peers.indices() {
            let Some(peer) = self.peers.get(index) else { continue };
            let held = self.pool.count_distinct(peer.lanes_in.iter().flat_map(LaneIn::buffers));
            holders.extend((held > 0).then_some((held, index)));
        }
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in holders.drain(..) {
            // What is complete is free as soon as it is delivered.
            if self.pool.usable() + self.pool.count_distinct(self.ready.buffers()) >= enough {
                break;
            }
            self.spoil(index);
        }
        self.holders = holders;
    }

    /// Shortens lanes when all together are too long: by a cell's window at most.
    pub(crate) fn relieve_if_long(&mut self) {
        if self.peers.surplus() > SURPLUS_MAX {
            self.shorten();
        }
    }

    /// Shortens lanes. Costs a look at each lane, once for the many cells that make half of [`SURPLUS_MAX`].
    fn shorten(&mut self) {
        let mut holders = core::mem::take(&mut self.holders);
        let places = |peer: &Peer| Some(peer.surplus()).filter(|places| *places > 0);
        let long = |index| Some((self.peers.get(index).and_then(places)?, index));
        holders.extend(self.peers.indices().filter_map(long));
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in holders.drain(..) {
            if self.peers.surplus() <= SURPLUS_MAX / 2 {
                break;
            }
            self.give_up_older(index, None);
        }
        self.holders = holders;
    }

    /// Goes on without anything that a peer is waited for.
    fn spoil(&mut self, index: u16) {
        self.give_up_older(index, None);
        let lanes = self.peers.get_mut(index).map(|peer: &mut Peer| &mut peer.lanes_in);
        for lane in lanes.into_iter().flatten().filter(|lane| lane.unpack.is_begun()) {
            lane.unpack.gap(&mut self.pool, &mut self.counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Settings;
    use crate::link::nic::PortSettings;
    use crate::receive::reorder::WINDOW;
    use crate::time::Instant;
    use crate::wire::cell::{HEADER, Header, Kind, LANES, NO_RECORD, session_start, wire_seq};
    use crate::wire::hello::{Hello, NodeId};
    use crate::wire::record::{self, FRAME_MAX, PREFIX, RECORD_START_MIN, VNET};
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::SocketAddr;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// A peer that says what the test wants.
    struct Speaker {
        from: SocketAddr,
        session: u16,
        link_seq: u64,
        lane_seqs: [u64; LANES],
    }

    impl Speaker {
        fn join(bundle: &mut Bundle, number: u8) -> Self {
            let node = NodeId::new([2, 0, 0, 0, 0, number], 7420);
            let hello = Hello { node, incarnation: number.into(), session: 7, ..bundle.hello(0, None) };
            let from = SocketAddr::from(([192, 0, 2, number], 7420));
            bundle.handle_hello(NOW, crate::receive::deliver::Origin { port: 0, from }, &hello);
            let index = bundle.peers.find(node).unwrap();
            let session = bundle.peers.get(index).unwrap().session_in;
            let first = session_start(number.into(), bundle.settings.incarnation, session);
            Self { from, session, link_seq: first, lane_seqs: [first; LANES] }
        }

        /// The next cell of a lane.
        fn cell(&mut self, lane: u8, block_offset: u16, payload: &[u8]) -> Vec<u8> {
            let lane_seq = &mut self.lane_seqs[usize::from(lane)];
            let header = Header {
                kind: Kind::Data,
                epoch: 0,
                link: 0,
                lane,
                link_seq: wire_seq(self.link_seq),
                lane_seq: wire_seq(*lane_seq),
                block_offset,
                session: self.session,
            };
            (*lane_seq, self.link_seq) = (*lane_seq + 1, self.link_seq + 1);
            let mut cell = vec![0; HEADER];
            header.emit(&mut cell);
            cell.extend_from_slice(payload);
            cell
        }

        /// A cell arrives so often as to fill a buffer that is not copied elsewhere.
        fn say(&self, bundle: &mut Bundle, cell: &[u8], times: usize) {
            let mut buffer = bundle.lend().expect("buffers do not run out");
            let train = cell.repeat(times);
            buffer[..train.len()].copy_from_slice(&train);
            bundle.handle_datagrams(NOW, 0, self.from, buffer, train.len(), cell.len());
        }
    }

    fn bundle() -> Bundle {
        let node = NodeId::new([2, 0, 0, 0, 0, 9], 7420);
        Bundle::new(NOW, Settings::new(node, 9, vec![PortSettings::new(1_452)]))
    }

    fn begin(length: usize) -> Vec<u8> {
        let mut payload = vec![0; RECORD_START_MIN];
        record::emit(length, &mut payload);
        payload
    }

    #[test]
    fn begun_records_of_one_peer_leave_buffers_for_others() {
        let mut bundle = bundle();
        let (mut hostile, mut honest) = (Speaker::join(&mut bundle, 1), Speaker::join(&mut bundle, 2));
        let length = RECORD_START_MIN - PREFIX + 100;
        let first = honest.cell(3, 0, &begin(length));
        honest.say(&mut bundle, &first, 200);
        for lane in 0..16 {
            let cell = hostile.cell(lane, 0, &begin(VNET + FRAME_MAX));
            hostile.say(&mut bundle, &cell, 200);
        }
        for round in 0..40 {
            for lane in 0..16 {
                let cell = hostile.cell(lane, NO_RECORD, &[0]);
                hostile.say(&mut bundle, &cell, 500);
            }
            let held = bundle.held();
            assert!(held.buffers_free >= BUFFERS_LOW, "round {round}: {held:?}");
        }
        assert!(bundle.counters().records_spoiled >= 16, "{}", bundle.counters().records_spoiled);
        let rest = honest.cell(3, NO_RECORD, &[0; 100]);
        honest.say(&mut bundle, &rest, 1);
        let frame = bundle.poll_frame(NOW).expect("who holds little keeps it");
        assert_eq!(frame.slices().map(<[u8]>::len).sum::<usize>(), length);
    }

    /// Members that open a gap as long as the window on each lane, by a cell of one byte.
    #[test]
    fn gaps_of_many_peers_have_a_bounded_number_of_places_and_who_has_few_keeps_them() {
        let mut bundle = bundle();
        let mut honest = Speaker::join(&mut bundle, 1);
        honest.lane_seqs[3] += 300;
        let behind = honest.cell(3, NO_RECORD, &[0]);
        honest.say(&mut bundle, &behind, 1);
        let gapped = |bundle: &Bundle| bundle.peers.get(0).is_some_and(|peer| peer.gapped != 0);
        for number in 10..70 {
            let mut hostile = Speaker::join(&mut bundle, number);
            for lane in 0..16 {
                hostile.lane_seqs[usize::from(lane)] += WINDOW - 1;
                let cell = hostile.cell(lane, NO_RECORD, &[0]);
                hostile.say(&mut bundle, &cell, 1);
                let lanes = bundle.peers.iter().flat_map(|peer| &peer.lanes_in);
                let places = lanes.map(|lane| lane.reorder.surplus()).sum::<usize>();
                assert_eq!(places, bundle.peers.surplus());
                assert!(places <= 131_072, "{places} places");
            }
        }
        assert!(gapped(&bundle), "its lane is short");
        assert!(bundle.peers.surplus() > 0 && bundle.counters().cells_given_up > 0);
        (0..61).for_each(|index| bundle.part(index));
        assert_eq!(bundle.peers.surplus(), 0);
    }

    /// A cell of a jumbo frame takes an eighth of a buffer: 32 superframes that come at once take more than there are, a buffer
    /// each.
    #[test]
    fn superframes_that_come_at_once_are_whole_in_cells_of_jumbo_frames() {
        const CELL: usize = 8_952 - HEADER;
        const LENGTH: usize = VNET + 60_000;
        let mut bundle = bundle();
        let mut speakers = [1, 2].map(|number| Speaker::join(&mut bundle, number));
        let mut bytes = begin(LENGTH);
        bytes.resize(record::PREFIX + LENGTH, 0);
        for (payload, number) in bytes.chunks(CELL).zip(0..) {
            for speaker in &mut speakers {
                for lane in 0..16 {
                    let cell = speaker.cell(lane, if number == 0 { 0 } else { NO_RECORD }, payload);
                    speaker.say(&mut bundle, &cell, 1);
                }
            }
        }
        let mut frames = 0;
        while bundle.poll_frame(NOW).is_some() {
            frames += 1;
        }
        assert_eq!((frames, bundle.counters().records_spoiled), (32, 0));
    }

    #[test]
    fn who_lends_all_buffers_has_them_and_spoils_nothing() {
        let mut bundle = bundle();
        let mut speaker = Speaker::join(&mut bundle, 1);
        let cell = speaker.cell(0, 0, &begin(VNET + FRAME_MAX));
        speaker.say(&mut bundle, &cell, 200);
        let lent = core::iter::from_fn(|| bundle.lend()).count();
        assert!(lent > BUFFERS_LOW);
        assert_eq!(bundle.counters().records_spoiled, 0);
    }
}
