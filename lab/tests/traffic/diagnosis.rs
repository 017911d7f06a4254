//! Faults planted one by one, and what `tabane doctor` and `tabane why` say of each: the one thing that is wrong, and nothing
//! else, in a bundle of cells and in one of the kernel path. docs/doctor.md has the table of them; each row is compared with what
//! was said, figures left out.

mod bundle;
mod limits;
mod machine;
mod nics;
mod overlay;
mod started;

use std::collections::BTreeSet;
use std::process::Command;

use tabane_kit::prerequisites::{STRACE, require_priority};

use crate::repository::text;
use crate::traffic::data_path::{PROGRAMS, kernel};
use crate::traffic::stage::*;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const PAGE: &str = "docs/doctor.md";
/// Exit code of a doctor who has found something.
const FOUND: i32 = 3;

/// Names without a planted fault, and why.
const NOT_PLANTED: [(&str, &str); 4] = [
    ("varying-link", "links that vary are used up, and then they are full"),
    ("low-speed", "it takes a NIC that says what it could do, which no virtual one does"),
    ("ring-overruns", "it takes a NIC with a ring, which no virtual one has"),
    ("clock-jump", "all namespaces of a machine have one wall clock, and other programs read it"),
];
/// Names without a fault by the kernel path, and why none can be there.
const IN_CELLS_ALONE: [(&str, &str); 6] = [
    ("rp-filter", "such filters look at IPv4 alone, and links between addresses of IPv4 carry cells"),
    ("far-link", "it takes a kernel that lets programs spread a flow, with CONFIG_NET_SCH_BPF"),
    ("sender-processor", "no worker sends"),
    ("receiver-processor", "no worker receives"),
    ("device-queue", "no frame waits in the bundle"),
    ("reordering", "nothing waits for late cells: a qdisc or TCP puts frames in order"),
];
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Cells, or there is no bundle yet.
    Cells,
    Programs,
}

/// Faults that are planted by these ways: each as the page calls it, with the name that is told.
struct Group {
    command: &'static str,
    faults: Vec<(&'static str, &'static str)>,
    ways: &'static [Way],
    cases: Vec<Case>,
}

impl Way {
    const BOTH: &'static [Way] = &[Way::Cells, Way::Programs];

    fn options(self, further: &[&str]) -> Result<Options> {
        if self == Way::Cells { options_with(further) } else { kernel("hash", further) }
    }

