//! The first five minutes, with the real binary: a bundle is set up, joined, looked at, and undone; and what does not fit says so.
//!
//! Each trial is a shell script on the [`stage`].

use crate::stage::{self, Test};
use libtest_mimic::Failed;

/// Gives the script an `/etc` of its own, a second host `far` at the other end of two cables, and `at far` beside `at near`.
const TWO_HOSTS: &str = r#"
mount -t tmpfs none /run; mkdir /run/etc; cp -a /etc/. /run/etc; rm -rf /run/etc/tabane; cp -a /run/etc /run/etc2; mount --bind /run/etc /etc
ip netns add far; ip link del eth1; for n in 1 2; do ip link add eth$n type veth peer name eth$n netns far; done
at() { case $1 in near) shift; "$TABANE" "$@";; far) shift; ip netns exec far unshare -m sh -c 'mount --bind /run/etc2 /etc; exec "$@"' - "$TABANE" "$@";; esac; }
until_says() { for _ in $(seq 400); do at $1 status -v 2>/dev/null | grep -q "$2" && return; sleep 0.02; done; at $1 status -v >&2; cat log* >&2; exit 97; }
"#;

pub(crate) const TRIALS: &[(&str, Test)] = staged![
    a_bundle_is_set_up_joined_and_forgotten,
    what_init_and_join_are_told_is_in_force,
    an_open_bundle_is_set_up_and_joined,
    what_does_not_fit_is_named,
    a_name_is_needed_where_several_bundles_are_up,
    a_line_that_is_not_whole_writes_nothing,
];

/// What a script of two hosts prints.
fn printed(script: &str) -> Result<String, Failed> {
    stage::printed(&format!("{TWO_HOSTS} {script}"))
}

