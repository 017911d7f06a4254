//! What moves the cells of Ethernet links: the engine that `auto` takes, and falls back to; and each way in which sent frames
//! come back from AF_XDP.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Bundle, Options, address, program};
use tabane_kit::process::Process;
use tabane_kit::status::{CompletionStatus, by_interrupt};
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, nic};

use crate::traffic::stage::{options, send_both_ways, send_file, with_links};
use crate::traffic::{Case, Need};

const LINKS: usize = 2;
const FILE: u64 = 8 << 20;
/// Starts the daemon without the rights that AF_XDP takes; what is asked of it needs none.
const WITHOUT_RIGHTS: &str =
    "#!/bin/sh\nexec setpriv --bounding-set=-bpf,-sys_admin,-perfmon --inh-caps=-bpf,-sys_admin,-perfmon";

pub(crate) fn cases() -> Vec<Case> {
    let completion = ["interrupt", "lazy", "adaptive"].map(|way| {
        Case::new(format!("frames_come_back_from_af_xdp_by_{way}"), Need::DaemonAndXdp, move || {
            completes(way)
        })
    });
    let auto = [
        Case::new("auto_moves_cells_by_af_xdp", Need::DaemonAndXdp, || auto(&options()?, true)),
        Case::new("auto_moves_cells_of_several_workers_by_af_packet", Need::DaemonAndXdp, || {
            let arguments = ["--workers", "2"].map(str::to_owned).into();
            auto(&Options { arguments, ..options()? }, false)
        }),
        Case::new("auto_falls_back_where_af_xdp_is_refused", Need::DaemonAndXdp, refused),
    ];
    auto.into_iter().chain(completion).collect()
}

/// Cables as fast as the machine: what AF_XDP sends passes by a shaper.
fn over_cables(
    parts: &str,
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    let plan = Plan {
        wiring: Wiring::Cable,
        addressed: false,
        ..Plan::two_hosts(vec![LinkPlan::unshaped(); LINKS])
    };
    let links: Vec<String> = (0..LINKS).map(|link| format!("ether:{}{parts}", nic(link))).collect();
    with_links(&Topology::build(plan)?, &links, options, test)
}

/// Whether a program for AF_XDP is at each NIC, as the kernel tells, and the daemon says the same.
fn auto(options: &Options, by_xdp: bool) -> Result<()> {
    over_cables(",engine=auto", options, |topology, bundles| {
        send_both_ways(topology, FILE)?;
        for (host, bundle) in topology.hosts().iter().zip(bundles) {
            for link in 0..LINKS {
                let shown = host.ip(&format!("link show {}", nic(link)))?;
                ensure!(shown.contains("prog/xdp") == by_xdp, "AF_XDP at {}: {shown}", nic(link));
            }
            let kind = if by_xdp { "ether/xdp" } else { "ether/packet" };
            let status = bundle.status()?;
            ensure!(status.links.iter().all(|link| link.kind.starts_with(kind)), "{:?}", status.links);
            ensure!(status.peers[0].paths.iter().all(|link| link.cells_sent > 1_000), "{:?}", status.peers);
        }
        Ok(())
    })
}

/// A daemon without the rights for AF_XDP falls back under `auto`, and does not start where AF_XDP was insisted on.
fn refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("tabane");
    fs::write(&path, format!("{WITHOUT_RIGHTS} {} \"$@\"\n", program(None)?.display()))?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    auto(&Options { program: path.clone(), ..options()? }, false)?;
    let topology = Topology::build(Plan { addressed: false, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
    let mut command = topology.host(0).command(&path);
    command.args(["up", "--insecure", "--link", "ether:eth1,engine=xdp"]);
    let ending = Process::start(command)?.wait(Duration::from_secs(10))?;
    ensure!(ending.status.code() == Some(2) && ending.complaint.contains("eth1"), "{ending:?}");
    Ok(())
}

fn completes(way: &str) -> Result<()> {
    over_cables(&format!(",engine=xdp,completion={way}"), &options()?, |topology, bundles| {
        for (from, to) in [(0, 1), (1, 0)] {
            send_file(topology.host(from), topology.host(to), address(to), FILE)?;
        }
        for bundle in bundles {
            for link in bundle.status()?.links {
                let Some(came) = link.completion else { anyhow::bail!("{link:?} tells of no frames") };
                let CompletionStatus { reclaimed_at_sends, reclaimed_by_interrupts, .. } = came;
                let all = reclaimed_at_sends + reclaimed_by_interrupts;
                ensure!(came.method == way && all > 1_000, "{way}: {came:?}");
                let share = by_interrupt(&came);
                let is_as_said = match way {
                    "interrupt" => share > 0.9,
                    "lazy" => reclaimed_by_interrupts == 0,
                    _ => true,
                };
                ensure!(is_as_said, "{way}: {came:?}");
            }
        }
        Ok(())
    })
}
