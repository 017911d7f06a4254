//! P4.rtt: round trips of messages of 1 B and 1 KB, from the start of `sendto()` to the end of `recvfrom()`.
//!
//! In place of the paper's NICs there are the kinds of links of this project, and a bare veth. As in the paper each size is played
//! alone, 1,000 rounds of which 201 to 400 count; a further run plays both in turn, for the question whether one is faster.

use anyhow::Error;

use crate::prelude::*;

/// The paper's tables 2 and 3, in microseconds: maximum, minimum, mean, median and standard deviation.
const PUBLISHED: [[(&str, [f64; 5]); 3]; 2] = [
    [
        ("BlueField-2", [42.62, 19.64, 26.06, 24.22, 4.46]),
        ("X550", [109.57, 104.59, 107.74, 107.54, 0.69]),
        ("1 GbE", [160.15, 156.64, 158.65, 158.93, 0.80]),
    ],
    [
        ("BlueField-2", [51.36, 23.81, 33.76, 34.91, 4.18]),
        ("X550", [153.21, 90.51, 125.66, 126.15, 22.40]),
        ("1 GbE", [216.65, 189.24, 193.06, 193.13, 1.87]),
    ],
];
const FIGURES: [&str; 5] = ["max", "min", "mean", "median", "sd"];
const MEAN: usize = 2;
const MEDIAN: usize = 3;
const DEVIATION: usize = 4;
const SIZES: [(&str, &str); 2] = [("1", "1 B"), ("1024", "1 KB")];
const FIRST: usize = 201;
const COUNTED: usize = 200;
/// Finding 1: what the paper calls a small difference, on its 1 GbE.
const DEVIATIONS_APART_MAX: f64 = 1.87 / 0.80;
/// Finding 2: 51 of 200 on its X550.
const BELOW_MIN: f64 = 51.0 / 200.0;

#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// What `--link` says of a NIC before and behind its name; nothing for a link without a bundle.
    link: Option<[&'static str; 2]>,
    links: usize,
    is_sealed: bool,
}

const MEMORY: Option<[&str; 2]> = Some(["mem:", ""]);
const KINDS: [Kind; 10] = [
    Kind { name: "bare veth", link: None, links: 1, is_sealed: false },
    Kind { name: "udp", link: Some(["", ""]), links: 1, is_sealed: true },
    Kind { name: "udp, not sealed", link: Some(["", ""]), links: 1, is_sealed: false },
    Kind { name: "two of udp", link: Some(["", ""]), links: 2, is_sealed: true },
    Kind { name: "two of udp, not sealed", link: Some(["", ""]), links: 2, is_sealed: false },
    Kind { name: "ether", link: Some(["ether:", ""]), links: 1, is_sealed: true },
    Kind { name: "ether, not sealed", link: Some(["ether:", ""]), links: 1, is_sealed: false },
    // By AF_XDP where it can be had.
    Kind { name: "ether, engine auto", link: Some(["ether:", ",engine=auto"]), links: 1, is_sealed: true },
    Kind { name: "mem", link: MEMORY, links: 1, is_sealed: true },
    Kind { name: "mem, not sealed", link: MEMORY, links: 1, is_sealed: false },
];

/// Where both ends run. In the paper each had a machine of its own, which ran on one core.
const PLACES: [(&str, Pinning); 2] =
    [("each end on a core of its own", Pinning::Apart), ("both ends on one core", Pinning::Together)];

