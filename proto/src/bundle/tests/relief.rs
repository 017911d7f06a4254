//! Peers that take too many buffers or places.

use super::*;
use crate::receive::lanes::Lanes;
use crate::receive::relief::BUFFERS_LOW;
use crate::receive::reorder::WINDOW;
use crate::wire::cell::{LANES, NO_RECORD, session_start, wire_seq};
use crate::wire::numbered::Numbered;
use crate::wire::record::{self, FRAME_MAX, PREFIX, RECORD_START_MIN, VNET};
use alloc::vec;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// A peer that sends what the test wants.
struct Speaker {
    from: SocketAddr,
    session: u16,
    link_seq: u64,
    lane_seqs: Numbered<[u64; LANES]>,
}

impl Speaker {
    fn join(bundle: &mut Bundle, number: u8) -> Self {
        let node = NodeId::new([2, 0, 0, 0, 0, number], 7420);
        let hello = Hello { node, incarnation: number.into(), session: 7, ..bundle.hello(0, None) };
        let from = SocketAddr::from(([192, 0, 2, number], 7420));
        bundle.handle_hello(NOW, Origin { link: 0, from }, &hello);
        let index = bundle.find(node).unwrap();
        let session = bundle.session(index).session_in;
        let first = session_start(number.into(), bundle.sessions.incarnation(), session);
        Self { from, session, link_seq: first, lane_seqs: Numbered([first; LANES]) }
    }

    fn cell(&mut self, lane: u8, block_offset: u16, payload: &[u8]) -> Vec<u8> {
        let lane_seq = &mut self.lane_seqs[lane];
        let header = Header::new(Kind::Data, 0, self.session, self.link_seq);
        let header = Header { lane, lane_seq: wire_seq(*lane_seq), block_offset, ..header };
        (*lane_seq, self.link_seq) = (*lane_seq + 1, self.link_seq + 1);
        let mut cell = vec![0; HEADER];
        header.emit(&mut cell);
        cell.extend_from_slice(payload);
        cell
    }

    /// A cell arrives so often that it fills a buffer, which is then not gathered.
    fn say(&self, bundle: &mut Bundle, cell: &[u8], times: usize) {
        let mut buffer = bundle.lend().expect("buffers do not run out");
        let train = cell.repeat(times);
        buffer[..train.len()].copy_from_slice(&train);
        bundle.handle_datagrams(NOW, 0, self.from, buffer, train.len(), cell.len());
    }
}

fn bundle() -> Bundle {
    let node = NodeId::new([2, 0, 0, 0, 0, 9], 7420);
    Bundle::new(NOW, Settings::new(node, 9, vec![LinkSettings::new(1_452)]))
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

/// Repair may close the later gaps.
#[test]
fn who_has_many_gaps_loses_no_more_than_makes_room() {
    let mut bundle = bundle();
    let mut speaker = Speaker::join(&mut bundle, 1);
    while bundle.counters().cells_given_up == 0 {
        speaker.lane_seqs[0] += 1;
        let behind = speaker.cell(0, NO_RECORD, &[0; 1_400]);
        speaker.say(&mut bundle, &behind, 1);
    }
    let waiting = bundle.receiver.get(0).map_or(0, Lanes::waiting);
    let (held, given_up) = (bundle.held(), bundle.counters().cells_given_up);
    assert!(held.buffers_free >= 16, "{held:?}");
    assert!(waiting as u64 > 8 * given_up, "{waiting} cells wait, {given_up} are given up");
}

/// Members that open a gap as long as the window on each lane, by a cell of one byte.
#[test]
fn gaps_of_many_peers_have_a_bounded_number_of_places_and_who_has_few_keeps_them() {
    let mut bundle = bundle();
    let mut honest = Speaker::join(&mut bundle, 1);
    honest.lane_seqs[3] += 300;
    let behind = honest.cell(3, NO_RECORD, &[0]);
    honest.say(&mut bundle, &behind, 1);
    let gapped = |bundle: &Bundle| bundle.receiver.get(0).is_some_and(Lanes::has_gaps);
    for number in 10..70 {
        let mut hostile = Speaker::join(&mut bundle, number);
        for lane in 0..16 {
            hostile.lane_seqs[lane] += WINDOW - 1;
            let cell = hostile.cell(lane, NO_RECORD, &[0]);
            hostile.say(&mut bundle, &cell, 1);
            let lanes = (0..100).filter_map(|peer| bundle.receiver.get(peer));
            let places = lanes.map(Lanes::surplus).sum::<usize>();
            assert_eq!(places, bundle.receiver.surplus());
            assert!(places <= 131_072, "{places} places");
        }
    }
    assert!(gapped(&bundle), "its lane is short");
    assert!(bundle.receiver.surplus() > 0 && bundle.counters().cells_given_up > 0);
    (0..61).for_each(|index| bundle.part(index));
    assert_eq!(bundle.receiver.surplus(), 0);
}

/// A cell of a jumbo frame takes an eighth of a buffer. With a buffer for each cell, 32 superframes at once would take more
/// buffers than there are.
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

#[test]
fn who_is_gone_holds_no_buffers() {
    let mut bundle = bundle();
    let free = bundle.held().buffers_free;
    let mut speaker = Speaker::join(&mut bundle, 1);
    speaker.lane_seqs[5] += 1;
    for cell in [speaker.cell(4, 0, &begin(VNET + FRAME_MAX)), speaker.cell(5, NO_RECORD, &[0])] {
        speaker.say(&mut bundle, &cell, 200);
    }
    assert!(bundle.held().buffers_free < free - 1, "{:?}", bundle.held());
    bundle.part(0);
    assert_eq!(bundle.held().buffers_free, free - 1, "the one that gathers what is sparse");
}
