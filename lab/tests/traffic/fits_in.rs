//! The recipes of docs/recipes-network.md beside what configures the network, with the files that they name.

use std::process::Command;

use tabane_kit::prerequisites::CNI_MACVLAN;

use crate::traffic::stage::*;
use crate::traffic::systemd::{self, SERVICE, whole, with_machine, with_peer};

const ADDRESSED: &[u8] = include_bytes!("../../../packaging/network/systemd-networkd/10-tb0.network");
const UNMANAGED: &[u8] =
    include_bytes!("../../../packaging/network/systemd-networkd/10-tabane-unmanaged.network");
const VLAN_NETDEV: &[u8] = include_bytes!("../../../packaging/network/systemd-networkd/20-tb0-vlan10.netdev");
const NETDEV: &str = "etc/systemd/network/20-tb0-vlan10.netdev";
const VLAN_NETWORK: &[u8] =
    include_bytes!("../../../packaging/network/systemd-networkd/20-tb0-vlan10.network");
const DAEMON_SET: &str = include_str!("../../../packaging/network/kubernetes/daemonset.yaml");
const ATTACHMENT: &str = include_str!("../../../packaging/network/kubernetes/network-attachment.yaml");
pub(crate) const BRIDGE: &[u8] = include_bytes!("../../../packaging/network/bridge/bridge.conf");
const ONLINE: &[u8] = include_bytes!("../../../packaging/network/network-online/online.conf");
const RULES: &str = include_str!("../../../packaging/network/nftables/tabane-input.nft");
/// The address of the recipes, and one in the same network for the other machine.
const ADDRESS: &str = "10.9.0.1";
const OTHER: &str = "10.9.0.2";
/// A file of somebody else that is for all devices, and its address.
const GREEDY: &[u8] =
    b"[Match]\nName=eth* tb*\n[Network]\nAddress=192.0.2.77/24\nConfigureWithoutCarrier=yes\n";
const GREEDY_ADDRESS: &str = "192.0.2.77/24";
/// Debian's networkd, without the message bus that this container lacks.
pub(crate) const NETWORKD: &[u8] =
    b"[Service]\nType=notify\nExecStart=/lib/systemd/systemd-networkd\nRuntimeDirectory=systemd/netif\n";
const VLAN: &str = "tb0.10";
const VLAN_ADDRESS: &str = "10.10.0.1/24";
const VALIDATE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/kubernetes/bin/kubernetes-validate");

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("networkd_gives_a_bundle_its_address", systemd::NEEDS, addressed),
        Case::new("networkd_leaves_a_bundle_alone", systemd::NEEDS, unmanaged),
        Case::new("networkd_asks_for_the_vlan_and_gives_it_its_address", systemd::NEEDS, vlan),
        Case::new("a_bridge_has_a_bundle_as_its_port", systemd::NEEDS, bridged),
        Case::new("what_waits_for_the_network_waits_for_a_peer", systemd::NEEDS, online),
        Case::new("a_firewall_that_drops_lets_cells_in", [Daemon, Tool(NFT)], firewall),
        Case::new("kubernetes_takes_the_daemon_set", [That(require_kubernetes)], daemon_set),
        Case::new("an_attachment_puts_a_pod_into_the_segment", [Daemon, Tool(CNI_MACVLAN)], attachment),
    ]
}

/// The device comes after networkd, has no carrier at first, and is another one after a restart.
fn addressed() -> Result<()> {
    beside_networkd(&[("etc/systemd/network/10-tb0.network", ADDRESSED, 0o644)], |topology, systemd| {
        let goes = |verb: &str| -> Result<()> {
            systemd.systemctl(&format!("{verb} {SERVICE}"))?;
            has_address(topology.host(0), DEVICE, &format!("{ADDRESS}/24"))
        };
        goes("start")?;
        with_peer(topology, |peer| {
            other_address(topology, peer)?;
            whole(peer)?;
            crosses(topology)?;
            goes("restart")?;
            whole(peer)?;
            crosses(topology)
        })
    })
}

fn unmanaged() -> Result<()> {
    let files: [(&str, &[u8], u32); 2] = [
        ("etc/systemd/network/10-tabane-unmanaged.network", UNMANAGED, 0o644),
        ("etc/systemd/network/99-all.network", GREEDY, 0o644),
    ];
    beside_networkd(&files, |topology, systemd| {
        let host = topology.host(0);
        systemd.systemctl(&format!("start {SERVICE}"))?;
        // A device of such a name that is no bundle's, and comes later: once it has the address, networkd has seen the bundle's.
        host.ip("link add tb9 type veth peer name far")?;
        has_address(host, "tb9", GREEDY_ADDRESS)?;
        let addresses = host.ip(&format!("-brief address show {DEVICE}"))?;
        ensure!(!addresses.contains(GREEDY_ADDRESS), "{addresses}");
        Ok(())
    })
}

