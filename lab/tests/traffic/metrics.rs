//! `tabane metrics` of real bundles: a link dies and comes back, and the figures say so; others read them. And Prometheus beside a
//! bundle, as docs/metrics.md sets it up.

use std::net::UdpSocket;

use tabane_kit::prometheus::{self, Server};

use crate::traffic::faults::carry;
use crate::traffic::page;
use crate::traffic::stage::*;

const PAGE: &str = include_str!("../../../docs/metrics.md");
const RULES: &str = include_str!("../../../packaging/prometheus/tabane.rules.yml");
const DASHBOARD: &str = include_str!("../../../packaging/grafana/tabane.json");
/// Prometheus asks and judges each second here, and looks at itself.
const BRISK: &str = "global: { scrape_interval: 1s, evaluation_interval: 1s }\n";
/// Time until Prometheus has what a query asks for, after two scrapes and a judgement.
const ASKED_WITHIN: Duration = Duration::from_secs(20);
const LONG_FILE: u64 = 48 << 20;
const CELLS: u16 = 7420;
const ITSELF: &str = "  - job_name: prometheus\n    static_configs: [{ targets: [\"127.0.0.1:9090\"] }]\n";

const PROMETHEUS: &[Need] = &[Daemon, That(|| Ok(prometheus::require()?))];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: metrics --openmetrics
        Case::new("metrics_are_read_by_others_and_tell_of_a_link_that_dies", PROMETHEUS, || {
            with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
                ready(bundles, LINKS)?;
                read_by_others(topology, &bundles[0]).context("others")?;
                dies(topology, &bundles[0])
            })
        }),
        Case::new(
            "prometheus_scrapes_a_bundle_fires_and_fills_the_dashboard",
            [PROMETHEUS, &[That(page::require_web)]].concat(),
            scraped,
        ),
    ]
}

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

fn until(bundle: &Bundle<'_>, what: &str, wanted: impl Fn(&str) -> Result<bool>) -> Result<String> {
    wait_for(what, WITHIN, || {
        let page = page(bundle)?;
        Ok(wanted(&page)?.then_some(page))
    })
}

fn dies(topology: &Topology, bundle: &Bundle<'_>) -> Result<()> {
    let [lost, slow] = ["tabane_redundancy_lost", "tabane_below_expected_speed"];
    let before = until(bundle, "a sound bundle", |page| Ok(value(page, lost, &[])? == 0.0))?;
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
        let dead = until(bundle, "lost redundancy and speed", both)?;
        ensure!(deaths(&dead)? > deaths(&before)?, "{dead}");
        // Either end may see it first; a black hole, or a peer that receives nothing.
        let why = ["burst-skew", "silence", "report"].map(|reason| is(&dead, reason));
        let why: Vec<f64> = why.into_iter().collect::<Result<_>>()?;
        ensure!(why.iter().sum::<f64>() == 1.0, "{why:?}: {dead}");
        let sound = format!("nic=\"{}\"", nic(0));
        ensure!(value(&dead, "tabane_path_state", &[&sound, "tabane_path_state=\"up\""])? == 1.0, "{dead}");
        ensure!(value(&dead, "tabane_path_state", &[&link, "tabane_path_state=\"up\""])? == 0.0, "{dead}");
        carry(topology, 0)?;
        topology.revive_switch(VICTIM)?;
        let mended = until(bundle, "redundancy", |page| Ok(value(page, lost, &[])? == 0.0))?;
        ensure!(value(&mended, slow, &[])? == 0.0, "{mended}");
        for reason in ["burst-skew", "silence", "report", "down"] {
            ensure!(is(&mended, reason)? == 0.0, "{mended}");
        }
        Ok(())
    };
    under_a_file(topology, FILE, meanwhile).map(drop)
}

