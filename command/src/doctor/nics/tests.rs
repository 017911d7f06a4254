//! What is found at NICs, one thing after the other.

use super::*;

fn state() -> State {
    State {
        index: 3,
        is_up: true,
        has_carrier: true,
        mtu: 1500,
        cable: Negotiated {
            speed: Some(1_000),
            full_duplex: Some(true),
            autoneg: true,
            supported: Some(1_000),
            offered: Some(1_000),
            partner: Some(1_000),
        },
        merges: Some(true),
        segments: Some(true),
        checksums: Some(true),
        ..State::default()
    }
}

fn nic(name: &str, state: State) -> Nic {
    Nic { name: name.to_owned(), state: Some(state), wants_link_local: true, batches: Some((true, true)) }
}

/// What is found of eth2 in such a state beside a sound eth1.
fn found(state: State) -> Vec<Finding> {
    judge(&Facts { nics: vec![nic("eth1", self::state()), nic("eth2", state)] }).findings
}

fn checks(state: State) -> Vec<&'static str> {
    found(state).iter().map(|finding| finding.check).collect()
}

#[test]
fn sound_nics_are_a_line() {
    let area = judge(&Facts { nics: vec![nic("eth1", state()), nic("eth2", state())] });
    assert_eq!((area.findings.len(), area.unseen.len()), (0, 0));
    assert_eq!(area.summary, "eth1 up 1000 Mbit/s, MTU 1500; eth2 up 1000 Mbit/s, MTU 1500");
}

#[test]
fn a_nic_that_cannot_carry_blocks_its_link() {
    let missing = Nic { name: "eth9".into(), ..Nic::default() };
    let finding = judge(&Facts { nics: vec![missing] }).findings.remove(0);
    assert_eq!((finding.check, finding.blocks), ("nic-missing", true));
    assert_eq!(checks(State { is_up: false, has_carrier: false, ..state() }), ["nic-down"]);
    assert_eq!(checks(State { has_carrier: false, ..state() }), ["no-carrier"]);
    let enslaved = State { master: Some(("br0".into(), "bridge".into())), ..state() };
    assert_eq!(found(enslaved)[0].mend, "ip link set eth2 nomaster (or use br0 as the link)");
    let routed = State { master: Some(("red".into(), "vrf".into())), ..state() };
    assert_eq!(checks(routed), [] as [&str; 0]);
}

#[test]
fn ipv6_matters_where_peers_are_found_by_it() {
    for (ipv6, check) in [
        (Ipv6::Disabled, "ipv6-disabled"),
        (Ipv6::Checking, "dad-running"),
        (Ipv6::Duplicate, "dad-failed"),
        (Ipv6::Absent, "no-link-local"),
    ] {
        assert_eq!(checks(State { ipv6, ..state() }), [check]);
        let named = Nic { wants_link_local: false, ..nic("eth2", State { ipv6, ..state() }) };
        assert!(judge(&Facts { nics: vec![named] }).findings.is_empty());
    }
}

#[test]
fn the_cable_is_judged_by_what_its_ends_can_do() {
    let cable = |change: fn(&mut Negotiated)| {
        let mut state = state();
        change(&mut state.cable);
        found(state).into_iter().map(|finding| (finding.check, finding.mend)).next()
    };
    let mend =
        |change| cable(change).map(|(check, mend)| (check, mend.split(' ').next().unwrap_or("").to_owned()));
    assert_eq!(mend(|cable| cable.full_duplex = Some(false)), Some(("half-duplex", "ethtool".into())));
    assert_eq!(
        mend(|cable| (cable.speed, cable.partner) = (Some(100), Some(100))),
        Some(("low-speed", "use".into()))
    );
    assert_eq!(
        cable(|cable| cable.speed = Some(100)),
        Some(("low-speed", "use another cable: gigabit takes all four pairs".into()))
    );
    let fixed = |cable: &mut Negotiated| (cable.speed, cable.autoneg) = (Some(100), false);
    assert_eq!(cable(fixed), Some(("low-speed", "ethtool -s eth2 autoneg on".into())));
    assert_eq!(
        mend(|cable| (cable.speed, cable.supported) = (Some(100), None)),
        None,
        "nobody knows of more"
    );
    assert_eq!(mend(|cable| *cable = Negotiated::default()), None);
}

#[test]
fn offloads_that_are_off_cost_processor_time() {
    assert_eq!(checks(State { merges: Some(false), ..state() }), ["nic-gro-off"]);
    assert_eq!(checks(State { segments: Some(false), ..state() }), ["nic-gso-off"]);
    assert_eq!(checks(State { checksums: Some(false), ..state() }), ["nic-checksum-off"]);
    let bare = State { checksums: Some(false), segments: Some(false), ..state() };
    let single = Nic { batches: Some((false, true)), ..nic("eth2", bare) };
    let found = judge(&Facts { nics: vec![single] }).findings;
    assert_eq!(found.len(), 1, "what follows from checksums that are off: {found:?}");
    assert_eq!(found[0].check, "nic-checksum-off");
    let pair = State { merges: Some(false), kind: Some("veth".into()), ..state() };
    assert_eq!(checks(pair), [] as [&str; 0], "a pair of virtual NICs never merges");
    let stacked = State { merges: Some(false), stands_on: vec!["eth1".into()], ..state() };
    assert_eq!(checks(stacked), [] as [&str; 0]);
    let bundle = Nic { batches: Some((false, false)), ..nic("eth2", state()) };
    let found = judge(&Facts { nics: vec![bundle] }).findings;
    assert_eq!(found.iter().map(|finding| finding.check).collect::<Vec<_>>(), ["gso-off", "gro-off"]);
}

#[test]
fn errors_count_when_they_are_many() {
    let counted = |rx_errors, rx_missed, collisions| NicStatistics {
        rx_packets: 1_000_000,
        tx_packets: 1_000_000,
        rx_errors,
        rx_missed,
        collisions,
        ..NicStatistics::default()
    };
    assert_eq!(checks(State { counted: counted(99, 99, 99), ..state() }), [] as [&str; 0]);
    assert_eq!(checks(State { counted: counted(101, 0, 0), ..state() }), ["receive-errors"]);
    assert_eq!(checks(State { counted: counted(0, 101, 0), ..state() }), ["ring-overruns"]);
    assert_eq!(checks(State { counted: counted(0, 0, 101), ..state() }), ["send-errors"]);
    assert_eq!(checks(State { flaps: 3, ..state() }), ["carrier-flaps"]);
}

#[test]
fn unequal_mtus_are_one_finding() {
    let found = found(State { mtu: 9000, ..state() });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].what, "the MTU of eth1 is 1500, that of eth2 up to 9000");
    assert!(found[0].mend.starts_with("ip link set eth1 mtu 9000"), "{}", found[0].mend);
}
