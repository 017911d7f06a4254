//! The laboratory: an experiment per file in [`commands`], and [`scenario`], which runs one that a file describes.
//!
//! Crate `tabane-kit` is the equipment; crate `tabane-papers` has the papers' experiments.
#![forbid(unsafe_code)]

pub mod commands;
mod figures;
pub mod scenario;