fn read_by_others(topology: &Topology, bundle: &Bundle<'_>) -> Result<()> {
    let before = page(bundle)?;
    send_file(topology.host(0), topology.host(1), address(1), FILE)?;
    let after = page(bundle)?;
    let found = prometheus::families(&after)?;
    ensure!(found > 80, "{found} families");
    for counter in ["tabane_frames_sent_total", "tabane_frame_sent_bytes_total", "tabane_cells_sent_total"] {
        ensure!(value(&after, counter, &[])? > value(&before, counter, &[])?, "{counter}");
    }
    let grown = value(&after, "tabane_frame_sent_bytes_total", &[])?
        - value(&before, "tabane_frame_sent_bytes_total", &[])?;
    ensure!(grown >= FILE as f64, "{grown} bytes of frames for a file of {FILE}");
    // The other format, of all bundles of the host.
    let text = tabane(topology.host(0), "metrics")?;
    let said = prometheus::promtool(["check", "metrics"], &text)?;
    ensure!(said.trim().is_empty(), "{said}");
    ensure!(value(&text, "tabane_bundle_up", &[&format!("bundle=\"{DEVICE}\"")])? == 1.0, "{text}");
    Ok(())
}

/// A link dies: its alert fires and no worse one, and each panel of the dashboard has something to show.
fn scraped() -> Result<()> {
    let topology = Topology::build(Plan { addressed: true, ..plan(&[FAST; LINKS]) })?;
    let end = |link, host| address_of(link, host);
    let link =
        |host: usize, link| format!("{},local={},peer={}", nic(link), end(link, host), end(link, 1 - host));
    let links = |host| (0..LINKS).map(|number| link(host, number)).collect();
    let mut bundles = Bundle::start_each(&topology, links, &options()?)?;
    ready(&mut bundles, LINKS)?;
    bundles[0].ask(&["link", "set", DEVICE, &format!("{},rate=200 Mbit/s", nic(0))])?;

    let (host, directory) = (topology.host(0), tempfile::tempdir()?);
    let [token, rules] = ["token", "rules.yml"].map(|name| directory.path().join(name));
    // Alerts fire once their state has lasted for a while; here for a moment.
    fs::write(&rules, with_each(RULES, "for: ", "1s"))?;
    let web = page::serve(host, &token)?;
    let server = Server::start(host, &configuration(&token, &rules)?)?;
    let finds = |query: &str| {
        wait_for(query, ASKED_WITHIN, || Ok(Some(server.ask(query)?).filter(|found| !found.is_empty())))
    };
    finds("up{job=\"tabane\"} == 1")?;
    finds("tabane_redundancy_lost == 0")?;

    under_a_file(&topology, LONG_FILE, || {
        carry(&topology, VICTIM)?;
        topology.kill_switch(VICTIM).map(drop)
    })?;
    finds("ALERTS{alertname=\"TabaneRedundancyLost\",alertstate=\"firing\"}")?;
    let worse = server.ask("ALERTS{severity=\"critical\"}")?;
    ensure!(worse.is_empty(), "a dead link of two is no cause for {worse:?}");
    let stranger = topology.host(1).enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    for query in prometheus::queries(DASHBOARD)? {
        stranger.send_to(b"no cell", (end(0, 0), CELLS))?;
        finds(&prometheus::filled(&query))?;
    }
    finds("prometheus_rule_evaluations_total > 0")?;
    finds("sum(prometheus_rule_evaluation_failures_total) == 0")?;
    server.stop()?;
    web.stop()?.success("tabane web told to stop")?;
    Bundle::stop_all(bundles)
}

fn configuration(token: &Path, rules: &Path) -> Result<String> {
    let example = PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.context("no configuration in docs/metrics.md")?;
    let parts = [
        ("credentials_file: ", " }", token.display().to_string()),
        ("targets: ", " }", format!("[\"{}\"]", page::ADDRESS)),
        ("rule_files: ", "\n", format!("[{}]", rules.display())),
    ];
    let filled = parts.into_iter().try_fold(example.to_owned(), |text, (before, after, own)| {
        let (head, rest) = text.split_once(before).with_context(|| format!("no `{before}` in {example}"))?;
        let (_, tail) =
            rest.split_once(after).with_context(|| format!("no end of `{before}` in {example}"))?;
        anyhow::Ok(format!("{head}{before}{own}{after}{tail}"))
    })?;
    let (head, tail) = filled.split_once("rule_files").context("no rules")?;
    Ok(format!("{BRISK}{head}{ITSELF}rule_files{tail}"))
}

/// The text with `value` behind each `key` at the beginning of a line.
fn with_each(text: &str, key: &str, value: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix(key) {
        Some(rest) => format!("{}{value}\n", line.strip_suffix(rest).unwrap_or(line)),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
