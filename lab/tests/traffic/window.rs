//! Bundles over a window of memory: alone, when one end dies and returns, when a daemon is replaced, and beside a network.

use tabane_kit::status::paths_up;

use crate::traffic::faults::{NOTICED, carry, since, within};
use crate::traffic::stage::*;

const FILE: u64 = 16 << 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("cells_cross_a_window_of_memory", DAEMON, || {
            ["", ",unit=512B"].into_iter().try_for_each(alone)
        }),
        Case::new("a_node_dies_returns_to_its_window_and_is_replaced", DAEMON, death),
        Case::alone("a_window_and_a_network_in_one_bundle", DAEMON, beside_a_network),
    ]
}

/// Runs `test` over two bundles with these links; `{window}` stands for a window of their own.
fn with_window(
    links: &[&str],
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    let window = Window::new()?;
    let links: Vec<String> = links.iter().map(|link| link.replace("{window}", &window.link())).collect();
    let topology = Topology::build(plan(&[FAST]))?;
    with_links(&topology, &links, options, test)
}

fn alone(parts: &str) -> Result<()> {
    with_window(&[&format!("{{window}}{parts}")], &options()?, |topology, bundles| {
        round_trips(topology, Duration::from_millis(300))?;
        send_both_ways(topology, FILE)?;
        for bundle in bundles {
            let status = bundle.status()?;
            let link = &status.peers[0].paths[0];
            ensure!(link.endpoint.starts_with("[100::7461:6261:0:"), "the peer is at {}", link.endpoint);
            // What finds no room waits for it.
            let lost_nothing = link.cells_received > 0 && link.cells_lost == 0;
            ensure!(link.nic.starts_with("mem:/") && lost_nothing, "{link:?}");
        }
        Ok(())
    })
}

fn death() -> Result<()> {
    with_window(&["{window}"], &options()?, |topology, bundles| {
        for round in 0..2 {
            let victim = round % 2;
            bundles[victim].kill()?;
            bundles[1 - victim]
                .wait_until("the death", |status| status.peers.iter().all(|peer| paths_up(peer) == 0))?;
            bundles[victim].start_again()?;
            ready(bundles, 1)?;
            send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        }
        let meanwhile = || {
            (0..4).try_for_each(|round| {
                bundles[round % 2].upgrade()?;
                ready(bundles, 1)
            })
        };
        under_a_file(topology, FILE, meanwhile).map(drop)
    })
}

fn beside_a_network() -> Result<()> {
    let options = options_with(&["--policy", "rr"])?;
    with_window(&[&nic(0), "{window}"], &options, |topology, bundles| {
        under_a_file(topology, FILE, || {
            carry(topology, 0)?;
            let died = topology.kill_switch(0)?;
            let noticed = told(bundles, LINK_DOWN, 0, died.before_ns)?;
            let noticed = noticed.iter().map(|at| since(&died, *at)).collect();
            within("noticed after", noticed, [NOTICED[1]; 2])
        })?;
        topology.revive_switch(0)?;
        ready(bundles, 2)?;
        let before = cells_sent(&bundles[0])?;
        send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        let sent = cells_sent(&bundles[0])?;
        let both = sent.iter().zip(&before).all(|(now, then)| now - then > 1_000);
        ensure!(both, "of a file of {FILE} B, links sent {before:?} to {sent:?} cells");
        Ok(())
    })
}
