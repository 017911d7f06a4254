//! What a running bundle may still do, and that it does all its work with that.
//!
//! Each trial is a shell script on the [`stage`].

use crate::stage::{Test, printed, prints};
use libtest_mimic::Failed;

/// Prints what all threads of `$pid` may do, each line once, but for the one that asks NICs for their speeds; and what that may.
const RIGHTS: &str = r#"
of() { grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' | tr -s '\t ' ' ' | sort -u; }
rights() { for task in /proc/$pid/task/*; do grep -qx speeds $task/comm || cat $task/status; done | of; }
asks() { for task in /proc/$pid/task/*; do ! grep -qx speeds $task/comm || cat $task/status; done | of; }
"#;

/// A user and group that every machine has: `nobody` and `nogroup` on Debian.
const NOBODY: &str = "65534";

pub(crate) const TRIALS: &[(&str, Test)] = staged![
    all_threads_keep_two_capabilities_and_nothing_else,
    the_daemon_becomes_the_named_user_and_goes_on_working,
    a_process_that_takes_over_keeps_no_more,
    capabilities_are_enough_to_start_it,
    the_process_that_resolves_names_keeps_no_capability_and_ends_with_the_daemon,
    low_ports_cost_a_third_capability,
    all_threads_run_ahead_of_applications,
];

/// The rights of a sandboxed daemon; CAP_NET_ADMIN and CAP_NET_RAW are bits 12 and 13.
fn rights(ids: &str, capabilities: &str) -> String {
    let ids = format!("{ids} {ids} {ids} {ids}");
    format!(
        "CapAmb: 0000000000000000\nCapEff: {capabilities}\nCapInh: 0000000000000000\nCapPrm: {capabilities}\n\
        Gid: {ids}\nGroups: \nNoNewPrivs: 1\nSeccomp: 2\nUid: {ids}\n"
    )
}

fn all_threads_keep_two_capabilities_and_nothing_else() -> Result<(), Failed> {
    let script = format!(
        r#"{RIGHTS} start "--link eth1 --workers 2"; ls /proc/$pid/task | wc -l; rights; echo; asks; "$TABANE" down; wait $pid"#
    );
    let text = printed(&script)?;
    let (threads, text) = text.split_once('\n').unwrap_or_default();
    let (text, asks) = text.split_once("\n\n").unwrap_or_default();
    assert_eq!(threads, "6", "main, log, control, two workers, and who asks NICs");
    let without_groups = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("Groups:")).map(str::to_owned).collect()
    };
    assert_eq!(without_groups(text), without_groups(&rights("0", "0000000000003000")));
    assert_eq!(without_groups(asks), without_groups(&rights("0", "0000000000000000")));
    Ok(())
}

fn the_daemon_becomes_the_named_user_and_goes_on_working() -> Result<(), Failed> {
    let script = format!(
        r#"{RIGHTS} mount -t tmpfs none /mnt; cp "$TABANE" "$TABANE"d /mnt; chmod 755 /mnt /mnt/tabane*
        start "--link eth1 --user nobody --address 10.9.0.1/24"; rights
        "$TABANE" link add tb0 eth2,rate=1Gbit/s; "$TABANE" policy tb0 rr; "$TABANE" link remove tb0 eth1
        ip link del eth1; ip link add eth2 type veth peer name eth1; ip link set eth1 up; ip link set eth2 up
        until_event nic-back
        (cd /; setpriv --reuid {NOBODY} --clear-groups /mnt/tabane events) | cut -d ' ' -f 3- | cut -d ' ' -f 1
        (cd /; setpriv --reuid {NOBODY} --clear-groups /mnt/tabane upgrade 2>&1)
        "$TABANE" down; wait $pid; echo $?"#
    );
    let done = "link 1 joined\npolicy rr, was adaptive\nlink 0 left\n\
        link-added\npolicy\nlink-removed\ncarrier-lost\nnic-gone\nnic-back\n\
        tabane: tb0 refuses: only root and the user who started the bundle may change its keys, reload it or take it over\n0\n";
    prints(&script, &(rights(NOBODY, "0000000000003000") + done))
}

/// Twice in a row: from a process that was started, and from one that took over itself.
fn a_process_that_takes_over_keeps_no_more() -> Result<(), Failed> {
    let script = format!(
        r#"{RIGHTS} start "--link eth1 --user nobody"; "$TABANE" link add tb0 eth2
        for _ in 1 2; do old=$pid; "$TABANE" upgrade 2>>log & pid=$!; wait $old || exit 3
            "$TABANE" status -v | grep -c "pid $pid "; rights; "$TABANE" link remove tb0 eth2; "$TABANE" link add tb0 eth2; done
        "$TABANE" down; wait $pid; echo $?; ip -o link | grep -c ' tb0[:@]'; true"#
    );
    let turn = format!("1\n{}link 1 left\nlink 1 joined\n", rights(NOBODY, "0000000000003000"));
    prints(&script, &format!("link 1 joined\n{turn}{turn}0\n0\n"))
}

fn capabilities_are_enough_to_start_it() -> Result<(), Failed> {
    let script = format!(
        r#"{RIGHTS} mount -t tmpfs none /mnt; cp "$TABANE" "$TABANE"d /mnt; chmod 755 /mnt /mnt/tabane*
        mknod /mnt/tun c 10 200; chmod 666 /mnt/tun; mount --bind /mnt/tun /dev/net/tun
        setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps +net_admin,+net_raw \
            --ambient-caps +net_admin,+net_raw /mnt/tabane up --insecure --link eth1 2>log & pid=$!
        ask() {{ setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups /mnt/tabane "$@"; }}
        for _ in $(seq 200); do ask status >/dev/null 2>&1 && break; sleep 0.02; done
        rights; grep -oE 'keeps its user: there is no user|only root can become' log; ask down; wait $pid"#
    );
    let text = printed(&script)?;
    assert!(text.starts_with(&rights(NOBODY, "0000000000003000")), "{text}");
    assert_eq!(text.lines().count(), 10, "{text}");
    Ok(())
}

/// It answers what the hosts file says, as the daemon's user; a daemon that is killed takes it along.
fn the_process_that_resolves_names_keeps_no_capability_and_ends_with_the_daemon() -> Result<(), Failed> {
    let script = format!(
        r#"{RIGHTS} echo 192.0.2.7 office.example.net >hosts; chmod 644 hosts; mount --bind hosts /etc/hosts
        resolvers() {{ for p in /proc/[0-9]*; do [ "$(tr '\0' ' ' <$p/cmdline 2>/dev/null | cut -d ' ' -f 2)" = resolve-names ] && echo ${{p#/proc/}}; done; }}
        start "--link eth1,peer=office.example.net --user nobody"; daemon=$pid; pid=$(resolvers); rights
        until_event name-resolved
        "$TABANE" events | cut -d ' ' -f 3-; "$TABANE" link add tb0 eth2,peer=office.example.net
        kill -9 $daemon; for _ in $(seq 200); do [ -z "$(resolvers)" ] && break; sleep 0.02; done; resolvers"#
    );
    let rights = rights(NOBODY, "0000000000000000");
    prints(&script, &format!("{rights}name-resolved office.example.net is 192.0.2.7\nlink 1 joined\n"))
}

fn low_ports_cost_a_third_capability() -> Result<(), Failed> {
    let script = format!(
        r#"{RIGHTS} start "--link eth1 --port 1000"; rights | grep CapEff; "$TABANE" link add tb0 eth2; "$TABANE" down"#
    );
    prints(&script, "CapEff: 0000000000003400\nlink 1 joined\n")
}

fn all_threads_run_ahead_of_applications() -> Result<(), Failed> {
    let script = r#"start "--link eth1"; cat /proc/$pid/task/*/stat | sed 's/.*) //' | cut -d ' ' -f 17 | sort -u; \
        "$TABANE" down; if [ $(nice) = 0 ]; then nice -n -10 nice; else nice; fi 2>/dev/null"#;
    let output = printed(script)?;
    let (threads, allowed) = output.split_once('\n').unwrap_or_default();
    assert_eq!(threads, allowed.trim(), "as far as who tests may, and has not chosen another niceness");
    Ok(())
}
