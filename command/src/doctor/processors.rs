//! The processors: clock frequency, who answers the NICs' interrupts, and what a hypervisor takes away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::report::{Area, Finding};
use super::subject::Subject;
use crate::usage::Usage;

/// Percent of the time that a hypervisor may give to others.
const STOLEN_MAX: u64 = 10;
/// Ticks that are looked at, at least: a share of fewer is noise.
const TICKS_LEAST: u64 = 50;
/// Drivers in which `powersave` means another thing than the lowest frequency.
const SCALING_THEMSELVES: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

/// What is read twice.
pub(super) struct Moment(Usage);

impl Moment {
    pub(super) fn now() -> Self {
        Self(Usage::now(None))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    processors: usize,
    /// Percent of the time that a hypervisor gave to others; `None`: too little was seen.
    stolen: Option<u64>,
    /// Processors under each governor and driver.
    governors: BTreeMap<(String, String), usize>,
    /// The processors that may answer the interrupts of each NIC that has some.
    interrupts: BTreeMap<String, BTreeSet<usize>>,
}

impl Facts {
    pub(super) fn between(before: &Moment, after: &Moment, subject: &Subject) -> Self {
        let used = after.0.since(&before.0).processors;
        let (all, stolen) =
            used.iter().fold((0, 0), |(all, stolen), one| (all + one.all(), stolen + one.stolen));
        let interrupts = subject.nics().into_iter().filter_map(|nic| Some((nic.clone(), interrupts(&nic)?)));
        Self {
            processors: used.len(),
            stolen: (all >= TICKS_LEAST).then(|| stolen * 100 / all),
            governors: governors(used.len()),
            interrupts: interrupts.collect(),
        }
    }
}

fn governors(processors: usize) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for number in 0..processors {
        let read = |file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{number}/cpufreq/{file}");
            fs::read_to_string(path).map(|text| text.trim().to_owned()).ok()
        };
        if let (Some(governor), Some(driver)) = (read("scaling_governor"), read("scaling_driver")) {
            *found.entry((governor, driver)).or_default() += 1;
        }
    }
    found
}

/// The processors that may answer the interrupts of a NIC; `None`: it has none of its own.
fn interrupts(nic: &str) -> Option<BTreeSet<usize>> {
    let directory = Path::new("/sys/class/net").join(nic).join("device/msi_irqs");
    let numbers = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.file_name());
    let mut processors = BTreeSet::new();
    for number in numbers {
        let list = Path::new("/proc/irq").join(number).join("effective_affinity_list");
        processors.extend(parse_list(&fs::read_to_string(list).unwrap_or_default()));
    }
    Some(processors).filter(|processors| !processors.is_empty())
}

/// The numbers of a list such as `0-3,8`.
fn parse_list(text: &str) -> BTreeSet<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

pub(super) fn judge(facts: &Facts) -> Area {
    let mut area =
        Area::new("processors", format!("{}, none slowed down or taken away", count(facts.processors)));
    for ((governor, driver), number) in &facts.governors {
        let is_slow = governor == "powersave" && !SCALING_THEMSELVES.contains(&driver.as_str());
        area.find(is_slow.then(|| {
            let what = format!("the governor {governor} keeps {} at the lowest frequency", count(*number));
            let costs = "a half of the rate or more where processors are the limit, and longer round trips";
            Finding::new("slow-governor", what, costs, "cpupower frequency-set --governor schedutil")
        }));
    }
    area.find(facts.stolen.filter(|stolen| *stolen > STOLEN_MAX).map(|stolen| {
        let what = format!("a hypervisor gives {stolen} % of their time to other machines");
        let costs = "that part of the rate, and pauses in which cells wait";
        Finding::new(
            "stolen-time",
            what,
            costs,
            "give this machine processors of its own (at the hypervisor)",
        )
    }));
    area.find(judge_interrupts(facts));
    area
}

/// Whether all NICs interrupt one and the same processor although there are more.
fn judge_interrupts(facts: &Facts) -> Option<Finding> {
    let all: BTreeSet<usize> = facts.interrupts.values().flatten().copied().collect();
    let (only, nics) = (all.first()?, facts.interrupts.len());
    if all.len() > 1 || nics < 2 || facts.processors < 2 {
        return None;
    }
    let names: Vec<&str> = facts.interrupts.keys().map(String::as_str).collect();
    let what = format!("processor {only} alone answers the interrupts of {}", super::report::listed(names));
    let costs = "receiving over all links takes one processor; the others cannot help";
    let mend = "apt-get install irqbalance (or write another processor to /proc/irq/N/smp_affinity_list)";
    Some(Finding::new("interrupts-on-one", what, costs, mend))
}

fn count(processors: usize) -> String {
    if processors == 1 { "1 processor".to_owned() } else { format!("{processors} processors") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(facts: &Facts) -> Vec<&'static str> {
        judge(facts).findings.iter().map(|finding| finding.check).collect()
    }

    fn governed(governor: &str, driver: &str) -> Facts {
        let governors = [((governor.to_owned(), driver.to_owned()), 4)].into_iter().collect();
        Facts { processors: 4, stolen: Some(3), governors, ..Facts::default() }
    }

    #[test]
    fn governors_are_judged_with_their_driver() {
        assert_eq!(checks(&governed("powersave", "acpi-cpufreq")), ["slow-governor"]);
        assert_eq!(checks(&governed("powersave", "intel_pstate")), [] as [&str; 0]);
        assert_eq!(checks(&governed("schedutil", "acpi-cpufreq")), [] as [&str; 0]);
    }

    #[test]
    fn stolen_time_is_found_when_it_is_much() {
        assert_eq!(checks(&Facts { stolen: Some(40), ..Facts::default() }), ["stolen-time"]);
        assert_eq!(checks(&Facts { stolen: None, ..Facts::default() }), [] as [&str; 0]);
    }

    #[test]
    fn interrupts_of_all_nics_on_one_of_several_processors_are_found() {
        let on = |first: &str, second: &str| Facts {
            processors: 4,
            interrupts: [("eth1".to_owned(), parse_list(first)), ("eth2".to_owned(), parse_list(second))]
                .into(),
            ..Facts::default()
        };
        assert_eq!(checks(&on("0", "0")), ["interrupts-on-one"]);
        assert_eq!(checks(&on("0", "1")), [] as [&str; 0]);
        assert_eq!(checks(&on("0-1", "0")), [] as [&str; 0]);
        assert_eq!(parse_list("0-2,8\n"), [0, 1, 2, 8].into());
        assert_eq!(parse_list(""), BTreeSet::new());
    }
}
