//! A scenario file: TOML text to a [`Scenario`], or the sentences that say what is wrong where, and what is allowed.
//!
//! Serde reads the values and stops at the first that is none. What is wrong about values beside others is told all at once.

use std::ops::{Range, RangeInclusive};

use tabane_config::problem::{Place as Where, Problem, quoted};
use toml::de::{DeTable, DeValue};

use super::plan::{FAULTS_MAX, FLOWS_MAX, Fault, FaultKind, Flow, FlowKind, LINKS_MAX, Link, Scenario, Want};
use super::trace::{TRACE_ALLOWED, Trace};
use super::units::{Rate, Share, Size, Text, Time};
use crate::prelude::*;

const QUIET_MAX: Duration = Duration::from_secs(60);
/// Conditions are compared for every fault of a link.
const RANDOM_MAX: u64 = 5_000;
const KINDS_OF_LINKS: &str =
    "black-hole, one-way, cable, rate, delay, jitter, loss, corruption, nic-down, nic-gone, link-out";
const KINDS_OF_HOSTS: &str = "one-way, cable, nic-down, nic-gone, link-out, killed, halted, policy";
/// IPv6 needs 1,280 bytes (RFC 8200), and larger links than of 9,000 are rare.
const MTU: RangeInclusive<u64> = 1_280..=9_000;
/// A number has 8 bytes, and a datagram is one frame on a device whose MTU is 1,500 bytes.
const BYTES: RangeInclusive<u64> = 8..=1_472;
const DURATION: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

pub(super) fn parse(file: &str, text: &str) -> Result<Scenario, Vec<Problem>> {
    let source = Source { file, text, top: DeTable::parse(text).map(toml::Spanned::into_inner).ok() };
    let mut scenario: Scenario = toml::from_str(text).map_err(|error| vec![source.refused(&error)])?;
    let mut check = Check { source, problems: Vec::new() };
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    for (number, router) in scenario.links.iter_mut().map(|link| link.router.as_mut()).enumerate() {
        check.load(router.and_then(|router| router.trace.as_mut()), number, directory);
    }
    check.all(&scenario);
    if !check.problems.is_empty() {
        check.problems.sort_by_key(|problem| problem.place.line);
        return Err(check.problems);
    }
    Ok(scenario.filled_in())
}

impl Scenario {
    /// With what follows from what is given: lists without anything are as usual, and have nothing twice.
    fn filled_in(mut self) -> Scenario {
        fn each_once<T: PartialEq + Copy>(list: &mut Vec<T>, usual: Vec<T>) {
            let given = if list.is_empty() { usual } else { std::mem::take(list) };
            let is_new = |number: &usize| !given[..*number].contains(&given[*number]);
            *list = (0..given.len()).filter(is_new).map(|number| given[number]).collect();
        }
        let usual = Scenario::default();
        each_once(&mut self.places, usual.places);
        each_once(&mut self.show, usual.show);
        each_once(&mut self.contestants, usual.contestants);
        let alike = |link: Link| vec![Link { count: 1, ..link.clone() }; link.count.into()];
        self.links = self.links.into_iter().flat_map(alike).collect();
        self.warm_up = Some(self.warm_up());
        self
    }
}

/// The text of a file, where things stand in it.
struct Source<'t> {
    file: &'t str,
    text: &'t str,
    /// `None`: it is no TOML.
    top: Option<DeTable<'t>>,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    /// What serde refuses stands behind its line.
    fn refused(&self, error: &toml::de::Error) -> Problem {
        let line = error.span().map(|span| self.line(span.start));
        let text = line.and_then(|line| self.text.lines().nth(line - 1)).unwrap_or_default();
        let place = Where { file: Some(self.file.into()), line, key: text.trim().into() };
        // A user's text may stand in it.
        Problem::new(&place, error.message().replace(char::is_control, " "), "")
    }

    /// Where a key stands, or else its table: the key of `table`, of its element `number` where it has several.
    fn span(&self, table: &str, number: usize, key: &str) -> Option<Range<usize>> {
        let mut found = self.top.as_ref()?.get(table)?;
        if let DeValue::Array(all) = found.get_ref() {
            found = all.get(number)?;
        }
        for part in key.split('.').filter(|part| !part.is_empty()) {
            found = found.get_ref().as_table().and_then(|table| table.get(part)).unwrap_or(found);
        }
        Some(found.span())
    }
}

