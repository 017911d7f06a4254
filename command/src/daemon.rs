//! `tabane up`, `upgrade` and `check` end as another program, `tabaned`: this one reads files, flags and keys with the rights of its
//! user, that one opens devices.
//!
//! The process stays, with its id, so service managers and who waits for it see no difference.

use std::path::Path;

use anyhow::Context;
use tabane_api::origin::file_of_service;
use tabane_api::{Origin, Start, Told};
use tabane_config::problem::BadInput;
use tabane_config::{Access, Config};

use crate::beside;

/// Is the bundle from here on. `origin`: how the configuration came to be.
pub(crate) fn up(config: &Config, origin: Origin) -> anyhow::Result<()> {
    become_daemon("up", &config.name, &Start::Up { told: Told::of(config), origin })
}

/// Takes the bundle `name` over, and is it from then on. Which user the process becomes, who may ask it, and whether it has a
/// sandbox is as `file` or the file of the service says; without one it has a sandbox, and the other's user, if that is not root.
pub(crate) fn upgrade(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let access = stated_access(name, file)?;
    become_daemon("upgrade", name, &Start::Upgrade { name: name.to_owned(), access })
}

/// Checks whether the links of a configuration can be opened here.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    become_daemon("check", &config.name, &Start::Check { told: Told::of(config) })
}

/// `ps` shows the command and the bundle's name.
fn become_daemon(command: &str, name: &str, start: &Start) -> anyhow::Result<()> {
    let handed = start.piped().context("cannot hand the configuration over")?;
    beside::replace("tabaned", command, &[command, name], Some(handed.into()))
}

/// What `file`, or the file of the service, says of the rights of the process that takes a bundle over, and over it.
fn stated_access(name: &str, file: Option<&Path>) -> Result<Option<Access>, BadInput> {
    let service = file_of_service(name);
    let file = file.or_else(|| service.exists().then_some(&service));
    file.map(Access::read).transpose().map_err(BadInput::from)
}
