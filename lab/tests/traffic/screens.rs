//! What commands print for people, as it looks in a terminal: no line is broken by the terminal, and what is wrong can be read.
//! And what they ask there.

use nix::unistd::Pid;
use tabane_kit::prerequisites::TMUX;
use tempfile::TempDir;

use crate::traffic::stage::*;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("what_is_printed_fits_the_terminal", NEEDS, fits),
        Case::new("init_and_join_ask_for_what_they_were_not_told", NEEDS, asks),
    ]
}

/// A command, how it ends and what it says of sound links; the same of a dead one.
const COMMANDS: [(&str, [(u8, &str); 2]); 4] = [
    ("status", [(0, "healthy: 2 of 2 links, 1 peer"), (0, "since ")]),
    ("list", [(0, "healthy: 2 of 2 links, 1 peer"), (0, "redundancy lost since ")]),
    ("why", [(0, "Nothing limits it"), (0, "Nothing limits it")]),
    ("doctor", [(0, "sound: "), (3, "path-dead: ")]),
];

fn fits() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        for is_dead in [false, true] {
            if is_dead {
                told(bundles, LINK_DOWN, VICTIM, topology.kill_switch(VICTIM)?.before_ns)?;
            }
            for (command, ends) in COMMANDS {
                let (code, says) = ends[usize::from(is_dead)];
                for size in [SMALL, USUAL] {
                    let text = shown(topology.host(0), size, command, code)?;
                    ensure!(text.contains(says), "{command} does not say `{says}`:\n{text}");
                    let is_named = text.contains(&nic(VICTIM)) || matches!(command, "list" | "why");
                    ensure!(is_named, "{command} does not name {}:\n{text}", nic(VICTIM));
                }
            }
        }
        told(bundles, LINK_UP, VICTIM, topology.revive_switch(VICTIM)?.before_ns).map(drop)
    })
}

/// What a command shows, which ends with this code.
fn shown(host: &Namespace, size: (u16, u16), command: &str, code: u8) -> Result<String> {
    let name = if command == "list" { "" } else { DEVICE };
    let line = format!("'{}' {command} {name}", program(None)?.display());
    let terminal = Terminal::start(host, size, &line)?;
    terminal.ended(code)?;
    let [text, joined] = terminal.all()?;
    ensure!(text == joined, "{command}: {} columns are too few:\n{text}", size.0);
    let (said, _) = text.split_once("ended with").context("no end")?;
    let is_one_screen = said.lines().count() < usize::from(size.1);
    ensure!(is_one_screen || command == "doctor", "{command} takes more than {} lines:\n{said}", size.1);
    Ok(said.to_owned())
}

fn asks() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let (directory, program) = (tempfile::tempdir()?, program(None)?);
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name).join("tb0.toml"));
    let begin = |host: usize, command: &str, file: &Path| {
        let line = format!("'{}' {command} --no-start --file {}", program.display(), file.display());
        Terminal::start(topology.host(host), SMALL, &line)
    };
    let answer = |terminal: &Terminal<'_>, question: &str| {
        terminal.shows(question, |screen| screen.contains(question))?;
        terminal.press(&["Enter"])
    };
    let init = begin(0, "init", &first)?;
    for question in
        ["Which of them shall be links [eth1 eth2]", "Key: ", "Address of the device, or none [10.9.0.1/24]"]
    {
        answer(&init, question)?;
    }
    init.ended(0)?;
    let [_, printed] = init.all()?;
    let token =
        printed.lines().find(|line| line.starts_with("tabane1:")).context("no line for the others")?;

    let join = begin(1, "join", &second)?;
    join.shows("the question for the line", |screen| screen.contains("(it is not shown)"))?;
    join.press(&["-l", token])?;
    answer(&join, "(it is not shown)")?;
    answer(&join, "Which of them shall be links [eth1 eth2]")?;
    answer(&join, "Address of the device, or none [10.9.0.2/24]")?;
    join.ended(0)?;
    ensure!(!join.all()?[1].contains("tabane1:"), "the key is shown");
    for (file, address) in [(&first, "10.9.0.1/24"), (&second, "10.9.0.2/24")] {
        let text = fs::read_to_string(file)?;
        for word in
            ["nic = \"eth1\"", "nic = \"eth2\"", "key = \"tb0.key\"", &format!("address = [\"{address}\"]")]
        {
            ensure!(text.contains(word), "{} lacks {word}: {text}", file.display());
        }
    }
    let keys = [&first, &second].map(|file| fs::read(file.with_extension("key")));
    ensure!(matches!(&keys, [Ok(one), Ok(other)] if one == other), "two keys");
    Ok(())
}

// A terminal for programs, by tmux: what it shows, and keys for it.

/// Columns and lines of the smallest terminal that people use, and of a usual one.
pub(crate) const SMALL: (u16, u16) = (80, 24);
pub(crate) const USUAL: (u16, u16) = (120, 40);
pub(crate) const NEEDS: &[Need] = &[Daemon, Tool(TMUX), Tool(SETPRIV)];

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

    fn screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

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

    pub(crate) fn shows(&self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let shown = wait_for(what, WITHIN, || {
            let screen = self.screen()?;
            Ok(wanted(&screen).then_some(screen))
        });
        shown.with_context(|| self.screen().unwrap_or_default())
    }

    pub(crate) fn child(&self) -> Result<Pid> {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"])?;
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim()))?;
        Ok(Pid::from_raw(children.trim().parse().with_context(|| format!("one child: {children}"))?))
    }

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
