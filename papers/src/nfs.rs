//! P2.nfs: NFS on tmpfs over one link, over channel bonding and over a bundle, in a [`guest`](tabane_kit::guest), whose kernel has
//! them.
//!
//! The links are slow enough for an emulated processor to fill, so speeds are compared with those over one link. NICs hand over at
//! once: times between two interrupts that are long at such rates would make each request wait, and bonnie++ took more than 20 minutes
//! over one link. Client and server share the processors: of the whole guest's load, the client's side is bonnie++ with its bundle,
//! the server's its kernel threads with its bundle; the rest is work of the kernel that belongs to no process. The client's memory
//! is limited by a control group where the paper does it by the kernel's command line.

use super::setting;
use super::way::{self, WAYS, Way};
use crate::prelude::*;
use crate::workload::bonnie::{self, Figures, Phase, Sides};
use crate::workload::nfs;

const MODULES: [&str; 3] = ["bonding", "nfsd", "nfsv4"];
/// Longest that the guest may take to boot and to end, and for each run of bonnie++.
const BOOT_MAX: Duration = Duration::from_secs(300);
const RUN_MAX: Duration = Duration::from_secs(300);
/// Rate of a link: an emulated processor fills two of them.
const RATE: Bitrate = Bitrate::mbit(20);
/// Memory of the client, in 2^20 bytes.
const CLIENT_MEGABYTES: u64 = 6;
/// Least published ratio to a single link.
const NEARLY_DOUBLE: f64 = 1.75;

/// Share of a link's rate from which NFS fills it.
const FILLED: f64 = 0.85;

const OVER_TWO: [usize; 2] = [1, 2];

type Share = fn(&Phase) -> f64;

struct Published {
    what: &'static str,
    phase: fn(&Figures) -> Phase,
    /// Speeds in 10^6 bytes per second: single, bonding, RI2N.
    speeds: [f64; 3],
    /// Shares of the CPU in percent: bonding, RI2N.
    busy: Option<[f64; 2]>,
}

const PUBLISHED: [Published; 3] = [
    Published {
        what: "write",
        phase: |figures| figures.write,
        speeds: [110.0, 201.0, 213.0],
        busy: Some([40.0, 28.0]),
    },
    Published { what: "read", phase: |figures| figures.read, speeds: [111.0, 221.0, 207.0], busy: None },
    Published {
        what: "rewrite",
        phase: |figures| figures.rewrite,
        speeds: [55.0, 96.0, 101.0],
        busy: Some([42.0, 35.0]),
    },
];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let limit = BOOT_MAX + RUN_MAX * u32::try_from(WAYS.len() * setting.rounds)?;
    setting::measured(setting, "P2.nfs", &MODULES, limit, outcome)
}

pub(super) fn measure(setting: &Setting) -> Result<[Vec<Figures>; 3]> {
    // The kernel bounds what waits to be written by the machine's memory, not by the group's.
    fs::write("/proc/sys/vm/dirty_bytes", (CLIENT_MEGABYTES << 18).to_string()).context("dirty_bytes")?;
    let topology = way::hosts(2, RATE)?;
    each(WAYS, |way| see(setting, &topology, way).context(way.label()))
}

fn see(setting: &Setting, topology: &Topology, way: Way) -> Result<Vec<Figures>> {
    let joined = way.join(setting, topology)?;
    let [client, server] = [joined.addresses[0], joined.addresses[1]];
    let [beside_client, beside_server] = [0, 1].map(|host| joined.bundle_pid(host));
    let figures = {
        let _server = nfs::Server::start(topology.host(1), client)?;
        let mounted = nfs::mounted(topology.host(0), server)?;
        let serving = nfs::threads()?.into_iter().chain(beside_server).collect();
        let sides = Sides { client: beside_client.into_iter().collect(), server: serving };
        let round = |round| {
            let _step = progress::step(&format!("round {round} of {}: {}", setting.rounds, way.label()));
            bonnie::run(mounted.path(), CLIENT_MEGABYTES, &sides)
        };
        (1..=setting.rounds).map(round).collect::<Result<_>>()?
    };
    joined.end()?;
    Ok(figures)
}

impl Published {
    fn speeds(&self, rounds: &[Figures]) -> Samples {
        Samples::new("MB/s", rounds.iter().map(|figures| (self.phase)(figures).mb_per_second).collect())
    }

    /// How many times as fast each round is as one link in the median.
    fn beside(&self, rounds: &[Figures], single: &[Figures]) -> Samples {
        let single = self.speeds(single).median();
        let speeds = self.speeds(rounds);
        Samples::new("times", speeds.values().iter().map(|speed| speed / single).collect())
    }

    /// Shares of the CPU, in percent: of the whole guest.
    fn busy(&self, rounds: &[Figures]) -> Samples {
        self.share(rounds, |phase| phase.busy_percent)
    }

    fn share(&self, rounds: &[Figures], share: Share) -> Samples {
        Samples::new("%", rounds.iter().map(|figures| share(&(self.phase)(figures))).collect())
    }
}

