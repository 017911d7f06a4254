//! Programs that lie beside this one and take its place: `tabaned` for `tabane up`, `upgrade` and `check`, and `tabane-probe`,
//! `tabane-web`, `tabane-follow`.
//!
//! This one reads files, flags and keys with the rights of its user; the daemon opens devices, and the others read what strangers send, or
//! speak TLS: so each is linked with what it needs, and with nothing of the others (`lab/tests/tidy.rs`). The process stays, with its id,
//! so service managers and who waits for it see no difference.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tabane_api::origin::file_of_service;
use tabane_api::{Origin, Start, Told, status_of};
use tabane_config::problem::BadInput;
use tabane_config::{Access, Config};

/// How long a takeover in the background may take.
const WITHIN: Duration = Duration::from_secs(30);
/// Pause between two requests for the pid that serves the bundle.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Is the bundle from here on. `origin`: how the configuration came to be.
pub(crate) fn up(config: &Config, origin: Origin) -> anyhow::Result<()> {
    become_daemon("up", &config.name, &Start::Up { told: Told::of(config), origin })
}

/// Takes the bundle `name` over, and is it from then on. Which user the process becomes, who may ask it, and whether it has a
/// sandbox is as `file` or the file of the service says; without one it has a sandbox, and the other's user, if that is not root.
pub(crate) fn upgrade(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let service = file_of_service(name);
    let file = file.or_else(|| service.exists().then_some(&service));
    let access = file.map(Access::read).transpose().map_err(BadInput::from)?;
    become_daemon("upgrade", name, &Start::Upgrade { name: name.to_owned(), access })
}

/// Has another process take the bundle `name` over, and ends when that has done so: on reload a service manager waits for the command to
/// end, and follows the process that is left.
pub(crate) fn upgrade_in_background(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let program = env::current_exe().context("the path of this program")?;
    let mut command = Command::new(program);
    command.args(["upgrade", name]).args(file.map(std::path::absolute).transpose()?);
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let mut process = command.spawn().context("cannot start the process that takes over")?;
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(status) = process.try_wait()? {
            bail!("the process that was to take {name} over ended: {status}");
        }
        // During the handover no process answers.
        if status_of(name).is_ok_and(|status| status.pid == process.id()) {
            return Ok(());
        }
        std::thread::sleep(ASK_AGAIN_AFTER);
    }
    process.kill()?;
    process.wait()?;
    bail!("{name} was not taken over within {} s", WITHIN.as_secs())
}

/// Checks whether the links of a configuration can be opened here.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    become_daemon("check", &config.name, &Start::Check { told: Told::of(config) })
}

/// `ps` shows the command and the bundle's name.
fn become_daemon(command: &str, name: &str, start: &Start) -> anyhow::Result<()> {
    let handed = start.piped().context("cannot hand the configuration over")?;
    replace("tabaned", command, &[command, name], Some(handed.into()))
}

/// Replaces this process by the program `tabane-COMMAND`; returns only if that fails.
pub(crate) fn execute(command: &str, arguments: &[OsString]) -> anyhow::Result<()> {
    replace(&format!("tabane-{command}"), command, arguments, None)
}

/// Replaces this process by the program `name`, which `tabane COMMAND` needs, and gives it `input` where there is some; returns only if
/// that fails.
fn replace(
    name: &str,
    command: &str,
    arguments: &[impl AsRef<OsStr>],
    input: Option<Stdio>,
) -> anyhow::Result<()> {
    let program = env::current_exe().context("the path of this program")?.with_file_name(name);
    let mut process = Command::new(&program);
    process.args(arguments);
    if let Some(input) = input {
        process.stdin(input);
    }
    let error = process.exec();
    let path = program.display();
    if error.kind() == ErrorKind::NotFound {
        let sentence = format!("no program `{path}`: `tabane {command}` needs {name} beside tabane");
        return Err(BadInput::new(sentence).into());
    }
    Err(error).with_context(|| format!("starting `{path}`"))
}
