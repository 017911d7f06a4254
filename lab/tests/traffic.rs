//! Real traffic through real bundles in network namespaces: exact contents, exact counts.
//!
//! Every trial builds its own topology, starts the program `tabane` (`TABANE_BIN`, else the one that cargo builds first) on its
//! hosts, and checks in the end that all of it stops cleanly. `cargo nextest` runs each as a process of its own, in a
//! sandbox of its own, several side by side; those whose names begin with `alone::` judge what the processors decide, and have
//! them to themselves, those that begin with `light::` nearly so. In one process trials run one at a time, for they share the
//! names of the namespaces. Where trials cannot run they are reported as ignored, with the reason.

mod addresses;
mod beside;
mod changes;
mod classes;
mod configured;
mod control_access;
mod data_path;
mod datagrams;
mod device;
mod diagnosis;
mod engines;
mod environment;
mod ether;
mod experiments;
mod faults;
mod first_contact;
mod fits_in;
mod fleet;
mod forwarded;
mod frames;
mod kernels;
mod lab;
mod live;
mod macsec;
mod metrics;
mod nics;
mod package;
mod page;
mod probe;
mod reorder;
mod rights;
mod routed;
mod scenario;
mod screens;
mod service;
mod settings;
mod shut_out;
mod sites;
mod stage;
mod streams;
mod systemd;
mod top;
mod traces;
mod upgrade;
mod window;
mod without;

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::case::Case;

pub(crate) fn in_guest() -> Option<Result<()>> {
    reorder::in_guest()
}

pub(crate) fn cases() -> Vec<Case> {
    macro_rules! all { ($($name:ident)*) => { [$($name::cases()),*] }; }
    let groups = all! {
        addresses beside changes classes configured control_access data_path datagrams device diagnosis engines
        environment ether experiments faults first_contact fits_in fleet forwarded frames kernels lab
        live macsec metrics nics package page probe reorder rights routed scenario screens
        service settings shut_out sites streams systemd top traces upgrade window without
    };
    groups.into_iter().flatten().collect()
}

// The programs that trials start are those of these sources: cargo builds what is out of date before the first trial.

/// The packages whose programs trials start, and the lab's own: with it, cargo chooses the same features of what they share as
/// for this test, and builds that once.
pub(crate) const PACKAGES: [&str; 6] =
    ["tabane", "tabaned", "tabane-probe", "tabane-web", "tabane-follow", "tabane-lab"];

/// Has cargo build the programs into the directory of this test, unless `TABANE_BIN` names what is to be tested.
pub(crate) fn build() -> Result<()> {
    if env::var_os("TABANE_BIN").is_some_and(|path| !path.is_empty()) {
        return Ok(());
    }
    let own = env::current_exe().context("the path of this program")?;
    let (profile, target) = place(&own).with_context(|| format!("{} is in no profile's", own.display()))?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--quiet", "--bins", "--profile", profile, "--target-dir"]).arg(target);
    if cfg!(feature = "kernel-path") {
        cargo.args(["--features", "kernel-path"]);
    }
    cargo.args(PACKAGES.map(|package| format!("--package={package}")));
    cargo.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    let built = cargo.status().context("cargo, which builds the programs, unless TABANE_BIN names them")?;
    ensure!(built.success(), "cargo cannot build the programs that are to be tested");
    Ok(())
}

/// Of a test at `target/PROFILE/deps/NAME`, the profile's name and the target directory.
fn place(test: &Path) -> Option<(&str, &Path)> {
    let directory = test.parent()?.parent()?;
    let name = directory.file_name()?.to_str()?;
    Some((if name == "debug" { "dev" } else { name }, directory.parent()?))
}
