//! Manual pages and completions of `tabane`, `tabane-probe`, `tabane-web` and `tabane-follow`.
//!
//! ```text
//!   tabane, tabane_probe, …: `command` ─────────── commands ──┬── pages ────── man1/*.1
//!                                                             └── completions  bash/, zsh/, fish/
//!   docs/configuration.md ─────────────────────── markdown ────────────────── man5/tabane.toml.5
//!   counters, metrics, events, exit codes, commands ── reference ──────────── docs/reference/*.md
//!   docs/SUMMARY.md ─────────────────────────────── book ──────────────────── what mdBook reads
//! ```
//!
//! Rule of the crate: each word about a command, an option or a key is taken from what defines it. A program of the
//! build; no program that is installed links it.

pub mod book;
mod commands;
mod markdown;
mod pages;
pub mod reference;

use std::io;
use std::path::Path;

pub use commands::programs;

/// The page about the configuration file, which is also its manual page.
const CONFIGURATION: &str = include_str!("../../docs/configuration.md");

/// Writes everything below `directory`, which is made if it is not there: `man1`, `man5`, `bash`, `zsh`, `fish`.
pub fn write(directory: &Path) -> io::Result<()> {
    for program in programs() {
        pages::write(&program, &directory.join("man1"))?;
        pages::write_completions(&program, directory)?;
    }
    let page = markdown::page("tabane.toml", "5", CONFIGURATION);
    let directory = directory.join("man5");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("tabane.toml.5"), page)
}
