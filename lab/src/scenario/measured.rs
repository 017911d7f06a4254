//! One run in network namespaces: real daemons, this machine's kernel, real connections.
//!
//! Links whose flaws are rates, black holes and pulled cables have a switch each; when any link has another flaw in the
//! course of the scenario, all are emulated wires. The buffers of TCP may grow to 32 MiB, so that long paths are filled.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tabane_proto::PolicyKind;

use super::able::needs_emulator;
use super::course::{self, Condition, Step};
use super::figure::{Figure, Measure};
use super::flows::{Mark, Running, figures};
use super::plan::{Contestant, FlowKind, Scenario};
use tabane_kit::bundle::{self, Bundle, Protection};
use tabane_kit::clock::{Moment, milliseconds_between, monotonic_ns};
use tabane_kit::counters;
use tabane_kit::emulator::{Coalescing, Direction, Impairment};
use tabane_kit::mptcp;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::LINK_DOWN;
use tabane_kit::topology::{LinkPlan, Plan, RouterPlan, Topology, Wiring, address, nic};

/// Most that the buffers of a connection may grow to.
const BUFFER_BYTES_MAX: u32 = 32 << 20;
/// A run in which anything comes later than this part of its duration measures the machine and not the contestant.
const LATE_SHARE: u32 = 10;

/// Runs `scenario`.
///
/// # Errors
/// A tool or daemon fails, or something arrives that was not sent.
pub(super) fn run(
    scenario: &Scenario,
    contestant: Contestant,
    daemon: &Path,
    seed: u64,
) -> Result<Vec<Measure>> {
    let topology = Topology::build(plan(scenario, contestant, seed))?;
    let run = Run { scenario, contestant, topology: &topology, seed };
    for link in 0..scenario.links.len() {
        run.impair(link, &Condition::at_first(scenario, link))?;
    }
    for host in topology.hosts() {
        host.set("net/ipv4/tcp_rmem", &format!("4096 131072 {BUFFER_BYTES_MAX}"))?;
        host.set("net/ipv4/tcp_wmem", &format!("4096 16384 {BUFFER_BYTES_MAX}"))?;
    }
    let bundles = run.start(daemon)?;
    let resent = run.resent()?;
    let (mut measures, death) = thread::scope(|scope| run.play(scope))?;
    if scenario.flows.iter().any(|flow| matches!(flow.kind, FlowKind::Tcp | FlowKind::File { .. })) {
        measures.push(Measure::of_run(Figure::Resent, (run.resent()? - resent) as f64));
    }
    if let Some((link, began)) = death {
        measures.extend(noticed(&bundles, link, began)?);
    }
    measures.extend(run.overruns()?);
    if contestant == Contestant::Mptcp {
        mptcp::check(&topology)?;
    }
    for bundle in bundles {
        bundle.stop()?.success("a daemon told to stop")?;
    }
    Ok(measures)
}

fn plan(scenario: &Scenario, contestant: Contestant, seed: u64) -> Plan {
    let link = |link: &super::plan::Link| {
        let rate = Bitrate::bits(link.quality.rate);
        let queue = |router: super::plan::Router| RouterPlan {
            rate: Bitrate::bits(router.rate),
            queue_bytes: router.queue_bytes(),
        };
        LinkPlan { mtu: link.mtu.into(), router: link.router.map(queue), ..LinkPlan::paced(rate) }
    };
    Plan {
        hosts: scenario.hosts.into(),
        links: scenario.links.iter().map(link).collect(),
        wiring: if needs_emulator(scenario) { Wiring::Emulator } else { Wiring::Switch },
        addressed: !matches!(contestant, Contestant::Bundle(_)),
        pinned: false,
        seed,
    }
}

/// A link that carries nothing any more, and since when.
type Death = (usize, Moment);

struct Run<'a> {
    scenario: &'a Scenario,
    contestant: Contestant,
    topology: &'a Topology,
    seed: u64,
}