/// networkd makes the VLAN where the kernel has the driver. Elsewhere it asks for it in vain, and another device has the name.
fn vlan() -> Result<()> {
    let named =
        String::from_utf8_lossy(ADDRESSED).replace("[Network]\n", &format!("[Network]\nVLAN={VLAN}\n"));
    let files: [(&str, &[u8], u32); 3] = [
        ("etc/systemd/network/10-tb0.network", named.as_bytes(), 0o644),
        (NETDEV, VLAN_NETDEV, 0o644),
        ("etc/systemd/network/20-tb0-vlan10.network", VLAN_NETWORK, 0o644),
    ];
    beside_networkd(&files, |topology, systemd| {
        let host = topology.host(0);
        systemd.systemctl(&format!("start {SERVICE}"))?;
        let is_made = wait_for("a VLAN, or the kernel's refusal", WITHIN, || {
            let shown = host.ip(&format!("-details link show {VLAN}")).unwrap_or_default();
            let is_made = shown.contains("vlan protocol 802.1Q id 10");
            let is_refused = systemd.said()?.contains("Could not create stacked netdev: Unknown device type");
            Ok((is_made || is_refused).then_some(is_made))
        })?;
        if !is_made {
            // Networkd takes no other kind of device for it as long as it knows this file.
            process::run(systemd.command("rm").arg(format!("/{NETDEV}")))?;
            systemd.systemctl("restart systemd-networkd.service")?;
            host.ip(&format!("link add {VLAN} type veth peer name far"))?;
        }
        has_address(host, VLAN, VLAN_ADDRESS)
    })
}

fn bridged() -> Result<()> {
    let drop_in = "etc/systemd/system/tabane@tb0.service.d/bridge.conf";
    with_machine("", &[(drop_in, BRIDGE, 0o644)], |topology, systemd| {
        let host = topology.host(0);
        host.ip("link add vmbr1 type bridge stp_state 0 forward_delay 0")?;
        host.ip(&format!("address add {ADDRESS}/24 dev vmbr1"))?;
        host.ip("link set vmbr1 up")?;
        with_peer(topology, |peer| {
            other_address(topology, peer)?;
            for verb in ["start", "restart"] {
                systemd.systemctl(&format!("{verb} {SERVICE}"))?;
                let ports = host.ip("-brief link show master vmbr1")?;
                ensure!(ports.contains(DEVICE), "after {verb}: {ports}");
                whole(peer)?;
                crosses(topology)?;
            }
            Ok(())
        })
    })
}

/// The service counts as started once a peer is there, so what is ordered behind `network-online.target` comes later.
fn online() -> Result<()> {
    let drop_in = "etc/systemd/system/tabane@tb0.service.d/online.conf";
    let target = format!("{UNITS}/network-online.target");
    let files: [(&str, &[u8], u32); 2] =
        [(drop_in, ONLINE, 0o644), (&target, b"[Unit]\nDescription=online\nDefaultDependencies=no\n", 0o644)];
    with_machine("", &files, |topology, systemd| {
        systemd.systemctl(&format!("enable {SERVICE}"))?;
        systemd.systemctl("start --no-block network-online.target")?;
        wait_for("a bundle that waits for a peer", WITHIN, || {
            Ok((systemd.property(SERVICE, "SubState")? == "start-post").then_some(()))
        })?;
        let limit = systemd.property(SERVICE, "TimeoutStartUSec")?;
        ensure!(limit == "1min", "the manager ends a bundle that waits for {limit}");
        let target = || systemd.property("network-online.target", "ActiveState");
        // At first the device has a carrier, for peers that have not been found yet.
        wait_for("a device without a carrier", WITHIN, || {
            let shown = topology.host(0).ip(&format!("-o link show {DEVICE}"))?;
            Ok(shown.contains("NO-CARRIER").then_some(()))
        })?;
        let state = target()?;
        ensure!(state != "active", "the network is {state} without a peer");
        with_peer(topology, |peer| {
            whole(peer)?;
            wait_for("a network that is online", WITHIN, || Ok((target()? == "active").then_some(())))
        })
    })
}

fn firewall() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let directory = tempfile::tempdir()?;
    let rules = directory.path().join("tabane-input.nft");
    fs::write(&rules, RULES)?;
    let chain = |included: &str| {
        format!(
            "flush ruleset\ntable inet filter {{\n chain input {{\n  type filter hook input priority filter; policy drop;\n  \
             {included}\n  iifname {{ \"lo\", \"{DEVICE}\" }} accept\n }}\n}}\n"
        )
    };
    let load = |text: &str| {
        let file = directory.path().join("nftables.conf");
        fs::write(&file, text)?;
        topology
            .hosts()
            .iter()
            .try_for_each(|host| process::run(host.command("nft").arg("--file").arg(&file)).map(drop))
    };
    load(&chain(""))?;
    let options = options()?;
    let start = |(number, host)| Bundle::start(host, number, &topology.nics(), &options);
    let mut bundles = topology.hosts().iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
    for bundle in &mut bundles {
        let status = bundle.wait_until("a bundle that is up", |_| true)?;
        ensure!(status.peers.is_empty(), "peers through a closed firewall: {:?}", status.peers);
    }
    load(&chain(&format!("include \"{}\"", rules.display())))?;
    ready(&mut bundles, LINKS)?;
    send_file(topology.host(0), topology.host(1), tabane_kit::bundle::address(1), FILE)?;
    Bundle::stop_all(bundles)
}

