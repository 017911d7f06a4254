//! What a follower of a fleet reads: etcd's answer, what stands there, and its own cache.

use std::collections::BTreeSet;

use tabane::fuzzing::prints;
use tabane_config::key::{ALLOW_MAX, KEYS_MAX};
use tabane_config::{Ports, parse_link};
use tabane_follow::cache::Content;
use tabane_follow::etcd::{Access, Trouble};
use tabane_follow::fleet::{Fleet, NODES_MAX, group};
use tabane_follow::plan::{Link, Named, Running, Wishes, plan};

/// The longest request that a bundle reads, in bytes.
const REQUEST_MAX: usize = 1 << 20;

/// Whatever is read is a fleet within its bounds and sentences, the cache gives it back, and a bundle can be asked for each
/// step that follows. Neither shows a key to who reads the log.
///
/// The first byte says what the others are: an answer of etcd; keys and values, as `KEY=VALUE` with a zero behind each; the cache.
pub(crate) fn fleet(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    let (fleet, complaints) = match what % 3 {
        0 => {
            let access = Access { urls: vec!["http://[::1]:2379".to_owned()], ..Access::default() };
            match access.client("/tabane/tb0").expect("an address").read(bytes) {
                Ok((fleet, complaints, _)) => (fleet, complaints),
                Err(Trouble(why)) => return prints(&why),
            }
        }
        1 => Fleet::read(bytes.split(|byte| *byte == 0).filter_map(pair)),
        _ => match serde_json::from_slice(bytes) {
            Ok(Content { fleet: Some(fleet), named, .. }) => return follow(&fleet, &named),
            _ => return,
        },
    };
    complaints.iter().for_each(|complaint| prints(complaint));
    assert!(fleet.nodes.len() <= NODES_MAX && fleet.allow.len() <= ALLOW_MAX && fleet.keys.len() <= KEYS_MAX);
    follow(&fleet, &BTreeSet::new());
}

fn pair(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]))
}

/// A bundle follows the fleet, of which this program has named some peers before.
fn follow(fleet: &Fleet, named: &BTreeSet<Named>) {
    let cached = serde_json::to_vec(fleet).expect("a fleet is JSON");
    assert_eq!(serde_json::from_slice(&cached).ok().as_ref(), Some(fleet));
    let link = |text| Link { config: parse_link(text, Ports::default()).expect("a link"), port: 7420 };
    let links = ["eth1,local=192.0.2.1,peer=192.0.2.3", "eth2,local=2001:db8::1"].map(link).into();
    let running = Running { links, ..Running::default() };
    let keys = Fleet { keys: fleet.keys.clone(), ..Fleet::default() };
    let mut said = vec![format!("{keys:?}")];
    for step in plan(&running, fleet, named, Wishes { keys: true, allow: true }, "a") {
        let request = serde_json::to_string(&step.request()).expect("a request is JSON");
        assert!(request.len() < REQUEST_MAX, "{} bytes", request.len());
        said.push(step.to_string());
    }
    said.iter().for_each(|sentence| prints(sentence));
    let secrets = fleet.keys.iter().filter(|key| group(key).is_some());
    secrets.for_each(|key| assert!(said.iter().all(|sentence| !sentence.contains(key)), "a key in the log"));
}
