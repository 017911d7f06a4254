//! What bundles noticed of the faults of a run: when they took links for dead, rightly or not, and used them again.

use tabane_kit::status::{Entry, is_on};

use super::course::{Condition, Step};
use super::figure::{Figure, Measure};
use super::plan::{Quality, Scenario};
use crate::prelude::*;

/// How long bundles may take to use all links again; after so many faults links are held down for up to 32 s.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);
const FAULTS_MANY: usize = 8;
const HELD_DOWN_WITHIN: Duration = Duration::from_secs(60);
/// What a fault has done to queues lasts a little longer than the fault.
const IN_FLIGHT_NS: u64 = 50_000_000;

/// A time in which a link was not as the scenario makes it.
#[derive(Clone, Copy, Debug)]
struct Fault {
    link: usize,
    began: Moment,
    death: Option<Moment>,
    ended: Option<Moment>,
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn death(link: usize, began: Moment, ended: Moment) -> Faults {
        Faults(vec![Fault { link, began, death: Some(began), ended: Some(ended) }])
    }

    pub(super) fn note(&mut self, scenario: &Scenario, step: &Step, moment: Moment) {
        let sound = Condition::at_first(scenario, step.link);
        // A rate that follows a trace is no fault.
        let is_traced =
            scenario.links[step.link].router.as_ref().is_some_and(|router| router.trace.is_some());
        let is_sound = |condition: &Condition| {
            let router = if is_traced { sound.quality.router } else { condition.quality.router };
            let quality = Quality { router, ..condition.quality };
            Condition { quality, ..condition.clone() } == sound
        };
        if is_sound(&step.before) && !is_sound(&step.after) {
            self.0.push(Fault { link: step.link, began: moment, death: None, ended: None });
        }
        let Some(fault) = self.0.iter_mut().rfind(|fault| fault.link == step.link) else { return };
        if step.is_death {
            fault.death.get_or_insert(moment);
        }
        if is_sound(&step.after) {
            fault.ended = Some(moment);
        }
    }

    pub(super) fn first_ns(&self) -> Option<u64> {
        self.0.first().map(|fault| fault.began.before_ns)
    }

    /// What `bundles` tell of them. Links that should be well again get some time for that.
    pub(crate) fn figures(
        &self,
        bundles: &[Bundle<'_>],
        links: usize,
        since_ns: u64,
    ) -> Result<Vec<Measure>> {
        let statuses = || bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>();
        let is_whole = || {
            let all = statuses()?;
            Ok(all.iter().all(|status| status.is_ready(all.len() - 1, links)).then_some(()))
        };
        let is_mended = self.0.iter().all(|fault| fault.ended.is_some());
        let within = if self.0.len() > FAULTS_MANY { HELD_DOWN_WITHIN } else { WHOLE_WITHIN };
        let is_whole = is_mended && wait_for("whole bundles", within, is_whole).is_ok();
        Ok(self.told_by(&statuses()?, is_mended.then_some(is_whole), since_ns))
    }

    /// The same, from what the bundles say at the end; `is_whole` tells whether they are, if they should be.
    fn told_by(&self, ends: &[Status], is_whole: Option<bool>, since_ns: u64) -> Vec<Measure> {
        let alarms = self.false_alarms(ends, since_ns);
        for Entry { at_ns, link, detail, .. } in &alarms {
            let seconds = Duration::from_nanos(at_ns.saturating_sub(since_ns)).as_secs_f64();
            eprintln!(
                "  false alarm {seconds:.3} s after the start, link {}: {detail}",
                link.unwrap_or(0) + 1
            );
        }
        let mut figures = vec![(Figure::FalseAlarms, alarms.len() as f64)];
        let mut deaths = self.0.iter().filter_map(|fault| Some((fault, fault.death?)));
        let last = deaths.clone().next_back();
        if let Some((fault, death)) = deaths.next() {
            let firsts: Vec<Option<u64>> = ends
                .iter()
                .map(|end| end.first_event(LINK_DOWN, fault.link, death.before_ns).map(|event| event.at_ns))
                .collect();
            let after = |at_ns: u64| milliseconds_between(death.after_ns, at_ns);
            let noticed = firsts.iter().flatten().min();
            figures.extend(noticed.map(|at_ns| (Figure::NoticedMs, after(*at_ns))));
            let all = firsts.iter().copied().collect::<Option<Vec<u64>>>();
            let last_ns = all.and_then(|all| all.into_iter().max());
            figures.extend(last_ns.map(|at_ns| (Figure::AllNoticedMs, after(at_ns))));
            figures.push((Figure::Unnoticed, f64::from(u8::from(noticed.is_none()))));
        } else {
            figures.push((Figure::Unnoticed, 0.0));
        }
        figures.extend(is_whole.map(|is_whole| (Figure::NotWhole, f64::from(u8::from(!is_whole)))));
        if let (Some((fault, _)), Some(is_whole)) = (last, is_whole) {
            let recovered = fault
                .ended
                .filter(|_| is_whole)
                .map(|ended| milliseconds_between(ended.after_ns, recovery_ns(ends, fault.link, ended)));
            figures.extend(recovered.map(|after| (Figure::RecoveredMs, after)));
        }
        figures.into_iter().map(|(figure, value)| Measure::of_run(figure, value)).collect()
    }

    /// Times that a link was taken for dead that was not at fault, and had recovered.
    fn false_alarms<'e>(&self, ends: &'e [Status], since_ns: u64) -> Vec<&'e Entry> {
        let is_due = |event: &Entry| {
            self.0.iter().filter(|fault| is_on(event, fault.link)).any(|fault| {
                let until_ns = fault.ended.map_or(u64::MAX, |ended| {
                    recovery_ns(ends, fault.link, ended).max(ended.after_ns + IN_FLIGHT_NS)
                });
                (fault.began.before_ns..=until_ns).contains(&event.at_ns)
            })
        };
        let downs = ends.iter().flat_map(|end| &end.events).filter(|event| event.what == LINK_DOWN);
        downs.filter(|event| event.at_ns >= since_ns && !is_due(event)).collect()
    }
}

