//! P3.packet: where the time of one packet goes.
//!
//! The paper looks into its driver and finds that most of the time goes into taking out what was received. The NIC is
//! simulated. Measured are the writing and the reading of a packet's units in a window of this machine, and the round trip
//! through bundles, of which a part is the wait for two polls.

use std::io::IoSlice;
use std::time::Instant;

use tabane_io::{Link, MemLink, MemSpec, ReceiveBuffer, Sent};
use tabane_shm_ring::{MESSAGE_MAX, Shape};

use super::memory::{Hosts, INTERVAL, RING};
use super::swept::{self, one};
use crate::device::exchange::{WITH_BUG, WITHOUT_BUG};
use crate::prelude::*;

const MESSAGE: usize = 8_192;
const MTU: usize = 65_536;
const MESSAGES: usize = 200;
/// Bytes of a unit that are compared: the paper's, this project's, the largest.
const UNITS: [usize; 3] = [512, 4_096, 65_536];
/// Bytes of a cell in units of 512 B, of which two hold one.
const CELL: usize = 1_016;
const REPEATS: usize = 2_000;
/// How long both ends of a window may take to see each other.
const MEET_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (machines, name) in [(WITH_BUG, "with the bug"), (WITHOUT_BUG, "without")] {
        let spent = machines.spend(MESSAGE, MTU, MESSAGES);
        for (part, time) in [
            ("copying", spent.copying),
            ("protocols", spent.packets),
            ("writing units", spent.writing),
            ("reading units", spent.reading),
            ("wire, and waiting for polls", spent.waiting),
        ] {
            outcome.simulated(format!("8 KB {name}: {part}"), None, one("µs", time.as_secs_f64() * 1e6));
        }
        let share = 100.0 * spent.reading.as_secs_f64() / spent.in_driver().as_secs_f64();
        if machines.slot.read < machines.slot.write {
            outcome.finding(
                "with the bug most of the driver's time goes into taking out what was received",
                share > 50.0,
                format!("{share:.0} %"),
            );
        }
    }
    one_way(setting, &mut outcome)?;
    by_unit(setting, &mut outcome)?;
    Ok(outcome)
}

fn one_way(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let none = || Samples::new("µs", Vec::new());
    let [mut write, mut read, mut rest, mut whole] = [(); 4].map(|()| none());
    let wait = INTERVAL.as_secs_f64() * 1e6 / 2.0;
    for _ in 0..setting.rounds {
        let [written, taken] = through_window()?.map(|time| time.as_secs_f64() * 1e6);
        let way = round_trip(setting)? / 2.0;
        write.push(written);
        read.push(taken);
        whole.push(way);
        rest.push(way - written - taken - 2.0 * wait);
    }
    let share = 100.0 * (write.median() + read.median()) / whole.median();
    outcome.own("8 KB over mem, half of a round trip", whole);
    outcome.own("8 KB over mem: writing units", write);
    outcome.own("8 KB over mem: reading units", read);
    outcome.own("8 KB over mem: waiting for two polls, on average", Samples::new("µs", vec![2.0 * wait]));
    outcome.own("8 KB over mem: sockets, devices, workers", rest);
    outcome.finding(
        "measured: without the bug writing and reading take less than a tenth of a packet's way",
        share < 10.0,
        format!("{share:.1} %"),
    );
    Ok(())
}

/// Microseconds, in the median.
fn round_trip(setting: &Setting) -> Result<f64> {
    Hosts::two().measure(setting, |topology| {
        let there = bundle::address(1);
        let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
        let report = probe.measure(&["rtt", &there.to_string()], &["--sizes", &MESSAGE.to_string()])?;
        probe.stop()?;
        let median = &report["sizes"][0]["rtt_us"]["median"];
        median.as_f64().with_context(|| format!("no median in {report}"))
    })
}

/// How long it takes to write a packet into a window in units of 512 B, and to read it there, in the median.
fn through_window() -> Result<[Duration; 2]> {
    let window = Window::new()?;
    let seat = |slot| {
        let shape = Shape::new(UNITS[0], RING, 2, 1)?;
        let path = window.path().to_path_buf();
        anyhow::Ok(MemLink::open(&MemSpec {
            path,
            shape,
            channel: 0,
            slot: Some(slot),
            port: 1,
            poll: INTERVAL,
        })?)
    };
    let (mut near, mut far) = (seat(0)?, seat(1)?);
    let (began, there) = (Instant::now(), far.local_addr());
    let packet = vec![7; MESSAGE];
    let mut room = vec![0; MESSAGE_MAX];
    let mut pass = |near: &mut MemLink, far: &mut MemLink| {
        let mut buffers = [ReceiveBuffer::new(&mut room)];
        let start = Instant::now();
        let sent = near.send(&there, &[IoSlice::new(&packet)], CELL);
        let middle = Instant::now();
        let came = far.receive(&mut buffers)?;
        let end = Instant::now();
        let whole = matches!(sent, Sent::Done) && came == 1 && buffers[0].len == MESSAGE;
        anyhow::Ok(whole.then_some([middle - start, end - middle]))
    };
    wait_for("the ends of a window", MEET_WITHIN, || {
        for link in [&mut near, &mut far] {
            // Neither writes impossible values.
            let _ = link.service(began.elapsed());
        }
        pass(&mut near, &mut far)
    })?;
    let (mut written, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let [write, read] = pass(&mut near, &mut far)?.context("a packet did not pass the window")?;
        written.push(write);
        taken.push(read);
    }
    Ok([written, taken].map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    }))
}

/// Adds what units cost: in those of 512 B a cell takes two, in larger ones it fills one.
fn by_unit(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let flags = ["--answered", "--protocols", "tcp", "--sizes", "65536"];
    for unit in UNITS {
        let hosts = Hosts { unit, ..Hosts::two() };
        let swept = hosts
            .measure(setting, |topology| swept::through(setting, topology, bundle::address(1), &flags))?;
        let own = swept.first().context("nothing was measured")?;
        outcome.own(format!("64 KB over mem, units of {unit} B"), own.megabytes());
        outcome.own(format!("64 KB over mem, units of {unit} B: CPU"), own.cpu.clone());
    }
    Ok(())
}
