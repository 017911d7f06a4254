//! What nodes agree on before they trust each other, with the real binary: ciphers, and keys of their own.
//!
//! Each trial is a shell script on the [`stage`].

use crate::stage::{Test, printed};
use libtest_mimic::Failed;

pub(crate) const TRIALS: &[(&str, Test)] = staged![
    nodes_that_state_ciphers_seal_with_them_and_the_others_follow,
    a_node_that_is_not_on_the_list_of_the_start_is_refused,
    a_stolen_node_is_shut_out_while_the_others_carry_on,
];

/// Two bundles over one cable: each seals with what it states; one that states nothing follows the other.
fn nodes_that_state_ciphers_seal_with_them_and_the_others_follow() -> Result<(), Failed> {
    let script = r#"lay; "$TABANE" genkey key
        pair() { start "--link eth1 --key key --address 10.9.0.1/24 $1"
            far_up --key key --address 10.9.0.2/24 $2
            for _ in $(seq 500); do "$TABANE" events | grep -q link-up && far events | grep -q link-up && break; sleep 0.02; done
            ping -q -c 20 -i 0.01 -s 8000 -W 2 10.9.0.2 | grep -oE ' [0-9]+ received'
            "$TABANE" status -v | grep -oE '[a-z0-9-]+ sent, [a-z0-9-]+ received|, [a-z0-9-]+, keys'
            far status --json | grep -oE '"cipher_[a-z]+": "[^"]+"'
            "$TABANE" down; wait $pid || exit 3; far down; wait $far || exit 4; }
        pair "--cipher aes-256-gcm" "--cipher chacha20-poly1305"
        pair "--cipher auto" "--cipher chacha20-poly1305"
        ip netns del far"#;
    let want = [
        " 20 received",
        "aes-256-gcm sent, chacha20-poly1305 received",
        "\"cipher_received\": \"aes-256-gcm\"",
        "\"cipher_sent\": \"chacha20-poly1305\"",
        " 20 received",
        ", chacha20-poly1305, keys",
        "\"cipher_received\": \"chacha20-poly1305\"",
        "\"cipher_sent\": \"chacha20-poly1305\"",
    ];
    assert_eq!(printed(script)?.lines().collect::<Vec<_>>(), want);
    Ok(())
}

/// Who has the key of the group alone is refused by a node that was started with a list.
fn a_node_that_is_not_on_the_list_of_the_start_is_refused() -> Result<(), Failed> {
    let script = r#"lay; "$TABANE" genkey key; for n in 0 1; do "$TABANE" genkey --node own$n >public$n; done
        start "--link eth1 --key key --node-key own0 --allow $(cat public1)"
        far_up --key key; until_event peer-refused; "$TABANE" events | grep -c peer-joined
        far down; wait $far || exit 3; far_up --key key --node-key own1; until_event peer-joined
        "$TABANE" status --json | grep -c "\"node_key\": \"$(cat public1)\""
        leave"#;
    assert_eq!(printed(script)?, "0\n1\n");
    Ok(())
}

/// Three bundles on one switch, the third without a key of its own at first, as nodes are while keys are given out.
/// Then lists are made, and the third, which keeps the key of the group, is taken off them.
fn a_stolen_node_is_shut_out_while_the_others_carry_on() -> Result<(), Failed> {
    let script = r#"mount -t tmpfs none /run; ip link add br0 type bridge mcast_snooping 0; ip link set br0 up
        ip link set eth2 master br0; ip link set eth2 up; ip link set eth1 up
        for n in 1 2; do ip netns add n$n; ip link add p$n master br0 type veth peer name eth1 netns n$n
            ip link set p$n up; ip -n n$n link set eth1 up; done
        at() { n=$1; shift; if [ $n = 0 ]; then "$TABANE" "$@"; else ip netns exec n$n "$TABANE" "$@"; fi; }
        "$TABANE" genkey key; for n in 0 1 2; do "$TABANE" genkey --node own$n >public$n; done; stat -c %a own0
        up() { n=$1; shift; at $n up --link eth1 --key key --address 10.9.0.$((n+1))/24 "$@" 2>log$n & eval "pid$n=\$!"; }
        peers() { at $1 status --json 2>/dev/null | grep -c '"name": "'; }
        until_peers() { for _ in $(seq 600); do [ "$(peers $1)" = $(($2+1)) ] && return; sleep 0.02; done
            at $1 status >&2; cat log* >&2; exit 97; }
        up 0 --node-key own0; up 1 --node-key own1; up 2; for n in 0 1 2; do until_peers $n 2; done; echo mixed
        at 2 down; wait $pid2 || exit 3; until_peers 0 1; until_peers 1 1; up 2 --node-key own2
        for n in 0 1 2; do until_peers $n 2; done
        sort public0 public1 public2 >publics
        at 0 status --json | grep -o 'node-public:[0-9a-f]*' | sort | diff - publics || exit 4
        for n in 0 1; do at $n allow tb0 $(cat public0 public1 public2); done; until_peers 0 2
        at 0 events | grep -c peer-refused
        ping -q -c 2000 -i 0.002 -s 1400 -W 5 10.9.0.2 >pings & pings=$!; sleep 0.5
        began=$(date +%s%N); for n in 0 1; do at $n allow tb0 $(cat public0 public1); done
        until_peers 0 1; until_peers 1 1; [ $((($(date +%s%N) - began) / 1000000)) -lt 10000 ] && echo out
        wait $pings; grep -oE '[0-9]+ received' pings
        at 0 events | grep -o "its key is not in allow: node-public:$(cut -d : -f 2 public2)" | head -1 | cut -c 1-23
        at 0 status -v | grep -c '^drop_not_allowed '; at 0 events | grep -c 'peer-\(left\|expired\).*'"$(at 1 status --json | grep -om1 '"node": "[^"]*' | cut -d '"' -f 4)"
        ping -q -c 3 -i 0.1 -W 1 10.9.0.3 | grep -oE '[0-9]+ received'; until_peers 2 0
        at 0 upgrade 2>logu & new=$!; wait $pid0 || exit 5; until_peers 0 1; at 0 status --json | grep -c '"node_key": "node-public'
        at 0 allow tb0 node-public:00; echo $?
        at 0 allow tb0 --everyone; at 1 allow tb0 --everyone; until_peers 0 2
        for n in 0 1 2; do at $n down; done; wait $new $pid1 $pid2; for n in 1 2; do ip netns del n$n; done"#;
    let want = "600\nmixed\n3 node keys allowed\n3 node keys allowed\n0\n2 node keys allowed\n2 node keys allowed\nout\n\
        2000 received\nits key is not in allow\n1\n0\n0 received\n2\n2\nevery node of the group allowed\n\
        every node of the group allowed\n";
    assert_eq!(printed(script)?, want);
    Ok(())
}
