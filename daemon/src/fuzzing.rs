//! What fuzz targets try of private parts. No program calls it.
//!
//! Each function panics where something is not as its sentence says.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tabane_api::{Status, Told};
use tabane_config::problem::one_line;
use tabane_proto::{Bundle, Event, NodeId};

use crate::events::{EventLog, KEPT};
use crate::handover::understood;
use crate::init::Token;
use crate::metrics::{Asked, Format, page};
use crate::names::{ADDRESSES_MAX, Answer, Names, News, is_of_one_host};
use crate::screen::{full, screen};
use crate::snapshot;
use crate::stdout::printable_json;
use crate::top::head;

/// A user sees all of this line, and nothing of it steers a terminal.
pub fn prints(line: &str) {
    assert_eq!(one_line(line), line);
}

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
    latest.iter().for_each(|entry| prints(&entry.line()));
}

/// The line that `join` reads, whole or as what follows its check, is written again as it was.
pub fn line(bytes: &[u8]) {
    for line in [String::from_utf8_lossy(bytes).into_owned(), Token::line_of(bytes).to_string()] {
        if let Ok(token) = Token::parse(&line) {
            assert_eq!(Token::parse(&token.line()), Ok(token));
        }
    }
}

/// The flow of a frame has a name, as `top` shows it.
pub fn frame(bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [true, false].iter().for_each(|sent| prints(&head(bytes, length, *sent).flow.to_string()));
}

/// An event of a bundle goes into a log.
pub fn record(log: &EventLog, event: &Event) {
    log.record(0, 0, event, &["eth1".to_owned(), "eth2".to_owned()]);
}

/// The status `of` with the peers of this bundle and the events of this log prints, wherever users see it.
pub fn shown(of: Status, bundle: &Bundle, log: &EventLog) {
    let (peers, troubles) = (snapshot::known(bundle, &of.links), log.troubles(0));
    let status = Status { peers, troubles, event_counts: log.counts(), events: log.latest(), ..of }.judged();
    let json = printable_json(&serde_json::json!(status).to_string());
    let (screen, full) = (screen(&status, None, false, None), full(&status, false));
    let bundles = [Asked { name: status.name.clone(), status: Some(status) }];
    let texts = [json, screen, full, page(&bundles, Format::Text)];
    texts.iter().for_each(|text| text.split('\n').for_each(prints));
    log.latest().iter().for_each(|entry| prints(&entry.line()));
}
