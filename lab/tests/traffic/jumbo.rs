//! A device of MTU 9000 and more over links of MTU 1500: IP does not cut anything.

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Options, address, address_v6};
use tabane_kit::counters;

use crate::traffic::datagrams::exchange;
use crate::traffic::stage::{FAST, options, plan, send_file, with_bundles};
use crate::traffic::{Case, Need};

/// Headers of IPv4 and UDP.
const HEADERS_V4: usize = 28;
/// Headers of IPv6 and UDP.
const HEADERS_V6: usize = 48;

pub(crate) fn cases() -> Vec<Case> {
    [9000, 65_000]
        .map(|mtu| {
            Case::new(format!("device_mtu_{mtu}_over_link_mtu_1500"), Need::Daemon, move || jumbo(mtu))
        })
        .into()
}

fn jumbo(mtu: u32) -> Result<()> {
    let options = Options { mtu: Some(mtu), ..options()? };
    with_bundles(plan(&[FAST; 2]), &options, |topology, _| {
        let (first, second) = (topology.host(0), topology.host(1));
        let full = usize::try_from(mtu)?;
        exchange(first, second, address(1), &[full - HEADERS_V4, 64], 100)?;
        exchange(first, second, address_v6(1), &[full - HEADERS_V6, 64], 100)?;
        send_file(first, second, address(1), 4 << 20)?;
        let fragments = counters::protocol(first, "Ip", "FragCreates")?;
        ensure!(fragments == 0, "IP made {fragments} fragments");
        Ok(())
    })
}
