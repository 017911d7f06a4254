//! P4.rtt: round trips of messages of 1 B and 1 KB, from the start of `sendto()` to the end of `recvfrom()`.

use std::net::IpAddr;

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::report::Samples;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, address};
use tabane_kit::workload::probe::Probe;

/// What the paper compares.
const NICS: [&str; 3] = ["BlueField-2", "X550", "1 GbE"];
/// Published, in microseconds: for each size the medians and the standard deviations of [`NICS`].
const PUBLISHED: [(&str, [f64; 3], [f64; 3]); 2] = [
    ("1 B", [24.22, 107.54, 158.93], [4.46, 0.69, 0.80]),
    ("1 KB", [34.91, 126.15, 193.13], [4.18, 22.40, 1.87]),
];

/// Samples of one path: for each size medians and standard deviations.
type Own = [[Samples; 2]; 2];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let links = vec![LinkPlan::unshaped(); 2];
    let topology = Topology::build(Plan { wiring: Wiring::Cable, ..Plan::two_hosts(links) })?;
    let none = || -> Own { [(); 2].map(|()| [(); 2].map(|()| Samples::new("µs", Vec::new()))) };
    let (mut bare, mut bundled) = (none(), none());
    for _ in 0..setting.rounds {
        measure(setting, &topology, address(0, 1).into(), &mut bare)?;
        let bundles = setting.bundles(&topology, "adaptive")?;
        measure(setting, &topology, bundle::address(1), &mut bundled)?;
        Bundle::stop_all(bundles)?;
    }
    let larger_takes_longer = [&bare, &bundled].map(|own| own[1][0].median() > own[0][0].median());
    let medians = [&bare, &bundled].map(|own| [own[0][0].median(), own[1][0].median()]);
    for (path, own) in [("bare veth", bare), ("bundle of two", bundled)] {
        for ((size, published, spread), [median, deviation]) in PUBLISHED.into_iter().zip(own) {
            let of = |figures: [f64; 3]| std::array::from_fn::<_, 3, _>(|nic| (NICS[nic], figures[nic]));
            outcome.compared(format!("{path}, {size}: median"), &of(published), median);
            outcome.compared(format!("{path}, {size}: standard deviation"), &of(spread), deviation);
        }
    }
    outcome.finding(
        "a message of 1 KB takes longer than one of 1 B, in the median",
        larger_takes_longer == [true; 2],
        format!(
            "bare {:.1} and {:.1} µs, over a bundle {:.1} and {:.1} µs",
            medians[0][0], medians[0][1], medians[1][0], medians[1][1]
        ),
    );
    Ok(outcome)
}

/// The paper's ping-pong: 1,000 rounds, of which 200 are counted.
fn measure(setting: &Setting, topology: &Topology, there: IpAddr, own: &mut Own) -> Result<()> {
    let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
    let report = probe.measure(&["rtt", &there.to_string()], &[])?;
    probe.stop()?;
    for (size, own) in own.iter_mut().enumerate() {
        for (figure, own) in ["median", "sd"].iter().zip(own) {
            let value = &report["sizes"][size]["rtt_us"][figure];
            own.push(value.as_f64().with_context(|| format!("no {figure} in {report}"))?);
        }
    }
    Ok(())
}
