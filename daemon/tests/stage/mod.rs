//! The stage of tests with the real binary: a shell script in network, mount and process namespaces of its own, which
//! only root can make here. The script is the first process there, so whatever it started ends with it.

use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};
use tabane_netns::needs::trial;

/// Set-up of every script: two NICs that are one cable.
const NICS: &str = "ip link add eth1 type veth peer name eth2; ip link set eth1 up; ip link set eth2 up";

/// What scripts begin with. `start` runs `tabane up` with the words of `$1` and waits until it can be asked. `lay` makes a host `far`
/// at the other end of the cable, on which `far_up` starts another node and `far` asks it; `leave` ends both.
const START: &str = r#"
start() { case "$1" in *--key*) open=;; *) open=--insecure;; esac; "$TABANE" up $open $1 2>log & pid=$!; for _ in $(seq 200); do "$TABANE" status $2 --json >/dev/null 2>&1 && return; sleep 0.02; done; cat log >&2; exit 99; }
lay() { mount -t tmpfs none /run; ip netns add far; ip link set eth2 netns far; ip -n far link set eth2 up; ip link set eth1 up; }
far() { ip netns exec far "$TABANE" "$@"; }
far_up() { ip netns exec far "$TABANE" up --link eth2 "$@" 2>far.log & far=$!; }
until_event() { for _ in $(seq 500); do "$TABANE" events | grep -q "$1" && return; sleep 0.02; done; cat log far.log >&2; exit 97; }
leave() { "$TABANE" down; wait $pid || exit 3; far down; wait $far || exit 4; ip netns del far; }
"#;

/// A trial's body.
pub(crate) type Test = fn() -> Result<(), Failed>;

/// The trials of these tests on the stage; where they cannot run they are reported as ignored, with the reason. Who needs strace
/// ends with `under_strace`.
pub(crate) fn trials(tests: &[(&str, Test)]) -> Vec<Trial> {
    let (missing, has_strace) = (missing(), has("strace"));
    let without_strace = |name: &str| {
        (name.ends_with("under_strace") && !has_strace).then_some("needs strace (Debian package strace)")
    };
    let trial = |&(name, test): &(&str, Test)| trial(name, missing.or_else(|| without_strace(name)), test);
    tests.iter().map(trial).collect()
}

fn missing() -> Option<&'static str> {
    if !rustix::process::getuid().is_root() {
        return Some("needs root");
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("needs /dev/net/tun");
    }
    (!has("ip") || !has("unshare")).then_some("needs ip and unshare (Debian packages iproute2, util-linux)")
}

fn has(tool: &str) -> bool {
    Command::new(tool).arg("-V").output().is_ok()
}

/// Runs a script that has to print this.
pub(crate) fn prints(script: &str, want: &str) -> Result<(), Failed> {
    let output = shell(script)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8(output.stdout)?, want, "{:?}: {errors}", output.status);
    Ok(())
}

/// What a script prints that has to succeed.
pub(crate) fn printed(script: &str) -> Result<String, Failed> {
    let output = shell(script)?;
    let (text, errors) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}: {text}{errors}", output.status);
    Ok(text)
}

/// Runs `script` in namespaces of its own; `$TABANE` is the binary.
pub(crate) fn shell(script: &str) -> std::io::Result<Output> {
    let directory = tempfile::tempdir()?;
    Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", &format!("{NICS}; {START} {script}")])
        .env("TABANE", env!("CARGO_BIN_EXE_tabane"))
        .env_remove("TABANE_LOG")
        .current_dir(directory.path())
        .output()
}
