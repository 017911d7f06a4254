//! What happens to a running bundle on a machine that others use, too: it goes on, or ends with one clear sentence.
//!
//! Each trial is a shell script on the [`stage`].

use crate::stage::{Test, prints};
use libtest_mimic::Failed;

pub(crate) const TRIALS: &[(&str, Test)] = staged![
    the_device_may_go_down_be_renamed_and_move,
    errors_of_the_device_and_of_epoll_end_nothing_under_strace,
    errors_of_the_main_thread_and_the_control_socket_end_nothing_under_strace,
    a_full_disk_for_the_log_stops_nothing,
    a_log_that_nobody_reads_stops_nothing,
];

/// Two bundles over one cable. The device of one goes down and up, gets another name, and moves to a container's
/// namespace: neighbours find it there by IPv6.
fn the_device_may_go_down_be_renamed_and_move() -> Result<(), Failed> {
    let script = r#"lay; ip netns add inner; start "--link eth1"; far_up --insecure --address fd00::2/64
        ip link set tb0 down; ip link set tb0 name inner0; ip link set inner0 netns inner
        ip -n inner link set inner0 up; ip -n inner address add fd00::1/64 dev inner0 nodad
        for _ in $(seq 400); do ip -n far neighbour replace fd00::1 dev tb0 use
            ip -n far neighbour show fd00::1 | grep -q REACHABLE && break; sleep 0.02; done
        ip -n far neighbour show fd00::1 | grep -c REACHABLE
        "$TABANE" down; wait $pid; echo $?; kill $far; wait $far; echo $?; ip netns del far; ip netns del inner"#;
    prints(script, "1\n0\n0\n")
}

/// Two bundles over one cable. While datagrams pass, the worker of one gets errors from the kernel for want of memory:
/// at each tenth read of its device, each other change of what it watches and each fifth wait. Most datagrams come
/// through, and all when the errors are over.
fn errors_of_the_device_and_of_epoll_end_nothing_under_strace() -> Result<(), Failed> {
    let script = r#"lay; start "--link eth1 --address 10.9.0.1/24 --no-sandbox"
        far_up --insecure --address 10.9.0.2/24; until_event link-up
        received() { ping -q -c $1 -i 0.005 -W 2 10.9.0.2 | grep -oE '[0-9]+ received' | cut -d ' ' -f 1; }
        ping -q -c 1 -W 5 10.9.0.2 >/dev/null
        worker=$(grep -l 'worker 0' /proc/$pid/task/*/comm | cut -d / -f 5)
        strace -q -o /dev/null -p $worker -e trace=readv,epoll_ctl,epoll_pwait2 -e inject=readv:error=ENOMEM:when=10+10 \
            -e inject=epoll_ctl:error=ENOSPC:when=1+2 -e inject=epoll_pwait2:error=ENOMEM:when=5+5 2>strace.log & tracer=$!
        for _ in $(seq 500); do grep -q "TracerPid:[^0-9]*$tracer" /proc/$pid/task/$worker/status && break; sleep 0.02; done
        came=$(received 400); [ $came -ge 300 ] && echo most || echo $came
        kill -INT $tracer; wait $tracer; received 100
        count() { "$TABANE" status --json | grep -oE "\"$1\": [0-9]+" | cut -d ' ' -f 2; }
        [ $(count device_unread) -ge 10 ] && [ $(count device_unwatched) -ge 10 ] && echo counted
        grep -c 'report what is ready; the worker tries the device' log | grep -cE '^[4-9]$|^1[0-9]$'
        "$TABANE" down; wait $pid; echo $?; kill $far; wait $far; ip netns del far"#;
    prints(script, "most\n100\ncounted\n1\n0\n")
}

/// The thread of the control socket gets errors for want of memory at each other wait, the main thread the same, and
/// at its first try to serve the name again after an upgrade has failed.
fn errors_of_the_main_thread_and_the_control_socket_end_nothing_under_strace() -> Result<(), Failed> {
    let script = r#"start "--link eth1 --no-sandbox"
        control=$(grep -l '^control' /proc/$pid/task/*/comm | cut -d / -f 5)
        traced() { for _ in $(seq 500); do grep -q "TracerPid:[^0-9]*$1" /proc/$pid/task/$2/status && return; sleep 0.02; done; exit 97; }
        strace -q -o /dev/null -p $control -e trace=ppoll,poll -e inject=ppoll,poll:error=ENOMEM:when=1+2 & one=$!
        strace -q -o /dev/null -p $pid -e trace=epoll_pwait2,eventfd2 -e inject=epoll_pwait2:error=ENOMEM:when=1+2 \
            -e inject=eventfd2:error=EMFILE:when=1 & other=$!
        traced $one $control; traced $other $pid
        for _ in 1 2 3 4 5; do "$TABANE" policy tb0 rr; "$TABANE" policy tb0 hash; done | tail -1
        (ulimit -n 7; "$TABANE" upgrade); echo $?; wait $one
        "$TABANE" policy tb0 rr; kill -INT $other; wait $other; grep -oE 'cannot (poll|wait|serve the control socket)' log | sort -u
        "$TABANE" down; wait $pid; echo $?"#;
    let want = "policy hash, was rr\n1\npolicy rr, was hash\n\
        cannot poll\ncannot serve the control socket\ncannot wait\n0\n";
    prints(script, want)
}

fn a_full_disk_for_the_log_stops_nothing() -> Result<(), Failed> {
    let script = r#"TABANE_LOG=trace "$TABANE" up --insecure --link eth1 2>/dev/full >/dev/full & pid=$!
        for _ in $(seq 200); do "$TABANE" status >/dev/null 2>&1 && break; sleep 0.02; done
        "$TABANE" policy tb0 rr; "$TABANE" link add tb0 eth2; "$TABANE" down; wait $pid; echo $?"#;
    let want = "policy rr, was adaptive\nlink 1 joined\n0\n";
    prints(script, want)
}

/// The pipe is full once the bundle is up; a hundred events later it still answers, and ends in time.
fn a_log_that_nobody_reads_stops_nothing() -> Result<(), Failed> {
    let script = r#"mkfifo pipe; exec 3<>pipe; "$TABANE" up --insecure --link eth1 2>pipe & pid=$!
        for _ in $(seq 200); do "$TABANE" status >/dev/null 2>&1 && break; sleep 0.02; done
        timeout 1 head -c 1000000 /dev/zero >pipe; echo $?
        for _ in $(seq 50); do "$TABANE" policy tb0 rr; "$TABANE" policy tb0 hash; done | sort | uniq -c | tr -s ' '
        "$TABANE" events | wc -l; "$TABANE" down; wait $pid; echo $?"#;
    let want = "124\n 50 policy hash, was rr\n 1 policy rr, was adaptive\n 49 policy rr, was hash\n100\n0\n";
    prints(script, want)
}
