//! `tabane reload`: reads the file of a running bundle again, and has the bundle change what differs.
//!
//! The daemon cannot open files. So the command reads the file and the keys that it names with the rights of its user, checks
//! everything, and sends what it has understood; the daemon compares that with what is in force (`shell/reload.rs`).

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::cli::read_again;
use crate::config::{Config, read};
use crate::control::{self, Request};
use crate::error::BadInput;
use crate::in_force::Told;
use crate::origin::Origin;
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
    /// Asks the bundle `name`. The files of keys are absolute paths.
    pub(crate) fn ask(name: &str) -> anyhow::Result<Running> {
        let answer = control::ask(name, &Request::Configuration)?;
        let mut running: Running =
            serde_json::from_value(answer).context("no configuration in the answer")?;
        let Running { told, origin, .. } = &mut running;
        let files = told.key_files.iter_mut().chain(told.node_key_file.as_mut());
        for file in files.filter(|file| !file.as_os_str().is_empty()) {
            *file = origin.directory.join(&*file);
        }
        Ok(running)
    }

    /// The file that is meant, as an absolute path.
    pub(crate) fn file(&self, name: &str, given: Option<&Path>) -> anyhow::Result<PathBuf> {
        let file = given.map(Path::to_path_buf).or_else(|| self.origin.file_of(name));
        let file = file.ok_or_else(|| {
            BadInput::new(format!(
                "{name} was started without a file; allowed: to name one, such as ./{name}.toml"
            ))
        })?;
        Ok(std::path::absolute(file)?)
    }
}

/// Has the bundle `name` change what differs from its file, or from `file`, and prints what that was.
pub(crate) fn reload(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let running = Running::ask(name)?;
    let file = running.file(name, file)?;
    let text = read(&file, &file.display().to_string()).map_err(BadInput::from)?;
    let config: Config = read_again(name, &file, &text, &running.origin)?;
    let answer = control::ask(name, &Request::Reload { told: Told::of(&config), file })?;
    remote::print_changes(&answer)
}
