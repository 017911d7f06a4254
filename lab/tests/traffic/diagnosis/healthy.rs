//! A sound pair, idle and under load: neither command has anything to complain of. TABANE_HEALTHY_RUNS says how often it is
//! looked at, 3 times unless told otherwise.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::DEVICE;
use tabane_kit::rate::Bitrate;

use super::{Said, doctor, why};
use crate::case::{Case, DAEMON};
use crate::traffic::stage::{begin, more, options, plan, whole, with_bundles};

/// How often it is looked at, each time by both commands and at both nodes in turn.
const RUNS: usize = 3;
/// What a link carries: so little that a machine fills it although others take its processors.
const RATE: Bitrate = Bitrate::mbit(10);
/// What has arrived before anyone asks.
const BEGUN: u64 = 2 << 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("doctor_and_why_find_nothing_at_an_idle_pair", DAEMON, idle),
        Case::calm("doctor_and_why_find_nothing_at_a_busy_pair", DAEMON, busy),
    ]
}

fn runs() -> Result<usize> {
    let Some(text) = env::var_os("TABANE_HEALTHY_RUNS") else { return Ok(RUNS) };
    text.to_str().and_then(|text| text.parse().ok()).context("TABANE_HEALTHY_RUNS is no number")
}

fn idle() -> Result<()> {
    with_bundles(plan(&[RATE; 2]), &options()?, |topology, _| {
        looks(
            |host| Ok((doctor(topology.host(host), &[DEVICE])?, why(topology.host(host))?)),
            "nothing-to-send",
        )
    })
}

fn busy() -> Result<()> {
    with_bundles(plan(&[RATE; 2]), &options()?, |topology, _| {
        let transfer = begin(topology.host(0), topology.host(1), 1, 1 << 20)?;
        more(&transfer, BEGUN, Duration::from_secs(30))?;
        // The receiver is looked at by the doctor alone: what fills its links it does not know for sure.
        looks(|host| Ok((doctor(topology.host(host), &[DEVICE])?, why(topology.host(0))?)), "links-full")?;
        whole(transfer).map(drop)
    })
}

/// Looks again and again, and counts what was said without a reason. That others take all processors from the daemon is a
/// reason to say so.
fn looks(look: impl Fn(usize) -> Result<(Said, Said)>, limit: &str) -> Result<()> {
    let (runs, mut alarms, mut starved, mut right) = (runs()?, Vec::new(), 0, 0);
    for run in 0..runs {
        let (doctor, why) = look(run % 2)?;
        if !doctor.names.is_empty() {
            alarms.push(format!("run {run}: {:#}", doctor.answer));
        }
        match why.answer["is_fault"].as_bool() {
            Some(true) if is_starved(&why) => starved += 1,
            Some(true) | None => alarms.push(format!("run {run}: {:#}", why.answer)),
            Some(false) => right += usize::from(why.names.contains(limit)),
        }
    }
    println!(
        "{runs} runs of each command: {} false alarms; {limit} {right} times, starved {starved} times",
        alarms.len()
    );
    ensure!(alarms.is_empty(), "{}", alarms.join("\n"));
    ensure!(right > 0 || starved > 0, "{limit} was never said");
    Ok(())
}

/// Whether it blames the processors, and all of them are busy.
fn is_starved(why: &Said) -> bool {
    let busy = why.answer["facts"]["processors"].as_array().map_or(&[][..], Vec::as_slice);
    let are_busy = busy.iter().all(|busy| busy.as_u64() >= Some(95)) && !busy.is_empty();
    are_busy && why.names.iter().all(|name| name.ends_with("-processor"))
}
