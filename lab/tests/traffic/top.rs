//! `tabane top` in a real terminal: what it shows while a link dies, the policy changes and the bundle ends, what it leaves
//! behind, and that it goes without rights.

use nix::sys::signal::{Signal, kill};

use crate::traffic::faults::carry;
use crate::traffic::screens::{self, SMALL, Terminal};
use crate::traffic::stage::*;

const FILE: u64 = 24 << 20;
const SOON_MS: f64 = 1_000.0;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // Exercises: top
        Case::new("top_shows_a_link_that_dies_and_changes_the_policy", screens::NEEDS, watch),
        Case::new("top_outlives_its_bundle_and_gives_the_terminal_back", screens::NEEDS, || {
            with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
                gives_back(topology.host(0)).context("signals")?;
                without_rights(topology.host(0)).context("without rights")?;
                outlives(topology, bundles).context("another daemon")
            })
        }),
    ]
}

fn top<'a>(host: &'a Namespace, before: &str) -> Result<Terminal<'a>> {
    Terminal::start(host, SMALL, &format!("{before} '{}' top {DEVICE}", bundle::program(None)?.display()))
}

fn is_healthy(screen: &str) -> bool {
    screen.contains(&format!("healthy: {LINKS} of {LINKS} links, 1 peer"))
}

fn has_row(screen: &str, link: usize, word: &str) -> bool {
    screen.lines().any(|line| line.starts_with(&format!("{} ", nic(link))) && line.contains(word))
}

/// What the flow of TCP that has sent most has sent, in megabytes, cut to three digits.
fn megabytes_sent(screen: &str) -> Option<f64> {
    let line = screen.lines().find(|line| line.contains(" tcp "))?;
    line.split_whitespace().nth(6)?.strip_suffix('M')?.parse().ok()
}

fn watch() -> Result<()> {
    const VICTIM: usize = 1;
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        let terminal = top(topology.host(0), "")?;
        terminal.shows("both links", |screen| {
            is_healthy(screen) && (0..LINKS).all(|link| has_row(screen, link, "up"))
        })?;
        ensure!(terminal.has_colours()?, "no colours");
        under_a_file(topology, FILE, || {
            carry(topology, VICTIM)?;
            let killed = topology.kill_switch(VICTIM)?.before_ns;
            let screen = terminal.shows("the dead link", |screen| screen.contains("DEGRADED"))?;
            let shown = monotonic_ns()?;
            let known = told(&mut bundles[..1], LINK_DOWN, VICTIM, killed)?;
            let took = milliseconds_between(known[0], shown);
            ensure!(took <= SOON_MS, "{took} ms after the daemon knew:\n{screen}");
            terminal.shows("its row, and why since when", |screen| {
                let is_reason = |line: &str| line.contains(&nic(VICTIM)) && line.contains(" since ");
                ["down", "in only", "out only"].iter().any(|word| has_row(screen, VICTIM, word))
                    && screen.lines().skip(1).any(is_reason)
            })?;
            topology.revive_switch(VICTIM).map(drop)
        })?;
        terminal.resize(120, 40)?;
        terminal.press(&["3"])?;
        terminal.shows("the bytes of the file", |screen| {
            let file = FILE as f64 / 1e6;
            megabytes_sent(screen).is_some_and(|sent| (file - 0.1..file * 1.05).contains(&sent))
        })?;
        terminal.resize(80, 24)?;
        terminal.press(&["1"])?;
        terminal.shows("both links again", is_healthy)?;

        terminal.press(&["p", "Down", "Enter"])?;
        terminal.shows("the answer", |screen| screen.contains("policy rr, was adaptive"))?;
        ensure!(bundles[0].status()?.policy == "rr", "another policy");
        terminal.press(&["Down", "d"])?;
        terminal.shows("a drained link", |screen| has_row(screen, VICTIM, "drained"))?;
        ensure!(bundles[0].status()?.peers[0].paths[VICTIM].tx == PathState::Drained, "it is not drained");
        terminal.press(&["r"])?;
        terminal.shows("a link that is used again", |screen| has_row(screen, VICTIM, "up"))?;
        for (view, sign) in [("2", "HEALTH"), ("3", "FLOW"), ("4", "EVENT"), ("h", "this help")] {
            terminal.press(&[view])?;
            terminal.shows(sign, |screen| screen.contains(sign))?;
        }
        terminal.press(&["x", "1"])?;
        terminal.resize(120, 40)?;
        terminal.shows("a wide screen", |screen| screen.contains("limited by") && screen.contains("mtu"))?;
        terminal.resize(40, 20)?;
        terminal.shows("a narrow screen", |screen| {
            is_healthy(screen) && !screen.contains("share") && has_row(screen, 0, "up")
        })?;
        terminal.press(&["q"])?;
        terminal.ended(0)
    })
}

fn outlives(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    let terminal = top(topology.host(0), "")?;
    terminal.shows("a healthy bundle", is_healthy)?;
    bundles[0].stop_for_now()?.success("the daemon")?;
    terminal.shows("that it is gone", |screen| {
        screen.contains("is not up; waiting for it to come back") && has_row(screen, 0, "up")
    })?;
    bundles[0].start_again()?;
    ready(bundles, LINKS)?;
    terminal.shows("that it is back", is_healthy)?;
    // Frames of the new device are seen, too.
    terminal.press(&["3"])?;
    let peer = bundle::address(1).to_string();
    let mut ping = topology.host(0).command("ping");
    ping.args(["-c", "100", "-i", "0.1", &peer]);
    let pings = Process::start(ping)?;
    terminal.shows("the flow of a ping", |screen| screen.contains("icmp") && screen.contains(&peer))?;
    pings.stop().map(drop)
}

fn gives_back(host: &Namespace) -> Result<()> {
    for signal in [Some(Signal::SIGTERM), Some(Signal::SIGINT), None] {
        let terminal = top(host, "")?;
        terminal.shows("a screen", |screen| screen.contains("healthy"))?;
        match signal {
            Some(signal) => kill(terminal.child()?, signal)?,
            None => terminal.press(&["C-c"])?,
        }
        terminal.ended(0)?;
    }
    Ok(())
}

fn without_rights(host: &Namespace) -> Result<()> {
    let terminal = top(host, "NO_COLOR=1 setpriv --bounding-set -net_raw")?;
    terminal.shows("the reason", |screen| screen.contains("flows cannot be seen: no permission"))?;
    ensure!(!terminal.has_colours()?, "colours in spite of NO_COLOR");
    terminal.press(&["q"])?;
    terminal.ended(0)
}
