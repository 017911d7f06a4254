//! The stage of tests with the real binary: a shell script in network, mount and process namespaces of its own, which
//! only root can make here. The script is the first process there, so whatever it started ends with it.

use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};

/// Set-up of every script: two NICs that are one cable.
const NICS: &str = "ip link add eth1 type veth peer name eth2; ip link set eth1 up; ip link set eth2 up";

/// Starts `tabane up` with the words of `$1` and waits until it can be asked.
pub(crate) const START: &str = r#"
start() { case "$1" in *--key*) open=;; *) open=--insecure;; esac; "$TABANE" up $open $1 2>log & pid=$!; for _ in $(seq 200); do "$TABANE" status $2 --json >/dev/null 2>&1 && return; sleep 0.02; done; cat log >&2; exit 99; }
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
    let trial = |&(name, test): &(&str, Test)| match missing.or_else(|| without_strace(name)) {
        None => Trial::test(name, test),
        Some(reason) => Trial::test(format!("{name} [SKIPPED: {reason}]"), test).with_ignored_flag(true),
    };
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

/// Runs `script` in namespaces of its own; `$TABANE` is the binary.
pub(crate) fn shell(script: &str) -> std::io::Result<Output> {
    let directory = tempfile::tempdir()?;
    Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", &format!("{NICS}; {script}")])
        .env("TABANE", env!("CARGO_BIN_EXE_tabane"))
        .env_remove("TABANE_LOG")
        .current_dir(directory.path())
        .output()
}
