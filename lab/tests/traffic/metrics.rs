//! `tabane metrics` of real bundles: a link dies and comes back, and the figures say so; others read them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::{Bundle, DEVICE, address, program};
use tabane_kit::clock::wait_for;
use tabane_kit::prometheus;
use tabane_kit::tool;
use tabane_kit::topology::nic;

use crate::faults::carry;
use crate::stage::{FAST, options, plan, ready, send_file, under_a_file, with_bundles};
use crate::{Case, Need};

const LINKS: usize = 2;
const VICTIM: usize = 1;
const FILE: u64 = 4 << 20;
const WITHIN: Duration = Duration::from_secs(10);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("metrics_tell_of_a_link_that_dies_and_why", Need::DaemonAndPrometheus, dies),
        Case::new("metrics_of_real_bundles_are_read_by_others", Need::DaemonAndPrometheus, read_by_others),
    ]
}

/// The value of the one sample of `name` whose labels hold all of `labels`.
fn value(page: &str, name: &str, labels: &[&str]) -> Result<f64> {
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with('{'));
        rest.is_some_and(|rest| labels.iter().all(|label| rest.contains(label)))
    };
    let mut found = page.lines().filter(is_it);
    let (first, more) = (found.next().with_context(|| format!("{name} {labels:?}: {page}"))?, found.next());
    ensure!(more.is_none(), "{first} and {more:?}");
    Ok(first.rsplit(' ').next().unwrap_or_default().parse()?)
}

fn page(bundle: &Bundle<'_>) -> Result<String> {
    bundle.ask(&["metrics", DEVICE, "--openmetrics"])
}

/// Waits until the page is as `wanted`, and gives it.
fn until(bundle: &Bundle<'_>, what: &str, wanted: impl Fn(&str) -> Result<bool>) -> Result<String> {
    wait_for(what, WITHIN, || {
        let page = page(bundle)?;
        Ok(wanted(&page)?.then_some(page))
    })
}

fn dies() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        ready(bundles, LINKS)?;
        let [lost, slow] = ["tabane_redundancy_lost", "tabane_below_expected_speed"];
        let before = until(&bundles[0], "a sound bundle", |page| Ok(value(page, lost, &[])? == 0.0))?;
        ensure!(value(&before, slow, &[])? == 0.0 && value(&before, "tabane_peers", &[])? == 1.0, "{before}");
        let (link, events) = (format!("nic=\"{}\"", nic(VICTIM)), "event=\"link-down\"");
        let deaths = |page: &str| value(page, "tabane_events_total", &[events]);
        let is = |page: &str, reason: &str| {
            value(page, "tabane_link_fault", &[&link, &format!("tabane_link_fault=\"{reason}\"")])
        };
        let meanwhile = || {
            carry(topology, VICTIM)?;
            topology.kill_switch(VICTIM)?;
            let both = |page: &str| Ok(value(page, lost, &[])? == 1.0 && value(page, slow, &[])? == 1.0);
            let dead = until(&bundles[0], "lost redundancy and speed", both)?;
            ensure!(deaths(&dead)? > deaths(&before)?, "{dead}");
            // Either end may see it first; a black hole, or a peer that receives nothing.
            let why = ["burst-skew", "silence", "report"].map(|reason| is(&dead, reason));
            let why: Vec<f64> = why.into_iter().collect::<Result<_>>()?;
            ensure!(why.iter().sum::<f64>() == 1.0, "{why:?}: {dead}");
            let sound = format!("nic=\"{}\"", nic(0));
            ensure!(
                value(&dead, "tabane_path_state", &[&sound, "tabane_path_state=\"up\""])? == 1.0,
                "{dead}"
            );
            ensure!(
                value(&dead, "tabane_path_state", &[&link, "tabane_path_state=\"up\""])? == 0.0,
                "{dead}"
            );
            carry(topology, 0)?;
            topology.revive_switch(VICTIM)?;
            let mended = until(&bundles[0], "redundancy", |page| Ok(value(page, lost, &[])? == 0.0))?;
            ensure!(value(&mended, slow, &[])? == 0.0, "{mended}");
            for reason in ["burst-skew", "silence", "report", "down"] {
                ensure!(is(&mended, reason)? == 0.0, "{mended}");
            }
            Ok(())
        };
        under_a_file(topology, FILE, meanwhile).map(drop)
    })
}

fn read_by_others() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        ready(bundles, LINKS)?;
        let before = page(&bundles[0])?;
        send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        let after = page(&bundles[0])?;
        let found = prometheus::families(&after)?;
        ensure!(found > 80, "{found} families");
        for counter in
            ["tabane_frames_sent_total", "tabane_frame_sent_bytes_total", "tabane_cells_sent_total"]
        {
            ensure!(value(&after, counter, &[])? > value(&before, counter, &[])?, "{counter}");
        }
        let grown = value(&after, "tabane_frame_sent_bytes_total", &[])?
            - value(&before, "tabane_frame_sent_bytes_total", &[])?;
        ensure!(grown >= FILE as f64, "{grown} bytes of frames for a file of {FILE}");
        // The other format, of all bundles of the host.
        let text = tool::run(topology.host(0).command(program(None)?).arg("metrics"))?;
        let said = prometheus::promtool(["check", "metrics"], &text)?;
        ensure!(said.trim().is_empty(), "{said}");
        ensure!(value(&text, "tabane_bundle_up", &[&format!("bundle=\"{DEVICE}\"")])? == 1.0, "{text}");
        Ok(())
    })
}