/// When every direction of `link` at every node was up for the first time since `ended`; that moment if none was down.
fn recovery_ns(ends: &[Status], link: usize, ended: Moment) -> u64 {
    let first_ups = ends.iter().flat_map(|end| {
        // The detail names the direction; a later event of the same direction ends a false alarm.
        let ups = end.events_of(LINK_UP, link, ended.before_ns).rev();
        let firsts: BTreeMap<&str, u64> = ups.map(|event| (event.detail.as_str(), event.at_ns)).collect();
        firsts.into_values()
    });
    first_ups.max().unwrap_or(ended.after_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: u64) -> Moment {
        Moment { before_ns: at_ms * 1_000_000, after_ns: at_ms * 1_000_000 }
    }

    fn fault(link: usize, began: u64, ended: u64) -> Fault {
        Fault { link, began: moment(began), death: Some(moment(began)), ended: Some(moment(ended)) }
    }

    fn status(events: &[(&str, u32, u64)]) -> Status {
        let event = |(what, link, at_ms): &(&str, u32, u64)| {
            let (what, at_ns, detail) = (what.to_string(), at_ms * 1_000_000, "x".to_owned());
            Entry { what, link: Some(*link), at_ns, detail, ..Entry::default() }
        };
        let example: Status =
            serde_json::from_str(include_str!("../../../docs/status.example.json")).unwrap();
        Status { peers: Vec::new(), events: events.iter().map(event).collect(), ..example }
    }

    fn figure(measures: &[Measure], figure: Figure) -> Option<f64> {
        measures.iter().find(|measure| measure.figure == figure).map(|measure| measure.value)
    }

    #[test]
    fn a_link_that_is_down_while_it_is_sound_is_a_false_alarm() {
        let faults = Faults(vec![fault(1, 1_000, 1_800), fault(1, 3_000, 3_800)]);
        let due = [(LINK_DOWN, 1, 1_005), (LINK_UP, 1, 1_900), (LINK_DOWN, 1, 3_840)];
        let alarms = |events: &[(&str, u32, u64)]| faults.false_alarms(&[status(events)], 500_000_000).len();
        assert_eq!(alarms(&due), 0, "these are the faults, and what is left of the second");
        let between = [900, 2_500, 3_900].map(|at_ms| (LINK_DOWN, 1, at_ms));
        let other = [(LINK_DOWN, 0, 1_005), (LINK_DOWN, 1, 400)];
        assert_eq!(
            alarms(&[&due[..], &between, &other].concat()),
            4,
            "before, between and after, and another link"
        );
    }

    #[test]
    fn the_first_and_the_last_to_notice_and_the_last_to_use_the_link_again_are_told() {
        let faults = Faults(vec![fault(1, 1_000, 1_800)]);
        let ends = [
            status(&[(LINK_DOWN, 1, 1_003), (LINK_UP, 1, 1_810)]),
            status(&[(LINK_DOWN, 1, 1_020), (LINK_UP, 1, 1_850)]),
        ];
        let told = faults.told_by(&ends, Some(true), 0);
        let seen = [
            Figure::NoticedMs,
            Figure::AllNoticedMs,
            Figure::RecoveredMs,
            Figure::Unnoticed,
            Figure::NotWhole,
        ]
        .map(|each| figure(&told, each));
        assert_eq!(seen, [Some(3.0), Some(20.0), Some(50.0), Some(0.0), Some(0.0)]);
        let quiet = faults.told_by(&[status(&[]), status(&[])], Some(false), 0);
        assert_eq!([Figure::Unnoticed, Figure::NotWhole].map(|each| figure(&quiet, each)), [Some(1.0); 2]);
        assert_eq!([Figure::NoticedMs, Figure::RecoveredMs].map(|each| figure(&quiet, each)), [None; 2]);
    }
}
