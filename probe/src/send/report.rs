//! The report on calls of `send()`: their classes, how often each comes, and where the stream changed.

use std::ops::Range;

use serde::Serialize;

use crate::connection::Server;
use crate::machine::Machine;
use crate::output::{self, Source, ended_early, figure, percent, table};
use crate::stats::{self, Classes, Period, Recurrence, Summary};
use crate::trace::Call;
use crate::window::Window;
use crate::wire::Received;

const BLOCKS: usize = 500;
const STRETCH_BLOCKS: usize = 5;
/// How often the penalty is doubled until no more than [`STRETCHES_MAX`] are left.
const DOUBLINGS: usize = 60;
/// Most stretches: with a higher penalty, the greatest changes are left.
const STRETCHES_MAX: usize = 10;

/// The report on a stream; the schema of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    measurement: &'static str,
    source: Source<Measured>,
    window: Window,
    duration_us: Option<Summary>,
    /// Fastest first.
    classes: Vec<Class>,
    /// Calls of the window that belong to no class.
    stray: usize,
    /// Stretches of the whole run between which the mean of the logarithm of the durations changes.
    stretches: Vec<Stretch>,
}

#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) server: Server,
    pub(super) machine: Machine,
    /// Bytes of the send buffer when the calls began, as the kernel counts them.
    pub(super) send_buffer_bytes: usize,
    /// Calls that were to be made.
    pub(super) planned: usize,
    /// Calls that were made before the measurement ended.
    pub(super) called: usize,
    pub(super) received: Received,
}

#[derive(Debug, Serialize)]
struct Class {
    duration_us: Summary,
    /// Part of all calls, 0 to 1.
    share_of_calls: f64,
    /// Part of the time spent in calls, 0 to 1.
    share_of_time: f64,
    /// Distances from one such call to the next, in calls; calls that follow one another at once are one.
    every_calls: Option<Recurrence>,
    /// The same in microseconds.
    every_us: Option<Recurrence>,
    /// The rhythm in which they come, in calls.
    period: Option<Period>,
}

#[derive(Debug, Serialize)]
struct Stretch {
    first_call: usize,
    last_call: usize,
    mean_us: f64,
}

impl Report {
    pub(super) fn new(calls: &[Call], window: Window, source: Source<Measured>) -> Report {
        let counted = &calls[window.places(calls.len())];
        let durations: Vec<f64> = counted.iter().map(|call| call.duration_us).collect();
        let found = Classes::of(&durations);
        let kinds: Vec<Option<usize>> = durations.iter().map(|duration| found.class_of(*duration)).collect();
        let class = |number| Class::new(counted, &durations, &kinds, number);
        Report {
            measurement: "send",
            source,
            window,
            duration_us: Summary::of(&durations),
            classes: (0..found.classes.len()).filter_map(class).collect(),
            stray: found.stray,
            stretches: stretches(calls),
        }
    }

    fn head(&self) -> String {
        let Measured { server, machine, planned, called, received, .. } = match &self.source {
            Source::Kept(file) => return format!("calls kept in {file}\n"),
            Source::Measured(measured) => measured,
        };
        let (server, window, machine_is) = (server.line(), self.window, machine.line());
        let Received { bytes, .. } = received;
        let mbit = received.mbit();
        format!(
            "send() to {server}, calls counted: {window}; {bytes} bytes arrived at {mbit:.0} Mbit/s\n{machine_is}"
        ) + &ended_early(*called, *planned, "calls were made")
            + &machine.warning()
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.classes.iter().enumerate().map(|(number, class)| {
            let times = &class.duration_us;
            let calls = class.every_calls.map(|every| format!("{}", every.median));
            let milliseconds = class.every_us.map(|every| figure(every.median / 1e3));
            let mut row = vec![(number + 1).to_string(), times.count.to_string()];
            row.extend([class.share_of_calls, class.share_of_time].map(percent));
            row.extend([times.min, times.median, times.mean, times.max, times.sd].map(figure));
            row.extend([calls, milliseconds].map(|every| every.unwrap_or_else(|| "-".to_owned())));
            row.push(class.period.map_or("none".to_owned(), |period| period.lag.to_string()));
            row
        })
    }
}

impl output::Report for Report {
    fn text(&self) -> String {
        let head = [
            "class",
            "calls",
            "of calls",
            "of time",
            "min µs",
            "median",
            "mean",
            "max",
            "sd",
            "every calls",
            "every ms",
            "period",
        ];
        let mut text = self.head() + &table(&head, self.rows());
        if self.stray > 0 {
            text += &format!("{} calls belong to no class\n", self.stray);
        }
        text += "\nthe whole run, divided where it changes most\n";
        text + &table(&["calls", "mean µs"], self.stretches.iter().map(Stretch::row))
    }
}

impl Class {
    fn new(calls: &[Call], durations: &[f64], kinds: &[Option<usize>], number: usize) -> Option<Class> {
        let is_of_it: Vec<bool> = kinds.iter().map(|kind| *kind == Some(number)).collect();
        let of_it: Vec<f64> =
            durations.iter().zip(&is_of_it).filter_map(|(duration, is)| is.then_some(*duration)).collect();
        let places = stats::beginnings(&is_of_it);
        let numbers: Vec<f64> = places.iter().map(|place| *place as f64).collect();
        let times: Vec<f64> = places.iter().map(|place| calls[*place].start_us).collect();
        let series: Vec<f64> = is_of_it.iter().map(|is| f64::from(u8::from(*is))).collect();
        Some(Class {
            duration_us: Summary::of(&of_it)?,
            share_of_calls: of_it.len() as f64 / durations.len() as f64,
            share_of_time: of_it.iter().sum::<f64>() / durations.iter().sum::<f64>(),
            every_calls: stats::recurrence(&numbers),
            every_us: stats::recurrence(&times),
            period: stats::period(&series),
        })
    }
}

impl Stretch {
    fn row(&self) -> Vec<String> {
        vec![format!("{}-{}", self.first_call, self.last_call), figure(self.mean_us)]
    }
}

/// The run, divided where the durations change: of logarithms, so that a single long call does not divide it, in blocks
/// of calls.
fn stretches(calls: &[Call]) -> Vec<Stretch> {
    let size = calls.len().div_ceil(BLOCKS).max(1);
    let level = |block: &[Call]| {
        // A nanosecond more, as 0 has no logarithm.
        block.iter().map(|call| (call.duration_us + 1e-3).ln()).sum::<f64>() / block.len() as f64
    };
    let levels: Vec<f64> = calls.chunks(size).map(level).collect();
    let penalties = std::iter::successors(Some(stats::penalty(&levels)), |penalty| Some(penalty * 2.0));
    let mut changes =
        penalties.take(DOUBLINGS).map(|penalty| stats::changepoints(&levels, STRETCH_BLOCKS, penalty));
    let changes = changes.find(|changes| changes.len() < STRETCHES_MAX).unwrap_or_default();
    let edges: Vec<usize> =
        [0].into_iter().chain(changes.iter().map(|change| change * size)).chain([calls.len()]).collect();
    edges.windows(2).filter(|edge| edge[0] < edge[1]).map(|edge| stretch(calls, edge[0]..edge[1])).collect()
}

fn stretch(calls: &[Call], places: Range<usize>) -> Stretch {
    let part = &calls[places];
    let sum: f64 = part.iter().map(|call| call.duration_us).sum();
    Stretch {
        first_call: part[0].call,
        last_call: part[part.len() - 1].call,
        mean_us: sum / part.len() as f64,
    }
}
