//! Nodes of two versions in one bundle: the program of a commit before, which `make versions-test` builds, and this one. They
//! take bundles over from each other at both ends, up and down, while connections in both directions go on.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::{Bundle, DEVICE, Options, address, program};
use tabane_kit::clock::wait_for;
use tabane_kit::prerequisites::{Missing, require_program};
use tabane_kit::tool;
use tabane_kit::topology::Topology;
use tabane_kit::workload::transfer::{Source, Transfer};

use crate::traffic::stage::{FAST, options, plan, ready, whole};
use crate::traffic::{Case, Need};

/// The variable that names the program before.
const VARIABLE: &str = "TABANE_BEFORE";
const LINKS: usize = 2;
/// The host whose program is replaced, and whether by the one of now: from a bundle of before and now by way of all other pairs to
/// the same again.
const REPLACED: [(usize, bool); 4] = [(0, true), (1, false), (0, false), (1, true)];
const FILE: u64 = 1 << 20;
/// Bytes that have to arrive in each direction behind each replacement, and time for them.
const UNDER_WAY: u64 = 4 << 20;
const UNDER_WAY_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::nightly("versions_replace_each_other_under_connections", Need::DaemonBefore, || {
            replaced(false)
        }),
        Case::nightly("versions_replace_each_other_by_programs", Need::DaemonBeforeAndPrograms, || {
            replaced(true)
        }),
    ]
}

/// Checks that there is a program before.
pub(crate) fn require_before() -> Result<()> {
    let named = env::var_os(VARIABLE)
        .with_context(|| Missing::new(format!("{VARIABLE} is not set: `make versions-test`")))?;
    Ok(require_program(Path::new(&named), "tabane")?)
}

/// What `is_now` means.
fn of(is_now: bool) -> Result<PathBuf> {
    if is_now { program(None) } else { Ok(env::var_os(VARIABLE).context(VARIABLE)?.into()) }
}

/// Has `place` be the program of now, or that before, whatever it was, as a package manager does.
fn install(place: &Path, is_now: bool) -> Result<()> {
    let new = place.with_extension("new");
    symlink(of(is_now)?, &new)?;
    Ok(fs::rename(new, place)?)
}

/// Sealed cells, or frames by programs in the kernel.
fn replaced(by_programs: bool) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let directory = tempfile::tempdir()?;
    let places = [0, 1].map(|number| directory.path().join(format!("tabane{number}")));
    let start = |number: usize, is_now: bool| {
        let program = places[number].clone();
        install(&program, is_now)?;
        let sealed = Options { program: program.clone(), ..options()? };
        let options = if by_programs { Options::by_programs(&program, "kernel") } else { sealed };
        Bundle::start(topology.host(number), number, &topology.nics(), &options)
    };
    let mut bundles = [start(0, false)?, start(1, true)?];
    let joined = |bundles: &mut [Bundle<'_>]| {
        ready(bundles, LINKS)?;
        if by_programs { Bundle::wait_for_programs(bundles) } else { Ok(()) }
    };
    joined(&mut bundles)?;
    answer_each_other(&topology)?;
    let file = |from: usize, to: usize| {
        let at = (address(to), 0).into();
        Transfer::start(topology.host(from), topology.host(to), at, Source::random(FILE, from as u64))
    };
    let files = [file(0, 1)?, file(1, 0)?];
    for (host, is_now) in REPLACED {
        install(&places[host], is_now)?;
        bundles[host].upgrade()?;
        joined(&mut bundles)?;
        let pid = bundles[host].status()?.pid;
        ensure!(Some(pid) == bundles[host].pid(), "host {host} stays with process {pid}");
        let before = files.each_ref().map(Transfer::arrived);
        wait_for("bytes behind a replacement", UNDER_WAY_WITHIN, || {
            let all = files.iter().zip(before).all(|(file, before)| file.arrived() > before + UNDER_WAY);
            Ok(all.then_some(()))
        })?;
    }
    files.into_iter().try_for_each(|file| whole(file).map(drop))?;
    Bundle::stop_all(bundles)
}

/// Commands of each version are answered by the bundle of the other: a program is replaced before its processes are.
fn answer_each_other(topology: &Topology) -> Result<()> {
    for (host, is_now) in topology.hosts().iter().zip([true, false]) {
        for words in [["status", DEVICE], ["why", DEVICE], ["metrics", DEVICE]] {
            let said = tool::run(host.command(of(is_now)?).args(words))?;
            ensure!(!said.trim().is_empty(), "{words:?} on {}: nothing", host.name());
        }
    }
    Ok(())
}
