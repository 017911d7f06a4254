//! The forwarding database in whole bundles: several workers, and peers that leave.

use super::*;
use crate::fdb::Fdb;
use crate::policy::classify::Mac;
use crate::wire::cell::wire_seq;
use alloc::sync::Arc;
use alloc::vec;

const HOST: Mac = [2, 0, 0, 0, 0, 9];
const NOW: Instant = Instant::from_nanos(5_000_000_000);

/// A bundle of one of two workers with two peers, which joined in this order.
fn worker(fdb: &Arc<Fdb>, peers: [u8; 2]) -> Bundle {
    let links = vec![LinkSettings::new(1_452)];
    let fdb = Arc::clone(fdb);
    let settings = Settings { slots: 512, buffers: 16, workers: 2, fdb, ..Settings::new(node(1), 1, links) };
    let mut bundle = Bundle::new(NOW, settings);
    for number in peers {
        say(&mut bundle, NOW, number, |hello| hello);
    }
    bundle
}

/// Reads a frame to [`HOST`] from the device; returns to how many peers it goes, and whether it was flooded.
fn send(bundle: &mut Bundle) -> (u64, u64) {
    let before = *bundle.counters();
    read(bundle, NOW, HOST, &[0; 46]);
    let after = bundle.counters();
    (after.frames_sent - before.frames_sent, after.frames_flooded - before.frames_flooded)
}

#[test]
fn a_flow_whose_answers_come_by_another_worker_is_not_flooded() {
    let fdb = Arc::new(Fdb::new(0, 1));
    let (mut one, mut other) = (worker(&fdb, [2, 3]), worker(&fdb, [3, 2]));
    assert_eq!(send(&mut one), (2, 1), "nobody knows the host");
    let place = other.find(node(3)).unwrap();
    other.sender.learn(NOW, HOST, place);
    assert_eq!(send(&mut other), (1, 0));
    // This worker has the peer, but no frame has arrived from it here.
    assert_eq!(send(&mut one), (1, 0));
}

/// A frame of a peer that is gone before the frame is delivered, and whose index is another peer's by then.
#[test]
fn a_frame_teaches_nothing_about_who_got_its_senders_place() {
    let mut bundle = worker(&Arc::new(Fdb::new(0, 1)), [2, 3]);
    let place = bundle.find(node(2)).unwrap();
    let session = bundle.session(place).session_in;
    let first = bundle.sessions.table().first_in(place).unwrap();
    let header = Header::new(Kind::Data, 0, session, first);
    let mut cell = [0; HEADER + 4 + 10 + 60];
    Header { lane_seq: wire_seq(first), block_offset: 0, ..header }.emit(&mut cell);
    crate::wire::record::emit(70, &mut cell[HEADER..]);
    cell[HEADER + 14 + 6..][..6].copy_from_slice(&HOST);
    let mut buffer = bundle.lend().unwrap();
    buffer[..cell.len()].copy_from_slice(&cell);
    bundle.handle_datagrams(NOW, 0, endpoint(2), buffer, cell.len(), cell.len());
    say(&mut bundle, NOW, 2, |hello| Hello { leaves: true, ends: true, ..hello });
    say(&mut bundle, NOW, 9, |hello| hello);
    assert_eq!(bundle.find(node(9)), Some(place));
    assert!(bundle.poll_frame(NOW).is_some() && bundle.poll_frame(NOW).is_none());
    assert_eq!(send(&mut bundle), (2, 1), "nobody knows the host");
}
