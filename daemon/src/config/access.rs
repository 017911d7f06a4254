//! The user and the rights of the running daemon, and who may ask it.

use std::fmt;
use std::path::Path;

use super::file;
use super::problem::{Problem, quoted};
use super::settings::{AccessSettings, Given};

/// Rights of the running daemon, and rights over it.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What [`name`] takes, for error sentences.
const ALLOWED: &str = "1 to 32 bytes without spaces, `:` and `/`";

impl Default for Access {
    fn default() -> Access {
        Access { user: None, control_group: None, watch_group: None, sandbox: true }
    }
}

impl Access {
    /// What a configuration file says of it.
    pub(crate) fn read(path: &Path) -> Result<Access, Vec<Problem>> {
        let name = path.display().to_string();
        let settings = file::parse(&name, &super::read(path, &name)?)?;
        let mut problems = Vec::new();
        let access = resolve_access(&mut problems, &settings.access);
        if problems.is_empty() { Ok(access) } else { Err(problems) }
    }
}

/// Checks what was typed. Whether user and group exist is checked when the bundle starts.
pub(super) fn resolve_access(problems: &mut Vec<Problem>, given: &AccessSettings) -> Access {
    Access {
        user: name(problems, given.user.as_ref()),
        control_group: name(problems, given.control_group.as_ref()),
        watch_group: name(problems, given.watch_group.as_ref()),
        sandbox: given.sandbox.as_ref().is_none_or(|given| given.value),
    }
}

fn name(problems: &mut Vec<Problem>, given: Option<&Given<String>>) -> Option<String> {
    let given = given?;
    let name = &given.value;
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '/');
    if !(1..=32).contains(&name.len()) || name.contains(forbidden) {
        problems.push(Problem::new(&given.place, format!("{} is no name", quoted(name)), ALLOWED));
    }
    Some(name.clone())
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |name: &String| toml::Value::String(name.clone());
        match &self.user {
            Some(user) => writeln!(f, "user = {}", text(user)),
            None => writeln!(f, "# user: tabane, if there is one"),
        }?;
        match &self.control_group {
            Some(group) => writeln!(f, "control_group = {}", text(group)),
            None => writeln!(f, "# control_group: none, so that only root and the daemon's user may ask"),
        }?;
        match &self.watch_group {
            Some(group) => writeln!(f, "watch_group = {}", text(group)),
            None => writeln!(f, "# watch_group: tabane-watch, if there is one"),
        }?;
        writeln!(f, "sandbox = {}", self.sandbox)
    }
}
