//! A scenario file: TOML text to a [`Scenario`], or every sentence that says what is wrong where, and what is allowed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tabane::config::limits::Limits;
use tabane::config::problem::{Place as Where, Problem, quoted};
use tabane::config::settings::Given;
use tabane::config::table::{Section, read};
use tabane::config::typed::{number, word};
use tabane::config::units::{BITRATE_ALLOWED, parse_bitrate};
use tabane_engine::receive::Method;
use tabane_proto::{HashLayers, Turn};

use super::contestant::Contestant;
use super::figure::Figure;
use super::plan::{
    BundleOptions, Coalescing, FAULTS_MAX, FLOWS_MAX, Fault, FaultKind, Flow, FlowKind, HOSTS_MAX, LINKS_MAX,
    Link, Over, Place, Quality, Router, Scenario, Want,
};
use super::trace::{TRACE_ALLOWED, Trace};
use super::units::{SHARE_ALLOWED, SIZE_ALLOWED, Share, TIME_ALLOWED, parse_share, parse_size, parse_time};
use crate::figures::Quantity;

const HOSTS: Limits = Limits { low: 2, high: HOSTS_MAX as i64, words: " hosts" };
const REPEATS: Limits = Limits { low: 1, high: 100, words: " runs" };
const SEED: Limits = Limits { low: 0, high: i64::MAX, words: "" };
/// IPv6 needs 1,280 bytes (RFC 8200), and larger links than these are rare.
const MTU: Limits = Limits { low: 1_280, high: 9_000, words: " bytes" };
const COALESCED: Limits = Limits { low: 1, high: 1_024, words: " frames" };
const COUNT: Limits = Limits { low: 1, high: 16, words: " flows" };
const PER_SECOND: Limits = Limits { low: 1, high: 200_000, words: " datagrams a second" };
/// A number has 8 bytes, and a datagram is one frame on a device whose MTU is 1,500 bytes.
const BYTES: Limits = Limits { low: 8, high: 1_472, words: " bytes of payload" };

const DURATION_DEFAULT: Duration = Duration::from_secs(4);
const DURATION_MAX: Duration = Duration::from_secs(600);
const QUIET_MAX: Duration = Duration::from_secs(60);
const REPEATS_DEFAULT: u32 = 3;
const FLOW_KINDS: [&str; 5] = ["tcp", "quic", "file", "udp", "ping-pong"];
const FAULT_KINDS: [&str; 8] =
    ["black-hole", "one-way", "cable", "rate", "delay", "jitter", "loss", "corruption"];
const PLACES: [Place; 3] = [Place::Sim, Place::Namespaces, Place::Guest];

/// Reads `text`, the content of the file that the user named `file`.
pub(super) fn parse(file: &str, text: &str) -> Result<Scenario, Vec<Problem>> {
    read(file, text, scenario)
}

fn scenario(top: &mut Section<'_, '_>) -> Scenario {
    let about = top.text("about", "a sentence").map_or_else(String::new, |given| given.value);
    let places = words(top, "in", &PLACES, Place::key, &[Place::Sim, Place::Namespaces]);
    let hosts = ranged(top, "hosts", HOSTS, 2);
    let quiet = time_within(top, "quiet", "up to 1 min", |time| *time <= QUIET_MAX).unwrap_or_default();
    let (duration, warm_up) = times(top);
    let repeats = ranged(top, "repeats", REPEATS, REPEATS_DEFAULT);
    let seed = ranged(top, "seed", SEED, 1);
    let in_turn = top.switch("in_turn").is_some_and(|given| given.value);
    let netem = top.switch("netem").is_some_and(|given| given.value);
    let show = words(top, "show", Figure::ALL, Figure::key, &[]);
    let usual = [Contestant::BestLink, Contestant::Bundle(tabane_proto::PolicyKind::Adaptive)];
    let contestants = words(top, "contestants", &Contestant::all(), Contestant::key, &usual);
    let links =
        top.tables("link", "link.", "a table [[link]] for each link", |section, at| link(section, &at));
    let links = links.concat();
    let bundle = top.table("bundle", "bundle.", "a table [bundle]", |section| bundle(section, links.len()));
    let flows = top.tables("flow", "flow.", "a table [[flow]] for each kind of flow", |section, at| {
        flow(section, &at, hosts, links.len())
    });
    let faults = top.tables("fault", "fault.", "a table [[fault]] for each fault", |section, at| {
        fault(section, &at, links.len(), hosts, duration)
    });
    let wants = top.tables("want", "want.", "a table [[want]] for each requirement", |section, at| {
        want(section, &at, flows.len())
    });
    counted(top, "link", links.len(), 1, LINKS_MAX);
    counted(top, "flow", flows.len(), 0, FLOWS_MAX);
    // What breaks under one flow would be broken under the next.
    counted(top, "fault", faults.len(), 0, if in_turn { 0 } else { FAULTS_MAX });
    Scenario {
        about,
        places,
        hosts,
        quiet,
        duration,
        warm_up,
        repeats,
        seed,
        in_turn,
        netem,
        show,
        contestants,
        bundle,
        links,
        flows,
        faults,
        wants,
    }
}

