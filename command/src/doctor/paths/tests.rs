//! What is found of a path, one thing after the other.

use super::*;

fn sound() -> Path {
    Path {
        nic: "eth2".into(),
        port: 7420,
        peer: "hostb".into(),
        sends: PathState::Up,
        receives: PathState::Up,
        knock: None,
        last_words: None,
        arrives: true,
        mtu: Some(1500),
        mtu_of_nics: Some(1500),
        mtu_of_own: 1500,
        loss: 0.2,
        received: 10_000,
        lost: 3,
        is_explained: false,
    }
}

fn checks(path: Path) -> Vec<&'static str> {
    let facts = Facts { paths: vec![path], silent: Vec::new(), links: 2 };
    judge(&facts).findings.iter().map(|finding| finding.check).collect()
}

#[test]
fn a_sound_path_is_a_line() {
    let area = judge(&Facts { paths: vec![sound(), sound()], silent: Vec::new(), links: 2 });
    assert_eq!((area.findings.len(), area.summary.as_str()), (0, "2 of 2 up, none loses 2 %"));
}

#[test]
fn a_path_that_is_down_is_told_apart_by_its_directions_and_by_who_refuses() {
    let down = |sends, receives| Path { sends, receives, ..sound() };
    let (up, dead) = (PathState::Up, PathState::Down);
    assert_eq!(checks(down(dead, dead)), ["path-dead"]);
    assert_eq!(checks(down(dead, up)), ["one-way-out"]);
    assert_eq!(checks(down(up, dead)), ["port-closed-here"]);
    assert_eq!(checks(Path { arrives: false, ..down(up, dead) }), ["one-way-in"]);
    assert_eq!(checks(Path { knock: Some(Knock::Refused), ..down(dead, up) }), ["port-refused"]);
    assert_eq!(checks(Path { knock: Some(Knock::Forbidden), ..down(dead, dead) }), ["port-closed-here"]);
    assert_eq!(checks(Path { knock: Some(Knock::Silence), ..down(dead, dead) }), ["path-dead"]);
}

#[test]
fn sizes_are_compared_from_the_way_to_the_own_nic() {
    assert_eq!(checks(Path { mtu: Some(1400), ..sound() }), ["path-mtu"]);
    assert_eq!(checks(Path { mtu: Some(1400), mtu_of_nics: Some(1400), ..sound() }), ["peer-mtu"]);
    assert_eq!(checks(Path { mtu: None, ..sound() }), [] as [&str; 0], "it is still being looked for");
}

#[test]
fn loss_in_either_direction_is_found_when_it_is_more_than_noise() {
    assert_eq!(checks(Path { loss: 3.0, ..sound() }), ["loss"]);
    assert_eq!(checks(Path { lost: 300, ..sound() }), ["loss"]);
    assert_eq!(checks(Path { received: 100, lost: 3, ..sound() }), [] as [&str; 0]);
    let here = Path { lost: 300, is_explained: true, ..sound() };
    assert_eq!(checks(here.clone()), [] as [&str; 0], "its NIC or socket was found to lose them");
    assert_eq!(checks(Path { loss: 3.0, ..here }), ["loss"]);
    let finding = judge_loss(&Path { loss: 30.0, sends: PathState::Suspect, ..sound() }).expect("found");
    assert_eq!(finding.what, "loses 30.0 % of the cells to hostb");
    assert!(finding.costs.contains("suspect"));
}

#[test]
fn a_link_over_which_nobody_was_seen_is_found() {
    let silent = |arrives| {
        let facts = Facts {
            silent: vec![Silent { nic: "eth2".into(), port: 7420, arrives }],
            links: 2,
            ..Facts::default()
        };
        judge(&facts).findings.remove(0)
    };
    assert!(silent(true).what.contains("firewall of this machine"));
    assert!(silent(false).what.contains("leads elsewhere"));
}
