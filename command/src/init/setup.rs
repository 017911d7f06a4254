//! The files of a bundle, `NAME.toml` and `NAME.key`: written, started as a service, and deleted again.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use tabane_api::AskError;
use tabane_api::origin::{DIRECTORY, file_of_service};
use tabane_config::key::Owner;
use tabane_config::problem::BadInput;
use tabane_config::settings::Settings;
use tabane_config::{Cidr, Config, LinkConfig};

use super::token::Token;

/// How long a bundle may take to end.
const DOWN_WAIT: Duration = Duration::from_secs(5);

/// A bundle as this machine will have it.
pub(super) struct Setup<'a> {
    pub(super) token: &'a Token,
    pub(super) links: Vec<LinkConfig>,
    pub(super) address: Option<Cidr>,
    pub(super) file: PathBuf,
}

impl Setup<'_> {
    /// Writes both files and starts the service if there is one; returns what was done, for people.
    pub(super) fn perform(&self, start: bool) -> anyhow::Result<String> {
        let (name, file) = (&self.token.name, self.file.display());
        let key = self.file.with_extension("key");
        self.make_directory()?;
        self.token.key.write_new(&key, Owner::Group).map_err(|error| BadInput::new(error.to_string()))?;
        let written = write_new(&self.file, &self.text(&key)).and_then(|()| {
            Config::load(Some(&self.file), Settings::default())
                .map_err(|problems| BadInput::from(problems).into())
        });
        if let Err(error) = written {
            for file in [&key, &self.file] {
                // The first error is told, whatever becomes of the files.
                let _ = fs::remove_file(file);
            }
            return Err(error);
        }
        let mut done = format!("wrote {file} and {}\n", key.display());
        let in_place = self.file.parent() == Some(Path::new(DIRECTORY));
        if start && in_place && has_service() {
            start_service(name)?;
            writeln!(
                done,
                "{name} is up, now and after each start of the machine; `tabane status` shows it"
            )?;
        } else {
            let named = if in_place { name.clone() } else { file.to_string() };
            writeln!(done, "`tabane up {named}` starts it, in the foreground")?;
        }
        Ok(done)
    }

    fn make_directory(&self) -> anyhow::Result<()> {
        let Some(directory) = self.file.parent().filter(|directory| !directory.as_os_str().is_empty()) else {
            return Ok(());
        };
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(directory);
        made.with_context(|| format!("{} cannot be made", directory.display()))
    }

    fn text(&self, key: &Path) -> String {
        let Token { name, sealed, port, policy, mtu, .. } = self.token;
        let key = key.file_name().unwrap_or_default().to_string_lossy();
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut text = format!(
            "# Bundle {name}. `tabane check {name}` prints every setting with its value.\n\
             name = {}\nkey = {}\n",
            quoted(name),
            quoted(&key)
        );
        let mut line = |wanted: bool, line: String| {
            if wanted {
                text += &line;
                text.push('\n');
            }
        };
        if let Some(address) = &self.address {
            line(true, format!("address = [{}]", quoted(&address.to_string())));
        }
        line(!sealed, "security = \"none\"".to_owned());
        line(true, format!("port = {port}"));
        line(true, format!("policy = {}", quoted(policy.name())));
        line(true, format!("mtu = {}", mtu.toml()));
        for link in &self.links {
            line(true, link.to_string().trim_end().to_owned());
        }
        text
    }
}

/// Ends the bundle `name`, disables its service, and deletes its files; returns what was done, for people.
pub(super) fn forget(name: &str) -> anyhow::Result<String> {
    let file = file_of_service(name);
    if !file.exists() {
        let why = format!("{} does not exist; allowed: the name of a bundle that has one", file.display());
        return Err(BadInput::new(format!("{name}: {why}")).into());
    }
    if !stop_service(name)? {
        match tabane_api::stop(name, DOWN_WAIT) {
            Ok(()) | Err(AskError::NotUp { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut gone = Vec::new();
    for file in [file.with_extension("key"), file] {
        match fs::remove_file(&file) {
            Ok(()) => gone.push(file.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be deleted", file.display())),
        }
    }
    Ok(format!("{name} is down; deleted {}\n", gone.join(" and ")))
}

/// The ports in the configurations of this machine's bundles.
pub(super) fn ports() -> Vec<u16> {
    let files = fs::read_dir(DIRECTORY).into_iter().flatten().filter_map(Result::ok);
    let files =
        files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let port = |path: PathBuf| Config::load(Some(&path), Settings::default()).ok().map(|config| config.port);
    files.filter_map(port).collect()
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.with_context(|| format!("{} cannot be written", path.display()))
}

// The service manager: systemd, where it runs and knows the unit.

fn unit(name: &str) -> String {
    format!("tabane@{name}.service")
}

fn has_service() -> bool {
    Path::new("/run/systemd/system").is_dir() && succeeds(&["cat", "tabane@.service"])
}

/// Starts the bundle's service, now and with the machine; waits until the bundle is up.
fn start_service(name: &str) -> anyhow::Result<()> {
    let unit = unit(name);
    let status = Command::new("systemctl").args(["enable", "--now", "--quiet", &unit]).status();
    let started = status.context("systemctl")?.success();
    ensure!(started, "{unit} does not start; `journalctl -u {unit}` says why");
    Ok(())
}

/// Ends the bundle's service and does not start it again; whether there was one.
fn stop_service(name: &str) -> anyhow::Result<bool> {
    if !has_service() {
        return Ok(false);
    }
    let unit = unit(name);
    let known = succeeds(&["is-enabled", &unit]) || succeeds(&["is-active", &unit]);
    if known {
        let status = Command::new("systemctl").args(["disable", "--now", "--quiet", &unit]).status();
        ensure!(
            status.context("systemctl")?.success(),
            "{unit} does not end; `systemctl status {unit}` says why"
        );
    }
    Ok(known)
}

fn succeeds(arguments: &[&str]) -> bool {
    let run = Command::new("systemctl").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}