fn require_kubernetes() -> Result<()> {
    let lack = || Missing::new("kubernetes-validate not found: `lab/kubernetes.sh target/tools/kubernetes`");
    Ok(Path::new(VALIDATE).is_file().then_some(()).ok_or_else(lack)?)
}

fn daemon_set() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("daemonset.yaml");
    let is_taken = |text: &str| {
        fs::write(&file, text)?;
        process::run(Command::new(VALIDATE).arg("--strict").arg(&file))
    };
    is_taken(DAEMON_SET)?;
    let misspelt = DAEMON_SET.replace("hostNetwork:", "hostNetworks:");
    ensure!(misspelt != DAEMON_SET && is_taken(&misspelt).is_err(), "a misspelt key is taken");
    Ok(())
}

/// What Multus does when a pod asks for it: the plugin that the attachment names gives the pod an interface, from which the other
/// machine is reached, and takes it back.
fn attachment() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("tb0.conf");
    fs::write(&file, plugin_configuration(directory.path())?.to_string())?;
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, _| {
        let [host, other] = [topology.host(0), topology.host(1)];
        other.ip(&format!("address add {OTHER}/24 dev {DEVICE}"))?;
        let pod = Namespace::create("pod")?;
        let plugin = |what: &str| {
            let mut command = host.command("sh");
            command.args(["-c", "exec \"$0\" <\"$1\"", CNI_MACVLAN.program]).arg(&file);
            command.envs([("CNI_COMMAND", what), ("CNI_CONTAINERID", "pod"), ("CNI_IFNAME", "net1")]);
            let folder = Path::new(CNI_MACVLAN.program).parent().context("a folder of plugins")?;
            command.env("CNI_PATH", folder).env("CNI_NETNS", PathBuf::from("/run/netns").join(pod.name()));
            process::run(&mut command)
        };
        let given: Value = serde_json::from_str(&plugin("ADD")?)?;
        let given = given["ips"][0]["address"].as_str().context("no address")?.to_owned();
        let (address, _) = given.split_once('/').context("no network")?;
        send_file(&pod, other, OTHER.parse()?, FILE)?;
        send_file(other, &pod, address.parse()?, FILE)?;
        plugin("DEL")?;
        ensure!(pod.ip("-brief link show net1").is_err(), "the interface stays");
        Ok(())
    })
}

/// The configuration in the attachment, with the name that Multus gives it, and what it keeps in `folder`.
fn plugin_configuration(folder: &Path) -> Result<Value> {
    let (_, text) = ATTACHMENT.split_once("config: |\n").context("no configuration")?;
    let mut config: Value = serde_json::from_str(text)?;
    config["name"] = "tb0".into();
    config["ipam"]["dataDir"] = folder.display().to_string().into();
    Ok(config)
}

/// A file goes from the other machine to this one's address of the recipes, and back.
pub(crate) fn crosses(topology: &Topology) -> Result<()> {
    let [here, there] = [topology.host(0), topology.host(1)];
    send_file(there, here, ADDRESS.parse::<IpAddr>()?, FILE)?;
    send_file(here, there, OTHER.parse::<IpAddr>()?, FILE).map(drop)
}

pub(crate) fn other_address(topology: &Topology, peer: &mut Bundle<'_>) -> Result<()> {
    peer.wait_until("a bundle that is up", |_| true)?;
    topology.host(1).ip(&format!("address add {OTHER}/24 dev {DEVICE}")).map(drop)
}

/// Runs `test` beside a machine with the bundle's service, whose file has no address, and networkd at work.
fn beside_networkd(
    files: &[(&str, &[u8], u32)],
    test: impl FnOnce(&Topology, &Systemd) -> Result<()>,
) -> Result<()> {
    let unit = format!("{UNITS}/systemd-networkd.service");
    let networkd: [(&str, &[u8], u32); 1] = [(&unit, NETWORKD, 0o644)];
    with_machine("", &[&networkd[..], files].concat(), |topology, systemd| {
        systemd.systemctl("start systemd-networkd.service").context("networkd")?;
        test(topology, systemd)
    })
}

pub(crate) fn has_address(host: &Namespace, device: &str, address: &str) -> Result<()> {
    wait_for(&format!("{address} at {device}"), WITHIN, || {
        let addresses = host.ip(&format!("-brief address show {device}")).unwrap_or_default();
        Ok(addresses.contains(address).then_some(()))
    })
}