impl<'a> Run<'a> {
    /// Makes the path; the daemons go with the value.
    fn start(&self, daemon: &Path) -> Result<Vec<Bundle<'a>>> {
        match self.contestant {
            Contestant::BestLink => Ok(Vec::new()),
            Contestant::Mptcp => mptcp::announce(self.topology).map(|()| Vec::new()),
            Contestant::Bundle(policy) => {
                let over = self.scenario.bundle.over;
                let links: Vec<String> = self.topology.nics().iter().map(|nic| over.link(nic)).collect();
                Bundle::start_over(self.topology, &links, &self.options(policy, daemon))
            }
        }
    }

    fn options(&self, policy: PolicyKind, daemon: &Path) -> bundle::Options {
        let own = self.scenario.bundle;
        let mut arguments =
            ["--policy", policy.name(), "--receive", own.receive.name()].map(str::to_string).to_vec();
        if !own.repair {
            arguments.push("--no-repair".to_string());
        }
        if policy == PolicyKind::Hash {
            arguments.extend(["--hash".to_string(), own.hash.name().to_string()]);
        }
        if policy == PolicyKind::ActiveBackup {
            let primary = own.primary.map(|link| ["--primary".to_string(), nic(link.into())]);
            arguments.extend(primary.into_iter().flatten());
            arguments.extend((!own.preempt).then(|| "--no-preempt".to_string()));
        }
        let protection = if own.sealed { Protection::LabKey } else { Protection::None };
        bundle::Options { arguments, protection, ..bundle::Options::new(daemon) }
    }

    /// Address of `host` on the path.
    fn address(&self, host: u8) -> IpAddr {
        match self.contestant {
            Contestant::Bundle(_) => bundle::address(host.into()),
            Contestant::BestLink => address(self.scenario.best_link(), host.into()).into(),
            Contestant::Mptcp => address(0, host.into()).into(),
        }
    }

    /// Starts the flows, carries out the course beside them, and measures them.
    fn play<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Result<(Vec<Measure>, Option<Death>)> {
        let flows = self.begin(scope)?;
        let played = self.carry_out(&flows);
        // Whatever went wrong, nothing is left running.
        flows.iter().flatten().for_each(Running::end);
        let finished = flows.into_iter().map(|flows| flows.into_iter().map(Running::finish).collect());
        let finished: Vec<Result<Vec<_>>> = finished.collect();
        let (marks, death) = played?;
        let mut measures = Vec::new();
        for (entry, (finished, flow)) in finished.into_iter().zip(&self.scenario.flows).enumerate() {
            let finished = finished.with_context(|| flow.to_string())?;
            let marks = marks.each_ref().map(|mark| &mark[entry]);
            let figures = figures(flow, &finished, marks, self.scenario).into_iter();
            measures.extend(figures.map(|(figure, value)| Measure::of_flow(entry, figure, value)));
        }
        Ok((measures, death))
    }

    fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Result<Vec<Vec<Running<'s>>>> {
        let mut seed = self.seed;
        let mut begun = Vec::new();
        for flow in &self.scenario.flows {
            let [from, to] = [flow.from, flow.to].map(|host| self.topology.host(host.into()));
            let at = SocketAddr::new(self.address(flow.to), 0);
            let mut flows = Vec::new();
            for _ in 0..flow.count {
                seed = seed.wrapping_add(1);
                let is_mptcp = self.contestant == Contestant::Mptcp;
                let running =
                    Running::start(scope, flow.kind, is_mptcp, [from, to], at, self.scenario.duration, seed);
                flows.push(running.with_context(|| flow.to_string())?);
            }
            begun.push(flows);
        }
        Ok(begun)
    }

    /// Goes through the course of the scenario; what the flows had done after the warm-up and at the end, and the first
    /// death of a link.
    fn carry_out(&self, flows: &[Vec<Running<'_>>]) -> Result<([Vec<Mark>; 2], Option<Death>)> {
        let started = Instant::now();
        let wait_until = |at: Duration| -> Result<()> {
            thread::sleep(at.saturating_sub(started.elapsed()));
            let late = started.elapsed().saturating_sub(at);
            let late_max = self.scenario.duration / LATE_SHARE;
            ensure!(
                late <= late_max,
                "the machine is too busy: what was due after {at:?} came {late:?} late"
            );
            Ok(())
        };
        let mark = || flows.iter().map(|flows| Mark::now(flows)).collect::<Result<Vec<Mark>>>();
        let mut death = None;
        let mut change = |steps: &[Step]| -> Result<()> {
            for step in steps {
                wait_until(step.at)?;
                let moment = self.change(step)?;
                death = death.or(step.is_death.then_some((step.link, moment)));
            }
            Ok(())
        };
        let course = course::of(self.scenario);
        let (early, late) = course.split_at(course.partition_point(|step| step.at < self.scenario.warm_up));
        change(early)?;
        wait_until(self.scenario.warm_up)?;
        let warm = mark()?;
        change(late)?;
        wait_until(self.scenario.duration)?;
        Ok(([warm, mark()?], death))
    }

    /// Carries out a step of the course.
    fn change(&self, step: &Step) -> Result<Moment> {
        let Step { link, before, after, .. } = step;
        let before_ns = monotonic_ns()?;
        for host in after.pulled.difference(&before.pulled) {
            self.topology.pull_cable((*host).into(), *link)?;
        }
        for host in before.pulled.difference(&after.pulled) {
            self.topology.plug_cable((*host).into(), *link)?;
        }
        if self.topology.plan().wiring == Wiring::Emulator {
            self.impair(*link, after)?;
        } else if after.black_hole && !before.black_hole {
            self.topology.kill_switch(*link)?;
        } else if before.black_hole && !after.black_hole {
            self.topology.revive_switch(*link)?;
        }
        Ok(Moment { before_ns, after_ns: monotonic_ns()? })
    }

    /// Gives an emulated wire its condition; a switch has none.
    fn impair(&self, link: usize, condition: &Condition) -> Result<()> {
        if self.topology.plan().wiring != Wiring::Emulator {
            return Ok(());
        }
        let plan = self.scenario.links[link];
        let quality = condition.quality;
        let router = quality.router.map(Bitrate::bits);
        let changed = quality.rate != plan.quality.rate;
        for (direction, sender) in Direction::BOTH.into_iter().zip(0_u8..) {
            let impairment = Impairment {
                black_hole: condition.black_hole || condition.mute.contains(&sender),
                loss: quality.loss.of_one(),
                corruption: quality.corruption.of_one(),
                // The link's own rate is that of the NICs.
                rate: router.or_else(|| changed.then(|| Bitrate::bits(quality.rate))),
                queue_bytes: plan.router.map(|router| router.queue_bytes()),
                delay: quality.delay,
                jitter: quality.jitter,
                reorder: false,
                coalescing: plan
                    .coalescing
                    .map(|each| Coalescing { frames: each.frames.into(), wait: each.wait }),
            };
            self.topology.impair(link, direction, impairment)?;
        }
        Ok(())
    }

    /// TCP segments that all hosts have sent again so far.
    fn resent(&self) -> Result<u64> {
        self.topology.hosts().iter().map(|host| counters::protocol(host, "Tcp", "RetransSegs")).sum()
    }

    fn overruns(&self) -> Result<Option<Measure>> {
        if self.topology.plan().wiring != Wiring::Emulator {
            return Ok(None);
        }
        let mut missed = 0;
        for link in 0..self.scenario.links.len() {
            for direction in Direction::BOTH {
                missed += self.topology.emulator(link)?.counters(direction)?.overrun;
            }
        }
        Ok(Some(Measure::of_run(Figure::Overruns, missed as f64)))
    }
}

/// How long it took until a bundle took the link for dead, if one did.
fn noticed(bundles: &[Bundle<'_>], link: usize, began: Moment) -> Result<Option<Measure>> {
    let mut first_ns: Option<u64> = None;
    for bundle in bundles {
        let status = bundle.status()?;
        let notice = status.first_event(LINK_DOWN, link, began.before_ns).map(|event| event.at_ns);
        first_ns = first_ns.into_iter().chain(notice).min();
    }
    let after = first_ns.map(|at_ns| milliseconds_between(began.after_ns, at_ns));
    Ok(after.map(|after| Measure::of_run(Figure::NoticedMs, after)))
}
