//! The repository as trials read it: its files by their paths, and what is wrong with them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

/// Directories that hold no source of ours.
const SKIPPED: [&str; 3] = ["target", "node_modules", ".git"];

pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository")
}

pub(crate) fn text(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// What a package is linked with on Linux for x86-64, the daemon with the kernel path, a line each.
pub(crate) fn tree(package: &str) -> Result<String> {
    const TREE: &str = "tree --offline --locked --target x86_64-unknown-linux-gnu \
        --edges normal,no-proc-macro --prefix none --format {p} --package";
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(TREE.split_whitespace()).arg(package).current_dir(root());
    if ["tabane", "tabaned"].contains(&package) {
        cargo.args(["--features", "kernel-path"]);
    }
    let tree = cargo.output()?;
    ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    Ok(String::from_utf8(tree.stdout)?)
}

/// All files below a folder whose names end so, by their paths; a folder that is not there has none.
pub(crate) fn files(folder: &str, extension: &str) -> Result<Vec<File>> {
    let mut paths = Vec::new();
    collect(&root().join(folder), extension, &mut paths)?;
    paths.sort();
    let file = |path: &PathBuf| {
        let path = path.strip_prefix(root())?.to_string_lossy().into_owned();
        Ok(File { text: text(&path)?, path })
    };
    paths.iter().map(file).collect()
}

/// Symbolic links are not followed.
fn collect(directory: &Path, wanted: &str, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry?;
        let (path, name, kind) = (entry.path(), entry.file_name(), entry.file_type()?);
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            collect(&path, wanted, paths)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == wanted) {
            paths.push(path);
        }
    }
    Ok(())
}

/// What links to a heading call it, as GitHub does: small letters and digits, with `-` for a space.
pub(crate) fn slug(heading: &str) -> String {
    let letters = heading.to_lowercase();
    let kept = letters.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

pub(crate) fn none(complaints: &[String]) -> Result<()> {
    ensure!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    Ok(())
}
