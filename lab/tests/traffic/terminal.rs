//! A terminal for programs, by tmux: what it shows, and keys for it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::unistd::Pid;
use tabane_kit::clock::wait_for;
use tabane_kit::netns::Namespace;
use tabane_kit::prerequisites::{SETPRIV, TMUX};
use tabane_kit::process;
use tempfile::TempDir;

use crate::case::Need::{self, Daemon, Tool};

/// Columns and lines of the smallest terminal that people use, and of a usual one.
pub(crate) const SMALL: (u16, u16) = (80, 24);
pub(crate) const USUAL: (u16, u16) = (120, 40);
pub(crate) const NEEDS: &[Need] = &[Daemon, Tool(TMUX), Tool(SETPRIV)];
/// Time for a screen to be as wanted.
const WITHIN: Duration = Duration::from_secs(15);

/// A terminal of a server of its own, which ends with its value.
pub(crate) struct Terminal<'a> {
    host: &'a Namespace,
    /// The server's socket, and what the shell in it writes.
    folder: TempDir,
}

impl<'a> Terminal<'a> {
    /// A terminal of this size, in which a shell does `line`, and then notes its exit code.
    pub(crate) fn start(host: &'a Namespace, size: (u16, u16), line: &str) -> Result<Self> {
        let terminal = Self { host, folder: TempDir::new()? };
        let line = format!(
            "stty -g >{}; {line}; echo \"ended with $?\"; stty -g >{}; exec cat",
            terminal.file("before").display(),
            terminal.file("after").display(),
        );
        let [across, down] = [size.0, size.1].map(|length| length.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &across, "-y", &down, &line])?;
        Ok(terminal)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.host.command("tmux");
        command.env("LC_ALL", "C.UTF-8").arg("-S").arg(self.file("socket"));
        process::run(command.args(arguments))
    }

    /// All that was shown since the start, and the same with the lines joined that the terminal has broken.
    pub(crate) fn all(&self) -> Result<[String; 2]> {
        let captured = |more: &[&str]| {
            let text = self.tmux(&[&["capture-pane", "-p", "-S", "-"], more].concat())?;
            Ok::<_, anyhow::Error>(text.lines().map(|line| format!("{}\n", line.trim_end())).collect())
        };
        Ok([captured(&[])?, captured(&["-J"])?])
    }

    /// What it shows.
    fn screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Whether a letter has a colour (SGR 38 of ECMA-48).
    pub(crate) fn has_colours(&self) -> Result<bool> {
        let screen = self.tmux(&["capture-pane", "-p", "-e"])?;
        Ok(screen.contains("38;5;"))
    }

    pub(crate) fn press(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    pub(crate) fn resize(&self, across: u16, down: u16) -> Result<()> {
        self.tmux(&["resize-window", "-x", &across.to_string(), "-y", &down.to_string()]).map(drop)
    }

    /// Waits until the screen is as wanted, and gives it.
    pub(crate) fn shows(&self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let shown = wait_for(what, WITHIN, || {
            let screen = self.screen()?;
            Ok(wanted(&screen).then_some(screen))
        });
        shown.with_context(|| self.screen().unwrap_or_default())
    }

    /// The program that the shell has started.
    pub(crate) fn child(&self) -> Result<Pid> {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"])?;
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim()))?;
        Ok(Pid::from_raw(children.trim().parse().with_context(|| format!("one child: {children}"))?))
    }

    /// Waits for its end with this exit code, and checks that it left nothing behind.
    pub(crate) fn ended(&self, code: u8) -> Result<()> {
        self.shows("the end", |screen| screen.contains(&format!("ended with {code}")))?;
        let before = fs::read_to_string(self.file("before"))?;
        let after = wait_for("the terminal's settings", WITHIN, || {
            let after = fs::read_to_string(self.file("after")).unwrap_or_default();
            Ok(after.ends_with('\n').then_some(after))
        })?;
        ensure!(before == after, "the terminal has other settings: {after}, before {before}");
        let state = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"])?;
        ensure!(state.trim() == "0 1", "another screen, or no cursor: {state}");
        Ok(())
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // Without a server there is nothing to end.
        let _ = self.tmux(&["kill-server"]);
    }
}
