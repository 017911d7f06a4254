//! What the machine does not allow: one clear sentence, exit code 2, and nothing left behind; and clean ends.
//!
//! Each trial is a shell script on the [`stage`].

use std::os::unix::fs::PermissionsExt;

use crate::stage::{Test, printed, prints, shell};
use libtest_mimic::Failed;

pub(crate) const TRIALS: &[(&str, Test)] = staged![
    what_the_machine_does_not_allow_is_refused,
    a_node_whose_nics_have_no_address_has_one_all_the_same,
    a_nic_that_is_down_is_raised,
    an_mtu_that_becomes_too_small_costs_that_link_alone,
    second_up_is_refused_with_the_pid,
    stops_cleanly_however_it_is_asked,
    events_are_followed_to_the_end,
    the_policy_is_switched_or_left_alone,
    a_link_that_cannot_join_or_leave_changes_nothing,
    a_link_joins_and_leaves_and_its_number_is_taken_again,
    a_new_process_takes_the_bundle_over_as_it_is,
    a_new_process_that_cannot_take_over_leaves_the_bundle_alone,
];

/// What `tabane up` is told, after what was done before, and the sentence with which it ends. IPv6 needs an MTU of 1,280 bytes; over
/// IPv4 and in Ethernet frames the smallest cells decide.
const REFUSALS: [(&str, &str, &str); 9] = [
    ("", "--link eth7", "link eth7: no such NIC; there are: lo, eth2, eth1"),
    (
        "ip link set eth1 mtu 1279",
        "--link eth1",
        "link eth1: an MTU of 1279 bytes is too small; allowed: 1280 bytes or more (`ip link set eth1 mtu 1280`)",
    ),
    (
        "ip address add 192.0.2.1/24 dev eth1; ip link set eth1 mtu 76",
        "--link eth1,local=192.0.2.1,peer=192.0.2.2",
        "link eth1: an MTU of 76 bytes is too small; allowed: 576 bytes or more (`ip link set eth1 mtu 576`)",
    ),
    (
        "ip link set eth1 mtu 500",
        "--link ether:eth1",
        "link eth1: an MTU of 500 bytes is too small; allowed: 552 bytes or more (`ip link set eth1 mtu 552`)",
    ),
    (
        r#"start "--name other --link eth1" other"#,
        "--link eth1",
        "UDP port 7420 on NIC eth1 is taken: choose another port, or stop what uses it (`ss -ulpn sport = 7420`)",
    ),
    (
        "",
        "--link eth1 --name eth2",
        "device name eth2 is taken: choose another, or remove that device (`ip link delete eth2`)",
    ),
    (
        "mount -t tmpfs none /dev/net",
        "--link eth1",
        "/dev/net/tun is missing: load the driver (`modprobe tun`), or show it to the container (`--device /dev/net/tun`)",
    ),
    (
        "",
        "--link eth1 --user no-such-user",
        "user no-such-user does not exist; allowed: a user of this machine, or no `user` at all",
    ),
    (
        "",
        "--link eth1 --control-group no-such-group",
        "control_group no-such-group does not exist; allowed: a group of this machine (`groupadd no-such-group` makes it)",
    ),
];

/// A refused start ends with code 2 and one sentence, and leaves no device.
fn what_the_machine_does_not_allow_is_refused() -> Result<(), Failed> {
    let refused = |before: &str, up: &str, sentence: &str| -> Result<(), Failed> {
        let output = shell(&format!(
            "{before}\n{up}; code=$?; ip -o link | grep -c ' tb0[:@]'; [ -z \"$pid\" ] || kill $pid; exit $code"
        ))?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!(errors, format!("tabane: {sentence}\n"), "{before}; {up}");
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b"0\n"[..]), "{before}; {up}");
        Ok(())
    };
    for (before, arguments, sentence) in REFUSALS {
        refused(before, &format!("\"$TABANE\" up --insecure {arguments}"), sentence)?;
    }
    // udev lets everyone open it, a bare container nobody.
    let is_open = std::fs::metadata("/dev/net/tun")?.permissions().mode() & 0o006 == 0o006;
    let deed = if is_open { "create device tb0" } else { "open /dev/net/tun" };
    refused(
        r#"mount -t tmpfs none /run; cp "$TABANE" "$TABANE"d /run; chmod 755 /run/tabane*"#,
        "setpriv --reuid 65534 --clear-groups /run/tabane up --insecure --link eth1",
        &format!("no permission to {deed}: run as root or with CAP_NET_ADMIN"),
    )
}