    fn ready(self, bundles: &mut [Bundle<'_>], links: usize) -> Result<()> {
        ready(bundles, links)?;
        if self == Way::Cells { Ok(()) } else { Bundle::wait_for_programs(bundles) }
    }
}

impl Group {
    fn new(
        command: &'static str,
        trial: &str,
        faults: impl Iterator<Item = (&'static str, &'static str)>,
        ways: &'static [Way],
        run: impl Fn(Way) -> Result<()> + Copy + Send + 'static,
    ) -> Group {
        let case = |way: &Way| {
            let (way, suffix) = (*way, if *way == Way::Cells { "" } else { "_by_the_kernel_path" });
            let needs = [NEEDS, if way == Way::Cells { &[] } else { PROGRAMS }].concat();
            let name = format!("{command}_names_{trial}{suffix}");
            if way == Way::Programs {
                return Case::nightly(name, needs, move || run(way));
            }
            match command {
                // They judge where time is spent: nobody else may spend any, or little.
                "why" if trial.ends_with("processor") => Case::alone(name, needs, move || run(way)),
                "why" => Case::light(name, needs, move || run(way)),
                _ => Case::new(name, needs, move || run(way)),
            }
        };
        Group { command, faults: faults.collect(), ways, cases: ways.iter().map(case).collect() }
    }
}

fn groups() -> Vec<Group> {
    let groups = [
        nics::groups(),
        bundle::groups(),
        overlay::groups(),
        machine::groups(),
        started::groups(),
        nics::wire_groups(),
        limits::groups(),
    ];
    groups.into_iter().flatten().collect()
}

const NEEDS: &[Need] = &[Daemon, Tool(NFT), Tool(ETHTOOL), Tool(STRACE), That(|| Ok(require_priority()?))];

pub(crate) fn cases() -> Vec<Case> {
    let page = Case::new("doctor_page_lists_the_planted_faults", NOTHING, page_lists_all);
    let all = Case::new("each_check_and_limit_has_a_planted_fault", NOTHING, all_are_planted);
    let planted = groups().into_iter().flat_map(|group| group.cases);
    [page, all].into_iter().chain(planted).chain(nics::cases()).chain(healthy_cases()).collect()
}

#[derive(Debug)]
struct Said {
    /// Names of the findings, or of the limit.
    names: BTreeSet<String>,
    sentence: String,
    answer: Value,
}

fn doctor(host: &Namespace, arguments: &[&str]) -> Result<Said> {
    let mut command = host.command(program(None)?);
    command.args(["doctor", "--json"]).args(arguments);
    findings(command)
}

fn findings(doctor: Command) -> Result<Said> {
    let answer = answer(doctor)?;
    let areas = answer["areas"].as_array().context("no areas")?;
    let findings: Vec<&Value> =
        areas.iter().filter_map(|area| area["findings"].as_array()).flatten().collect();
    let name = |finding: &&Value| finding["check"].as_str().unwrap_or_default().to_owned();
    let sentence = findings.first().map(|finding| {
        let about = finding["about"].as_str().map(|about| format!("{about}: ")).unwrap_or_default();
        format!("{about}{}", finding["what"].as_str().unwrap_or_default())
    });
    let (names, sentence) = (findings.iter().map(name).collect(), sentence.unwrap_or_default());
    Ok(Said { names, sentence, answer })
}

fn why(host: &Namespace) -> Result<Said> {
    let mut command = host.command(program(None)?);
    let answer = answer({
        command.args(["why", DEVICE, "--json"]);
        command
    })?;
    let word = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    Ok(Said { names: [word("limit")].into(), sentence: word("sentence"), answer })
}

fn answer(command: Command) -> Result<Value> {
    let ending = Process::start(command)?.wait(ANSWER_WITHIN)?;
    let code = ending.status.code();
    ensure!(code == Some(0) || code == Some(FOUND), "it ends with {code:?}: {}", ending.last_words());
    let answer: Value = serde_json::from_str(&ending.output).with_context(|| ending.output.clone())?;
    let is_sound = answer.get("sound").and_then(Value::as_bool).unwrap_or(true);
    ensure!(is_sound == (code == Some(0)), "exit code {code:?} of {answer:#}");
    Ok(answer)
}

/// Checks that the fault was named, that nothing else was, and that the page says so, too.
fn named(fault: &str, command: &str, said: &Said) -> Result<()> {
    let groups = groups();
    let known = groups.iter().filter(|group| group.command == command).flat_map(|group| &group.faults);
    let (_, name) = known
        .into_iter()
        .find(|(planted, _)| *planted == fault)
        .with_context(|| format!("{fault} is not among the faults of `tabane {command}`"))?;
    let row = row(command, fault, name, &said.sentence);
    println!("{row}");
    ensure!(said.names.len() == 1 && said.names.contains(*name), "{fault}: {:#}", said.answer);
    let (page, head) = (text(PAGE)?, head(command, fault));
    let told = page.lines().find(|line| line.starts_with(&head));
    let told = told.with_context(|| format!("docs/doctor.md has no row for this fault: {row}"))?;
    ensure!(masked(told) == masked(&row), "docs/doctor.md says {told}\nand the command: {row}");
    Ok(())
}

fn head(command: &str, fault: &str) -> String {
    format!("| {fault} | `{command}` |")
}

fn row(command: &str, fault: &str, name: &str, sentence: &str) -> String {
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{} `{name}` | {} |", head(command, fault), sentence.replace(&own, "hostb"))
}

/// A row without its figures and their units.
fn masked(row: &str) -> String {
    let mut words = Vec::new();
    for word in row.split_whitespace() {
        let is_unit = ["B", "kB", "kbit/s", "Mbit/s", "Gbit/s"]
            .iter()
            .any(|unit| word.trim_end_matches([')', '.', ',', ';', ':']) == *unit);
        let kept: String = word.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect();
        if !is_unit {
            words.push(kept);
        }
    }
    words.join(" ")
}

fn page_lists_all() -> Result<()> {
    const BEGIN: &str = "| Fault | Command | Named | What it says |\n|---|---|---|---|\n";
    let page = text(PAGE)?;
    let (_, rest) = page.split_once(BEGIN).context("no table of faults in docs/doctor.md")?;
    let rows: Vec<&str> = rest.lines().take_while(|line| line.starts_with('|')).collect();
    let groups = groups();
    let faults = groups.iter().flat_map(|group| group.faults.iter().map(|fault| (group.command, fault)));
    let wanted: Vec<String> =
        faults.map(|(command, (fault, name))| format!("{} `{name}` |", head(command, fault))).collect();
    for (row, wanted) in rows.iter().zip(&wanted) {
        ensure!(row.starts_with(wanted), "docs/doctor.md says {row}; wanted: {wanted} …");
    }
    ensure!(rows.len() == wanted.len(), "{} rows for {} faults", rows.len(), wanted.len());
    Ok(())
}

/// Each check and limit of the page is named where its fault is planted, in cells and by the kernel path.
fn all_are_planted() -> Result<()> {
    let page = text(PAGE)?;
    let table = |head: &str| -> Result<BTreeSet<String>> {
        let table = page.split(head).nth(1).with_context(|| format!("no table {head}"))?;
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        Ok(rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect())
    };
    let known: BTreeSet<String> = &table("| Check |")? | &table("| Limit |")?;
    let groups = groups();
    let not_by_programs = [&NOT_PLANTED[..], &IN_CELLS_ALONE].concat();
    for (way, exceptions) in [(Way::Cells, &NOT_PLANTED[..]), (Way::Programs, &not_by_programs)] {
        let able = groups.iter().filter(|group| group.ways.contains(&way));
        let planted: BTreeSet<String> =
            able.flat_map(|group| &group.faults).map(|(_, name)| (*name).to_owned()).collect();
        let excepted: BTreeSet<String> = exceptions.iter().map(|(name, _)| (*name).to_owned()).collect();
        let unknown: Vec<&String> = planted.difference(&known).collect();
        ensure!(unknown.is_empty(), "no check or limit of the page: {unknown:?}");
        let covered = &planted | &excepted;
        let missing: Vec<&String> = known.difference(&covered).collect();
        ensure!(missing.is_empty(), "{way:?}: no fault is planted for {missing:?}");
        let both: Vec<&String> = planted.intersection(&excepted).collect();
        ensure!(both.is_empty(), "{way:?}: faults are planted for {both:?}, which are said to have none");
        for (name, why) in exceptions {
            let is_said = page.contains(&format!("- `{name}`: {why}"));
            ensure!(is_said, "docs/doctor.md does not say of `{name}`: {why}");
        }
    }
    Ok(())
}

/// How often a sound pair, of which there is nothing to complain, is looked at, by both commands and at both nodes in turn.
const RUNS: usize = 3;
/// What a link carries: so little that a machine fills it although others take its processors.
const RATE: Bitrate = Bitrate::mbit(10);
const BEGUN: u64 = 2 << 20;

fn healthy_cases() -> Vec<Case> {
    vec![
        // Exercises: why --json
        Case::new("doctor_and_why_find_nothing_at_an_idle_pair", DAEMON, idle),
        Case::light("doctor_and_why_find_nothing_at_a_busy_pair", DAEMON, busy),
    ]
}

fn idle() -> Result<()> {
    with_bundles(plan(&[RATE; 2]), &options()?, |topology, _| {
        looks(
            |host| Ok((doctor(topology.host(host), &[DEVICE])?, why(topology.host(host))?)),
            "nothing-to-send",
        )
    })
}

fn busy() -> Result<()> {
    with_bundles(plan(&[RATE; 2]), &options()?, |topology, _| {
        let transfer = begin(topology.host(0), topology.host(1), 1, 1 << 20)?;
        more(&transfer, BEGUN, Duration::from_secs(30))?;
        // The receiver is looked at by the doctor alone: what fills its links it does not know for sure.
        looks(|host| Ok((doctor(topology.host(host), &[DEVICE])?, why(topology.host(0))?)), "links-full")?;
        whole(transfer).map(drop)
    })
}

/// Looks again and again, and counts what was said without a reason. That others take all processors from the daemon is a
/// reason to say so.
fn looks(look: impl Fn(usize) -> Result<(Said, Said)>, limit: &str) -> Result<()> {
    let (mut alarms, mut starved, mut right) = (Vec::new(), 0, 0);
    for run in 0..RUNS {
        let (doctor, why) = look(run % 2)?;
        if !doctor.names.is_empty() {
            alarms.push(format!("run {run}: {:#}", doctor.answer));
        }
        match why.answer["is_fault"].as_bool() {
            Some(true) if is_starved(&why) => starved += 1,
            Some(true) | None => alarms.push(format!("run {run}: {:#}", why.answer)),
            Some(false) => right += usize::from(why.names.contains(limit)),
        }
    }
    println!(
        "{RUNS} runs of each command: {} false alarms; {limit} {right} times, starved {starved} times",
        alarms.len()
    );
    ensure!(alarms.is_empty(), "{}", alarms.join("\n"));
    ensure!(right > 0 || starved > 0, "{limit} was never said");
    Ok(())
}

fn is_starved(why: &Said) -> bool {
    let busy = why.answer["facts"]["processors"].as_array().map_or(&[][..], Vec::as_slice);
    let are_busy = busy.iter().all(|busy| busy.as_u64() >= Some(95)) && !busy.is_empty();
    are_busy && why.names.iter().all(|name| name.ends_with("-processor"))
}
