//! Links that leave a running bundle, and come back.

use std::sync::mpsc::channel;

use tabane_config::{Ports, parse_link};
use tabane_io::Waker;

use super::*;
use crate::shell::tests::simulated::Simulated;

/// A worker that gets its command but is too busy to answer.
#[test]
fn a_link_that_a_worker_lets_go_late_is_gone() {
    let link = |nic: &str| parse_link(nic, Ports::default()).expect("a link");
    let config = Config { links: vec![link("eth1"), link("eth2"), link("eth3")], ..Config::default() };
    let media =
        [1, 2, 3].map(|index| Medium { index, cell_max: 1_452, mac: None, carrier: true, carrier_losses: 0 });
    let (commands, _busy) = channel();
    let waker = Arc::new(Waker::new().expect("an eventfd"));
    let workers = Workers::new([(commands, waker)].into_iter());
    let links = Links::new(
        Simulated::default(),
        &config,
        &media,
        workers,
        Arc::new(EventLog::new().expect("an eventfd")),
    );
    let Err(Refusal::Failed(late)) = links.remove(&link("eth1")) else { panic!("it has answered") };
    assert_eq!(late, "not all workers have let link eth1 go yet");
    let Err(Refusal::Input(gone)) = links.remove(&link("eth1")) else { panic!("it was there") };
    assert_eq!(gone, "link eth1 is not in the bundle; there are: eth2, eth3");
    assert_eq!(links.present().len(), 2);
}

/// The next process, at an upgrade, would refuse to start with it.
#[test]
fn a_link_that_needs_cells_does_not_join_where_there_are_to_be_programs() {
    let link = |text: &str| parse_link(text, Ports::default()).expect("a link");
    let fixed = FixedConfig { data_path: DataPath::Kernel, ..FixedConfig::default() };
    let config = Config { fixed, ..Config::default() };
    let events = Arc::new(EventLog::new().expect("an eventfd"));
    let links = Links::new(Simulated::default(), &config, &[], Workers::new(std::iter::empty()), events);
    let add = |text: &str| match links.add(link(text)) {
        Err(Refusal::Input(why)) => why,
        _ => panic!("{text} has joined"),
    };
    let bare = add("no-such");
    assert!(bare.starts_with("link no-such: with data_path kernel, each link of a sealed bundle"), "{bare}");
    assert!(!add("no-such,protected").contains("data_path"));
}

/// Linux tells of a carrier that is there again, and how often it was lost before.
#[test]
fn a_carrier_that_was_lost_unseen_is_told() {
    let machine = Simulated::default();
    let link = parse_link("eth1", Ports::default()).expect("a link");
    let medium = Medium::of_nic(&machine.plug("eth1", 1_500), &link);
    let config = Config { links: vec![link], ..Config::default() };
    let events = Arc::new(EventLog::new().expect("an eventfd"));
    let workers = Workers::new(std::iter::empty());
    let links = Links::new(machine.clone(), &config, &[medium], workers, Arc::clone(&events));
    for (losses, told) in [(0, 0), (2, 2), (0, 2), (2, 2), (1_000, 5)] {
        links.follow(&machine.change("eth1", |nic| nic.carrier_losses = losses));
        assert_eq!(events.latest().len(), told, "after {losses} losses");
    }
    let last = events.latest().pop().expect("an event");
    assert_eq!((last.what.as_str(), last.nic.as_deref()), ("carrier-lost", Some("eth1")));
}
