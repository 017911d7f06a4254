//! The runs in the common form: a plot of sender to link for each policy, the series, and what each policy should do.

use serde_json::json;

use super::{LATER, LINKS, PERIOD, POLICIES, SENDERS, Second, Series};
use tabane_kit::report::{Report, Samples, Verdict};

/// Names of the senders.
const NAMES: [char; SENDERS] = ['A', 'B', 'C', 'D'];
/// Seconds after the start of the latecomers that do not count: TCP starts, and a second is a sample.
const STARTING: usize = 3;
/// Part of the remaining seconds in which the senders have to sit as they should.
const PART_MIN: f64 = 0.9;
/// Part of the seconds in which three may share a link although they should not: one of a run of 70 s.
const SKEWED_MAX: f64 = 0.02;

/// Writes the run of `policy` into `report`.
pub(super) fn write(report: &mut Report, policy: &str, series: &Series) {
    report.show(format!("  {policy}: the link of each sender, a column per second\n"));
    for (sender, name) in NAMES.into_iter().enumerate() {
        report.show(format!("  {name}  {}", row(series, sender)));
    }
    report.show(format!("     {}\n", scale(series.len())));
    report.field(
        policy,
        json!(NAMES.into_iter().enumerate().map(|(sender, name)| json!({
        "sender": name.to_string(),
        "link": series.iter().map(|second| second[sender].link.map(|link| link + 1)).collect::<Vec<_>>(),
        "mbit": series.iter().map(|second| second[sender].mbit).collect::<Vec<_>>(),
    })).collect::<Vec<_>>()),
    );
    let settled = settled(series);
    for (sender, name) in NAMES.into_iter().enumerate() {
        let mbits = settled.iter().map(|second| second[sender].mbit).collect();
        report.samples(format!("{policy}.{name}"), Samples::new("Mbit/s", mbits));
    }
    let skewed = Samples::new("of the time", vec![part(settled, is_skewed)]);
    report.samples(format!("{policy}.three_share_one_link"), skewed);
    judge(policy, settled).into_iter().for_each(|verdict| report.verdict(verdict));
}

/// `tlb` has three share a link in the first period; afterwards chance decides. `tlb-history` has two on each, and three on
/// one next to never.
fn judge(policy: &str, settled: &[[Second; SENDERS]]) -> Vec<Verdict> {
    let id = |what: &str| format!("{policy}.{what}");
    let first = &settled[..settled.len().min(PERIOD - STARTING)];
    if policy == POLICIES[0] {
        let skewed = part(first, is_skewed);
        return vec![Verdict::at_least(&id("three_share_in_the_first_period"), skewed, PART_MIN)];
    }
    let (even, skewed) = (part(settled, is_even), part(settled, is_skewed));
    vec![
        Verdict::at_least(&id("two_on_each_link"), even, PART_MIN),
        Verdict::at_most(&id("three_share_one_link"), skewed, SKEWED_MAX),
    ]
}

/// The part of each period's settled seconds in which the latecomers share one link.
pub(super) fn three_share_one(series: &Series) -> Vec<f64> {
    let periods = series.get(LATER..).unwrap_or_default().chunks(PERIOD);
    periods.map(|period| part(&period[STARTING.min(period.len() - 1)..], is_skewed)).collect()
}

/// The seconds in which all have started.
fn settled(series: &Series) -> &[[Second; SENDERS]] {
    series.get(LATER + STARTING..).unwrap_or_default()
}

/// A character per second: the number of the link, or a dot.
fn row(series: &Series, sender: usize) -> String {
    let digit = |second: &[Second; SENDERS]| {
        second[sender].link.map_or(".".to_string(), |link| (link + 1).to_string())
    };
    series.iter().map(digit).collect()
}

/// The time below the rows.
fn scale(seconds: usize) -> String {
    (0..seconds).step_by(10).map(|second| format!("{second:<10}")).collect::<String>().trim_end().to_string()
        + " s"
}

/// The part of the seconds in which the senders sit as `wanted`.
fn part(series: &[[Second; SENDERS]], wanted: impl Fn([usize; LINKS], &[Second; SENDERS]) -> bool) -> f64 {
    let count = series.iter().filter(|second| wanted(occupation(second), second)).count();
    count as f64 / series.len() as f64
}

/// Senders on each link.
fn occupation(second: &[Second; SENDERS]) -> [usize; LINKS] {
    std::array::from_fn(|link| second.iter().filter(|sender| sender.link == Some(link)).count())
}

/// B, C and D share one link, and A has the other.
fn is_skewed(occupation: [usize; LINKS], second: &[Second; SENDERS]) -> bool {
    second[0].link.is_some_and(|link| occupation[link] == 1 && occupation[1 - link] == SENDERS - 1)
}

fn is_even(occupation: [usize; LINKS], _: &[Second; SENDERS]) -> bool {
    occupation == [SENDERS / LINKS; LINKS]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(links: [usize; SENDERS]) -> [Second; SENDERS] {
        links.map(|link| Second { link: Some(link), mbit: 1.0 })
    }

    #[test]
    fn three_latecomers_on_one_link_are_told_from_two_on_each() {
        let series = [second([0, 1, 1, 1]), second([0, 1, 0, 1]), second([1, 1, 1, 0])];
        assert!((part(&series, is_skewed) - 1.0 / 3.0).abs() < 1e-9, "A alone, not D");
        assert!((part(&series, is_even) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(row(&series.to_vec(), 2), "212");
    }

    #[test]
    fn senders_that_sit_as_they_should_not_are_not_ok() {
        let not_met = |policy: &str, series: &[[Second; SENDERS]]| -> Vec<String> {
            judge(policy, series)
                .into_iter()
                .filter(|verdict| !verdict.ok)
                .map(|verdict| verdict.id)
                .collect()
        };
        let (even, skewed) = (second([0, 1, 0, 1]), second([0, 1, 1, 1]));
        let [tlb, history] = POLICIES;
        assert!(not_met(history, &[even; 57]).is_empty());
        assert!(not_met(tlb, &[[skewed; 7].as_slice(), &[even; 50]].concat()).is_empty());
        // Nine tenths of the run are even, and yet three shared a link for five seconds.
        let expiry = [[even; 52].as_slice(), &[skewed; 5]].concat();
        assert_eq!(not_met(history, &expiry), ["tlb-history.three_share_one_link"]);
        assert_eq!(not_met(tlb, &[even; 57]), ["tlb.three_share_in_the_first_period"]);
        assert_eq!(not_met(history, &[]).len(), 2, "nothing was seen");
    }
}
