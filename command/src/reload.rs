//! `tabane reload`: reads the file of a running bundle again, and has the bundle change what differs.
//!
//! The daemon cannot open files. So the command reads the file and the keys that it names with the rights of its user, checks
//! everything, and sends what it has understood; the daemon compares that with what is in force (`shell/reload.rs`).

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use tabane_api::{Origin, Request, Told, origin};
use tabane_config::problem::{BadInput, one_line};
use tabane_config::{Config, read};

use crate::again::read_again;
use crate::remote;

/// What a running bundle says of its configuration.
#[derive(Debug, Deserialize)]
pub(crate) struct Running {
    /// What is in force, without secrets.
    pub(crate) told: Told,
    /// The numbers of its group keys.
    pub(crate) groups: Vec<String>,
    /// How it was started.
    pub(crate) origin: Origin,
}

impl Running {
    /// Asks the bundle `name`.
    pub(crate) fn ask(name: &str) -> anyhow::Result<Running> {
        let answer = tabane_api::ask(name, &Request::Configuration)?;
        serde_json::from_value(answer).context("no configuration in the answer")
    }

    /// The file that is meant, as an absolute path: the one that is `given`, or the one of the service.
    pub(crate) fn file(&self, name: &str, given: Option<&Path>) -> anyhow::Result<PathBuf> {
        let service = origin::file_of_service(name);
        let file = match (given, &self.origin.file) {
            (Some(given), _) => given,
            (None, Some(file)) if *file != service => {
                let file = one_line(&file.display().to_string());
                let why = format!(
                    "{name} says that it was started from {file}; allowed: to name the file that is meant"
                );
                return Err(BadInput::new(why).into());
            }
            (None, _) if service.exists() => &service,
            (None, _) => {
                let why =
                    format!("{name} was started without a file; allowed: to name one, such as ./{name}.toml");
                return Err(BadInput::new(why).into());
            }
        };
        Ok(std::path::absolute(file)?)
    }
}

/// Has the bundle `name` change what differs from the file of its service, or from `file`, and prints what that was.
pub(crate) fn reload(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let running = Running::ask(name)?;
    let file = running.file(name, file)?;
    let text = read(&file, &file.display().to_string()).map_err(BadInput::from)?;
    let config: Config = read_again(name, &file, &text, &running.origin)?;
    let answer = tabane_api::ask(name, &Request::Reload { told: Told::of(&config), file })?;
    remote::print_changes(&answer)
}
