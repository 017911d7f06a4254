//! One run in network namespaces: real daemons, this machine's kernel, real connections.
//!
//! Links whose flaws are rates, black holes and pulled cables have a switch each; when any link has another flaw in the
//! course of the scenario, all are emulated wires. The buffers of TCP may grow to 32 MiB, so that long paths are filled.

use std::collections::BTreeSet;
use std::thread::Scope;

use nix::sys::signal::Signal;
use tabane_kit::emulator::Coalescing;
use tabane_kit::topology::{Pacer, RouterPlan};

use super::able::needs_emulator;
use super::contestant::{Contestant, Way};
use super::course::{self, Condition, Step};
use super::deaths::Faults;
use super::figure::{Counts, Measure, Told, reordered};
use super::flows::{Around, Mark, Running, figures};
use super::plan::{FaultKind, FlowKind, Router, Scenario};
use super::vitals::Vitals;
use crate::prelude::*;

const BUFFER_BYTES_MAX: u32 = 32 << 20;
/// A run in which anything comes later than this part of its duration measures the machine and not the contestant.
const LATE_SHARE: u32 = 10;

pub(super) fn run(
    scenario: &Scenario,
    contestant: Contestant,
    daemon: &Path,
    seed: u64,
    slowdown: u32,
) -> Result<Vec<Measure>> {
    let scenario = &scenario.with_random_faults(seed);
    let topology = Topology::build(plan(scenario, contestant, seed))?;
    let run = Run { scenario, contestant, topology: &topology, seed, slowdown };
    for link in 0..scenario.links.len() {
        run.impair(link, &Condition::at_first(scenario, link))?;
    }
    for host in topology.hosts() {
        host.set("net/ipv4/tcp_rmem", &format!("4096 131072 {BUFFER_BYTES_MAX}"))?;
        host.set("net/ipv4/tcp_wmem", &format!("4096 16384 {BUFFER_BYTES_MAX}"))?;
    }
    let mut way = contestant.start(&topology, scenario, daemon)?;
    let (told, since_ns) = (Told::now(&way.bundles)?, monotonic_ns()?);
    let vitals = if scenario.random_faults > 0 { Vitals::watch(&way.bundles)? } else { None };
    let (mut measures, mut faults) = (Vec::new(), Faults::default());
    for (turn, scenario) in scenario.turns() {
        let run = Run { scenario: &scenario, ..run };
        let (of_turn, seen) = thread::scope(|scope| run.play(scope, &mut way))?;
        measures.extend(of_turn.into_iter().map(|measure| measure.in_turn(turn)));
        faults = seen;
    }
    if let Some(before) = told {
        measures.extend(faults.figures(&way.bundles, scenario.links.len(), since_ns)?);
        measures.extend(Told::now(&way.bundles)?.map(|told| told.since(&before)).unwrap_or_default());
    }
    measures.extend(vitals.map_or(Ok(Vec::new()), |vitals| vitals.figures(&way.bundles))?);
    measures.extend(reordered(&way.reordered()?));
    if contestant == Contestant::Mptcp {
        bonding::check_subflows(&topology)?;
    }
    way.stop()?;
    Ok(measures)
}

fn plan(scenario: &Scenario, contestant: Contestant, seed: u64) -> Plan {
    let needs_addresses = scenario.flows.iter().any(|flow| flow.bare.is_some())
        || (0..scenario.links.len()).any(|link| scenario.translates(link));
    let is_emulated = needs_emulator(scenario) && !scenario.has_netem(contestant);
    let link = |link: &super::plan::Link| {
        let rate = Bitrate::bits(link.rate);
        let queue = |router: &Router| RouterPlan {
            rate: Bitrate::bits(router.rate()),
            queue_bytes: router.queue_bytes(),
            translates: router.translates,
        };
        let paced = LinkPlan::paced(rate);
        let burst_bytes = link.burst.unwrap_or(paced.burst_bytes);
        LinkPlan { mtu: link.mtu.into(), router: link.router.as_ref().map(queue), burst_bytes, ..paced }
    };
    Plan {
        hosts: scenario.hosts.into(),
        wiring: if is_emulated { Wiring::Emulator } else { Wiring::Switch },
        addressed: contestant.uses_bare_links() || needs_addresses,
        seed,
        ..Plan::two_hosts(scenario.links.iter().map(link).collect())
    }
}

