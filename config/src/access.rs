//! The user and the rights of the running daemon, and who may ask it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::problem::{Problem, quoted};
use super::{file, resolve};

/// Rights of the running daemon, and rights over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// User that the daemon becomes; `None`: `tabane` where there is such a user, else the one who started it.
    pub user: Option<String>,
    /// Group whose members may ask the running bundle, as root and the daemon's own user may.
    pub control_group: Option<String>,
    /// Group whose members may look at it and change nothing; `None`: `tabane-watch` where there is such a group.
    pub watch_group: Option<String>,
    /// Whether the daemon gives up the rights that it needs no more. `false` lets debuggers attach.
    pub sandbox: bool,
}

/// What [`parse_name`] takes, for error sentences.
pub(super) const ALLOWED: &str = "1 to 32 bytes without spaces, `:` and `/`";

impl Default for Access {
    fn default() -> Access {
        Access { user: None, control_group: None, watch_group: None, sandbox: true }
    }
}

impl Access {
    /// What a configuration file says of it.
    pub fn read(path: &Path) -> Result<Access, Vec<Problem>> {
        let name = path.display().to_string();
        resolve::resolve_access(&file::parse(&name, &super::read(path, &name)?)?)
    }
}

/// Reads the name of a user or a group; whether there is one is checked when the bundle starts.
pub(super) fn parse_name(text: &str) -> Result<Option<String>, String> {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '/');
    let is_name = (1..=32).contains(&text.len()) && !text.contains(forbidden);
    is_name.then(|| Some(text.to_owned())).ok_or_else(|| format!("{} is no name", quoted(text)))
}