/// How long flows run, and how much of that is warm-up.
fn times(top: &mut Section<'_, '_>) -> (Duration, Duration) {
    let allowed = "from 100 ms to 10 min";
    let long = |time: &Duration| (Duration::from_millis(100)..=DURATION_MAX).contains(time);
    let duration = time_within(top, "duration", allowed, long).unwrap_or(DURATION_DEFAULT);
    let allowed = "less than `duration`";
    let warm_up = time_within(top, "warm_up", allowed, |time| *time < duration).unwrap_or(duration / 4);
    (duration, warm_up)
}

fn link(section: &mut Section<'_, '_>, at: &Where) -> Vec<Link> {
    const LINKS: Limits = Limits { low: 1, high: LINKS_MAX as i64, words: " links" };
    let count: usize = ranged(section, "count", LINKS, 1);
    let rate = needed(section, at, "rate", BITRATE_ALLOWED, parse_bitrate);
    let allowed = "a table such as { rate = \"50 Mbit/s\", queue = \"100 ms\" }";
    let router = section.table("router", "link.router.", allowed, router);
    let quality = Quality {
        rate: rate.unwrap_or(1),
        router: router.as_ref().map(|router| router.rate),
        delay: time(section, "delay").unwrap_or_default(),
        jitter: time(section, "jitter").unwrap_or_default(),
        loss: share(section, "loss").unwrap_or_default(),
        corruption: share(section, "corruption").unwrap_or_default(),
    };
    let mtu = ranged(section, "mtu", MTU, 1500);
    let burst = parsed(section, "burst", SIZE_ALLOWED, parse_size);
    let allowed = "a table such as { frames = 32, wait = \"100 us\" }";
    let coalescing = section.table("coalesce", "link.coalesce.", allowed, coalescing);
    vec![Link { quality, mtu, burst, coalescing, router }; count]
}

fn router(section: &mut Section<'_, '_>) -> Option<Router> {
    let (rate, queue) = (section.text("rate", BITRATE_ALLOWED), section.text("queue", TIME_ALLOWED));
    let trace = section.text("trace", "the path of a trace, or `made-up:SEED`");
    let nat = section.switch("nat");
    let allowed = "`rate` or `trace`, and `queue`";
    if let (Some(nat), None, None, None) = (&nat, &rate, &trace, &queue) {
        section.problems().push(Problem::new(&nat.place, "stands alone", allowed));
    }
    let translates = nat.is_some_and(|given| given.value);
    if let (Some(rate), Some(_)) = (&rate, &trace) {
        section.problems().push(Problem::new(&rate.place, "stands beside a trace", "`rate` or `trace`"));
    }
    let is_traced = trace.is_some();
    let (given, queue) = both(section, trace.or(rate), queue, allowed)?;
    let queue = understood(section, &queue, TIME_ALLOWED, parse_time);
    if !is_traced {
        let rate = understood(section, &given, BITRATE_ALLOWED, parse_bitrate)?;
        return Some(Router { rate, trace: None, queue: queue?, translates });
    }
    let file = section.file();
    let directory = Path::new(&*file).parent().unwrap_or(Path::new(""));
    let trace = understood(section, &given, TRACE_ALLOWED, |name| Trace::named(name, directory))?;
    Some(Router { rate: trace.mean(), trace: Some(Arc::new(trace)), queue: queue?, translates })
}

