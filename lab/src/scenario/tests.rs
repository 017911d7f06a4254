//! Files of scenarios: the examples mean what they say, errors name their place, and no text makes the parser panic.

use proptest::prelude::*;
use proptest::sample::Index;

use super::cases::{self, Wish};
use super::contestant::Contestant;
use super::figure::Figure;
use super::file::parse;
use super::plan::{FaultKind, FlowKind};
use crate::prelude::*;

const SHORTEST: &str = "[[link]]\nrate = \"1 Gbit/s\"\n[[flow]]\nkind = \"tcp\"\n";

fn examples() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries =
        ["scenarios", "experiments"].map(|name| fs::read_dir(root.join(name)).expect("it is there"));
    let paths = entries.into_iter().flatten().map(|entry| entry.expect("a directory can be read").path());
    let mut examples: Vec<(PathBuf, String)> =
        paths.map(|path| (path.clone(), fs::read_to_string(path).expect("an example is text"))).collect();
    examples.sort();
    examples
}

fn problems(text: &str) -> Vec<String> {
    parse("f.toml", text).expect_err(text).iter().map(ToString::to_string).collect()
}

#[test]
fn examples_read_back_as_they_are_printed() {
    let examples = examples();
    assert!(examples.len() >= 4, "{examples:?}");
    for (path, text) in examples {
        let name = path.display().to_string();
        let cases =
            cases::parse(&name, &text, &Wish::default()).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert!(cases.iter().any(|case| !case.scenario.wants.is_empty()), "{name}");
        for case in cases {
            let (name, scenario) = (format!("{name} {}", case.name), case.scenario);
            assert!(!scenario.about.is_empty(), "{name}");
            assert_eq!(parse(&name, &scenario.to_string()), Ok(scenario), "{name}");
        }
    }
}

