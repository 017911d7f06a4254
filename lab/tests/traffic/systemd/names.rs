//! The process that resolves names, taken over: a library in its place, which the C library loads there as a way to find hosts, tries
//! what docs/security.md says cannot be done.

use std::process::Command;

use tabane_kit::prerequisites::Tool;

use super::{SERVICE, addressed, has_no_rights_of_root, main_process, whole, with_machine, with_peer};
use crate::traffic::stage::*;

const CC: Tool = Tool { program: "cc", package: "gcc" };
const SOURCE: &[u8] = include_bytes!("taken.c");
const LIBRARY: &str = "usr/lib/libnss_taken.so.2";
const WAYS: &[u8] = b"passwd: files systemd\ngroup: files systemd\nhosts: taken files\n";
const END: &str = "all was tried";

pub(super) const NEEDS: &[Need] = &[Need::Tool(CC), That(require_landlock)];

fn require_landlock() -> Result<()> {
    let names = fs::read_to_string("/proc/kallsyms")?;
    ensure!(names.contains("landlock_restrict_self"), Missing::new("the kernel has no Landlock"));
    Ok(())
}

pub(super) fn taken_over() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let [source, library] = ["taken.c", "taken.so"].map(|name| directory.path().join(name));
    fs::write(&source, SOURCE)?;
    process::run(Command::new(CC.program).args(["-shared", "-fPIC", "-o"]).args([&library, &source]))?;
    let library = fs::read(library)?;
    let files: [(&str, &[u8], u32); 2] = [(LIBRARY, &library, 0o644), ("etc/nsswitch.conf", WAYS, 0o644)];
    with_machine(&addressed(), &files, |topology, systemd| with_peer(topology, |peer| tries(systemd, peer)))
}

fn tries(systemd: &Systemd, peer: &mut Bundle<'_>) -> Result<()> {
    // What it tries can be done: by root, whom nothing confines.
    let root = systemd.command("sh").args(["-c", "getent ahosts localhost; true"]).output()?;
    let deeds = String::from_utf8(root.stderr)?;
    ensure!(deeds.contains(END), "nothing was loaded: {deeds}");
    let idle: Vec<_> = deeds.lines().filter(|line| line.ends_with("refused")).collect();
    // There is no bundle yet.
    ensure!(matches!(&idle[..], [asks] if asks.ends_with("ask the bundle: refused")), "{idle:?}");

    systemd.systemctl(&format!("start {SERVICE}"))?;
    whole(peer)?;
    let said = wait_for("the end of what it tries", WITHIN, || {
        Ok(Some(systemd.said()?).filter(|said| said.contains(END)))
    })?;
    let told: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("taken ")).collect();
    let is_refused = told.iter().all(|line| line.ends_with(": refused") || line.ends_with(END));
    ensure!(told.len() == deeds.matches("taken ").count() && is_refused, "{said}");
    is_the_resolver(systemd, told[0].split(':').next().unwrap_or_default())?;
    main_process(systemd).map(drop)
}

fn is_the_resolver(systemd: &Systemd, pid: &str) -> Result<()> {
    let line = process::run(systemd.command("cat").arg(format!("/proc/{pid}/cmdline")))?;
    ensure!(line.contains("resolve-names"), "{pid} is {line:?}");
    has_no_rights_of_root(systemd, pid.parse().context("a process")?)
}