fn coalescing(section: &mut Section<'_, '_>) -> Option<Coalescing> {
    let (frames, wait) = (section.number("frames"), section.text("wait", TIME_ALLOWED));
    let allowed = "both `frames` and `wait`: whichever is reached first";
    let (frames, wait) = both(section, frames, wait, allowed)?;
    let frames = number(section.problems(), Some(&frames), COALESCED, 1);
    Some(Coalescing { frames, wait: understood(section, &wait, TIME_ALLOWED, parse_time)? })
}

/// Nothing, or both.
fn both<A, B>(
    section: &mut Section<'_, '_>,
    one: Option<Given<A>>,
    other: Option<Given<B>>,
    allowed: &str,
) -> Option<(Given<A>, Given<B>)> {
    let alone = match (one, other) {
        (Some(one), Some(other)) => return Some((one, other)),
        (one, other) => one.map(|given| given.place).or(other.map(|given| given.place))?,
    };
    section.problems().push(Problem::new(&alone, "stands alone", allowed));
    None
}

/// What `parse` makes of a text.
fn understood<T>(
    section: &mut Section<'_, '_>,
    given: &Given<String>,
    allowed: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let refused = |what| section.problems().push(Problem::new(&given.place, what, allowed));
    parse(&given.value).map_err(refused).ok()
}

fn bundle(section: &mut Section<'_, '_>, links: usize) -> BundleOptions {
    let usual = BundleOptions::default();
    let mut switch = |key, usual| section.switch(key).map_or(usual, |given| given.value);
    let (sealed, repair) = (switch("sealed", usual.sealed), switch("repair", usual.repair));
    let preempt = switch("preempt", usual.preempt);
    let hash = section.text("hash", "the layers that make a flow");
    let turn = section.text("turn", Turn::ALLOWED);
    let receive = section.text("receive", "the name of a receive engine");
    let over = section.text("over", "what cells are on the links");
    let parse_turn = |text: &str| text.parse().map_err(|_| format!("{} is out of range", quoted(text)));
    let turn = turn.and_then(|given| understood(section, &given, Turn::ALLOWED, parse_turn));
    BundleOptions {
        sealed,
        repair,
        turn: turn.unwrap_or(usual.turn),
        hash: word(section.problems(), hash.as_ref(), &HashLayers::ALL, HashLayers::name, usual.hash),
        primary: place_of(section, "primary", links, " (a link of the scenario)"),
        preempt,
        receive: word(section.problems(), receive.as_ref(), &Method::ALL, Method::name, usual.receive),
        over: word(section.problems(), over.as_ref(), &Over::ALL, Over::key, usual.over),
    }
}

fn flow(section: &mut Section<'_, '_>, at: &Where, hosts: u8, links: usize) -> Flow {
    let kind = match one_of(section, at, "kind", &FLOW_KINDS) {
        "quic" => FlowKind::Quic,
        "file" => {
            FlowKind::File { bytes: needed(section, at, "size", SIZE_ALLOWED, parse_size).unwrap_or(1) }
        }
        "udp" => FlowKind::Udp {
            per_second: ranged(section, "pps", PER_SECOND, 1_000),
            bytes: ranged(section, "bytes", BYTES, 200),
        },
        "ping-pong" => FlowKind::PingPong,
        _ => FlowKind::Tcp,
    };
    let before = section.problems().len();
    let from = host(section, "from", hosts).unwrap_or(0);
    let to = host(section, "to", hosts).unwrap_or(1);
    let all = section.switch("all").is_some_and(|given| given.value);
    if from == to && !all && section.problems().len() == before {
        let what = format!("the flow goes from host {} to itself", from + 1);
        section.problems().push(Problem::new(
            at,
            what,
            "different `from` and `to`, which are 1 and 2 if not given",
        ));
    }
    let count = ranged(section, "count", COUNT, 1);
    let bare = place_of(section, "bare", links, " (a link of the scenario)");
    Flow { kind, from, to, count, all, bare }
}

