//! ARP and neighbour discovery: addresses are resolved anew through the bundle, to the right MAC address.

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::{DEVICE, address, address_v6};
use tabane_kit::netns::Namespace;

use crate::traffic::datagrams::exchange;
use crate::traffic::stage::{FAST, options, plan, with_bundles};
use crate::traffic::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("arp_and_nd_resolve_afresh", Need::Daemon, resolve)]
}

fn resolve() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, _| {
        let (first, second) = (topology.host(0), topology.host(1));
        let mac = mac(second, DEVICE)?;
        for at in [address(1), address_v6(1)] {
            for host in [first, second] {
                host.ip(&format!("neighbour flush dev {DEVICE}"))?;
            }
            exchange(first, second, at, &[64], 3)?;
            let entry = first.ip(&format!("neighbour show {at} dev {DEVICE}"))?;
            ensure!(entry.contains(&format!("lladdr {mac}")), "{at} resolved to `{entry}` instead of {mac}");
        }
        Ok(())
    })
}

/// MAC address of `nic` in `host`.
pub(crate) fn mac(host: &Namespace, nic: &str) -> Result<String> {
    let line = host.ip(&format!("-oneline link show {nic}"))?;
    let after = line.split_once("link/ether ").with_context(|| format!("no MAC address in `{line}`"))?.1;
    Ok(after.split_whitespace().next().unwrap_or_default().to_string())
}
