//! The package in a clean Debian beside what configures networks there: ifupdown2, NetworkManager, netplan; and Ansible. Recipes of
//! docs/recipes-network.md with the files that they name; `make deb-test` makes the package and that Debian.

use crate::traffic::fits_in::{BRIDGE, NETWORKD, crosses, has_address, other_address};
use crate::traffic::package::{self, SERVICE, clean_debian, shell};
use crate::traffic::stage::*;
use crate::traffic::systemd::{whole, with_peer_of};

const INTERFACES: &[u8] = include_bytes!("../../../packaging/network/ifupdown2/tabane");
const UNMANAGED: &[u8] = include_bytes!("../../../packaging/network/NetworkManager/90-tabane.conf");
const NETPLAN: &[u8] = include_bytes!("../../../packaging/network/netplan/90-tb0.yaml");
/// The programs of Debian without what their units want of a whole machine.
const DBUS: &[u8] =
    b"[Service]\nRuntimeDirectory=dbus\nExecStart=/usr/bin/dbus-daemon --system --nofork --nopidfile\n";
const MANAGER: &[u8] = b"[Unit]\nRequires=dbus.service\nAfter=dbus.service\n[Service]\nExecStart=/usr/sbin/NetworkManager --no-daemon\n";
const ROLE: [(&str, &str); 5] = [
    ("site.yml", include_str!("../../../packaging/network/ansible/site.yml")),
    (
        "roles/tabane/defaults/main.yml",
        include_str!("../../../packaging/network/ansible/roles/tabane/defaults/main.yml"),
    ),
    (
        "roles/tabane/handlers/main.yml",
        include_str!("../../../packaging/network/ansible/roles/tabane/handlers/main.yml"),
    ),
    (
        "roles/tabane/tasks/main.yml",
        include_str!("../../../packaging/network/ansible/roles/tabane/tasks/main.yml"),
    ),
    (
        "roles/tabane/templates/bundle.toml.j2",
        include_str!("../../../packaging/network/ansible/roles/tabane/templates/bundle.toml.j2"),
    ),
];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::nightly("a_package_beside_ifupdown2_is_the_port_of_a_bridge", package::NEEDS, ifupdown2),
        Case::nightly("a_package_beside_networkmanager_is_left_alone", package::NEEDS, network_manager),
        Case::nightly("a_package_beside_netplan_gets_its_address", package::NEEDS, netplan),
        Case::nightly("a_package_is_installed_and_started_by_ansible", package::NEEDS, ansible),
    ]
}

fn ifupdown2() -> Result<()> {
    let files: [(&str, &[u8], u32); 2] = [
        ("etc/network/interfaces.d/tabane", INTERFACES, 0o644),
        ("etc/systemd/system/tabane@tb0.service.d/bridge.conf", BRIDGE, 0o644),
    ];
    with_package(&files, "", |topology, machine, peer| {
        let source = "source /etc/network/interfaces.d/*";
        shell(
            machine,
            &format!("mkdir -p /run/network && echo '{source}' >> /etc/network/interfaces && ifreload -a"),
        )?;
        shell(machine, "systemctl enable --now tabane@tb0")?;
        for _ in 0..2 {
            let ports = topology.host(0).ip("-brief link show master vmbr1")?;
            ensure!(ports.contains(DEVICE), "{ports}");
            whole(peer)?;
            crosses(topology)?;
            shell(machine, "systemctl restart tabane@tb0")?;
        }
        Ok(())
    })
}

fn network_manager() -> Result<()> {
    with_package(&[], "address = [\"10.9.0.1/24\"]", |topology, machine, peer| {
        shell(machine, "systemctl enable --now tabane@tb0 && systemctl start NetworkManager")?;
        let is_unmanaged = || {
            let devices = shell(machine, "nmcli --terse --fields DEVICE,STATE device").unwrap_or_default();
            let state = devices.lines().find_map(|line| line.strip_prefix("tb0:")).map(str::to_owned);
            state.map(|state| state == "unmanaged")
        };
        wait_for("a device that NetworkManager has taken", WITHIN, || Ok(is_unmanaged().filter(|is| !is)))?;
        let file = "/etc/NetworkManager/conf.d/90-tabane.conf";
        shell(
            machine,
            &format!("cat > {file} <<'END'\n{}END\nnmcli general reload", String::from_utf8_lossy(UNMANAGED)),
        )?;
        wait_for(
            "a device that NetworkManager leaves alone",
            WITHIN,
            || Ok(is_unmanaged().filter(|is| *is)),
        )?;
        whole(peer)?;
        crosses(topology)
    })
}

