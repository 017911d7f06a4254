//! The loads in the common form: a row per load, against what is wanted.

use super::measure::{CLIENTS, Job, LINK_RATE, Row};
use tabane_kit::report::{Report, Table, Verdict};
use tabane_kit::workload::web::File;

/// Least throughput of large files through a bundle of two links, in that of one.
const RATIO_MIN: f64 = 1.9;

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, rows: &[Row]) {
    report.field("link_mbps", LINK_RATE.mbps());
    report.field("clients", CLIENTS);
    let mut table = Table::new(&["load", "unit", "one link", "bundle", "ratio", "outage", "failed"]);
    for row in rows {
        let (key, ratio) = (key(row.job), row.bundle.median() / row.link.median());
        let mut cells = vec![row.job.to_string(), row.link.unit().to_string()];
        cells.extend([&row.link, &row.bundle].map(|samples| format!("{:.0}", samples.median())));
        cells.extend([format!("{ratio:.2}"), format!("{:.0}", row.outage.median()), row.failed.to_string()]);
        table.row(cells);
        for (path, samples) in [("link", &row.link), ("bundle", &row.bundle), ("outage", &row.outage)] {
            report.samples(format!("{key}.{path}"), samples.clone());
        }
        if row.job == Job::Fetch(File::Large) {
            report.verdict(Verdict::at_least(&format!("{key}.ratio"), ratio, RATIO_MIN));
        }
        report.verdict(Verdict::equals(&format!("{key}.failed"), row.failed, 0));
    }
    report.show(table);
    report.show(format!("  two links of {LINK_RATE}, {CLIENTS} clients at once; medians"));
    report.show("  outage: through the bundle, one of its two switches dead for a third of the time");
    report.show("  failed: requests, transactions or clients of NFS, on any path");
}

fn key(job: Job) -> &'static str {
    match job {
        Job::Fetch(File::Large) => "web_large",
        Job::Fetch(File::Small) => "web_small",
        Job::Transact => "database",
        Job::Read => "nfs",
    }
}
