//! What the machine does not allow: one clear sentence, exit code 2, and nothing left behind; and clean ends.
//!
//! Each trial runs a shell script with the real binary in a network and mount namespace of its own, which only root
//! can make here; elsewhere the trials are ignored.

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};

/// Set-up of every script: two NICs that are one cable.
const NICS: &str = "ip link add eth1 type veth peer name eth2; ip link set eth1 up; ip link set eth2 up";

/// Starts `tabane up` with the words of `$1` and waits until it can be asked.
const START: &str = r#"
start() { "$TABANE" up $1 2>log & pid=$!; for _ in $(seq 200); do "$TABANE" status $2 >/dev/null 2>&1 && return; sleep 0.02; done; cat log >&2; exit 99; }
"#;

/// A trial's body.
type Test = fn() -> Result<(), Failed>;

fn main() -> ExitCode {
    let missing = missing();
    let trial = |(name, test): (&str, Test)| match &missing {
        None => Trial::test(name, test),
        Some(reason) => Trial::test(format!("{name} [SKIPPED: {reason}]"), test).with_ignored_flag(true),
    };
    let trials: [(&str, Test); 11] = [
        ("unknown_nic", unknown_nic),
        ("nic_down", nic_down),
        ("port_taken", port_taken),
        ("device_name_taken", device_name_taken),
        ("no_tun_driver", no_tun_driver),
        ("no_permission", no_permission),
        ("second_up_is_refused_with_the_pid", second_up),
        ("stops_cleanly_however_it_is_asked", stops_cleanly),
        ("nothing_is_left_after_a_kill", killed),
        ("events_are_followed_to_the_end", events_followed),
        ("the_policy_is_switched_or_left_alone", policy_switched),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().map(trial).collect()).exit_code()
}

fn missing() -> Option<&'static str> {
    if !rustix::process::getuid().is_root() {
        return Some("needs root");
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("needs /dev/net/tun");
    }
    let tool = |name: &str| Command::new(name).arg("-V").output().is_ok();
    (!tool("ip") || !tool("unshare")).then_some("needs ip and unshare (Debian packages iproute2, util-linux)")
}

/// Runs `script` in namespaces of its own; `$TABANE` is the binary.
fn shell(script: &str) -> std::io::Result<Output> {
    let directory = tempfile::tempdir()?;
    Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", &format!("{NICS}; {script}")])
        .env("TABANE", env!("CARGO_BIN_EXE_tabane"))
        .env_remove("TABANE_LOG")
        .current_dir(directory.path())
        .output()
}