/// From nothing to a link that dies, and back to nothing.
fn a_bundle_is_set_up_joined_and_forgotten() -> Result<(), Failed> {
    let text = printed(
        r#"
        at near init --yes --no-start >told || exit 3
        stat -c '%a %n' /etc/tabane/*; at near check tb0 | grep -cE '^(nic|key|address) = '
        grep '^tabane1:' told | at far join --yes --no-start | grep -c 'tabane up tb0'
        at near up tb0 2>log & near=$!; at far up tb0 2>log.far & far=$!
        until_says near 'healthy: 2 of 2 links, 1 peer'; until_says far 'healthy: 2 of 2 links'
        ping -q -c 20 -i 0.01 10.9.0.2 | grep -oE ' [0-9]+ received'
        at near policy; at near policy rr; at near receive; at near list
        ip link set eth2 down; until_says near 'DEGRADED: redundancy lost since .*: eth2 has no carrier'
        until_says far 'DEGRADED: redundancy lost'; ip link set eth2 up; until_says near healthy
        at near status --json | grep -A4 '"health"' | tr -d ' \n'; echo
        at near forget tb0; wait $near || exit 4; at near forget tb0 2>&1; at far down; wait $far || exit 5
        ls /etc/tabane; ip -o link | grep -c tb0; at near status 2>&1; true"#,
    )?;
    let want = "600 /etc/tabane/tb0.key\n644 /etc/tabane/tb0.toml\n4\n1\n 20 received\nadaptive\npolicy rr, was adaptive\n\
        adaptive\ntb0 healthy: 2 of 2 links, 1 peer\n\"health\":{\"below_expected_speed\":false,\"redundancy_lost\":false,\"since\":null,\"state\":\"healthy\",\n\
        tb0 is down; deleted /etc/tabane/tb0.key and /etc/tabane/tb0.toml\n\
        tabane: tb0: /etc/tabane/tb0.toml does not exist; allowed: the name of a bundle that has one\n0\n\
        tabane: no bundle is up in this network namespace\n";
    assert_eq!(text, want);
    Ok(())
}

/// Name, key, policy, port, MTU, links, addresses, files: what the first machine is told reaches the second where it has to be the same.
fn what_init_and_join_are_told_is_in_force() -> Result<(), Failed> {
    let text = printed(
        r#"
        "$TABANE" genkey own; mkdir near far
        at near init --name tb7 --key own --policy rr --port 7555 --mtu 9000 --link eth1 --link eth2,rate=1Gbit/s \
            --address 10.8.0.1/24 --yes --no-start --file near/wire.toml >told || exit 3
        cmp own near/wire.key && grep -c 'tabane up near/wire.toml' told
        grep '^tabane1:' told | at far join --link eth2 --link eth1 --address 10.8.0.9/24 -y --no-start --file far/wire.toml \
            | grep -c 'tabane up far/wire.toml'
        for host in near far; do at $host up $host/wire.toml 2>log.$host & eval "$host=\$!"; done
        until_says near 'healthy: 2 of 2 links, 1 peer'; until_says far healthy
        at near status --json | grep -oE '"(name|policy|mtu|rate_bps)": ("tb7"|"rr"|9000|1000000000)' | sort -u
        at far policy; grep '^nic' far/wire.toml; ss -ulnH | grep -c 'eth[12]:7555'
        ip -o link show tb7 | grep -o 'mtu 9000'; ping -q -c 20 -i 0.01 10.8.0.9 | grep -oE ' [0-9]+ received'
        at near down; at far down; wait $near $far; ls /etc/tabane 2>&1 | grep -c 'No such file'"#,
    )?;
    let want = "1\n1\n\"mtu\": 9000\n\"name\": \"tb7\"\n\"policy\": \"rr\"\n\"rate_bps\": 1000000000\n\
        rr\nnic = \"eth2\"\nnic = \"eth1\"\n2\nmtu 9000\n 20 received\n1\n";
    assert_eq!(text, want);
    Ok(())
}

/// The line says so, too.
fn an_open_bundle_is_set_up_and_joined() -> Result<(), Failed> {
    let text = printed(
        r#"
        at near init --insecure --yes --no-start --link eth1 --address none >told || exit 3
        grep '^tabane1:' told | at far join --link eth1 --address none --yes --no-start >/dev/null || exit 4
        at near up tb0 2>log & near=$!; at far up tb0 2>log.far & far=$!; until_says far 'healthy: 1 of 1 link, 1 peer'
        for host in near far; do at $host status --json | grep -o '"security": "none"'; at $host forget tb0 >/dev/null; done
        wait $near $far"#,
    )?;
    assert_eq!(text, "\"security\": \"none\"\n".repeat(2));
    Ok(())
}

/// Each pair of nodes has something that does not fit; the first line of the status names it.
fn what_does_not_fit_is_named() -> Result<(), Failed> {
    let pairs = [
        ("--key a", "--key b", "eth1: .* has another key; give both nodes the same key file"),
        (
            "--key a",
            "--insecure",
            "eth1: .* does not seal and this node does; set the same .security. on both",
        ),
        ("--insecure", "--key a", "eth1: .* seals and this node does not"),
        ("--insecure --key a", "--insecure", "has another key, or one of the two has none"),
        ("--key a", "--key a --workers 2", "it runs 2 workers and this node 1"),
        ("--key a", "--key a --port 7500", "no greeting has come: .* on the same port, .* UDP port 7420"),
    ];
    let each: Vec<String> = pairs
        .iter()
        .map(|(near, far, says)| {
            format!(
                r#"at near up --link eth1 {near} 2>log & near=$!; at far up --link eth1 {far} 2>log.far & far=$!
                until_says near "NO PEER: .*{says}" && echo named
                at near down; wait $near || exit 4; at far down; wait $far || exit 5; "#
            )
        })
        .collect();
    let text = printed(&format!(r#""$TABANE" genkey a; "$TABANE" genkey b; {}"#, each.concat()))?;
    assert_eq!(text, "named\n".repeat(pairs.len()));
    Ok(())
}

/// A second bundle has a port of its own, and commands ask which one is meant.
fn a_name_is_needed_where_several_bundles_are_up() -> Result<(), Failed> {
    let text = printed(
        r#"
        at near init --yes --no-start --link eth1 >/dev/null || exit 3
        at near init --yes --no-start --name tb1 --link eth2 --address none >/dev/null || exit 4
        grep -h '^port' /etc/tabane/*.toml; at near init --yes --no-start --link eth1 2>&1
        for name in tb0 tb1; do at near up $name 2>log.$name & eval "$name=\$!"; done; until_says near tb0; until_says near tb1
        at near down 2>&1; at near status --json 2>&1; at near list | cut -d ' ' -f 1
        at near list --json | grep -E '^    "name": '; at near status | grep -c 'NO PEER'
        at near policy tb1; at near policy tb1 rr; at near down tb0; wait $tb0 || exit 5; at near policy; at near down; wait $tb1"#,
    )?;
    let several = "tabane: several bundles are up; say which: tb0, tb1\n";
    let want = format!(
        "port = 7420\nport = 7520\ntabane: /etc/tabane/tb0.toml exists already; `tabane forget tb0` deletes it, or choose \
         another name\n{several}{several}tb0\ntb1\n    \"name\": \"tb0\",\n    \"name\": \"tb1\",\n2\nadaptive\npolicy rr, was adaptive\nrr\n"
    );
    assert_eq!(text, want);
    Ok(())
}

fn a_line_that_is_not_whole_writes_nothing() -> Result<(), Failed> {
    let text = printed(
        r#"
        at near init --yes --no-start --link eth1 >told || exit 3
        for line in "$(grep '^tabane1:' told | cut -c 1-90)" rubbish ''; do echo "$line" | at far join --yes 2>&1; echo $?; done
        grep '^tabane1:' told | at far join --link eth1 2>&1 </dev/null; echo $?; ls /run/etc2/tabane 2>&1 | grep -c 'No such file'"#,
    )?;
    let allowed = "allowed: the line that `tabane init` has printed, on standard input\n2\n";
    let prefix = format!("tabane: the line does not begin with `tabane1:`; {allowed}");
    assert_eq!(text, format!("tabane: the line is not whole; {allowed}{prefix}{prefix}{prefix}1\n"));
    Ok(())
}
