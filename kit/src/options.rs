//! The options that all commands share.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::bundle;
use crate::prerequisites::require_daemon;

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Write the report here instead of target/lab/NAME.json
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// The executable `tabane` [default: $TABANE_BIN, else the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub tabane: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Common {
    /// The executable `tabane`, which is there.
    pub fn daemon(&self) -> Result<PathBuf> {
        let program = bundle::program(self.tabane.as_deref())?;
        require_daemon(&program)?;
        Ok(program)
    }
}
