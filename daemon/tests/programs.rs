//! The programs that are tested: `tabane`, and `tabaned` beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The program `tabane`, beside which `tabaned` lies: the one that `TABANE_BIN` names, or what [`build`] has built.
pub(crate) fn tabane() -> PathBuf {
    let named = env::var_os("TABANE_BIN").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| Path::new(env!("CARGO_BIN_EXE_tabaned")).with_file_name("tabane"))
}

/// Copies both programs into a directory; returns the path of `tabane` there.
pub(crate) fn copy(directory: &Path) -> io::Result<PathBuf> {
    let original = tabane();
    for name in ["tabane", "tabaned"] {
        fs::copy(original.with_file_name(name), directory.join(name))?;
    }
    Ok(directory.join("tabane"))
}

/// Has cargo build `tabane` beside `tabaned`, unless `TABANE_BIN` names what is to be tested: cargo builds for a test the programs
/// of its own package alone.
pub(crate) fn build() {
    if env::var_os("TABANE_BIN").is_some_and(|path| !path.is_empty()) {
        return;
    }
    let place = Path::new(env!("CARGO_BIN_EXE_tabaned")).parent().expect("a directory of programs");
    let (target, profile) = (place.parent().expect("a target directory"), place.file_name());
    let profile = profile.filter(|name| *name != "debug").unwrap_or("dev".as_ref());
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--quiet", "--package", "tabane", "--profile"]).arg(profile);
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().expect("cargo").success(), "cargo cannot build the program that is to be tested");
}
