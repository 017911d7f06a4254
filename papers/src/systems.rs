//! P1.systems: FreeBSD beside Linux (figure 1), and one processor budget beside another.
//!
//! The paper sends UDP from one machine under two systems, of which one spends more of the same processor on a packet. The
//! machines are simulated. Measured: the same program with all of its host's processor, and beside a thread that takes half of it;
//! over a veth that carries each message in one packet, as the paper's card does.

use std::sync::atomic::Ordering;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use tabane_engine::fragments::Fragments;
use tabane_engine::reclaim::Method;
use tabane_kit::machine::processors;

use super::swept::{Swept, add_round, gain, is_about, one, send};
use crate::device::oc48;
use crate::device::sender::{MESSAGE_MAX, Machine};
use crate::prelude::*;

const SIZES: [usize; 8] = [64, 256, 1_024, 2_048, 4_096, FILLS_THE_LINE, JUMBO, MESSAGE_MAX];
/// Bytes of the largest message that one buffer of FreeBSD holds.
const CLUSTER: usize = 2_048;
/// From these on Linux fills the line of OC-48c.
const FILLS_THE_LINE: usize = 9_216;
const MTU: u32 = 65_535;
/// Bytes of the longest packet that the NIC for 10 Gbit/s takes, about.
const JUMBO: usize = 16_384;
/// Machines over a card, their published Mbit/s at their longest packet, that packet, and whether that was fitted.
const MACHINES: [(&str, Machine, f64, usize, bool); 5] = [
    ("FreeBSD over OC-48c", oc48::FREEBSD, 1_900.0, MESSAGE_MAX, true),
    ("FreeBSD over OC-48c, clusters of 4 KB", oc48::FREEBSD_4K, 2_200.0, MESSAGE_MAX, true),
    ("Linux over OC-48c", oc48::LINUX, 2_400.0, MESSAGE_MAX, true),
    ("FreeBSD over 10 Gbit/s", oc48::FREEBSD_10G, 2_500.0, JUMBO, false),
    ("Linux over 10 Gbit/s", oc48::LINUX_10G, 4_000.0, JUMBO, false),
];
/// What half of the processor leaves of the packets, at least and at most, where the processor is the limit.
const HALF: std::ops::RangeInclusive<f64> = 0.4..=0.65;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let rates = MACHINES.map(|(name, machine, published, longest, is_fitted)| {
        SIZES.map(|size| {
            let own = send(&machine, Method::Interrupt, &Fragments::ScatterGather, size);
            let published = (size == longest).then_some(published);
            let fitted = if published.is_some() && is_fitted { " (fitted)" } else { "" };
            outcome.simulated(format!("{size} B, {name}"), None, one("kpps", own.kpps()));
            outcome.simulated(format!("{size} B, {name}{fitted}"), published, one("Mbit/s", own.mbit()));
            own.mbit()
        })
    });
    judge(&mut outcome, &rates);
    measure(setting, &mut outcome)?;
    Ok(outcome)
}

fn judge(outcome: &mut Outcome, rates: &[[f64; SIZES.len()]; MACHINES.len()]) {
    let [freebsd, _, linux, freebsd_10g, linux_10g] = rates;
    let place = |wanted: usize| SIZES.iter().position(|size| *size == wanted).unwrap_or_default();
    let widening = place(CLUSTER)..=place(FILLS_THE_LINE);
    let gaps = [(freebsd, linux), (freebsd_10g, linux_10g)]
        .map(|(own, other)| widening.clone().map(|place| other[place] - own[place]).collect::<Vec<f64>>());
    let said =
        gaps.each_ref().map(|gaps| gaps.iter().map(|gap| format!("{gap:.0}")).collect::<Vec<_>>().join(", "));
    outcome.finding(
        "from 2 KB on the gap between FreeBSD and Linux widens",
        gaps.iter().all(|gaps| gaps[0] > 0.0 && gaps.is_sorted()),
        format!(
            "at 2, 4 and 9 KB {} Mbit/s over OC-48c, then Linux fills the line; {} over 10 Gbit/s",
            said[0], said[1]
        ),
    );
    let long = place(JUMBO);
    outcome.finding(
        "over 10 Gbit/s FreeBSD ends at about 2.5 Gbit/s and Linux at about 4",
        is_about(freebsd_10g[long], 2_500.0) && is_about(linux_10g[long], 4_000.0),
        format!("predicted: {:.0} and {:.0} Mbit/s", freebsd_10g[long], linux_10g[long]),
    );
    let up_to_2k = 0..=place(CLUSTER);
    outcome.finding(
        "over 10 Gbit/s FreeBSD is not slower than Linux up to 2 KB",
        up_to_2k.clone().all(|place| freebsd_10g[place] >= linux_10g[place]),
        format!(
            "{:.0} % slower at most; the simulated drivers are the same, and the paper's of that NIC were not",
            up_to_2k.map(|place| -gain(freebsd_10g[place], linux_10g[place])).fold(f64::NEG_INFINITY, f64::max)
        ),
    );
}

fn measure(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let link = LinkPlan { mtu: MTU, ..LinkPlan::unshaped() };
    let topology = Topology::build(Plan { pinning: Pinning::Apart, ..Plan::two_hosts(vec![link]) })?;
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    let flags = ["--protocols", "udp", "--sizes", &sizes];
    let (mut all, mut half) = (Vec::new(), Vec::new());
    for _ in 0..setting.rounds {
        add_round(&mut all, setting, &topology, address(0, 1).into(), &flags)?;
        let _rival = rival(*processors()?.first().context("no processor")?)?;
        add_round(&mut half, setting, &topology, address(0, 1).into(), &flags)?;
    }
    let mut left = Vec::new();
    for (size, (all, half)) in SIZES.iter().zip(all.iter().zip(&half)) {
        for (name, Swept { kpps, mbit, .. }) in [("all", all), ("half", half)] {
            outcome.own(format!("{size} B over veth, {name} of a processor"), kpps.clone());
            outcome.own(format!("{size} B over veth, {name} of a processor: payload"), mbit.clone());
        }
        let ratio = times(&half.kpps, &all.kpps);
        left.push(ratio.clone());
        outcome.own(format!("{size} B over veth: half of a processor against all"), ratio);
    }
    outcome.finding(
        "measured: the processor limits the sender at every size, so half of it sends half of the packets",
        left.iter().all(|left| HALF.contains(&left.median())),
        SIZES
            .iter()
            .zip(&left)
            .map(|(size, left)| format!("{} at {size} B", spread(left, 2)))
            .collect::<Vec<_>>()
            .join(", "),
    );
    Ok(())
}

fn rival(processor: usize) -> Result<Running<()>> {
    Running::start(None, "rival", move |ended| {
        let mut only = CpuSet::new();
        only.set(processor)?;
        sched_setaffinity(Pid::from_raw(0), &only)?;
        while !ended.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    })
}