struct Measured {
    kind: &'static str,
    figures: [[Samples; 5]; 2],
    /// Part of the round trips of 1 KB below all of 1 B, in percent.
    below: Samples,
    /// Runs in which 1 KB had a period; in which the probe called it faster, played in turn with 1 B.
    periods: usize,
    inversions: usize,
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut all = Vec::new();
    for (place, pinning) in PLACES {
        let mut measured = KINDS.map(|kind| Measured::new(kind.name));
        for _ in 0..setting.rounds {
            for (kind, measured) in KINDS.into_iter().zip(&mut measured) {
                kind.measure(setting, pinning, measured)
                    .with_context(|| format!("{}, {place}", kind.name))?;
            }
        }
        tabulate(&mut outcome, &measured, place);
        all.push(measured);
    }
    let apart = &all[0];
    for (number, (_, size)) in SIZES.iter().enumerate() {
        let published = PUBLISHED[number].map(|(nic, figures)| (nic, figures[MEDIAN]));
        for measured in apart {
            let own = measured.figures[number][MEDIAN].clone();
            outcome.compared(format!("{}, {size}: median", measured.kind), &published, own);
        }
    }
    outcome.remarks.push(
        "tables: medians of the runs in µs, each host's programs and daemon pinned; rows: each end on a core of its own, \
         as in the paper; findings: the same; a period is that of 1 KB alone, `faster` that both were played in turn"
            .into(),
    );
    find_deviations(&mut outcome, apart);
    find_inversion(&mut outcome, apart, setting.rounds);
    find_distances(&mut outcome, apart);
    Ok(outcome)
}

fn tabulate(outcome: &mut Outcome, measured: &[Measured], place: &str) {
    for (number, (_, size)) in SIZES.iter().enumerate() {
        let of = |figures: &[f64; 5]| figures.iter().copied().map(Some).collect::<Vec<_>>();
        let published =
            PUBLISHED[number].iter().map(|(nic, figures)| (format!("published: {nic}"), of(figures)));
        let own = measured.iter().map(|kind| (kind.kind.to_string(), of(&kind.medians(number))));
        outcome.grid(
            &format!("Round trips of {size}, µs, {place}"),
            &FIGURES,
            published.chain(own).collect(),
        );
    }
    let row = |kind: &Measured| {
        let counts = [kind.below.median(), kind.periods as f64, kind.inversions as f64];
        (kind.kind.to_string(), counts.map(Some).to_vec())
    };
    let columns = ["1 KB below all of 1 B, %", "runs with a period", "runs in which 1 KB is faster"];
    outcome.grid(&format!("Finding 2, {place}"), &columns, measured.iter().map(row).collect());
}

/// Finding 1.
fn find_deviations(outcome: &mut Outcome, measured: &[Measured]) {
    let apart = |kind: &Measured| {
        let [one, other] = [0, 1].map(|size| &kind.figures[size][DEVIATION]);
        let (up, down) = (times(one, other), times(other, one));
        if up.median() >= down.median() { up } else { down }
    };
    let all = measured.iter().map(|kind| (kind.kind, apart(kind)));
    let most = all.max_by(|one, other| one.1.median().total_cmp(&other.1.median()));
    let (kind, most) = most.unwrap_or(("", Samples::new("times", Vec::new())));
    outcome.finding(
        "the standard deviation hardly depends on the message's size (as on BlueField-2 and 1 GbE)",
        most.median() <= DEVIATIONS_APART_MAX,
        format!(
            "it differs by {} times at most ({kind}); published 1.07, 2.34, and 32 on the X550",
            spread(&most, 2)
        ),
    );
}

/// Finding 2.
fn find_inversion(outcome: &mut Outcome, measured: &[Measured], runs: usize) {
    let largest = largest(measured, |kind| kind.below.median());
    let most = measured.iter().max_by_key(|kind| kind.periods);
    let is_there = |kind: &Measured| kind.below.median() >= 100.0 * BELOW_MIN && 2 * kind.periods > runs;
    outcome.finding(
        "on one kind of link 1 KB takes periodically longer, and about a quarter of its round trips less than any of 1 B",
        measured.iter().any(is_there),
        format!(
            "{:.1} % at most ({}); a period in {} of {runs} runs at most ({}); published 25.5 % on the X550, with a period",
            largest.1,
            largest.0,
            most.map_or(0, |kind| kind.periods),
            most.map_or("", |kind| kind.kind)
        ),
    );
}

