//! Both meetings side by side, what the death cost, and what is wanted.

use std::time::Duration;

use super::Course;
use super::node::Meeting;
use tabane_kit::report::{Report, Table, Verdict};

/// A node whose beat stands still is taken for absent after 1 s; the rest is for emulated processors.
const NOTICED_MAX: Duration = Duration::from_secs(10);

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, course: &Course) {
    let meetings = [("before", &course.before), ("after", &course.after)];
    let mut table = Table::new(&["", "pings", "lost", "round trip", "file", "speed", "SHA-256"]);
    for (key, Meeting { pings, delivery }) in meetings {
        let trips = format!("{key}.round_trip");
        pings.trips_ms.iter().for_each(|trip| report.push(&*trips, "ms", *trip));
        report.push(format!("{key}.speed"), "Mbit/s", delivery.mbit());
        table.row(vec![
            format!("{key} the death"),
            pings.sent.to_string(),
            pings.lost().to_string(),
            format!("{:.2} ms", report.median(&trips)),
            format!("{} MB", delivery.bytes / 1_000_000),
            format!("{:.2} Mbit/s", delivery.mbit()),
            if delivery.sha256_ok { "equal" } else { "DIFFERENT" }.to_string(),
        ]);
        report.verdict(Verdict::equals(&format!("{key}.pings_lost"), pings.lost(), 0));
        report.verdict(Verdict::equals(&format!("{key}.sha256_equal"), delivery.sha256_ok, true));
    }
    report.show(table);
    let (noticed, returned) = (course.noticed.as_secs_f64(), course.returned.as_secs_f64());
    report.verdict(Verdict::at_most("death.noticed_s", noticed, NOTICED_MAX.as_secs_f64()));
    report.field("returned_s", returned);
    report.field("delivered_before_death", course.delivered);
    report.show(format!(
        "  killed while files went to it, {} of which arrived; noticed within {noticed:.1} s; {returned:.0} s after its second\n  \
         boot began, the link was back",
        course.delivered
    ));
    report.show("  emulated processors: round trips and speeds compare with each other only");
}
