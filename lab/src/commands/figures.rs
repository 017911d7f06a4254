//! `tabane-lab figures REPORT.json…`: puts what runs have found into `docs/figures.md`, and into the pages that quote it.
//!
//! ```text
//!   target/lab/NAME.json ── with_report() ──> section NAME of docs/figures.md ── quoted() ──> [FIGURE][NAME.FIGURE] of the pages
//! ```
//!
//! A page quotes a figure as a link whose label is the figure's name, so a reader finds when and where it was measured.

use super::compare::Kept;
use crate::prelude::*;

/// The page of all figures that are quoted.
pub const PAGE: &str = "docs/figures.md";
/// The pages that quote them.
pub const QUOTING: [&str; 3] = ["README.md", "README.ja.md", "docs/comparison.md"];

/// A figure: run, name, samples of the run's report; with a second name, the ratio of both medians.
type Figure = (&'static str, &'static str, &'static str, Option<&'static str>);

const FIGURES: [Figure; 16] = [
    ("demo", "ratio", "bundle_gbps", Some("single_gbps")),
    ("demo", "cpu-link", "single_cpu_s_per_gb", None),
    ("demo", "cpu-bundle", "bundle_cpu_s_per_gb", None),
    ("run.router-50-20", "mbps", "namespaces.adaptive.flow1.mbps", None),
    ("run.router-50-20", "mbps-mptcp", "namespaces.mptcp.flow1.mbps", None),
    ("run.router-50-20", "ping", "namespaces.adaptive.flow2.rtt_ms", None),
    ("run.radio", "mbps", "namespaces.adaptive.flow1.mbps", None),
    ("run.radio", "mbps-mptcp", "namespaces.mptcp.flow1.mbps", None),
    ("bench", "cells", "bundle2.gbps", Some("veth.gbps")),
    ("bench", "cells-cpu", "bundle2.cpu_s_per_gb", Some("veth.cpu_s_per_gb")),
    ("bench", "cells-gbps", "bundle2.gbps", None),
    ("bench", "cells-s-per-gb", "bundle2.cpu_s_per_gb", None),
    ("bench", "veth-s-per-gb", "veth.cpu_s_per_gb", None),
    ("bench", "mptcp-s-per-gb", "mptcp2.cpu_s_per_gb", None),
    ("bench", "kernel", "kernel1.gbps", Some("veth.gbps")),
    ("bench", "kernel-cpu", "kernel1.cpu_s_per_gb", Some("veth.cpu_s_per_gb")),
];

/// Puts what runs have found into docs/figures.md, and into the pages that quote it
#[derive(Debug, Args)]
pub struct Options {
    /// Reports of runs, such as target/lab/demo.json; without any, pages are made to quote what stands there
    reports: Vec<PathBuf>,
}

/// Writes the pages, in the working directory.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut page = fs::read_to_string(PAGE).context(PAGE)?;
    for path in &options.reports {
        page = with_report(&page, &Kept::read(path)?).with_context(|| path.display().to_string())?;
    }
    let values = values(&page);
    fs::write(PAGE, &page)?;
    for path in QUOTING {
        let text = fs::read_to_string(path).context(path)?;
        fs::write(path, quoted(&text, &values))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn with_report(page: &str, kept: &Kept) -> Result<String> {
    let head = format!("## {}\n", kept.name);
    let (before, rest) =
        page.split_once(&head).with_context(|| format!("{PAGE} has no section {}", kept.name))?;
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let machine = &kept.machine;
    let day = machine.date.as_deref().and_then(|date| date.get(..10)).unwrap_or("on an unknown day");
    let commit = machine.commit.as_deref().unwrap_or("unknown");
    let measured =
        format!("{day}, {} x {}, Linux {}, commit {commit}", machine.cores, machine.cpu, machine.kernel);
    let mut section = format!(
        "{head}\n| figure | median | least to most | unit | values | measured |\n|---|---|---|---|---|---|\n"
    );
    for (_, name, key, over) in FIGURES.into_iter().filter(|figure| figure.0 == kept.name) {
        let samples = |key: &str| kept.samples.get(key).with_context(|| format!("there is no {key}"));
        let row = row(samples(key)?, over.map(samples).transpose()?);
        section.push_str(&format!("| {name} | {row} | {measured} |\n"));
    }
    Ok(format!("{before}{section}{after}"))
}

fn row(samples: &Samples, over: Option<&Samples>) -> String {
    let (median, count) = (samples.median(), samples.values().len());
    match over {
        Some(over) => format!("{} | - | times | {count}", number(median / over.median())),
        None => {
            let (least, most) = (number(samples.min()), number(samples.max()));
            format!("{} | {least} to {most} | {} | {count}", number(median), samples.unit())
        }
    }
}

/// The figures of the page, by `RUN.NAME`.
pub fn values(page: &str) -> BTreeMap<String, String> {
    let (mut values, mut run) = (BTreeMap::new(), "");
    for line in page.lines() {
        run = line.strip_prefix("## ").unwrap_or(run);
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", name, value, _, _, _, _, ""] = cells[..] {
            values.insert(format!("{run}.{name}"), value.to_owned());
        }
    }
    values
}

/// A page whose links `[FIGURE][RUN.NAME]` have the figures as they are.
pub fn quoted(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut parts = text.split("][");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let value = part.split_once(']').and_then(|(name, _)| values.get(name));
        if let (Some(value), Some(at)) = (value, whole.rfind('[')) {
            whole.truncate(at + 1);
            whole.push_str(value);
        }
        whole.push_str("][");
        whole.push_str(part);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str =
        "# Figures\n\n## demo\n\nNothing yet.\n\n## bench\n\n| a | 1 | - | times | 3 | then |\n";

    #[test]
    fn a_report_takes_its_section_and_pages_quote_it() -> Result<()> {
        let samples = |value: f64| serde_json::json!({ "unit": "s/GB", "values": [value, value, value] });
        let keys =
            FIGURES.iter().filter(|figure| figure.0 == "demo").flat_map(|figure| [Some(figure.2), figure.3]);
        let all: serde_json::Map<_, _> =
            keys.flatten().zip(1..).map(|(key, at)| (key.into(), samples(at.into()))).collect();
        let report = serde_json::json!({
            "name": "demo", "seed": 1, "cpu": "Z80", "cores": 2, "memory_bytes": 1, "load_before": 0.1, "kernel": "6.18", "commit": null,
            "date": "2026-11-27T08:00:00Z", "samples": all, "verdicts": [],
        });
        let page = with_report(EMPTY, &serde_json::from_value(report)?)?;
        assert!(
            page.contains("| times | 3 | 2026-11-27, 2 x Z80, Linux 6.18, commit unknown |\n")
                && !page.contains("Nothing yet"),
            "{page}"
        );
        let values = values(&page);
        assert_eq!(values["demo.ratio"], "0.500");
        assert_eq!(values["bench.a"], "1");
        let text = "[x][demo.ratio] links, [y](z) and [1][bench.a], [as it is][other]";
        assert_eq!(
            quoted(text, &values),
            "[0.500][demo.ratio] links, [y](z) and [1][bench.a], [as it is][other]"
        );
        Ok(())
    }
}
