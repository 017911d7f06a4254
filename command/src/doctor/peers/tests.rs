//! Why there is no peer, one reason after the other.

use super::*;

fn alone() -> Facts {
    Facts { heard: Some(Heard::default()), nics: vec!["eth1".into(), "eth2".into()], ..Facts::default() }
}

fn checks(facts: &Facts) -> Vec<&'static str> {
    judge(facts).findings.iter().map(|finding| finding.check).collect()
}

#[test]
fn a_peer_is_a_line() {
    let area = judge(&Facts { peers: vec!["hostb".into()], strangers: strangers(), ..alone() });
    assert_eq!(
        (area.summary.as_str(), area.findings.len()),
        ("hostb is there", 0),
        "others may greet on the wire"
    );
}

#[test]
fn the_first_reason_that_shows_is_told() {
    let heard = |own: &[&str], others: &[u16]| {
        let own_port = own.iter().map(|nic| (nic.to_string(), 7420)).collect();
        Some(Heard { own_port, other_ports: others.iter().copied().collect() })
    };
    let both = Facts { strangers: strangers(), heard: heard(&["eth1"], &[]), ..alone() };
    let stranger = judge(&both).findings.remove(0);
    assert_eq!(
        (stranger.check, stranger.what.as_str()),
        ("stranger", "eth1: [fe80::2%3]:7420 has another key")
    );
    assert_eq!(stranger.mend, "give both nodes the same key file");
    assert_eq!(checks(&Facts { heard: heard(&["eth1"], &[7421]), ..alone() }), ["greetings-blocked"]);
    assert_eq!(checks(&Facts { heard: heard(&[], &[7421]), ..alone() }), ["other-port"]);
    assert_eq!(checks(&alone()), ["nobody"]);
    let blind = judge(&Facts { heard: None, ..alone() });
    assert_eq!((blind.findings[0].check, blind.unseen.len()), ("nobody", 1));
}

#[test]
fn a_refusal_is_told_in_its_own_words() {
    let why = "it runs 2 workers and this node 1; set the same `workers` on both".to_owned();
    let refused = judge(&Facts { refused: [why].into(), ..alone() }).findings.remove(0);
    assert_eq!(refused.what, "a node is refused: it runs 2 workers and this node 1");
    assert_eq!(refused.mend, "set the same `workers` on both");
}

fn strangers() -> BTreeSet<String> {
    ["eth1: [fe80::2%3]:7420 has another key; give both nodes the same key file".to_owned()].into()
}