fn netplan() -> Result<()> {
    with_package(&[("etc/netplan/90-tb0.yaml", NETPLAN, 0o600)], "", |topology, machine, peer| {
        shell(
            machine,
            "netplan generate && systemctl start systemd-networkd && systemctl enable --now tabane@tb0",
        )?;
        has_address(topology.host(0), DEVICE, "10.9.0.1/24")?;
        whole(peer)?;
        crosses(topology)
    })
}

/// The role installs the package and starts the bundle; a second run changes nothing, and another policy is reloaded.
fn ansible() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let key = tabane(topology.host(1), "genkey")?;
    let role = ROLE.map(|(path, content)| (format!("root/ansible/{path}"), content.as_bytes()));
    let role = role.iter().map(|(path, content)| (path.as_str(), *content, 0o644));
    let files: Vec<(&str, &[u8], u32)> = role.chain([("root/tb0.key", key.as_bytes(), 0o600)]).collect();
    let machine = bare(topology.host(0), &files)?;
    with_peer_of(&topology, &key, |peer| {
        other_address(&topology, peer)?;
        let play = |more: &str| {
            let facts = format!(
                "ansible_become=false tabane_package=/root/tabane.deb tabane_key_file=/root/tb0.key tabane_address=10.9.0.1/24 {more}"
            );
            let line = "cd /root/ansible && HOME=/root ansible-playbook --connection local --inventory hosts site.yml --extra-vars";
            shell(
                &machine,
                &format!("printf '[tabane]\nlocalhost\n' > /root/ansible/hosts && {line} '{facts}'"),
            )
        };
        play("")?;
        whole(peer)?;
        crosses(&topology)?;
        let again = play("")?;
        ensure!(again.contains("changed=0"), "a second run changes something: {again}");
        let changed = play("tabane_policy=rr")?;
        ensure!(shell(&machine, "tabane policy")?.contains("rr"), "{changed}");
        machine.systemctl(&format!("stop {SERVICE}")).map(drop)
    })
}

/// A clean Debian with the package, these files, and a bundle whose file has this line; another host has the other end.
fn with_package(
    files: &[(&str, &[u8], u32)],
    line: &str,
    test: impl FnOnce(&Topology, &Systemd, &mut Bundle<'_>) -> Result<()>,
) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let machine = bare(topology.host(0), files)?;
    let links: String = (0..LINKS).map(|link| format!("[[link]]\nnic = \"{}\"\n", nic(link))).collect();
    let config = format!("key = \"tb0.key\"\n{line}\n{links}");
    let set_up =
        format!("tabane genkey /etc/tabane/tb0.key && cat > /etc/tabane/tb0.toml <<'END'\n{config}END");
    shell(&machine, &format!("dpkg --install /root/tabane.deb && {set_up}"))?;
    with_peer_of(&topology, &shell(&machine, "cat /etc/tabane/tb0.key")?, |peer| {
        other_address(&topology, peer)?;
        test(&topology, &machine, peer).with_context(|| machine.said().unwrap_or_default())?;
        machine.systemctl(&format!("stop {SERVICE}")).map(drop)
    })
}

/// A clean Debian with what units of others need there, and the package's file, which is not installed.
fn bare(host: &Namespace, files: &[(&str, &[u8], u32)]) -> Result<Systemd> {
    let unit = |name: &str| format!("{UNITS}/{name}.service");
    let (dbus, manager, networkd) = (unit("dbus"), unit("NetworkManager"), unit("systemd-networkd"));
    let own: [(&str, &[u8], u32); 3] =
        [(&dbus, DBUS, 0o644), (&manager, MANAGER, 0o644), (&networkd, NETWORKD, 0o644)];
    clean_debian(host, &[&own[..], files].concat())
}