/// As a node whose uplinks are PPP: the same node after each start.
fn a_node_whose_nics_have_no_address_has_one_all_the_same() -> Result<(), Failed> {
    let script = r#"ip tuntap add dev ppp0 mode tun; ip link set ppp0 up; ip address add 192.0.2.1/24 dev ppp0
        for _ in 1 2; do start "--link ppp0,local=192.0.2.1"; "$TABANE" status -v | grep -o 'node [^ ]*'; "$TABANE" down; wait $pid; done"#;
    let nodes = printed(script)?;
    let nodes: Vec<&str> = nodes.lines().collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert!(nodes[0].starts_with("node 02:") && nodes[0] != "node 02:00:00:00:00:00/7420", "{nodes:?}");
    let has_id = std::fs::metadata("/etc/machine-id").is_ok_and(|id| id.len() > 0);
    assert!(!has_id || nodes[0] == nodes[1], "{nodes:?}");
    Ok(())
}

/// Whoever makes a NIC a link wants to use it: at the start, and when it joins.
fn a_nic_that_is_down_is_raised() -> Result<(), Failed> {
    let script = r#"ip link set eth1 down; ip link set eth2 down; start "--link eth1"; "$TABANE" link add eth2
        for nic in eth1 eth2; do ip -o link show $nic | grep -c '[<,]UP[,>]'; done; "$TABANE" down; wait $pid"#;
    prints(script, "link 1 joined\n1\n1\n")
}

/// Two bundles over two cables. The link whose NIC shrinks is left at both ends, reported, and used again when it has
/// grown; meanwhile the other one carries cells as large as before, a new process takes over, and no such link joins.
fn an_mtu_that_becomes_too_small_costs_that_link_alone() -> Result<(), Failed> {
    let script = r#"mount -t tmpfs none /run; ip netns add far; ip link set eth2 netns far
        ip link add eth3 type veth peer name eth4 netns far; ip link set eth3 up
        for nic in eth2 eth4; do ip -n far link set $nic up; done
        for at in 1 3; do ip address add 192.0.$at.1/24 dev eth$at; ip -n far address add 192.0.$at.2/24 dev eth$((at+1)); done
        up() { for _ in $(seq 500); do [ "$("$TABANE" status --json | grep -cE '"[tr]x": "up"')" = $1 ] && return
            sleep 0.02; done; "$TABANE" status >&2; "$TABANE" events >&2; cat log far.log >&2; exit 98; }
        ip link set eth1 up; start "--link eth1,local=192.0.1.1,peer=192.0.1.2 --link eth3,local=192.0.3.1,peer=192.0.3.2 --address 10.9.0.1/24"
        ip netns exec far "$TABANE" up --insecure --link eth2,local=192.0.1.2,peer=192.0.1.1 --link eth4,local=192.0.3.2,peer=192.0.3.1 --address 10.9.0.2/24 2>far.log & far=$!
        up 4; ip link set eth3 mtu 76; up 2; ping -q -c 20 -i 0.01 -s 1400 -W 2 10.9.0.2 | grep -oE ' [0-9]+ received'
        "$TABANE" upgrade 2>log2 & new=$!; wait $pid || exit 3; up 2
        again() { "$TABANE" link add tb0 eth3,local=192.0.3.1,peer=192.0.3.2; }; "$TABANE" link remove tb0 eth3; again; echo $?
        "$TABANE" status --json | grep -oE '"cell_bytes": [0-9]+'
        ip link set eth3 mtu 1500; again; up 4
        ip link set eth1 mtu 76; up 2; ip link set eth3 mtu 68; up 0; ip link set eth1 mtu 1500; up 2
        "$TABANE" events | grep -oE 'nic-mtu.*'
        "$TABANE" down; wait $new || exit 4; kill $far; wait $far || exit 5; ip netns del far; cat log log2 far.log | grep -c panicked"#;
    let output = shell(script)?;
    let detail = |nic: &str, mtu| {
        let unused = "too small for cells; the link is not used until it has 576";
        format!("nic-mtu      {nic} has an MTU of {mtu} bytes now, {unused}\n")
    };
    let want = [
        " 20 received\nlink 1 left\n2\n\"cell_bytes\": 1472\nlink 1 joined\n".to_owned(),
        detail("eth3", 76),
        detail("eth1", 76),
        detail("eth3", 68),
        "nic-mtu      eth1 has an MTU of 1500 bytes now\n0\n".to_owned(),
    ];
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8(output.stdout)?, want.concat(), "{:?}: {errors}", output.status);
    let refusal =
        "tabane: tb0 refuses: link eth3: an MTU of 76 bytes is too small; allowed: 576 bytes or more";
    assert!(errors.starts_with(refusal), "{errors}");
    Ok(())
}

