//! What fuzz targets try of private parts of the daemon. No program calls it.
//!
//! Each function panics where something is not as its sentence says.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tabane_api::{Status, Told};
use tabane_config::problem::one_line;
use tabane_proto::{Bundle, Event, NodeId};

use crate::events::{EventLog, KEPT};
use crate::main_thread::handover::understood;
use crate::main_thread::names::{ADDRESSES_MAX, Answer, Names, News, is_of_one_host};
use crate::worker::snapshot;

/// Lines of the process that resolves names bring few addresses, each of one host, and no news that nobody has asked for.
pub fn resolver(bytes: &[u8]) {
    let (mut names, mut now, mut asked) = (Names::default(), Instant::now(), false);
    names.follow(&BTreeSet::from(["b".to_owned()]));
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Ok(answer) = Answer::read(line) else { continue };
        let Answer { name, addresses, .. } = &answer;
        assert!(addresses.len() <= ADDRESSES_MAX && addresses.iter().copied().all(is_of_one_host));
        assert!(names.heed(&answer) == News::None || asked);
        now += Duration::from_secs(1);
        asked = asked && name != "b" || !names.due(now, &BTreeSet::new()).is_empty();
    }
}

/// What a process says of the bundle that it hands over is a configuration, and events with which the log keeps its bounds.
pub fn handover(bytes: &[u8]) {
    let Ok(answer) = serde_json::from_slice(bytes) else { return };
    let Ok((state, config)) = understood("tb0", answer) else { return };
    assert_eq!(Told::of(&config).understood().as_ref(), Ok(&config));
    let log = EventLog::after(state.events).expect("an eventfd");
    record(&log, &Event::PeerLeft { peer: NodeId::default() });
    let latest = log.latest();
    assert!(latest.len() <= KEPT);
    latest.iter().map(|entry| entry.line()).for_each(|line| assert_eq!(one_line(&line), line));
}

/// An event of a bundle goes into a log.
pub fn record(log: &EventLog, event: &Event) {
    log.record(0, 0, event, &["eth1".to_owned(), "eth2".to_owned()]);
}

/// The status `of` with the peers of this bundle and the events of this log.
pub fn status(of: Status, bundle: &Bundle, log: &EventLog) -> Status {
    let (peers, troubles) = (snapshot::known(bundle, &of.links), log.troubles(0));
    Status { peers, troubles, event_counts: log.counts(), events: log.latest(), ..of }.judged()
}
