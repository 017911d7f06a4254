//! The unit of the page: its user may look at the bundle and change nothing, and is no root in anything. And the page that root
//! starts, which becomes somebody else.

use super::{KEY, SERVICE, addressed, analysed, has_no_rights_of_root, whole, with_machine, with_peer};
use crate::traffic::stage::*;

const UNIT: &[u8] = include_bytes!("../../../../packaging/tabane-web.service");
pub(crate) const ACCOUNTS: (&str, &[u8], u32) =
    ("usr/lib/sysusers.d/tabane.conf", include_bytes!("../../../../packaging/sysusers.conf"), 0o644);
const PAGE: &str = "tabane-web.service";
pub(crate) const PORT: u16 = 7480;
/// What the program prints goes where it can be read: the container has no journal.
pub(crate) const PRINTED: &str = "[Service]\nStandardOutput=append:/run/printed\n";
/// Actions are allowed here, so that it is the bundle that refuses them.
const ACTING: &str = "ExecStart=\nExecStart=/usr/bin/tabane-web --allow-actions\n";
const ROOTS: &str = "page-of-root.service";
const ROOTS_PORT: u16 = 7481;
/// Exposure to which docs/security.md commits the unit, in tenths.
const EXPOSURE_MAX: &str = "--threshold=14";

/// The answer of the page at a port in the container to a request with the token that it has printed.
pub(crate) fn asked(systemd: &Systemd, port: u16, request: &str) -> Result<String> {
    let token = format!("$(sed -n 's,^http://127.0.0.1:{port}/#token=,,p' /run/printed | tail -n 1)");
    let head = format!(
        "{request} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nAuthorization: Bearer %s\\r\\n\\r\\n"
    );
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && printf '{head}' \"{token}\" >&3 && cat <&3");
    process::run(systemd.command("bash").args(["-c", &line]))
}

/// What the users of the helpers may ask, and read, whatever program runs as them: a page that looks, one with actions, and the
/// follower.
fn taken_over(systemd: &Systemd) -> Result<()> {
    let key = "/run/other.key";
    process::run(systemd.command("bash").args(["-c", &format!("umask 022; printf '%s' {KEY} >{key}")]))?;
    let reads = ["cat", "/etc/tabane/tb0.key", "/run/credentials/tabane@tb0.service/key"];
    let takes = ["tabane", "upgrade", DEVICE];
    let gives = ["tabane", "key", DEVICE, key];
    let changes = ["tabane", "policy", DEVICE, "adaptive"];
    for (group, words, may) in [
        ("tabane-watch", &reads[..], false),
        ("tabane-control", &reads, false),
        ("tabane-follow", &reads, false),
        ("tabane-watch", &takes, false),
        ("tabane-watch", &gives, false),
        ("tabane-watch", &changes, false),
        ("tabane-control", &takes, false),
        ("tabane-control", &gives, false),
        ("tabane-control", &changes, true),
        ("tabane-follow", &takes, false),
        ("tabane-follow", &changes, true),
    ] {
        let mut asks = systemd.command("setpriv");
        let owner = if group == "tabane-follow" { group } else { "nobody" };
        asks.args([&format!("--reuid={owner}"), &format!("--regid={group}"), "--clear-groups"]).args(words);
        let output = asks.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let (refusal, answers) = if words == reads { ("Permission denied", 2) } else { ("refuses: ", 1) };
        ensure!(
            output.status.success() == may && (may || said.matches(refusal).count() == answers),
            "{group} {words:?}: {said}"
        );
    }
    Ok(())
}

pub(super) fn unit() -> Result<()> {
    let web = fs::read(program(None)?.with_file_name("tabane-web"))?;
    let (unit, drop_in) = (format!("{UNITS}/{PAGE}"), format!("{PRINTED}{ACTING}"));
    let roots =
        format!("{PRINTED}ExecStart=/usr/bin/tabane-web --allow-actions --listen 127.0.0.1:{ROOTS_PORT}\n");
    let files: [(&str, &[u8], u32); 5] = [
        (&unit, UNIT, 0o644),
        (&format!("{UNITS}/{ROOTS}"), roots.as_bytes(), 0o644),
        ("usr/bin/tabane-web", &web, 0o755),
        ACCOUNTS,
        ("etc/systemd/system/tabane-web.service.d/lab.conf", drop_in.as_bytes(), 0o644),
    ];
    with_machine(&addressed(), &files, |topology, systemd| with_peer(topology, |peer| serves(systemd, peer)))
}

fn serves(systemd: &Systemd, peer: &mut Bundle<'_>) -> Result<()> {
    process::run(systemd.command("systemd-sysusers").arg("tabane.conf"))?;
    analysed(systemd, PAGE, EXPOSURE_MAX)?;
    systemd.systemctl(&format!("start {SERVICE} {PAGE} {ROOTS}"))?;
    whole(peer)?;
    for port in [PORT, ROOTS_PORT] {
        let bundles = wait_for("an answer of the page", WITHIN, || {
            let answer = asked(systemd, port, "GET /api/bundles").unwrap_or_default();
            Ok(answer.contains("\"error\":null").then_some(answer))
        });
        let bundles = bundles.with_context(|| {
            format!("{:?} {:?}", asked(systemd, port, "GET /api/bundles"), systemd.said())
        })?;
        ensure!(bundles.contains(&format!("\"name\":\"{DEVICE}\"")), "{bundles}");
    }
    let drain = format!("POST /api/bundles/{DEVICE}/links/{}/drain", nic(0));
    let refused = asked(systemd, PORT, &drain)?;
    ensure!(refused.starts_with("HTTP/1.1 409 "), "{refused}");
    ensure!(
        refused.contains("members of the group that may watch the bundle can ask for its status"),
        "{refused}"
    );
    let resume = format!("POST /api/bundles/{DEVICE}/links/{}/resume", nic(0));
    for request in [&drain, &resume] {
        let done = asked(systemd, ROOTS_PORT, request)?;
        ensure!(done.starts_with("HTTP/1.1 200 "), "{done}");
    }
    taken_over(systemd)?;
    for unit in [PAGE, ROOTS] {
        has_no_rights_of_root(systemd, systemd.property(unit, "MainPID")?.parse()?)?;
    }
    systemd.systemctl(&format!("stop {PAGE} {ROOTS}"))?;
    let result = systemd.property(PAGE, "Result")?;
    ensure!(result == "success", "the page ended with {result}");
    Ok(())
}
