//! Faults of NICs, looked at before there is a bundle: `tabane doctor --nic eth1 --nic eth2`.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use tabane_io::{Offload, Tap, TapSpec};
use tabane_kit::netns::Namespace;
use tabane_kit::tool;
use tabane_kit::topology::{Topology, nic};
use tempfile::NamedTempFile;

use super::{Said, doctor, named};
use crate::stage::{FAST, plan};
use crate::{Case, Need};

/// A NIC of which any speed can be said.
const ADJUSTABLE: &str = "eth9";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("doctor_names_faults_of_nics_before_a_bundle", Need::Daemon, before_a_bundle),
        Case::new("doctor_names_half_duplex_and_gro_that_is_off", Need::DaemonAndEthtool, adjustable),
    ]
}

fn look(host: &Namespace, nics: [&str; 2]) -> Result<Said> {
    doctor(host, &["--nic", nics[0], "--nic", nics[1]])
}

fn before_a_bundle() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let (host, nics) = (topology.host(0), [&*nic(0), &*nic(1)]);
    let said = look(host, nics)?;
    ensure!(said.names.is_empty(), "two sound NICs: {:#}", said.answer);

    let ipv6 = |value| host.set(&format!("net/ipv6/conf/{}/disable_ipv6", nics[1]), value);
    ipv6("1")?;
    named("a NIC with IPv6 switched off", "doctor", &look(host, nics)?)?;
    let file = configuration(&nics)?;
    let path = file.path().display().to_string();
    named("a NIC with IPv6 switched off", "doctor", &doctor(host, &[&path])?)?;
    ipv6("0")?;

    host.ip("link add br9 type bridge")?;
    host.ip(&format!("link set {} master br9", nics[1]))?;
    named("a NIC that belongs to a bridge", "doctor", &look(host, nics)?)?;
    host.ip(&format!("link set {} nomaster", nics[1]))?;

    for name in ["mac1", "mac2"] {
        host.ip(&format!("link add {name} link {} type macvlan mode bridge", nics[0]))?;
        host.ip(&format!("link set {name} up"))?;
    }
    named("two MACVLANs over one NIC", "doctor", &look(host, ["mac1", "mac2"])?)
}

/// A file whose links run over these NICs.
fn configuration(nics: &[&str]) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::with_suffix(".toml")?;
    writeln!(file, "security = \"none\"")?;
    nics.iter().try_for_each(|nic| writeln!(file, "[[link]]\nnic = \"{nic}\""))?;
    Ok(file)
}

/// A TAP device shows the speed that it was told.
fn adjustable() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let host = topology.host(0);
    let spec = TapSpec { name: ADJUSTABLE.to_owned(), queues: 1, offload: Offload::ALL };
    let (_device, _queues) = host.enter(|| Tap::open(&spec))?.context("a TAP device")?;
    host.ip(&format!("link set {ADJUSTABLE} mtu 1500 up"))?;
    let ethtool = |arguments: &str| {
        let mut command = host.command("ethtool");
        command.args(arguments.split_whitespace());
        tool::run(&mut command).map(drop)
    };
    let nics = [&*nic(0), ADJUSTABLE];
    ethtool(&format!("-s {ADJUSTABLE} speed 100 duplex half autoneg off"))?;
    named("a NIC at 100 Mbit/s, half duplex", "doctor", &look(host, nics)?)?;
    ethtool(&format!("-s {ADJUSTABLE} speed 1000 duplex full autoneg off"))?;
    ethtool(&format!("-K {ADJUSTABLE} gro off"))?;
    named("GRO off at a NIC", "doctor", &look(host, nics)?)
}