#[test]
fn the_page_names_every_figure_and_contestant() {
    let page = include_str!("../../../docs/scenarios.md");
    let figures = Figure::ALL.iter().map(|figure| figure.key());
    // The guide has the policies.
    let is_policy = |name: &&str| name.parse::<PolicyKind>().is_ok();
    let contestants = Contestant::all().into_iter().map(Contestant::key).filter(|name| !is_policy(name));
    for name in figures.chain(contestants) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_shortest_scenario_has_two_hosts_and_compares_the_bundle_with_the_link() {
    let scenario = parse("f.toml", SHORTEST).unwrap();
    let keys: Vec<&str> = scenario.contestants.iter().copied().map(Contestant::key).collect();
    assert_eq!((scenario.hosts, scenario.repeats, keys), (2, 3, vec!["best-link", "adaptive"]));
    assert_eq!((scenario.flows[0].from, scenario.flows[0].to), (0, 1));
    let lists = "in = []\ncontestants = [\"mptcp\", \"rr\", \"mptcp\"]";
    let listed = parse("f.toml", &with("top", lists)).unwrap();
    assert_eq!((listed.places, listed.contestants.len()), (scenario.places.clone(), 2));
    assert_eq!(scenario.flows[0].kind, FlowKind::Tcp);
    assert_eq!(parse("f.toml", &scenario.to_string()), Ok(scenario));
}

/// The shortest scenario with a further line in its link, its flow, or behind both.
fn with(place: &str, line: &str) -> String {
    match place {
        "link" => SHORTEST.replace("[[flow]]", &format!("{line}\n[[flow]]")),
        "top" => format!("{line}\n{SHORTEST}"),
        _ => format!("{SHORTEST}{line}\n"),
    }
}

#[test]
fn a_value_that_is_none_is_named_with_its_line_and_what_is_allowed() {
    let mut wrong = Vec::new();
    for (place, line, said) in [
        (
            "top",
            "durration = \"4 s\"",
            "f.toml:1: durration = \"4 s\": unknown field `durration`, expected one of `about`, ",
        ),
        ("top", "hosts = 9", "f.toml:1: hosts: 9 is out of range; allowed: 2 to 8"),
        ("top", "hosts = true", "f.toml:1: hosts = true: invalid type: boolean `true`, expected u8"),
        (
            "top",
            "contestants = [\"adaptiv\"]",
            "f.toml:1: contestants = [\"adaptiv\"]: `adaptiv` is unknown; allowed: best-link, ",
        ),
        ("top", "hosts =", "f.toml:1: hosts =: "),
        (
            "link",
            "loss = \"2\"",
            "f.toml:3: loss = \"2\": `2` has no unit; allowed: a number and one of ppm, %",
        ),
        (
            "link",
            "burst = \"1 GB/s\"",
            "f.toml:3: burst = \"1 GB/s\": unknown unit `GB/s`; allowed: a number and one of B, kB",
        ),
        ("link", "coalesce = { frames = 8 }", "f.toml:3: coalesce = { frames = 8 }: missing field `wait`"),
        ("flow", "kind = \"tcp\"", "f.toml:5: kind = \"tcp\": duplicate key"),
        (
            "flow",
            "[[flow]]\nkind = \"udb\"",
            "f.toml:6: kind = \"udb\": unknown variant `udb`, expected one of `tcp`, `quic`, `file`, `udp`, ",
        ),
        ("flow", "to = 0", "f.toml:5: to = 0: 0 is out of range; allowed: from 1 on"),
        ("flow", "[[want]]\nat_least = 1", "f.toml:5: [[want]]: missing field `figure`"),
    ] {
        let found = problems(&with(place, line));
        if found.len() != 1 || !found[0].starts_with(said) {
            wrong.push(format!("{found:?}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn whatever_is_wrong_about_values_beside_others_is_named() {
    let text = "warm_up = \"4 s\"\n[[link]]\nrate = \"1 Gbit/s\"\nrouter = { queue = \"1 ms\" }\n[[flow]]\nkind = \"file\"\n\
                [[flow]]\nkind = \"tcp\"\npps = 7\nto = 3\n[[fault]]\nkind = \"loss\"\nlink = 2\nbegins = \"9 s\"\nhost = 1\n\
                [[want]]\nfigure = \"mbps\"\n[[flow]]\nkind = \"tcp\"\nfrom = 2\n[[fault]]\nkind = \"killed\"\nlink = 1\nbegins = \"1 s\"\n";
    let expected = [
        "f.toml:1: warm_up: `4 s` is out of range; allowed: less than `duration`",
        "f.toml:4: link.router: has neither `rate` nor `trace`; allowed: `rate` or `trace`, and `queue`",
        "f.toml:5: flow.size: is not given; allowed: a number and one of B, kB",
        "f.toml:9: flow.pps: is no key of this kind; allowed: in kind udp",
        "f.toml:10: flow.to: 3 is out of range; allowed: 1 to 2 (a host of the scenario)",
        "f.toml:11: fault.loss: is not given; allowed: a number and one of ppm, %",
        "f.toml:13: fault.link: 2 is out of range; allowed: 1 to 1 (a link of the scenario)",
        "f.toml:14: fault.begins: `9 s` is out of range; allowed: less than `duration`",
        "f.toml:15: fault.host: is no key of this kind; allowed: in kind one-way, cable",
        "f.toml:16: want: it wants nothing; allowed: `at_least`, `at_most`, both, or `apart`: numbers",
        "f.toml:18: flow: the flow goes from host 2 to itself; allowed: different `from` and `to`",
        "f.toml:23: fault.link: is no key of this kind; allowed: in kind black-hole, one-way, cable",
    ];
    let found = problems(text);
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert_eq!(problems(""), ["f.toml: link: 0 of them; allowed: 1 to 8"]);
}

#[test]
fn routers_have_a_rate_or_a_trace() {
    let router = |keys: &str| with("link", &format!("router = {{ {keys}, queue = \"100 ms\", nat = true }}"));
    assert_eq!(
        problems(&router("rate = \"1 Mbit/s\", trace = \"made-up:1\"")),
        ["f.toml:3: link.router.rate: stands beside a trace; allowed: `rate` or `trace`"]
    );
    let unreadable = "f.toml:3: link.router.trace: `none` cannot be read: No such file or directory";
    assert!(problems(&router("trace = \"none\""))[0].starts_with(unreadable));
    let scenario = parse("f.toml", &format!("{}bare = 1\n", router("trace = \"made-up:1\""))).unwrap();
    assert!(scenario.translates(0) && scenario.flows[0].bare == Some(0));
    assert_eq!(scenario.mbps_of_links(&scenario.flows[0]), scenario.links[0].quality().pace() as f64 / 1e6);
    assert_eq!(parse("f.toml", &scenario.to_string()), Ok(scenario));
}

#[test]
fn a_fault_of_a_cable_has_a_host() {
    let fault = "[[fault]]\nkind = \"cable\"\nlink = 1\nhost = 2\nbegins = \"1 s\"\nends = \"2 s\"";
    let fault = parse("f.toml", &with("flow", fault)).unwrap().faults[0];
    assert_eq!((fault.kind, fault.host), (FaultKind::Cable, Some(1)));
}

/// Whatever `text` is: sentences, or a scenario that reads back as it is printed.
fn survives(text: &str) {
    match cases::parse("f", text, &Wish::default()) {
        Ok(cases) => {
            for scenario in cases.into_iter().map(|case| case.scenario) {
                assert_eq!(parse("f", &scenario.to_string()), Ok(scenario));
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| !problem.to_string().contains('\n')));
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_edit_of_an_example_panics(
        which in any::<Index>(),
        edits in proptest::collection::vec((any::<Index>(), 0..40_usize, "[ -~\n]{0,12}"), 1..6),
    ) {
        let (_, text) = which.get(&examples()).clone();
        let mut bytes = text.into_bytes();
        for (at, cut, put) in edits {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + cut);
            bytes.splice(at..end, put.into_bytes());
        }
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_swap_of_lines_panics(which in any::<Index>(), swaps in proptest::collection::vec(any::<[Index; 2]>(), 1..8)) {
        let (_, text) = which.get(&examples()).clone();
        let mut lines: Vec<&str> = text.lines().collect();
        for [one, other] in swaps {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
        }
        survives(&lines.join("\n"));
    }
}
