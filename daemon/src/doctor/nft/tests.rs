//! Rules as nft prints them, and what becomes of a greeting.

use super::*;

fn greeting() -> Datagram {
    let (from, to) = ("fe80::2", "ff12::7461:6261");
    Datagram { nic: "eth2".into(), from: from.parse().unwrap(), to: to.parse().unwrap(), port: 7420 }
}

/// What becomes of a greeting under a chain of such a policy and such rules.
fn fate(policy: &str, rules: &[Value]) -> Fate {
    let chain = json!({ "chain": { "family": "inet", "table": "filter", "name": "input", "hook": "input",
        "prio": 0, "type": "filter", "policy": policy } });
    let other = json!({ "chain": { "family": "inet", "table": "filter", "name": "extra" } });
    let rules = rules.iter().map(|rule| {
        let chain = rule["chain"].as_str().unwrap_or("input");
        let expressions = if rule.is_array() { rule } else { &rule["expr"] };
        json!({ "rule": { "family": "inet", "table": "filter", "chain": chain, "handle": 4, "expr": expressions } })
    });
    let set = json!({ "set": { "family": "inet", "table": "filter", "name": "open", "elem": [22, 7420] } });
    let all: Vec<Value> = [chain, other, set].into_iter().chain(rules).collect();
    Ruleset::parse(&json!({ "nftables": all }).to_string()).unwrap().fate(&greeting())
}

fn is(left: &Value, right: &Value) -> Value {
    json!({ "match": { "op": "==", "left": left, "right": right } })
}

fn port(right: &Value) -> Value {
    is(&json!({ "payload": { "protocol": "udp", "field": "dport" } }), right)
}

fn nic(name: &str) -> Value {
    is(&json!({ "meta": { "key": "iifname" } }), &json!(name))
}

fn stopped(fate: &Fate) -> bool {
    matches!(fate, Fate::Stopped { .. })
}

#[test]
fn a_rule_that_drops_the_port_stops_it() {
    let drop = json!({ "drop": null });
    assert_eq!(fate("accept", &[]), Fate::Passes);
    assert!(stopped(&fate("accept", &[json!([port(&json!(7420)), drop])])));
    assert!(stopped(&fate("accept", &[json!([nic("eth2"), port(&json!(7420)), drop])])));
    assert_eq!(fate("accept", &[json!([nic("eth1"), port(&json!(7420)), drop])]), Fate::Passes);
    assert_eq!(fate("accept", &[json!([port(&json!(7421)), drop])]), Fate::Passes);
    assert!(stopped(&fate("accept", &[json!([port(&json!({ "set": [{ "range": [7000, 8000] }] })), drop])])));
    assert!(stopped(&fate("accept", &[json!([port(&json!(7420)), { "reject": { "type": "icmpx" } }])])));
}

#[test]
fn a_policy_stops_what_no_rule_accepts() {
    let established = is(&json!({ "ct": { "key": "state" } }), &json!(["established", "related"]));
    let accept = json!({ "accept": null });
    let usual = [json!([established, accept]), json!([nic("lo"), accept])];
    let Fate::Stopped { by, chain, .. } = fate("drop", &usual) else { panic!("it passes") };
    assert_eq!((by.as_str(), chain.as_str()), ("its policy", "input"));
    let opened = json!([port(&json!("@open")), accept]);
    assert_eq!(fate("drop", &[usual[0].clone(), opened]), Fate::Passes);
    let network = is(
        &json!({ "payload": { "protocol": "ip6", "field": "saddr" } }),
        &json!({ "prefix": { "addr": "fe80::", "len": 10 } }),
    );
    assert_eq!(fate("drop", &[json!([network, accept])]), Fate::Passes);
}

#[test]
fn chains_are_followed() {
    let jump = json!([{ "jump": { "target": "extra" } }]);
    let extra = json!({ "chain": "extra", "expr": [port(&json!(7420)), { "drop": null }] });
    assert!(stopped(&fate("accept", &[jump.clone(), extra])));
    let extra = json!({ "chain": "extra", "expr": [port(&json!(7420)), { "accept": null }] });
    assert_eq!(fate("drop", &[jump.clone(), extra]), Fate::Passes);
    assert!(stopped(&fate("drop", &[jump])), "an empty chain returns");
}

#[test]
fn a_map_of_states_has_no_verdict_for_what_is_new() {
    let states = json!({ "set": [["invalid", { "drop": null }], ["established", { "accept": null }]] });
    let map = json!([{ "vmap": { "key": { "ct": { "key": "state" } }, "data": states } }]);
    assert_eq!(fate("accept", std::slice::from_ref(&map)), Fate::Passes);
    assert!(stopped(&fate("drop", &[map])));
}

#[test]
fn what_is_not_understood_stops_nothing_for_sure() {
    let limit = json!([{ "limit": { "rate": 10, "per": "second" } }, { "accept": null }]);
    assert_eq!(fate("drop", &[limit]), Fate::Unclear);
    let foreign = json!([{ "xt": null }, { "drop": null }]);
    assert_eq!(fate("accept", &[foreign]), Fate::Unclear);
    let mark = is(&json!({ "meta": { "key": "mark" } }), &json!(7));
    assert_eq!(fate("accept", &[json!([mark, { "drop": null }])]), Fate::Unclear);
    assert!(Ruleset::parse("{}").is_none() && Ruleset::parse("rubbish").is_none());
}

#[test]
fn other_protocols_and_families_do_not_matter() {
    let tcp = is(&json!({ "payload": { "protocol": "tcp", "field": "dport" } }), &json!(7420));
    assert_eq!(fate("accept", &[json!([tcp, { "drop": null }])]), Fate::Passes);
    let ipv4 = is(&json!({ "meta": { "key": "nfproto" } }), &json!("ipv4"));
    assert_eq!(fate("accept", &[json!([ipv4, { "drop": null }])]), Fate::Passes);
}