fn fault(section: &mut Section<'_, '_>, at: &Where, links: usize, hosts: u8, duration: Duration) -> Fault {
    let kind = one_of(section, at, "kind", &FAULT_KINDS);
    let link = required(section, at, "link", "the number of a link", |section| {
        place_of(section, "link", links, " (a link of the scenario)")
    });
    let allowed = "less than `duration`, counted from the start of the flows";
    let begins = required(section, at, "begins", TIME_ALLOWED, |section| {
        time_within(section, "begins", allowed, |time| *time < duration)
    });
    let begins = begins.unwrap_or_default();
    let allowed = "later than `begins`, and not later than `duration`";
    let ends = time_within(section, "ends", allowed, |time| *time > begins && *time <= duration);
    let kind = match kind {
        "one-way" => FaultKind::OneWay { host: host(section, "host", hosts).unwrap_or(0) },
        "cable" => FaultKind::Cable { host: host(section, "host", hosts).unwrap_or(0) },
        "rate" => FaultKind::Rate(needed(section, at, kind, BITRATE_ALLOWED, parse_bitrate).unwrap_or(1)),
        "delay" => FaultKind::Delay(needed(section, at, kind, TIME_ALLOWED, parse_time).unwrap_or_default()),
        "jitter" => {
            FaultKind::Jitter(needed(section, at, kind, TIME_ALLOWED, parse_time).unwrap_or_default())
        }
        "loss" => FaultKind::Loss(needed(section, at, kind, SHARE_ALLOWED, parse_share).unwrap_or_default()),
        "corruption" => {
            FaultKind::Corruption(needed(section, at, kind, SHARE_ALLOWED, parse_share).unwrap_or_default())
        }
        _ => FaultKind::BlackHole,
    };
    Fault { kind, link: link.unwrap_or_default().into(), begins, ends }
}

fn want(section: &mut Section<'_, '_>, at: &Where, flows: usize) -> Want {
    let name = section.text("name", "the name of a verdict").map(|given| given.value);
    let keys: Vec<&'static str> = Figure::ALL.iter().map(|figure| figure.key()).collect();
    let key = one_of(section, at, "figure", &keys);
    let figure = Figure::ALL.iter().find(|figure| figure.key() == key).copied().unwrap_or(Figure::Mbps);
    let flow = place_of(section, "flow", flows, " (a flow of the scenario)");
    let contestant = section.text("contestant", "the name of a contestant").map(|given| {
        word(section.problems(), Some(&given), &Contestant::all(), Contestant::key, Contestant::BestLink)
    });
    let place = section
        .text("in", "the name of a place")
        .map(|given| word(section.problems(), Some(&given), &PLACES, Place::key, Place::Sim));
    let bound = |given: Option<Given<f64>>| given.map(|given| given.value);
    let (at_least, at_most) = (bound(section.decimal("at_least")), bound(section.decimal("at_most")));
    let apart = bound(section.decimal("apart"));
    if at_least.or(at_most).or(apart).is_none() {
        let allowed = "`at_least`, `at_most`, both, or `apart`: numbers";
        section.problems().push(Problem::new(at, "it wants nothing", allowed));
    }
    let every_run = section.switch("every_run").is_some_and(|given| given.value);
    Want { name, figure, flow: flow.map(usize::from), contestant, place, at_least, at_most, apart, every_run }
}

/// How often a table stands in the file.
fn counted(top: &mut Section<'_, '_>, key: &str, count: usize, least: usize, most: usize) {
    if !(least..=most).contains(&count) {
        let place = Where { file: Some(top.file()), line: None, key: key.to_owned() };
        let problem = Problem::new(&place, format!("{count} of them"), format!("{least} to {most}"));
        top.problems().push(problem);
    }
}