fn outcome(seen: &[Vec<Figures>; 3]) -> Outcome {
    let mut outcome = Outcome::default();
    for published in &PUBLISHED {
        let what = published.what;
        let single = published.speeds(&seen[0]);
        for way in OVER_TWO {
            outcome.row(
                format!("{what}: {} beside one link", WAYS[way].label()),
                published.speeds[way] / published.speeds[0],
                published.beside(&seen[way], &seen[0]),
            );
        }
        outcome.own(format!("{what}: one link"), single);
        for (way, share) in OVER_TWO.into_iter().zip(published.busy.into_iter().flatten()) {
            outcome.row(format!("{what}: CPU, {}", WAYS[way].label()), share, published.busy(&seen[way]));
        }
    }
    let shares: [(&str, Share); 3] = [
        ("whole guest", |phase| phase.busy_percent),
        ("client's side", |phase| phase.client_percent),
        ("server's side", |phase| phase.server_percent),
    ];
    let rows = PUBLISHED.iter().flat_map(|of| {
        shares.map(|(who, share)| {
            let cells = seen.each_ref().map(|rounds| Some(of.share(rounds, share).median()));
            (format!("{}, {who}", of.what), cells.to_vec())
        })
    });
    outcome.grid("CPU load, % of the guest's processors (figure 5 b)", &WAYS.map(Way::label), rows.collect());
    let ratios = |way: usize| {
        let ratio = |of: &Published| of.beside(&seen[way], &seen[0]);
        PUBLISHED.iter().map(|of| (of.what, ratio(of))).collect::<Vec<_>>()
    };
    let [bonding, bundle] = OVER_TWO.map(ratios);
    outcome.finding(
        "3.3: two links in a bundle make NFS nearly twice as fast, as bonding does",
        bundle.iter().all(|(_, ratio)| ratio.median() >= NEARLY_DOUBLE),
        format!(
            "times one link: bundle {}; balance-rr {}; {}",
            list(&bundle, 2),
            list(&bonding, 2),
            limit(PUBLISHED[0].speeds(&seen[0]).median())
        ),
    );
    let busy = |way: usize| {
        let known = PUBLISHED.iter().filter(|of| of.busy.is_some());
        known.map(|of| (of.what, of.busy(&seen[way]))).collect::<Vec<_>>()
    };
    let [bonding, bundle] = OVER_TWO.map(busy);
    outcome.finding(
        "3.3: the bundle needs less of the CPU than bonding",
        bundle.iter().zip(&bonding).all(|((_, bundle), (_, bonding))| bundle.median() < bonding.median()),
        format!("percent of the guest: bundle {}; balance-rr {}", list(&bundle, 0), list(&bonding, 0)),
    );
    outcome
}

/// What bounded the speed of writing over one link, in 10^6 bytes per second.
fn limit(mb_per_second: f64) -> String {
    let share = mb_per_second * 8.0 / RATE.mbps();
    let limit = if share >= FILLED { "the links" } else { "not the links but the processors" };
    format!("{limit} were the limit, for writing filled one to {:.0} %", 100.0 * share)
}

fn list(figures: &[(&str, Samples)], digits: usize) -> String {
    figures.iter().map(|(what, own)| format!("{what} {}", spread(own, digits))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(mb_per_second: f64, busy_percent: f64) -> Vec<Figures> {
        let phase = Phase { mb_per_second, busy_percent, client_percent: 1.0, server_percent: 1.0 };
        vec![Figures { write: phase, rewrite: phase, read: phase }]
    }

    #[test]
    fn figures_decide_the_findings() {
        let holds = |seen: [Vec<Figures>; 3]| {
            outcome(&seen).findings.iter().map(|finding| finding.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds([round(2.0, 20.0), round(3.6, 40.0), round(3.8, 30.0)]), [Some(true), Some(true)]);
        assert_eq!(holds([round(2.0, 20.0), round(3.6, 40.0), round(3.4, 50.0)]), [Some(false), Some(false)]);
    }

    #[test]
    fn rows_stand_beside_the_ratios_of_the_paper() {
        let outcome = outcome(&[round(2.0, 20.0), round(3.6, 40.0), round(3.8, 30.0)]);
        let row = outcome.rows.iter().find(|row| row.what == "rewrite: bundle beside one link").unwrap();
        assert!(
            (row.own.median() - 1.9).abs() < 1e-9 && (row.published[0].value - 101.0 / 55.0).abs() < 1e-9
        );
        let row = outcome.rows.iter().find(|row| row.what == "write: CPU, bundle").unwrap();
        assert_eq!(
            (row.own.median().to_bits(), row.published[0].value.to_bits()),
            (30.0_f64.to_bits(), 28.0_f64.to_bits())
        );
    }

    #[test]
    fn a_link_that_is_not_full_was_not_the_limit() {
        assert!(limit(2.3).starts_with("the links") && limit(1.2).starts_with("not the links"));
    }
}