/// A key of a table, of its element of this number where it has several; an empty key is the table itself.
type Spot = (&'static str, usize, &'static str);

/// What no value tells by itself.
struct Check<'t> {
    source: Source<'t>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn refuse(&mut self, (table, number, key): Spot, what: impl Into<String>, allowed: impl Into<String>) {
        let name = if key.is_empty() { table.to_owned() } else { format!("{table}.{key}") };
        let line = self.source.span(table, number, key).map(|span| self.source.line(span.start));
        let place = Where { file: Some(self.source.file.into()), line, key: name };
        self.problems.push(Problem::new(&place, what, allowed));
    }

    fn bounded(&mut self, spot: Spot, number: impl Into<u64>, bounds: RangeInclusive<u64>) {
        let number = number.into();
        if !bounds.contains(&number) {
            let (least, most) = bounds.into_inner();
            self.refuse(spot, format!("{number} is out of range"), format!("{least} to {most}"));
        }
    }

    fn time(&mut self, spot: Spot, time: Duration, is_allowed: bool, allowed: &str) {
        if !is_allowed {
            self.refuse(spot, format!("{} is out of range", quoted(&Time::print(time))), allowed);
        }
    }

    fn number(&mut self, spot: Spot, number: Option<usize>, count: usize, words: &str) {
        // When there are none, that is a problem of its own.
        let count = count.max(1);
        if let Some(number) = number.filter(|number| *number >= count) {
            let allowed = format!("1 to {count} (a {words} of the scenario)");
            self.refuse(spot, format!("{} is out of range", number + 1), allowed);
        }
    }

    /// A key of `kinds`, whose value has to be given where it is `needed`.
    fn key_of(&mut self, kinds: &str, spot: Spot, is_given: bool, is_taken: bool, needed: Option<&str>) {
        match needed {
            _ if is_given && !is_taken => {
                self.refuse(spot, "is no key of this kind", format!("in kind {kinds}"));
            }
            Some(allowed) if is_taken && !is_given => self.refuse(spot, "is not given", allowed),
            _ => {}
        }
    }

    fn load(&mut self, trace: Option<&mut Trace>, number: usize, directory: &Path) {
        let Some(trace) = trace else { return };
        match Trace::named(&trace.name, directory) {
            Ok(loaded) => *trace = loaded,
            Err(why) => self.refuse(("link", number, "router.trace"), why, TRACE_ALLOWED),
        }
    }

    fn all(&mut self, scenario: &Scenario) {
        let links: usize = scenario.links.iter().map(|link| usize::from(link.count)).sum();
        // What breaks under one flow would be broken under the next.
        let faults_max = if scenario.in_turn { 0 } else { FAULTS_MAX };
        for (key, count, allowed) in [
            ("link", links, 1..=LINKS_MAX),
            ("flow", scenario.flows.len(), 0..=FLOWS_MAX),
            ("fault", scenario.faults.len(), 0..=faults_max),
        ] {
            if !allowed.contains(&count) {
                let (least, most) = allowed.into_inner();
                self.refuse((key, 0, ""), format!("{count} of them"), format!("{least} to {most}"));
            }
        }
        self.bounded(("hosts", 0, ""), scenario.hosts, 2..=8);
        self.bounded(("repeats", 0, ""), scenario.repeats, 1..=100);
        let random_max = if scenario.in_turn { 0 } else { RANDOM_MAX };
        self.bounded(("random_faults", 0, ""), scenario.random_faults, 0..=random_max);
        let Scenario { quiet, duration, .. } = *scenario;
        self.time(("quiet", 0, ""), quiet, quiet <= QUIET_MAX, "up to 1 min");
        self.time(("duration", 0, ""), duration, DURATION.contains(&duration), "from 100 ms to 1 h");
        let warm_up = scenario.warm_up();
        self.time(("warm_up", 0, ""), warm_up, warm_up < duration, "less than `duration`");
        self.number(("bundle", 0, "primary"), scenario.bundle.primary.map(Into::into), links, "link");
        for (number, link) in scenario.links.iter().enumerate() {
            self.link(number, link);
        }
        for (number, flow) in scenario.flows.iter().enumerate() {
            self.flow(number, flow, scenario.hosts.into(), links);
        }
        for (number, fault) in scenario.faults.iter().enumerate() {
            self.fault(number, fault, scenario, links);
        }
        for (number, want) in scenario.wants.iter().enumerate() {
            self.want(number, want, scenario.flows.len());
        }
    }

    fn link(&mut self, number: usize, link: &Link) {
        let spot = |key| ("link", number, key);
        self.bounded(spot("count"), link.count, 1..=LINKS_MAX as u64);
        self.bounded(spot("mtu"), link.mtu, MTU);
        if let Some(coalescing) = link.coalescing {
            self.bounded(spot("coalesce.frames"), coalescing.frames, 1..=1_024);
        }
        match link.router.as_ref().map(|router| (router.rate, &router.trace)) {
            Some((Some(_), Some(_))) => {
                self.refuse(spot("router.rate"), "stands beside a trace", "`rate` or `trace`");
            }
            Some((None, None)) => {
                let allowed = "`rate` or `trace`, and `queue`";
                self.refuse(spot("router"), "has neither `rate` nor `trace`", allowed);
            }
            _ => {}
        }
    }

    fn flow(&mut self, number: usize, flow: &Flow, hosts: usize, links: usize) {
        let spot = |key| ("flow", number, key);
        self.bounded(spot("count"), flow.count, 1..=16);
        self.bounded(spot("pps"), flow.per_second(), 1..=200_000);
        self.bounded(spot("bytes"), flow.payload(), BYTES);
        let (is_file, is_udp) = (flow.kind == FlowKind::File, flow.kind == FlowKind::Udp);
        self.key_of("file", spot("size"), flow.size.is_some(), is_file, Some(Size::ALLOWED));
        self.key_of("udp", spot("pps"), flow.pps.is_some(), is_udp, None);
        self.key_of("udp", spot("bytes"), flow.bytes.is_some(), is_udp, None);
        self.number(spot("from"), Some(flow.from.into()), hosts, "host");
        self.number(spot("to"), Some(flow.to.into()), hosts, "host");
        self.number(spot("bare"), flow.bare.map(Into::into), links, "link");
        if flow.from == flow.to && !flow.all {
            let what = format!("the flow goes from host {} to itself", flow.from + 1);
            self.refuse(spot(""), what, "different `from` and `to`, which are 1 and 2 if not given");
        }
    }

    fn fault(&mut self, number: usize, fault: &Fault, scenario: &Scenario, links: usize) {
        let spot = |key| ("fault", number, key);
        let (of_host, of_link) = (fault.kind.is_of_host(), !fault.kind.is_of_daemon());
        self.key_of(KINDS_OF_HOSTS, spot("host"), fault.host.is_some(), of_host, None);
        self.key_of(
            KINDS_OF_LINKS,
            spot("link"),
            fault.link.is_some(),
            of_link,
            Some("a link of the scenario"),
        );
        for (key, is_given, kind, allowed) in [
            ("rate", fault.rate.is_some(), FaultKind::Rate, Rate::ALLOWED),
            ("delay", fault.delay.is_some(), FaultKind::Delay, Time::ALLOWED),
            ("jitter", fault.jitter.is_some(), FaultKind::Jitter, Time::ALLOWED),
            ("loss", fault.loss.is_some(), FaultKind::Loss, Share::ALLOWED),
            ("corruption", fault.corruption.is_some(), FaultKind::Corruption, Share::ALLOWED),
            ("policy", fault.policy.is_some(), FaultKind::Policy, "a policy of bundles, such as \"rr\""),
        ] {
            self.key_of(key, spot(key), is_given, fault.kind == kind, Some(allowed));
        }
        self.number(spot("host"), fault.host.map(Into::into), scenario.hosts.into(), "host");
        self.number(spot("link"), fault.link, links, "link");
        let (begins, duration) = (fault.begins, scenario.duration);
        let allowed = "less than `duration`, counted from the start of the flows";
        self.time(spot("begins"), begins, begins < duration, allowed);
        if let Some(ends) = fault.ends {
            let allowed = "later than `begins`, and not later than `duration`";
            self.time(spot("ends"), ends, ends > begins && ends <= duration, allowed);
        }
    }

    fn want(&mut self, number: usize, want: &Want, flows: usize) {
        let bounds = [want.at_least, want.at_most, want.apart];
        if !bounds.iter().flatten().any(|bound| bound.is_finite()) {
            let allowed = "`at_least`, `at_most`, both, or `apart`: numbers";
            self.refuse(("want", number, ""), "it wants nothing", allowed);
        }
        self.number(("want", number, "flow"), want.flow, flows, "flow");
    }
}