fn second_up_is_refused_with_the_pid() -> Result<(), Failed> {
    let script = r#"start "--link eth1"; echo $pid; "$TABANE" up --insecure --link eth2; code=$?; kill $pid; exit $code"#;
    let output = shell(script)?;
    let pid = String::from_utf8(output.stdout)?;
    let sentence = format!("tabane: tb0 is already up (pid {}); `tabane down tb0` ends it\n", pid.trim());
    assert_eq!(String::from_utf8(output.stderr)?, sentence);
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}

fn stops_cleanly_however_it_is_asked() -> Result<(), Failed> {
    for stop in [r#""$TABANE" down"#, "kill -TERM $pid", "kill -INT $pid"] {
        let script =
            format!(r#"start "--link eth1"; {stop}; wait $pid || exit 1; ip -o link | grep -c ' tb0[:@]'"#);
        prints(&script, "0\n")?;
    }
    Ok(())
}

/// Two bundles over one cable find each other; a follower reports it and ends with its bundle, or with its reader, or
/// with Ctrl-C.
fn events_are_followed_to_the_end() -> Result<(), Failed> {
    let script = r#"start "--link eth1"; one=$pid; lay; far_up --insecure
        "$TABANE" events --follow --json >lines & follower=$!
        "$TABANE" events --follow >/dev/null & interrupted=$!
        for _ in $(seq 500); do grep -q '"what":"link-up"' lines && break; sleep 0.02; done
        "$TABANE" events | grep -c ' peer-joined ' || exit 3
        "$TABANE" events --follow | grep -m 1 -c peer-joined || exit 4
        kill -INT $interrupted; wait $interrupted || exit 5
        kill $one; wait $one; wait $follower || exit 6
        kill $far; wait $far; ip netns del far; head -1 lines"#;
    let text = printed(script)?;
    assert!(text.starts_with("1\n1\n{\"number\":0,\"time\":\""), "{text}");
    Ok(())
}

fn the_policy_is_switched_or_left_alone() -> Result<(), Failed> {
    let script = r#"start "--link eth1"
        "$TABANE" policy tb0 rr && "$TABANE" status -v | grep -c 'policy rr  receive adaptive  security' && "$TABANE" events | grep -c 'policy rr, was'
        "$TABANE" policy tb0 rr; "$TABANE" policy tb0 fast; echo $?; "$TABANE" policy tb7 rr; echo $?
        "$TABANE" events | wc -l; "$TABANE" down"#;
    let output = shell(script)?;
    let want = "policy rr, was adaptive\n1\n1\npolicy rr, was rr\n2\n2\n1\n";
    assert_eq!(String::from_utf8(output.stdout)?, want);
    let errors = String::from_utf8(output.stderr)?;
    let lines: Vec<&str> = errors.lines().collect();
    assert!(
        lines[0].starts_with("tabane: tb0 refuses: policy `fast` is unknown; allowed: adaptive, "),
        "{errors}"
    );
    assert_eq!(lines[1..], ["tabane: no bundle named tb7 is up in this network namespace"]);
    Ok(())
}

fn a_link_that_cannot_join_or_leave_changes_nothing() -> Result<(), Failed> {
    let changes = [
        ("add tb0 eth7", "tb0 refuses: link eth7: no such NIC; there are: "),
        ("add tb0 eth1", "tb0 refuses: link eth1 is in the bundle already"),
        ("add tb0 tb0", "tb0 refuses: tb0 is the bundle's own device"),
        ("add tb0 eth2,loca=1", "tb0 refuses: unknown part `loca=1`; allowed: local=, port=, peer=, rate="),
        ("add tb0 eth2,rate=much", "tb0 refuses: link eth2: rate: "),
        (
            "add tb0 eth2,local=192.0.2.1,peer=192.0.2.2",
            "tb0 refuses: 192.0.2.1 is not an address of NIC eth2 yet",
        ),
        (
            "add tb0 eth2,peer=-.net",
            "tb0 refuses: link eth2: peer: `-.net` is neither an address nor a name; allowed: ",
        ),
        (
            "add tb0 eth2,peer=office.example.net",
            "tb0 refuses: peer office.example.net: the bundle was started without a name, and without the process that \
             resolves names; allowed: an address, or start it with one",
        ),
        ("remove tb0 eth1", "tb0 refuses: link eth1 is the last one; `tabane down tb0` ends the bundle"),
        ("remove tb0 eth2", "tb0 refuses: link eth2 is not in the bundle; there are: eth1"),
        ("add tb7 eth2", "no bundle named tb7 is up in this network namespace"),
        ("remove tb7 eth2", "no bundle named tb7 is up in this network namespace"),
    ];
    let asked = changes.map(|(change, _)| format!(r#""$TABANE" link {change}; echo $?; "#)).concat();
    let script = format!(
        r#"ip address add 198.51.100.1/24 dev eth1
        start "--link eth1"; {asked}
        "$TABANE" events | wc -l; "$TABANE" status --json | grep -c '"nic"'; "$TABANE" down"#
    );
    let output = shell(&script)?;
    let errors = String::from_utf8(output.stderr)?;
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), changes.len(), "{errors}");
    for (line, (change, sentence)) in lines.iter().zip(changes) {
        assert!(line.starts_with(&format!("tabane: {sentence}")), "{change}: {line}");
    }
    let want = "2\n".repeat(changes.len()) + "0\n1\n";
    assert_eq!(String::from_utf8(output.stdout)?, want, "no event, one link as before");
    Ok(())
}

fn a_link_joins_and_leaves_and_its_number_is_taken_again() -> Result<(), Failed> {
    let script = r#"start "--link eth1 --workers 2"; ip link add eth3 type veth peer name eth4; ip link set eth3 up
        "$TABANE" link add tb0 eth2; "$TABANE" link add tb0 eth3; "$TABANE" link remove tb0 eth1
        ss -uln | grep -c 'eth1:742'; "$TABANE" link add tb0 eth1,rate=1Gbit/s; "$TABANE" link remove tb0 eth3
        "$TABANE" status -v | grep -E '^[0-9]+ +eth' | cut -c 1-11; ss -uln | grep -c ':742'
        "$TABANE" events | cut -d ' ' -f 3-; "$TABANE" down; wait $pid"#;
    let want = "link 1 joined\nlink 2 joined\nlink 0 left\n0\nlink 0 joined\nlink 2 left\n0     eth1 \n1     eth2 \n4\n\
        link-added   eth2 joined the bundle\nlink-added   eth3 joined the bundle\n\
        link-removed eth1 left the bundle\nlink-added   eth1 joined the bundle\nlink-removed eth3 left the bundle\n";
    assert_eq!(printed(script)?, want);
    Ok(())
}

/// Policy, links, number of the next event, device and what `down` waits for pass to the new process.
fn a_new_process_takes_the_bundle_over_as_it_is() -> Result<(), Failed> {
    let script = r#"start "--link eth1 --workers 2 --address 10.9.0.1/24"; "$TABANE" policy tb0 rr; "$TABANE" link add tb0 eth2,rate=1Gbit/s
        device() { ip -o link show tb0 | cut -d , -f 1; ip -o -4 address show tb0 | grep -c 10.9.0.1/24; }
        device >before; "$TABANE" upgrade 2>log2 & new=$!; wait $pid || exit 3
        device | diff before - || exit 4
        "$TABANE" status -v | grep -c "pid $new .*policy rr .*workers 2"; "$TABANE" status -v | grep -E '^[0-9]+ +eth' | cut -c 1-10
        "$TABANE" events --json | grep -o '"number":[0-9]*'; "$TABANE" link remove tb0 eth1
        "$TABANE" down || exit 5; wait $new || exit 6; ip -o link | grep -c ' tb0[:@]'; true"#;
    let want = "policy rr, was adaptive\nlink 1 joined\n1\n0     eth1\n1     eth2\n\
        \"number\":0\n\"number\":1\n\"number\":2\nlink 0 left\n0\n";
    assert_eq!(printed(script)?, want);
    Ok(())
}

fn a_new_process_that_cannot_take_over_leaves_the_bundle_alone() -> Result<(), Failed> {
    let script = r#"start "--link eth1 --link eth2"; (ulimit -n 7; "$TABANE" upgrade); echo $?
        "$TABANE" upgrade tb7; echo $?
        ip link add eth3 type veth peer name eth4; ip link set eth3 up; "$TABANE" link add tb0 eth3; ip link del eth3
        until_event nic-gone
        "$TABANE" upgrade; echo $?; "$TABANE" status -v | grep -c "pid $pid "; "$TABANE" down"#;
    let output = shell(script)?;
    assert_eq!(String::from_utf8(output.stdout)?, "1\n2\nlink 2 joined\n2\n1\n");
    let errors = String::from_utf8(output.stderr)?;
    let want = [
        "tabane: tb0: the bundle stays with its process: too many open files",
        "tabane: no bundle named tb7 is up in this network namespace",
        "tabane: tb0 refuses: the NIC of link eth3 is gone; `tabane link remove` takes it out",
    ];
    assert_eq!(errors.lines().collect::<Vec<_>>(), want);
    Ok(())
}
