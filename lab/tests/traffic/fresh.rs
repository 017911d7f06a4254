//! The programs that trials start are those of these sources: cargo builds what is out of date before the first trial.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The packages whose programs trials start, and the lab's own: with it, cargo chooses the same features of what they share as
/// for this test, and builds that once.
const PACKAGES: [&str; 5] = ["tabane", "tabane-probe", "tabane-web", "tabane-follow", "tabane-lab"];

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
