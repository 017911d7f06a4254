//! A link whose packets MACsec protects, in a guest whose kernel has it: programs carry the frames of a sealed bundle over it.
//!
//! ```text
//!   h1: macsec0 ── eth1 ~~ veth ~~ eth1 ── macsec0 :h2
//! ```

use tabane_io::netlink;

use crate::traffic::data_path::{kernel, sent};
use crate::traffic::reorder::{GUEST, MINUTES, NEW_GUEST};
use crate::traffic::stage::*;

/// What this program does in the guest when its first word is this.
pub(crate) const MACSEC: &str = "macsec";
/// Time for the guest to boot on emulated processors, to carry a file and to end.
const GUEST_WITHIN: Duration = Duration::from_secs(900);
/// MACsec's header, packet number, channel and tag.
const MACSEC_BYTES: u32 = 32;
const KEYS: [&str; 2] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];

pub(crate) fn cases() -> Vec<Case> {
    let needs = [NEW_GUEST, MINUTES].concat();
    vec![Case::nightly("kernel_path_over_a_link_that_macsec_protects", needs, || {
        let modules = ["macsec", "gcm", "aesni-intel"];
        let guest = Guest::find(Path::new(GUEST))?;
        guest.run::<()>(&[MACSEC.into()], &modules, &program(None)?, GUEST_WITHIN)
    })]
}

pub(crate) fn here(figures: &Path) -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::unshaped()]))?;
    protect(&topology)?;
    let options = Options { protection: Protection::LabKey, ..kernel("hash", &[])? };
    with_links(&topology, &["macsec0,protected".to_owned()], &options, |topology, bundles| {
        Bundle::wait_for_programs(bundles)?;
        let mtu = bundles[0].status()?.mtu;
        ensure!(mtu == 1_500 - MACSEC_BYTES - tabane_kernel::OVERHEAD, "MTU {mtu}");
        let before = sent(&bundles[0])?;
        send_both_ways(topology, FILE)?;
        let by_programs = sent(&bundles[0])? - before;
        ensure!(by_programs > FILE, "{by_programs} bytes by programs");
        Ok(())
    })?;
    fs::write(figures, "null").context("figures")
}

/// Puts a MACsec device over the NIC of both hosts. Frames are encrypted, and what has no tag is not taken.
fn protect(topology: &Topology) -> Result<()> {
    let mac = |host: usize| -> Result<String> {
        let mac = topology.host(host).enter(|| netlink::nic(&nic(0)))??.mac.context("a MAC address")?;
        Ok(mac.map(|byte| format!("{byte:02x}")).join(":"))
    };
    for (number, host) in topology.hosts().iter().enumerate() {
        let (own, other, theirs) = (KEYS[number], KEYS[1 - number], mac(1 - number)?);
        let device = "type macsec port 1 encrypt on validate strict replay on window 32";
        for command in [
            format!("link add link {} macsec0 {device}", nic(0)),
            format!("macsec add macsec0 tx sa 0 pn 1 on key 01 {own}"),
            format!("macsec add macsec0 rx port 1 address {theirs}"),
            format!("macsec add macsec0 rx port 1 address {theirs} sa 0 pn 1 on key 02 {other}"),
            "link set macsec0 up".to_owned(),
        ] {
            host.ip(&command)?;
        }
    }
    Ok(())
}
