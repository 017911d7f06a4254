//! The loads in the common form: a row per load, against what is wanted.

use super::measure::{CLIENTS, Carrier, Job, LINK_RATE, Load, PATHS};
use tabane_kit::report::{Report, Table, Verdict};
use tabane_kit::workload::web::File;

/// Least throughput of large files through a bundle of two links, in that of one.
const RATIO_MIN: f64 = 1.9;
/// Least rate of small requests by the kernel path, in that of one link.
const KERNEL_RATIO_MIN: f64 = 0.95;
/// The same of transactions, which reach that in some runs (docs/limits.md).
const KERNEL_DATABASE_MIN: f64 = 0.7;

/// Judges and shows everything.
pub(super) fn write(report: &mut Report, failed: &[(Load, u64)]) {
    report.field("link_mbps", LINK_RATE.mbps());
    report.field("clients", CLIENTS);
    let mut table =
        Table::new(&["load", "frames", "unit", "one link", "bundle", "ratio", "outage", "failed"]);
    for (load, failed) in failed {
        let (key, (carrier, job)) = (key(*load), *load);
        let medians = PATHS.map(|path| report.median(&format!("{key}.{path}")));
        let ratio = medians[1] / medians[0];
        let mut cells = vec![job.to_string(), carrier.to_string(), job.unit().to_string()];
        cells.extend(medians[..2].iter().map(|median| format!("{median:.0}")));
        cells.extend([format!("{ratio:.2}"), format!("{:.0}", medians[2]), failed.to_string()]);
        table.row(cells);
        if let Some(least) = least(*load) {
            report.verdict(Verdict::at_least(&format!("{key}.ratio"), ratio, least));
        }
        report.verdict(Verdict::equals(&format!("{key}.failed"), *failed, 0));
    }
    report.show(table);
    report.show(format!("  two links of {LINK_RATE}, {CLIENTS} clients at once; medians"));
    report.show("  outage: through the bundle, one of its two switches dead for a third of the time");
    report.show("  frames: in sealed cells, adaptive; or by programs in the kernel, hash, not sealed");
    report.show("  failed: requests, transactions or clients of NFS, on any path");
}

/// The least ratio to one link that is wanted.
fn least(load: Load) -> Option<f64> {
    match load {
        (Carrier::Cells, Job::Fetch(File::Large)) => Some(RATIO_MIN),
        (Carrier::Programs, Job::Fetch(File::Small) | Job::Set) => Some(KERNEL_RATIO_MIN),
        (Carrier::Programs, Job::Transact) => Some(KERNEL_DATABASE_MIN),
        _ => None,
    }
}

/// Name in the file.
pub(super) fn key((carrier, job): Load) -> String {
    let job = match job {
        Job::Fetch(File::Large) => "web_large",
        Job::Fetch(File::Small) => "web_small",
        Job::Transact => "database",
        Job::Set => "store",
        Job::Read => "nfs",
    };
    match carrier {
        Carrier::Cells => job.to_owned(),
        Carrier::Programs => format!("kernel_{job}"),
    }
}