/// The script's `tabane up` ends with code 2 and this sentence, and leaves no device.
fn refused(script: &str, sentence: &str) -> Result<(), Failed> {
    let output = shell(&format!("{script}; code=$?; ip -o link | grep -c ' tb0[:@]'; exit $code"))?;
    let errors = String::from_utf8(output.stderr)?;
    assert_eq!(errors, format!("tabane: {sentence}\n"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"0\n", "a device was left behind");
    Ok(())
}

fn unknown_nic() -> Result<(), Failed> {
    refused(r#""$TABANE" up --link eth7"#, "link eth7: no such NIC; there are: lo, eth2, eth1")
}

fn nic_down() -> Result<(), Failed> {
    let sentence = "link eth1: the NIC is down; `ip link set eth1 up` raises it";
    refused(r#"ip link set eth1 down; "$TABANE" up --link eth1"#, sentence)
}

fn port_taken() -> Result<(), Failed> {
    let other = r#"start "--name other --link eth1" other"#;
    let script =
        format!(r#"{START} {other}; "$TABANE" up --link eth1; code=$?; kill $pid; wait $pid; (exit $code)"#);
    refused(
        &script,
        "UDP port 7420 on NIC eth1 is taken: choose another port, or stop what uses it (`ss -ulpn sport = 7420`)",
    )
}

fn device_name_taken() -> Result<(), Failed> {
    let sentence = "device name eth2 is taken: choose another, or remove that device (`ip link delete eth2`)";
    refused(r#""$TABANE" up --link eth1 --name eth2"#, sentence)
}

fn no_tun_driver() -> Result<(), Failed> {
    let output = shell(r#"mount -t tmpfs none /dev/net && "$TABANE" up --link eth1"#)?;
    let errors = String::from_utf8(output.stderr)?;
    assert!(errors.starts_with("tabane: ") && errors.contains("/dev/net/tun"), "{errors}");
    assert_eq!((errors.lines().count(), output.status.code()), (1, Some(2)));
    Ok(())
}

fn no_permission() -> Result<(), Failed> {
    let script = r#"cp "$TABANE" /tmp/tabane-$$; chmod 755 /tmp/tabane-$$
        setpriv --reuid 65534 --clear-groups /tmp/tabane-$$ up --link eth1; code=$?; rm /tmp/tabane-$$; (exit $code)"#;
    refused(script, "no permission to open /dev/net/tun: run as root or with CAP_NET_ADMIN")
}

fn second_up() -> Result<(), Failed> {
    let script = format!(
        r#"{START} start "--link eth1"; echo $pid; "$TABANE" up --link eth2; code=$?; kill $pid; exit $code"#
    );
    let output = shell(&script)?;
    let pid = String::from_utf8(output.stdout)?;
    let sentence = format!("tabane: tb0 is already up (pid {}); `tabane down tb0` ends it\n", pid.trim());
    assert_eq!(String::from_utf8(output.stderr)?, sentence);
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}

fn stops_cleanly() -> Result<(), Failed> {
    for stop in [r#""$TABANE" down"#, "kill -TERM $pid", "kill -INT $pid"] {
        let script = format!(
            r#"{START} start "--link eth1"; {stop}; wait $pid || exit 1; ip -o link | grep -c ' tb0[:@]'"#
        );
        let output = shell(&script)?;
        assert_eq!(output.stdout, b"0\n", "{stop}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Even SIGKILL leaves nothing: the device and the name go with the process, so the next `up` succeeds.
fn killed() -> Result<(), Failed> {
    let script = format!(
        r#"{START} start "--link eth1"; kill -KILL $pid; wait $pid; start "--link eth1"; "$TABANE" down && echo again"#
    );
    let output = shell(&script)?;
    assert_eq!(output.stdout, b"again\n", "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Two bundles over one cable find each other; a follower tells of it and ends with its bundle, or with its reader, or
/// with Ctrl-C.
fn events_followed() -> Result<(), Failed> {
    let script = format!(
        r#"{START} mount -t tmpfs none /run; start "--link eth1"; one=$pid
        ip netns add far; ip link set eth2 netns far; ip -n far link set eth2 up; ip link set eth1 up
        ip netns exec far "$TABANE" up --link eth2 2>far.log & far=$!
        "$TABANE" events --follow --json >lines & follower=$!
        "$TABANE" events --follow >/dev/null & interrupted=$!
        for _ in $(seq 500); do grep -q '"what":"link-up"' lines && break; sleep 0.02; done
        "$TABANE" events | grep -c ' peer-joined ' || exit 3
        "$TABANE" events --follow | head -1 | grep -c peer-joined || exit 4
        kill -INT $interrupted; wait $interrupted || exit 5
        kill $one; wait $one; wait $follower || exit 6
        kill $far; wait $far; ip netns del far; head -1 lines"#
    );
    let output = shell(&script)?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("1\n1\n{\"number\":0,\"time\":\""), "{text}");
    Ok(())
}

fn policy_switched() -> Result<(), Failed> {
    let script = format!(
        r#"{START} start "--link eth1"
        "$TABANE" policy tb0 rr && "$TABANE" status | grep -c 'policy rr  security' && "$TABANE" events | grep -c 'policy rr, was'
        "$TABANE" policy tb0 rr; "$TABANE" policy tb0 fast; echo $?; "$TABANE" policy tb7 rr; echo $?
        "$TABANE" events | wc -l; "$TABANE" down"#
    );
    let output = shell(&script)?;
    let want = "policy rr, was adaptive\n1\n1\npolicy rr, was rr\n2\n2\n1\n";
    assert_eq!(String::from_utf8(output.stdout)?, want);
    let errors = String::from_utf8(output.stderr)?;
    let lines: Vec<&str> = errors.lines().collect();
    assert!(
        lines[0].starts_with("tabane: tb0 refuses: policy `fast` is unknown; allowed: adaptive, rr"),
        "{errors}"
    );
    assert_eq!(lines[1..], ["tabane: no bundle named tb7 is up in this network namespace"]);
    Ok(())
}
