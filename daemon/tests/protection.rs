//! What nodes agree on before they trust each other, with the real binary: ciphers.
//!
//! Each trial is a shell script on the [`stage`].

mod stage;

use std::process::ExitCode;

use libtest_mimic::Failed;
use stage::{START, Test, shell};

fn main() -> ExitCode {
    let trials: [(&str, Test); 1] =
        [("nodes_that_state_ciphers_seal_with_them_and_the_others_follow", ciphers)];
    stage::run(trials)
}

/// What a script prints; it must succeed.
fn printed(script: &str) -> Result<String, Failed> {
    let output = shell(script)?;
    let (text, errors) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}: {text}{errors}", output.status);
    Ok(text)
}

/// Two bundles over one cable: each seals with what it states; one that states nothing follows the other.
fn ciphers() -> Result<(), Failed> {
    let script = format!(
        r#"{START} mount -t tmpfs none /run; ip netns add far; ip link set eth2 netns far; ip -n far link set eth2 up
        ip link set eth1 up; "$TABANE" genkey key
        far() {{ ip netns exec far "$TABANE" "$@"; }}
        pair() {{ start "--link eth1 --key key --address 10.9.0.1/24 $1"
            far up --link eth2 --key key --address 10.9.0.2/24 $2 2>far.log & far=$!
            for _ in $(seq 500); do "$TABANE" events | grep -q link-up && far events | grep -q link-up && break; sleep 0.02; done
            ping -q -c 20 -i 0.01 -s 8000 -W 2 10.9.0.2 | grep -oE ' [0-9]+ received'
            "$TABANE" status | grep -oE '[a-z0-9-]+ sent, [a-z0-9-]+ heard|, [a-z0-9-]+, keys'
            far status --json | grep -oE '"cipher_[a-z]+": "[^"]+"'
            "$TABANE" down; wait $pid || exit 3; far down; wait $far || exit 4; }}
        pair "--cipher aes-256-gcm" "--cipher chacha20-poly1305"
        pair "--cipher auto" "--cipher chacha20-poly1305"
        ip netns del far"#
    );
    let want = [
        " 20 received",
        "aes-256-gcm sent, chacha20-poly1305 heard",
        "\"cipher_heard\": \"aes-256-gcm\"",
        "\"cipher_sent\": \"chacha20-poly1305\"",
        " 20 received",
        ", chacha20-poly1305, keys",
        "\"cipher_heard\": \"chacha20-poly1305\"",
        "\"cipher_sent\": \"chacha20-poly1305\"",
    ];
    assert_eq!(printed(&script)?.lines().collect::<Vec<_>>(), want);
    Ok(())
}
