//! Links that die under a connection and come back: the connection lives, the file is whole, both ends say so.

use tabane_kit::status::LINK_SUSPECT;

use crate::traffic::stage::*;

const UNDER_WAY_BYTES: u64 = 1 << 20;
const ROUNDS: usize = 5;
/// Within this time both ends notice a death under load, in the median of all deaths, and at worst. A path is given up once it is
/// silent for longer than lately, which on a machine that others use is up to 19 ms, and for 42 ms whatever was before. What is
/// promised where nothing else runs is judged in simulated time, and by `make demo`.
pub(crate) const NOTICED: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(50)];
/// The connection stands still for no longer, in the median of all deaths, and at worst.
const STOOD_STILL: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(100)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::alone("black_hole_under_a_connection", DAEMON, || {
            fault(|topology| topology.kill_switch(VICTIM), |topology| topology.revive_switch(VICTIM))
        }),
        Case::alone("pulled_cable_under_a_connection", DAEMON, || {
            fault(|topology| topology.pull_cable(0, VICTIM), |topology| topology.plug_cable(0, VICTIM))
        }),
        Case::new("a_cable_that_loses_a_quarter_is_suspect_and_said_to_lose", DAEMON, lossy),
    ]
}

/// A link dies under a connection and comes back, again and again: both ends say so in time, and the file arrives whole.
fn fault(
    break_link: impl Fn(&Topology) -> Result<Moment>,
    mend_link: impl Fn(&Topology) -> Result<Moment>,
) -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let (mut noticed, mut deaths) = (Vec::new(), Vec::new());
        let outcome = under_a_file(topology, 128 << 20, || {
            for _ in 0..ROUNDS {
                carry(topology, VICTIM)?;
                let died = break_link(topology)?;
                let at = told(bundles, LINK_DOWN, VICTIM, died.before_ns)?;
                noticed.extend(at.iter().map(|at| since(&died, *at)));
                carry(topology, 0)?;
                deaths.push((died.before_ns, monotonic_ns()?));
                told(bundles, LINK_UP, VICTIM, mend_link(topology)?.before_ns)?;
            }
            carry(topology, VICTIM)
        })?;
        within("noticed after", noticed, NOTICED)?;
        let stood = deaths.iter().map(|(died, over)| outcome.gaps.longest_within(*died, *over).length);
        within("stood still for", stood.collect(), STOOD_STILL)
    })
}

pub(crate) fn since(fault: &Moment, noticed_ns: u64) -> Duration {
    Duration::from_nanos(noticed_ns.saturating_sub(fault.after_ns))
}

pub(crate) fn within(what: &str, mut times: Vec<Duration>, [median, worst]: [Duration; 2]) -> Result<()> {
    times.sort();
    let (middle, last) = (times.get(times.len() / 2), times.last());
    ensure!(
        middle.is_some_and(|middle| *middle <= median) && last <= Some(&worst),
        "{what} {times:?}, not {median:?} in the median and {worst:?} at worst"
    );
    Ok(())
}

/// The connection carries on over the other cable.
fn lossy() -> Result<()> {
    let plan = Plan { wiring: Wiring::Emulator, ..plan(&[FAST; 2]) };
    with_bundles(plan, &options()?, |topology, bundles| {
        let meanwhile = || {
            carry(topology, VICTIM)?;
            let since = topology.impair_both(VICTIM, Impairment::loss(0.25))?.before_ns;
            bundles[0].wait_until(LINK_SUSPECT, |status| {
                status.first_event(LINK_SUSPECT, VICTIM, since).is_some()
            })?;
            let said = bundles[0].ask(&["list"])?;
            ensure!(said.contains("DEGRADED") && said.contains(&format!("{} loses ", nic(VICTIM))), "{said}");
            carry(topology, 0)
        };
        under_a_file(topology, 4 << 20, meanwhile).map(drop)
    })
}

pub(crate) fn carry(topology: &Topology, link: usize) -> Result<()> {
    let carried = || Ok::<_, anyhow::Error>(received_bytes(topology.host(1), [&nic(link)])?[0]);
    let before = carried()?;
    wait_for(&format!("traffic on link {link}"), Duration::from_secs(10), || {
        Ok((carried()? >= before + UNDER_WAY_BYTES).then_some(()))
    })
}