/// Finding 3.
fn find_distances(outcome: &mut Outcome, measured: &[Measured]) {
    let spread = |size: usize| {
        let means: Vec<f64> = measured.iter().map(|kind| kind.medians(size)[MEAN]).collect();
        Samples::new("µs", means)
    };
    let kinds = [0, 1].map(|size| spread(size).max() - spread(size).min());
    let by_size = largest(measured, |kind| (kind.medians(1)[MEAN] - kind.medians(0)[MEAN]).abs());
    outcome.finding(
        "the kind of link decides more than the size of the message",
        kinds.iter().all(|kinds| *kinds > by_size.1),
        format!(
            "means of kinds differ by up to {:.1} µs at 1 B and {:.1} at 1 KB, those of sizes by up to {:.1} ({}); published: \
             X550 takes 81.7 and 91.9 µs longer than BlueField-2 (the paper prints 81.68 and 91.09), sizes differ by 17.9 at most there",
            kinds[0], kinds[1], by_size.1, by_size.0
        ),
    );
}

fn largest(measured: &[Measured], figure: impl Fn(&Measured) -> f64) -> (&'static str, f64) {
    let all = measured.iter().map(|kind| (kind.kind, figure(kind)));
    all.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(("", f64::NAN))
}

impl Kind {
    fn measure(self, setting: &Setting, pinning: Pinning, own: &mut Measured) -> Result<()> {
        let links = vec![LinkPlan::unshaped(); self.links];
        let topology = Topology::build(Plan { wiring: Wiring::Cable, pinning, ..Plan::two_hosts(links) })?;
        let window = Window::new()?;
        let options = bundle::Options {
            protection: if self.is_sealed { Protection::LabKey } else { Protection::None },
            ..bundle::Options::new(&setting.daemon)
        };
        let names = |[before, behind]: [&str; 2]| match self.link {
            MEMORY => vec![window.link()],
            _ => topology.nics().iter().map(|nic| format!("{before}{nic}{behind}")).collect(),
        };
        let bundles =
            self.link.map(|link| Bundle::start_over(&topology, &names(link), &options)).transpose()?;
        let there = if bundles.is_some() { bundle::address(1) } else { address(0, 1).into() };
        own.add(setting, &topology, there)?;
        bundles.map_or(Ok(()), Bundle::stop_all)
    }
}

impl Measured {
    fn new(kind: &'static str) -> Measured {
        let none = |unit| Samples::new(unit, Vec::new());
        let figures = [(); 2].map(|()| [(); 5].map(|()| none("µs")));
        Measured { kind, figures, below: none("%"), periods: 0, inversions: 0 }
    }

    fn medians(&self, size: usize) -> [f64; 5] {
        self.figures[size].each_ref().map(Samples::median)
    }

    /// Each size alone, and both in turn.
    fn add(&mut self, setting: &Setting, topology: &Topology, there: IpAddr) -> Result<()> {
        let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
        let directory = tempfile::tempdir()?;
        let play = |sizes: &str| {
            let csv = directory.path().join(sizes);
            let flags = ["--sizes", sizes, "--csv", csv.to_str().context("a path that is no text")?];
            let report = probe.measure(&["rtt", &there.to_string()], &flags)?;
            Ok::<_, Error>((report, fs::read_to_string(csv)?))
        };
        let mut alone = Vec::new();
        for (own, (bytes, _)) in self.figures.iter_mut().zip(SIZES) {
            let (report, rows) = play(bytes)?;
            let times = &report["sizes"][0]["rtt_us"];
            for (own, figure) in own.iter_mut().zip(FIGURES) {
                own.push(times[figure].as_f64().with_context(|| format!("no {figure} in {report}"))?);
            }
            self.periods += usize::from(bytes != "1" && !report["sizes"][0]["period"].is_null());
            alone.push(Samples::new("µs", counted(&rows)));
        }
        let below = alone[1].values().iter().filter(|time| **time < alone[0].min()).count();
        self.below.push(100.0 * below as f64 / alone[1].values().len() as f64);
        let (report, _) = play("1,1024")?;
        self.inversions += usize::from(report["inversions"][0]["anomaly"] == true);
        probe.stop()
    }
}

fn counted(rows: &str) -> Vec<f64> {
    let times = rows.lines().skip(FIRST).take(COUNTED);
    times.filter_map(|row| row.rsplit_once(',')?.1.parse().ok()).collect()
}
