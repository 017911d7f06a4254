//! Files of scenarios: the examples mean what they say, errors name their place, and no text makes the parser panic.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;

use super::cases::{self, Wish};
use super::contestant::Contestant;
use super::figure::Figure;
use super::file::parse;
use super::plan::{FaultKind, FlowKind};
use crate::figures::Quantity;

/// The shortest scenario.
const SHORTEST: &str = "[[link]]\nrate = \"1 Gbit/s\"\n[[flow]]\nkind = \"tcp\"\n";

/// The examples, and the experiments that are commands.
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
    let contestants = Contestant::all().into_iter().map(Contestant::key);
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
    assert_eq!(scenario.flows[0].kind, FlowKind::Tcp);
    assert_eq!(parse("f.toml", &scenario.to_string()), Ok(scenario));
}

#[test]
fn every_problem_names_its_line_its_key_and_what_is_allowed() {
    let text = "durration = \"4 s\"\n[[link]]\nrate = \"1 GB/s\"\nloss = \"2\"\n[[flow]]\nkind = \"udb\"\n\
                [[flow]]\nkind = \"tcp\"\npps = 7\nto = 3\n[[fault]]\nkind = \"loss\"\nlink = 2\nbegins = \"9 s\"\n\
                [[want]]\nfigure = \"mbps\"\n";
    let found = problems(text);
    let expected = [
        "f.toml:1: durration: unknown key (did you mean `duration`?); allowed: about, in, hosts, ",
        "f.toml:3: link.rate: unit `GB/s` counts bytes, not bits; allowed: a number and one of bit/s",
        "f.toml:4: link.loss: `2` has no unit; allowed: a number and one of ppm, %",
        "f.toml:6: flow.kind: `udb` is unknown (did you mean `udp`?); allowed: tcp, quic, file, udp, ping-pong",
        "f.toml:9: flow.pps: unknown key; allowed: kind, from, to, all, count",
        "f.toml:10: flow.to: 3 is out of range; allowed: 1 to 2 (a host of the scenario)",
        "f.toml:11: fault.loss: is not given; allowed: a number and one of ppm, %",
        "f.toml:13: fault.link: 2 is out of range; allowed: 1 to 1 (a link of the scenario)",
        "f.toml:14: fault.begins: `9 s` is out of range; allowed: less than `duration`",
        "f.toml:15: want: it wants nothing; allowed: `at_least`, `at_most`, both, or `apart`: numbers",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn what_is_missing_is_named_with_its_place() {
    assert_eq!(problems(""), ["f.toml: link: 0 of them; allowed: 1 to 8"]);
    let found = problems("[[link]]\n[[flow]]\nkind = \"file\"\nfrom = 2\n");
    assert!(found[0].starts_with("f.toml:1: link.rate: is not given; allowed: "), "{found:?}");
    assert!(found[1].starts_with("f.toml:2: flow.size: is not given; allowed: "), "{found:?}");
    assert!(
        found[2].starts_with("f.toml:2: flow: the flow goes from host 2 to itself; allowed: "),
        "{found:?}"
    );
}

#[test]
fn coalescing_is_given_whole() {
    let text = SHORTEST.replace("[[flow]]", "coalesce = { frames = 8 }\n[[flow]]");
    let found = problems(&text);
    assert!(found[0].starts_with("f.toml:3: link.coalesce.frames: stands alone; allowed: both"), "{found:?}");
}

#[test]
fn routers_have_a_rate_or_a_trace() {
    let router = |keys: &str| SHORTEST.replace("[[flow]]", &format!("router = {{ {keys} }}\n[[flow]]"));
    let found = |keys: &str| problems(&router(keys));
    assert_eq!(
        found("rate = \"1 Mbit/s\", trace = \"t\", queue = \"1 ms\"")[0],
        "f.toml:3: link.router.rate: stands beside a trace; allowed: `rate` or `trace`"
    );
    assert!(
        found("trace = \"none\", queue = \"1 ms\"")[0]
            .starts_with("f.toml:3: link.router.trace: `none` cannot be read: No such file or directory")
    );
    assert_eq!(
        found("queue = \"1 ms\""),
        ["f.toml:3: link.router.queue: stands alone; allowed: `rate` or `trace`, and `queue`"]
    );
    assert_eq!(
        found("nat = true"),
        ["f.toml:3: link.router.nat: stands alone; allowed: `rate` or `trace`, and `queue`"]
    );
    let text = router("trace = \"made-up:1\", queue = \"100 ms\", nat = true");
    let scenario = parse("f.toml", &format!("{text}bare = 1\n")).unwrap();
    assert!(scenario.translates(0) && scenario.flows[0].bare == Some(0));
    assert_eq!(scenario.mbps_of_links(&scenario.flows[0]), scenario.links[0].quality.pace() as f64 / 1e6);
    assert_eq!(parse("f.toml", &scenario.to_string()), Ok(scenario));
}

#[test]
fn faults_take_what_their_kind_takes() {
    let text = format!(
        "{SHORTEST}[[fault]]\nkind = \"cable\"\nlink = 1\nhost = 2\nbegins = \"1 s\"\nends = \"2 s\"\n"
    );
    assert_eq!(parse("f.toml", &text).unwrap().faults[0].kind, FaultKind::Cable { host: 1 });
    let found = problems(&text.replace("cable", "black-hole"));
    assert_eq!(found, ["f.toml:8: fault.host: unknown key; allowed: kind, link, begins, ends"]);
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
