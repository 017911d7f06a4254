//! A link whose packets MACsec protects, in a guest whose kernel has it: the kernel path over it beside the bare link and cells.
//!
//! ```text
//!   h1: macsec0 ── eth1 ~~ veth ~~ eth1 ── macsec0 :h2
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tabane_io::netlink;
use tabane_kit::counters::first;

use crate::traffic::data_path::{kernel, sent};
use crate::traffic::prelude::*;
use crate::traffic::reorder::{GUEST, MINUTES, NEW_GUEST};

/// What this program does in the guest when its first word is this.
pub(crate) const MACSEC: &str = "macsec";
/// Where the figures go.
const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/lab");
/// Time for the guest to boot on emulated processors, to measure and to end.
const GUEST_WITHIN: Duration = Duration::from_secs(900);
/// Measurements of each way, of which the median counts, and how long each is.
const ROUNDS: usize = 3;
const SECONDS: u32 = 4;
/// MACsec's header, packet number, channel and tag.
const MACSEC_BYTES: u32 = 32;
/// Keys of the two directions.
const KEYS: [&str; 2] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
/// Least speed of the kernel path as a part of the bare link's. Its frames have 62 bytes more.
const BARE_MIN: f64 = 0.5;

/// What carries a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The link with MACsec, and no bundle.
    Bare,
    /// Frames of a sealed bundle by programs over it.
    Kernel,
    /// Sealed cells over the link without MACsec.
    Sealed,
    /// Cells that are not sealed over the link with MACsec.
    Open,
}

const WAYS: [Way; 4] = [Way::Bare, Way::Kernel, Way::Sealed, Way::Open];

/// One connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    mbit: f64,
    /// Time of all processors for 10^9 bytes.
    cpu_s_per_gb: f64,
    retransmits: u64,
    /// Bytes that programs sent, as a part of those that arrived.
    by_programs: f64,
    /// MTU of the device, or of the bare link.
    mtu: u32,
}

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::nightly(
        "kernel_path_over_a_link_that_macsec_protects",
        [NEW_GUEST, MINUTES].concat(),
        measure,
    )]
}

fn measure() -> Result<()> {
    let guest = Guest::find(Path::new(GUEST))?;
    let modules = ["macsec", "gcm", "aesni-intel"];
    let all: BTreeMap<String, Vec<Measured>> =
        first(|| guest.run(&[MACSEC.into()], &modules, &bundle::program(None)?, GUEST_WITHIN))?;
    fs::create_dir_all(FIGURES)?;
    fs::write(Path::new(FIGURES).join("macsec.json"), serde_json::to_string_pretty(&all)?)?;
    let median = |way: Way| -> Result<Measured> {
        let mut measured = all.get(&format!("{way:?}")).context("not measured")?.clone();
        measured.sort_by(|one, other| one.mbit.total_cmp(&other.mbit));
        Ok(measured[measured.len() / 2])
    };
    let (bare, by_programs) = (median(Way::Bare)?, median(Way::Kernel)?);
    ensure!(bare.mtu == 1_500 - MACSEC_BYTES, "{bare:?}");
    ensure!(by_programs.mtu == bare.mtu - tabane_kernel::OVERHEAD, "{by_programs:?}");
    ensure!(by_programs.by_programs > 0.99, "{by_programs:?}");
    ensure!(by_programs.mbit > BARE_MIN * bare.mbit, "{by_programs:?} beside {bare:?}");
    for cells in [median(Way::Sealed)?, median(Way::Open)?] {
        ensure!(by_programs.mbit > cells.mbit, "{by_programs:?} beside {cells:?}");
    }
    Ok(())
}

/// Measures all ways in turn, and writes down what came of it.
pub(crate) fn here(figures: &Path) -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::unshaped()]))?;
    protect(&topology)?;
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    let mut all = BTreeMap::<_, Vec<Measured>>::new();
    for _ in 0..ROUNDS {
        for way in WAYS {
            let measured = connect(&topology, way).with_context(|| format!("{way:?}"))?;
            println!("{way:?}: {measured:?}");
            all.entry(format!("{way:?}")).or_default().push(measured);
        }
    }
    fs::write(figures, serde_json::to_string(&all)?).context("figures")
}

/// Puts a MACsec device over the NIC of both hosts. Frames are encrypted, and what has no tag is not taken.
fn protect(topology: &Topology) -> Result<()> {
    let mac =
        |host: usize| topology.host(host).enter(|| Ok::<_, anyhow::Error>(netlink::nic(&nic(0))?.mac))?;
    let macs =
        [mac(0)?, mac(1)?].map(|mac| mac.unwrap_or_default().map(|byte| format!("{byte:02x}")).join(":"));
    for (number, host) in topology.hosts().iter().enumerate() {
        let (own, other, theirs) = (KEYS[number], KEYS[1 - number], &macs[1 - number]);
        for command in [
            format!(
                "link add link {} macsec0 type macsec port 1 encrypt on validate strict replay on window 32",
                nic(0)
            ),
            format!("macsec add macsec0 tx sa 0 pn 1 on key 01 {own}"),
            format!("macsec add macsec0 rx port 1 address {theirs}"),
            format!("macsec add macsec0 rx port 1 address {theirs} sa 0 pn 1 on key 02 {other}"),
            format!("address add 10.79.0.{}/24 dev macsec0", number + 1),
            "link set macsec0 up".to_owned(),
        ] {
            host.ip(&command)?;
        }
    }
    Ok(())
}

fn connect(topology: &Topology, way: Way) -> Result<Measured> {
    if way == Way::Bare {
        let mtu = topology.host(0).enter(|| netlink::nic("macsec0"))??.mtu;
        return fill(topology, [10, 79, 0, 2].into(), mtu, || Ok(0));
    }
    let open = Protection::None;
    let (link, options) = match way {
        Way::Kernel => (
            "macsec0,protected".to_owned(),
            Options { protection: Protection::LabKey, ..kernel("hash", &[])? },
        ),
        Way::Sealed => (nic(0), options()?),
        _ => ("macsec0".to_owned(), Options { protection: open, ..options()? }),
    };
    let mut bundles = Bundle::start_over(topology, &[link], &options)?;
    if way == Way::Kernel {
        Bundle::wait_for_programs(&mut bundles)?;
    }
    let mtu = bundles[0].status()?.mtu;
    let by_programs = || if way == Way::Kernel { sent(&bundles[0]) } else { Ok(0) };
    let measured = fill(topology, bundle::address(1), mtu, by_programs)?;
    Bundle::stop_all(bundles)?;
    Ok(measured)
}

/// One connection to `server` for some seconds.
fn fill(
    topology: &Topology,
    server: std::net::IpAddr,
    mtu: u32,
    by_programs: impl Fn() -> Result<u64>,
) -> Result<Measured> {
    let before = (Usage::now(&[])?, by_programs()?);
    let flow = Flow::tcp(server, SECONDS).run(topology.host(0))?;
    let used = Usage::now(&[])?.since(before.0).machine_seconds;
    Ok(Measured {
        mbit: 1e3 * flow.gbps,
        cpu_s_per_gb: used * 1e9 / flow.bytes as f64,
        retransmits: flow.retransmits,
        by_programs: (by_programs()? - before.1) as f64 / flow.bytes as f64,
        mtu,
    })
}
