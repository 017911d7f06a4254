//! `tabane doctor`: what is wrong on this machine and on the paths of a bundle, what it costs, and the command that mends it.
//!
//! ```text
//!   subject (a running bundle, a file, NICs) ── areas: each gathers facts, judges them ── report ── text or JSON
//! ```
//!
//! Each area is a file with three parts: the facts as plain data, how they are gathered, and a function that judges them and
//! reads nothing else. Facts that change are gathered twice, [`WATCH`] apart. What this user may not see is said, and is no
//! finding. `docs/doctor.md` lists the checks.

mod buffers;
mod clock;
mod device;
mod kernel;
mod nics;
mod paths;
mod peers;
mod processors;
mod report;
mod routes;
mod subject;
mod wiring;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::stdout::{line, print};
use report::{Area, Finding, Report};
use subject::{Bundle, Subject};
use tabane_process::exit::Found;

/// How long the bundle and the NICs are watched.
const WATCH: Duration = Duration::from_millis(1_100);

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Name of a bundle, or a file.
    pub(crate) target: Option<String>,
    /// NICs to look at before there is a bundle.
    pub(crate) nics: Vec<String>,
    pub(crate) json: bool,
}

/// Looks, prints what was found, and fails with [`Found`] when something was.
pub(crate) fn doctor(asked: &Asked) -> anyhow::Result<()> {
    let subject = Subject::of(asked)?;
    let report = examine(&subject)?;
    print(&if asked.json { report.json() } else { report.text(line()) })?;
    match report.findings().count() {
        0 => Ok(()),
        count => Err(Found { count }.into()),
    }
}

/// All areas, in the order in which one explains the next: where a NIC is down, its path is not a finding of its own.
fn examine(subject: &Subject) -> anyhow::Result<Report> {
    let before = Moment::now(subject)?;
    let watched = Watched::over(subject);
    let after = Moment::now(subject)?;
    let mut areas = vec![kernel::judge(&kernel::gather())];
    areas.extend(subject.bundle.as_ref().map(|bundle| device::judge(&device::gather(bundle))));
    areas.push(buffers::judge(&buffers::gather(subject, after.bundle.as_ref())));
    let nics = nics::Facts::between(subject, &before.nics, &after.nics, after.bundle.as_ref());
    areas.push(nics::judge(&nics));
    areas.push(wiring::judge(&wiring::Facts { nics, shared: watched.shared }));
    areas.push(routes::judge(&routes::gather(subject, after.bundle.as_ref())));
    if let (Some(before), Some(after)) = (&before.bundle, &after.bundle) {
        let explained = Explained::by(&areas);
        let facts = peers::Facts::of(subject, after, watched.heard.as_ref(), &explained.silence);
        areas.push(peers::judge(&facts));
        areas.push(paths::judge(&paths::gather(subject, before, after, watched.heard.as_ref(), &explained)));
    }
    let processors = processors::Facts::between(&before.processors, &after.processors, subject);
    areas.push(processors::judge(&processors));
    areas.push(clock::judge(&clock::Facts::between(&before.clock, &after.clock)));
    Ok(Report::new(subject.title.clone(), areas))
}

/// What the findings so far explain, by NIC.
#[derive(Debug, Default)]
struct Explained {
    /// NICs over which nothing can pass.
    silence: BTreeSet<String>,
    /// NICs at which cells that have arrived are lost.
    loss: BTreeSet<String>,
}

impl Explained {
    fn by(areas: &[Area]) -> Self {
        let findings = || areas.iter().flat_map(|area| &area.findings);
        let nics = |explains: fn(&&Finding) -> bool| {
            findings().filter(explains).filter_map(|finding| finding.about.clone()).collect()
        };
        Self { silence: nics(|finding| finding.blocks), loss: nics(|finding| finding.loses) }
    }
}

/// What is read twice.
struct Moment {
    bundle: Option<Bundle>,
    nics: Vec<tabane_io::netlink::NicDetail>,
    processors: processors::Moment,
    clock: clock::Moment,
}

impl Moment {
    fn now(subject: &Subject) -> anyhow::Result<Self> {
        Ok(Self {
            bundle: subject.status()?,
            nics: tabane_io::netlink::nic_details()?,
            processors: processors::Moment::now(),
            clock: clock::Moment::now(),
        })
    }
}

struct Watched {
    /// The pairs of NICs, by their places, that share an Ethernet segment; `None`: this user may not look.
    shared: Option<BTreeSet<(usize, usize)>>,
    /// What came in at each NIC; `None`: this user may not look.
    heard: Option<peers::Overheard>,
}

impl Watched {
    /// Watches for [`WATCH`].
    fn over(subject: &Subject) -> Self {
        /// A frame crosses a switch in much less.
        const CROSSES: Duration = Duration::from_millis(200);
        let ears = peers::Ears::open(subject);
        let shared = tabane_io::segment::shared_segments(&subject.nics(), CROSSES).ok();
        std::thread::sleep(WATCH.saturating_sub(if shared.is_some() { CROSSES } else { Duration::ZERO }));
        Self { shared, heard: ears.map(|ears| ears.heard()) }
    }
}