struct Played {
    counts: [Counts; 2],
    marks: [Vec<Mark>; 2],
    faults: Faults,
}

#[derive(Clone, Copy)]
struct Run<'a> {
    scenario: &'a Scenario,
    contestant: Contestant,
    topology: &'a Topology,
    seed: u64,
    slowdown: u32,
}

impl<'a> Run<'a> {
    fn play<'s>(&'s self, scope: &'s Scope<'s, '_>, way: &mut Way<'_>) -> Result<(Vec<Measure>, Faults)> {
        thread::sleep(self.scenario.quiet);
        let flows = self.begin(scope)?;
        let played = self.carry_out(&flows, way);
        // Whatever went wrong, nothing is left running.
        flows.iter().flatten().for_each(Running::end);
        let finished = flows.into_iter().map(|flows| flows.into_iter().map(Running::finish).collect());
        let finished: Vec<Result<Vec<_>>> = finished.collect();
        let Played { counts: [warm_counts, end_counts], marks, faults } = played?;
        let socket_overruns = end_counts.socket_overruns - warm_counts.socket_overruns;
        let around = Around { scenario: self.scenario, fault_ns: faults.first_ns(), socket_overruns };
        let mut measures = Vec::new();
        for (entry, (finished, flow)) in finished.into_iter().zip(&self.scenario.flows).enumerate() {
            let finished = finished.with_context(|| flow.to_string())?;
            let marks = marks.each_ref().map(|mark| &mark[entry]);
            let figures = figures(flow, &finished, marks, &around).into_iter();
            measures.extend(figures.map(|(figure, value)| Measure::of_flow(entry, figure, value)));
        }
        let is_tcp = |kind: FlowKind| matches!(kind, FlowKind::Tcp | FlowKind::File);
        let payload = || marks[1].iter().zip(&marks[0]).map(|(end, warm)| end.bytes_since(warm)).sum();
        let payload = self.scenario.flows.iter().any(|flow| is_tcp(flow.kind)).then(payload);
        measures.extend(end_counts.since(&warm_counts, payload));
        Ok((measures, faults))
    }

    fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Result<Vec<Vec<Running<'s>>>> {
        let mut number = 0;
        let mut begun = Vec::new();
        for flow in &self.scenario.flows {
            let mut flows = Vec::new();
            for (from, to) in flow.pairs(self.scenario.hosts) {
                let hosts = [from, to].map(|host| self.topology.host(host.into()));
                let (there, stream) = match flow.bare {
                    Some(link) => (address(link.into(), to.into()).into(), Stream::Tcp),
                    None => (self.contestant.address(self.scenario, to), self.contestant.stream()),
                };
                number += 1;
                let at = SocketAddr::new(there, 0);
                let seed = self.seed.wrapping_add(number as u64);
                let running = Running::start(scope, flow, stream, hosts, at, self.scenario.duration, seed);
                flows.push(running.with_context(|| flow.to_string())?);
            }
            begun.push(flows);
        }
        Ok(begun)
    }

    fn carry_out(&self, flows: &[Vec<Running<'_>>], way: &mut Way<'_>) -> Result<Played> {
        let started = Instant::now();
        let wait_until = |at: Duration| -> Result<()> {
            thread::sleep(at.saturating_sub(started.elapsed()));
            let late = started.elapsed().saturating_sub(at);
            // Of random faults only the order matters.
            let share = if self.scenario.random_faults > 0 { 1 } else { LATE_SHARE };
            let late_max = self.scenario.duration * self.slowdown / share;
            ensure!(
                late <= late_max,
                "the machine is too busy: what was due after {at:?} came {late:?} late"
            );
            Ok(())
        };
        let mark = || flows.iter().map(|flows| Mark::now(flows)).collect::<Result<Vec<Mark>>>();
        let count = |way: &Way<'_>| Counts::now(self.topology, &way.pids());
        let mut faults = Faults::default();
        let course = course::of(self.scenario);
        let mut pacers = self.pacers(&course)?;
        let mut change = |steps: &[Step], bundles: &mut [Bundle<'_>]| -> Result<()> {
            for step in steps {
                wait_until(step.at)?;
                let moment = self.change(step, bundles)?;
                if let Some(pacer) = pacers.get_mut(&step.link) {
                    let rate = step.after.quality.router.map(Bitrate::bits).context("a router's rate")?;
                    pacer.set(rate, step.lasts)?;
                }
                faults.note(self.scenario, step, moment);
            }
            Ok(())
        };
        let (early, late) = course.split_at(course.partition_point(|step| step.at < self.scenario.warm_up()));
        change(early, &mut way.bundles)?;
        wait_until(self.scenario.warm_up())?;
        let (warm_counts, warm) = (count(way)?, mark()?);
        change(late, &mut way.bundles)?;
        wait_until(self.scenario.duration)?;
        let (end, end_counts) = (mark()?, count(way)?);
        pacers.into_values().try_for_each(Pacer::finish)?;
        Ok(Played { counts: [warm_counts, end_counts], marks: [warm, end], faults })
    }

    fn pacers(&self, course: &[Step]) -> Result<BTreeMap<usize, Pacer>> {
        let has_netem = self.scenario.has_netem(self.contestant);
        let is_kernels = self.topology.plan().wiring == Wiring::Switch && !has_netem;
        let is_paced = |step: &&Step| is_kernels && step.before.quality.router != step.after.quality.router;
        let links: BTreeSet<usize> = course.iter().filter(is_paced).map(|step| step.link).collect();
        links.into_iter().map(|link| Ok((link, self.topology.pacer(link)?))).collect()
    }

    fn change(&self, step: &Step, bundles: &mut [Bundle<'_>]) -> Result<Moment> {
        let Step { link, before, after, policies, .. } = step;
        let before_ns = monotonic_ns()?;
        for (begins, from, to) in [(true, before, after), (false, after, before)] {
            for (kind, host) in to.hosts.difference(&from.hosts) {
                self.toggle(*kind, (*host).into(), *link, begins, bundles)?;
            }
        }
        for (host, policy) in policies {
            bundles[usize::from(*host)].ask(&["policy", DEVICE, policy.name()])?;
        }
        if self.topology.plan().wiring == Wiring::Emulator {
            // A NIC that is gone takes no orders.
            if !before.is_same_wire(after) {
                self.impair(*link, after)?;
            }
        } else if after.black_hole && !before.black_hole {
            self.topology.kill_switch(*link)?;
        } else if before.black_hole && !after.black_hole {
            self.topology.revive_switch(*link)?;
        }
        Ok(Moment { before_ns, after_ns: monotonic_ns()? })
    }

    /// Begins what is wrong at one host, or ends it. What concerns no link is every link's condition, and is done once.
    fn toggle(
        &self,
        kind: FaultKind,
        host: usize,
        link: usize,
        begins: bool,
        bundles: &mut [Bundle<'_>],
    ) -> Result<()> {
        match (kind, begins) {
            (FaultKind::Cable, true) => self.topology.pull_cable(host, link).map(drop),
            (FaultKind::Cable, false) => self.topology.plug_cable(host, link).map(drop),
            (FaultKind::NicDown, _) => self.topology.set_nic(host, link, !begins),
            (FaultKind::NicGone, true) => self.topology.delete_nic(host, link),
            (FaultKind::NicGone, false) => self.topology.make_nic(host, link),
            (FaultKind::LinkOut, _) => {
                let verb = if begins { "remove" } else { "add" };
                bundles[host].ask(&["link", verb, DEVICE, &nic(link)]).map(drop)
            }
            (FaultKind::Killed, true) if link == 0 => bundles[host].kill(),
            (FaultKind::Killed, false) if link == 0 => bundles[host].start_again(),
            (FaultKind::Halted, true) if link == 0 => bundles[host].signal(Signal::SIGSTOP),
            (FaultKind::Halted, false) if link == 0 => bundles[host].signal(Signal::SIGCONT),
            // The emulated wire is mute.
            _ => Ok(()),
        }
    }

    /// Gives a wire its condition; a switch has none.
    fn impair(&self, link: usize, condition: &Condition) -> Result<()> {
        let has_netem = self.scenario.has_netem(self.contestant);
        if self.topology.plan().wiring != Wiring::Emulator && !has_netem {
            return Ok(());
        }
        let plan = &self.scenario.links[link];
        let quality = condition.quality;
        let router = quality.router.map(Bitrate::bits);
        let changed = quality.rate != plan.rate;
        for (direction, sender) in Direction::BOTH.into_iter().zip(0_u8..) {
            let impairment = Impairment {
                black_hole: condition.black_hole || condition.hosts.contains(&(FaultKind::OneWay, sender)),
                loss: quality.loss.of_one(),
                corruption: quality.corruption.of_one(),
                // The link's own rate is that of the NICs.
                rate: router.or_else(|| changed.then(|| Bitrate::bits(quality.rate))),
                queue_bytes: plan.router.as_ref().map(Router::queue_bytes),
                delay: quality.delay,
                jitter: quality.jitter,
                coalescing: plan
                    .coalescing
                    .map(|each| Coalescing { frames: each.frames.into(), wait: each.wait }),
            };
            if has_netem {
                impair(self.topology, link, direction, &impairment)?;
            } else {
                self.topology.impair(link, direction, impairment)?;
            }
        }
        Ok(())
    }
}

/// The largest frame, without preamble and checksum.
const FRAME_BYTES: u64 = 1514;
/// Most packets on the way where no rate says how many: a second of what a guest can send.
const LIMIT: u64 = 10_000;

/// Has the switch's port at the end of `direction` do `impairment`, to single frames where that makes a difference: netem loses
/// and delays whole what it is given.
pub(super) fn impair(
    topology: &Topology,
    link: usize,
    direction: Direction,
    impairment: &Impairment,
) -> Result<()> {
    let sender = direction as usize;
    if impairment.needs_single_frames() {
        topology.host(sender).ip(&format!("link set {} gso_max_segs 1", nic(link)))?;
    }
    let port = format!("port{}", 2 - sender);
    topology.switch(link).tc(&format!("qdisc replace dev {port} root netem {}", words(impairment))).map(drop)
}

/// As `tc` takes it. Its limit counts what is delayed, too; the queue before the rate is the same.
fn words(impairment: &Impairment) -> String {
    let mut words = Vec::new();
    if !impairment.delay.is_zero() {
        words.push(format!("delay {}us", impairment.delay.as_micros()));
        words.extend((!impairment.jitter.is_zero()).then(|| format!("{}us", impairment.jitter.as_micros())));
    }
    for (name, share) in [("loss", impairment.loss), ("corrupt", impairment.corruption)] {
        if share > 0.0 {
            words.push(format!("{name} {}%", share * 100.0));
        }
    }
    let mut limit = LIMIT;
    if let Some(rate) = impairment.rate {
        words.push(format!("rate {}bit", rate.bits_per_second()));
        let delayed =
            rate.bits_per_second() / 8 * u64::try_from(impairment.delay.as_millis()).unwrap_or(0) / 1000;
        limit = (impairment.queue_limit() + delayed).div_ceil(FRAME_BYTES);
    }
    words.push(format!("limit {limit}"));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tabane_kit::rate::Bitrate;

    use super::*;

    #[test]
    fn netem_is_told_the_same() {
        let delay = Impairment::delay(Duration::from_millis(10));
        let all = Impairment { loss: 0.001, rate: Some(Bitrate::mbit(20)), ..delay };
        assert_eq!(words(&delay), "delay 10000us limit 10000");
        assert_eq!(words(&all), "delay 10000us loss 0.1% rate 20000000bit limit 104");
    }
}
