//! The metrics of the bundles that are up: a pure function of their statuses.
//!
//! ```text
//!   families.rs ── what is said of a bundle, a link, a peer, a path ──┐
//!   tabane_api::counters ── every counter of the status ────────────────┴── page ── exposition.rs ── text
//! ```
//!
//! Names are stable: a family may be added; none loses its name, its type or its meaning without a new MINOR version and a line in
//! the changelog. `docs/reference/metrics.md` is made from [`families()`]. Invariant: the number of series depends on the links,
//! peers and workers that there are. Names of peers are what they say, so one that comes back under other names makes other series.
//!
//! The older text format stands beside OpenMetrics 1.0, for node_exporter's textfile collector and `promtool check metrics` read
//! that alone. This is why the text is written here: prometheus-client (0.25) writes OpenMetrics alone, and knows no state sets.

mod exposition;
mod families;
#[cfg(test)]
mod tests;

use std::io;

use tabane_api::Status;
use tabane_api::counters::counters;

pub use exposition::Format;
use exposition::{Labels, Number, Page};
use families::{Kind, Link, OF_BUNDLE, OF_LINK, OF_PATH, OF_PEER, Path, Row};

/// A bundle that is up here, and what it has answered.
#[derive(Clone, Debug)]
pub struct Asked {
    pub name: String,
    /// `None`: it does not answer, or not this user.
    pub status: Option<Status>,
}

/// What one metric is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub name: String,
    /// `counter`, `gauge`, `info` or `stateset`.
    pub kind: &'static str,
    pub labels: Vec<String>,
    pub help: String,
}

/// Labels of what is said of a bundle, a link, a peer, a path.
const LABELS: [&[&str]; 4] = [
    &["bundle"],
    &["bundle", "link", "nic"],
    &["bundle", "peer", "node"],
    &["bundle", "link", "nic", "peer", "node"],
];

/// Whether a bundle answers: the one thing that is said of those that do not.
const UP: (&str, &str) =
    ("bundle_up", "Whether the bundle answers: 0 where its daemon hangs, or does not answer this user.");
const EXPORTER: (&str, &str) = ("exporter_info", "The version of the program that tells of the bundles.");

/// Asks every bundle that is up in this network namespace.
pub fn ask_all() -> io::Result<Vec<Asked>> {
    Ok(tabane_api::present()?.into_iter().map(ask).collect())
}

fn ask(name: String) -> Asked {
    Asked { status: tabane_api::status_of(&name).ok(), name }
}

/// Everything that is known of `bundles`.
pub fn page(bundles: &[Asked], format: Format) -> String {
    let mut page = Page::new(format);
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    page.family(EXPORTER.0, Kind::Info, EXPORTER.1, vec![(version, Number::Whole(1))]);
    let up = bundles.iter().map(|bundle| {
        (vec![("bundle", bundle.name.clone())], Number::Whole(u64::from(bundle.status.is_some())))
    });
    page.family(UP.0, Kind::Gauge, UP.1, up.collect());
    let statuses: Vec<&Status> = bundles.iter().filter_map(|bundle| bundle.status.as_ref()).collect();
    let of_bundle = |status: &Status| vec![("bundle", status.name.clone())];
    let subjects: Vec<_> = statuses.iter().map(|status| (of_bundle(status), *status)).collect();
    page.rows(OF_BUNDLE, &subjects, |value, status| value(status));
    let links: Vec<_> = statuses.iter().flat_map(|status| Link::all(status)).collect();
    page.rows(OF_LINK, &links, |value, link| value(link));
    let peers = statuses.iter().flat_map(|status| status.peers.iter().map(move |peer| (status, peer)));
    let peers: Vec<_> = peers
        .map(|(status, peer)| {
            let labels = [("peer", peer.name.clone()), ("node", peer.node.clone())];
            (of_bundle(status).into_iter().chain(labels).collect(), peer)
        })
        .collect();
    page.rows(OF_PEER, &peers, |value, peer| value(peer));
    let paths: Vec<_> = statuses.iter().flat_map(|status| Path::all(status)).collect();
    page.rows(OF_PATH, &paths, |value, path| value(path.0));
    for (name, help) in counters() {
        let (family, scale) = named(name);
        let counted = statuses.iter().filter_map(|status| {
            let count = *status.counters.get(name)?;
            Some((of_bundle(status), scale.map_or(Number::Whole(count), |scale| Number::parts(count, scale))))
        });
        page.family(&family, Kind::Counter, &help_in_base_units(help), counted.collect());
    }
    page.finish()
}

/// Every metric that a page may hold, in its order.
pub fn families() -> Vec<Family> {
    let mut all = vec![
        family(EXPORTER.0, Kind::Info, &["version"], &[], EXPORTER.1),
        family(UP.0, Kind::Gauge, LABELS[0], &[], UP.1),
    ];
    all.extend(OF_BUNDLE.iter().map(|row| of_row(row, LABELS[0])));
    all.extend(OF_LINK.iter().map(|row| of_row(row, LABELS[1])));
    all.extend(OF_PEER.iter().map(|row| of_row(row, LABELS[2])));
    all.extend(OF_PATH.iter().map(|row| of_row(row, LABELS[3])));
    all.extend(counters().map(|(name, help)| {
        family(&named(name).0, Kind::Counter, LABELS[0], &[], &help_in_base_units(help))
    }));
    all
}

fn of_row<F>(row: &Row<F>, labels: &[&str]) -> Family {
    let Row(name, kind, more, help, _) = row;
    family(name, *kind, labels, more, help)
}

fn family(name: &str, kind: Kind, labels: &[&str], more: &[&str], help: &str) -> Family {
    let name = exposition::full(name);
    let own = (kind == Kind::States).then(|| name.clone());
    let labels = labels.iter().chain(more).map(ToString::to_string).chain(own).collect();
    Family { name, kind: kind.name(), labels, help: help.to_owned() }
}

/// The metric of a counter of the status, and how many of the counter's units are one of the metric's: names end with the
/// unit, and times are seconds.
fn named(counter: &str) -> (String, Option<u64>) {
    if let Some(what) = counter.strip_suffix("_us") {
        return (format!("{what}_seconds_total"), Some(1_000_000));
    }
    let words = counter.split('_').filter(|word| *word != "bytes");
    let unit = counter.split('_').filter(|word| *word == "bytes");
    (words.chain(unit).chain(["total"]).collect::<Vec<_>>().join("_"), None)
}

/// What a counter means, in the metric's unit.
fn help_in_base_units(help: &str) -> String {
    help.replace("microseconds", "seconds")
}

impl Page {
    /// A family for each row, with what it says of each subject.
    fn rows<F, S>(
        &mut self,
        rows: &[Row<F>],
        subjects: &[(Labels<'_>, S)],
        value: impl Fn(&F, &S) -> Vec<(Vec<String>, Number)>,
    ) {
        for Row(name, kind, more, help, of) in rows {
            let own = exposition::full(name);
            let more: &[&str] = if *kind == Kind::States { &[own.as_str()] } else { more };
            let samples = subjects.iter().flat_map(|(labels, subject)| {
                value(of, subject).into_iter().map(move |(values, number)| {
                    let more = more.iter().copied().zip(values);
                    (labels.iter().cloned().chain(more).collect(), number)
                })
            });
            self.family(name, *kind, help, samples.collect());
        }
    }
}