fn ranged<T: TryFrom<i64>>(section: &mut Section<'_, '_>, key: &'static str, limits: Limits, usual: T) -> T {
    let given = section.number(key);
    number(section.problems(), given.as_ref(), limits, usual)
}

/// Something that is counted from 1 in the file and from 0 here.
fn place_of(
    section: &mut Section<'_, '_>,
    key: &'static str,
    count: usize,
    words: &'static str,
) -> Option<u8> {
    let given = section.number(key)?;
    // When there are none, that is a problem of its own.
    let limits = Limits { low: 1, high: i64::try_from(count.max(1)).unwrap_or(i64::MAX), words };
    let before = section.problems().len();
    let number: u8 = number(section.problems(), Some(&given), limits, 1);
    (section.problems().len() == before).then(|| number - 1)
}

fn host(section: &mut Section<'_, '_>, key: &'static str, hosts: u8) -> Option<u8> {
    place_of(section, key, hosts.into(), " (a host of the scenario)")
}

fn time(section: &mut Section<'_, '_>, key: &'static str) -> Option<Duration> {
    parsed(section, key, TIME_ALLOWED, parse_time)
}

fn time_within(
    section: &mut Section<'_, '_>,
    key: &'static str,
    allowed: &str,
    is_allowed: impl Fn(&Duration) -> bool,
) -> Option<Duration> {
    let given = section.text(key, TIME_ALLOWED)?;
    match parse_time(&given.value) {
        Ok(time) if is_allowed(&time) => return Some(time),
        Ok(_) => {
            let what = format!("{} is out of range", quoted(&given.value));
            section.problems().push(Problem::new(&given.place, what, allowed));
        }
        Err(what) => section.problems().push(Problem::new(&given.place, what, TIME_ALLOWED)),
    }
    None
}

fn share(section: &mut Section<'_, '_>, key: &'static str) -> Option<Share> {
    parsed(section, key, SHARE_ALLOWED, parse_share)
}

/// A text that `parse` understands.
fn parsed<T>(
    section: &mut Section<'_, '_>,
    key: &'static str,
    allowed: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let given = section.text(key, allowed)?;
    understood(section, &given, allowed, parse)
}

/// The same for a key that has to be there; `at` is the place of its table.
fn needed<T>(
    section: &mut Section<'_, '_>,
    at: &Where,
    key: &'static str,
    allowed: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    required(section, at, key, allowed, |section| parsed(section, key, allowed, parse))
}

/// What `take` takes for `key`, which has to be there; `at` is the place of its table.
fn required<'t, T>(
    section: &mut Section<'_, 't>,
    at: &Where,
    key: &str,
    allowed: &str,
    take: impl FnOnce(&mut Section<'_, 't>) -> Option<T>,
) -> Option<T> {
    let before = section.problems().len();
    let taken = take(section);
    if taken.is_none() && section.problems().len() == before {
        let place = Where { key: format!("{}.{key}", at.key), ..at.clone() };
        section.problems().push(Problem::new(&place, "is not given", allowed));
    }
    taken
}

/// One of `known`, which has to be given; the first of them when it is not.
fn one_of(
    section: &mut Section<'_, '_>,
    at: &Where,
    key: &'static str,
    known: &[&'static str],
) -> &'static str {
    let allowed = known.join(", ");
    let given = required(section, at, key, &allowed, |section| section.text(key, &allowed));
    word(section.problems(), given.as_ref(), known, |name| name, known[0])
}

/// A list of words, each at most once; `usual` when it is not given.
fn words<T: Copy + PartialEq>(
    section: &mut Section<'_, '_>,
    key: &'static str,
    known: &[T],
    name: impl Fn(T) -> &'static str,
    usual: &[T],
) -> Vec<T> {
    let names: Vec<&str> = known.iter().map(|one| name(*one)).collect();
    let given = section.texts(key, &format!("a list of some of {}", names.join(", ")));
    let mut found = Vec::new();
    for given in &given {
        let one = word(section.problems(), Some(given), known, &name, known[0]);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    if found.is_empty() { usual.to_vec() } else { found }
}
