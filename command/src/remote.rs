//! The commands that ask a running bundle, and what they print.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tabane_api::{Answer, AskError, Entry, Request, Status, ask, ask_as_json, status_of};
use tabane_config::key::{Key, KeyError, Owner};
use tabane_config::problem::BadInput;

use crate::metrics::{self, Asked, Format};
use crate::screen::{full, screen, verdict};
use crate::stdout::{columns, has_colours, print, print_json, printable_json, say};

/// A link is drained when no data has passed over it for so long, and that is waited for at most for so long.
const QUIET_FOR: Duration = Duration::from_millis(100);
const DRAINED_WITHIN: Duration = Duration::from_secs(2);
const RATES_OVER: Duration = Duration::from_millis(250);

/// Prints the events of the bundle `name`, and those to come when it is to `follow`.
pub(crate) fn events(name: &str, follow: bool, json: bool) -> anyhow::Result<()> {
    if follow {
        return Ok(tabane_api::follow(name, |line| print_event(line, json))?);
    }
    let Answer::Events { events } = ask(name, &Request::Events)? else { return other_answer() };
    let line = |event: &Entry| -> anyhow::Result<String> {
        let line = if json { printable_json(&serde_json::to_string(event)?) } else { event.line() };
        Ok(line + "\n")
    };
    print(&events.iter().map(line).collect::<anyhow::Result<String>>()?)
}

/// Prints the status of the bundle `name` as JSON.
pub(crate) fn status_json(name: &str) -> anyhow::Result<()> {
    print_json(&ask_as_json(name, &Request::Status)?)
}

/// Prints the status of the bundle `name`, or of all that are up here, in one screen each, or all of it.
pub(crate) fn status(name: Option<String>, verbose: bool) -> anyhow::Result<()> {
    let names = match name {
        Some(name) => vec![name],
        None => tabane_api::present()?,
    };
    if names.is_empty() {
        return Err(AskError::NoneUp.into());
    }
    let earlier: Vec<Status> = names.iter().map(|name| status_of(name)).collect::<Result<_, _>>()?;
    let (colour, columns) = (has_colours(), columns());
    let shown: Vec<String> = if verbose {
        earlier.iter().map(|status| full(status, colour)).collect()
    } else {
        std::thread::sleep(RATES_OVER);
        let screen =
            |(name, earlier): (&String, _)| Ok(screen(&status_of(name)?, Some(earlier), colour, columns));
        names.iter().zip(&earlier).map(screen).collect::<Result<_, AskError>>()?
    };
    print(&shown.join("\n"))
}

/// Prints which bundles are up here, and how each one is.
pub(crate) fn list(json: bool) -> anyhow::Result<()> {
    let names = tabane_api::present()?;
    if json {
        let statuses = names.iter().map(|name| ask_as_json(name, &Request::Status));
        return print_json(&statuses.collect::<Result<Vec<_>, _>>()?.into());
    }
    let colour = has_colours();
    let lines = names.iter().map(|name| Ok(verdict(&status_of(name)?, colour, columns())));
    print(&lines.collect::<Result<String, AskError>>()?)
}

/// Prints the metrics of the bundle `name`, or of all that are up here.
pub(crate) fn metrics(name: Option<String>, format: Format) -> anyhow::Result<()> {
    let bundles = match name {
        Some(name) => {
            let status = Some(status_of(&name)?);
            vec![Asked { name, status }]
        }
        None => metrics::ask_all()?,
    };
    print(&metrics::page(&bundles, format))
}

pub(crate) fn policy((name, policy): (String, Option<String>)) -> anyhow::Result<()> {
    match policy {
        Some(policy) => switch(&name, "policy", &Request::Policy { policy }),
        None => say(&status_of(&name)?.policy),
    }
}

pub(crate) fn engine((name, engine): (String, Option<String>)) -> anyhow::Result<()> {
    match engine {
        Some(engine) => switch(&name, "receive", &Request::Receive { engine }),
        None => say(&status_of(&name)?.receive),
    }
}

fn switch(name: &str, what: &str, request: &Request) -> anyhow::Result<()> {
    let Answer::Switched { old, new } = ask(name, request)? else { return other_answer() };
    say(&format!("{what} {new}, was {old}"))
}

/// Sends the keys in `files` to the bundle `name`, which cannot open files.
pub(crate) fn change_keys(name: &str, files: &[PathBuf]) -> anyhow::Result<()> {
    let read = |file: &PathBuf| Key::read(file, Owner::Group).map(|key| key.hex().to_string());
    let keys = files.iter().map(read).collect::<Result<_, KeyError>>();
    let keys = keys.map_err(|error| BadInput::new(format!("{error}; allowed: {}", KeyError::ALLOWED)))?;
    let Answer::Group { group } = ask(name, &Request::Keys { keys })? else { return other_answer() };
    say(&format!("group {group}, {} further keys accepted", files.len() - 1))
}

/// Sets which nodes the bundle `name` lets in from now on: those with these keys, or every node of the group.
pub(crate) fn change_allow(name: &str, allow: Option<Vec<String>>) -> anyhow::Result<()> {
    let Answer::Allowed { allowed } = ask(name, &Request::Allow { allow })? else { return other_answer() };
    match allowed {
        Some(count) => say(&format!("{count} node keys allowed")),
        None => print("every node of the group allowed\n"),
    }
}

/// Takes a link into the bundle `name`, or out of it, or uses a drained one again.
pub(crate) fn change_link(name: &str, request: &Request) -> anyhow::Result<()> {
    let Answer::Link { link } = ask(name, request)? else { return other_answer() };
    let done = match request {
        Request::LinkAdd { .. } => "joined",
        Request::LinkResume { .. } => "carries data again",
        _ => "left",
    };
    say(&format!("link {link} {done}"))
}

/// Drains a link of the bundle `name`, and waits until no data passes over it any more.
pub(crate) fn drain_link(name: &str, link: String) -> anyhow::Result<()> {
    let Answer::Link { link } = ask(name, &Request::LinkDrain { link })? else { return other_answer() };
    let passed = || -> anyhow::Result<u64> {
        let status = status_of(name)?;
        let paths = status.peers.iter().flat_map(|peer| &peer.paths);
        let paths = paths.filter(|path| path.own_link() == u32::from(link));
        Ok(paths.map(|path| path.bytes_sent + path.bytes_received + path.queued_bytes).sum())
    };
    let deadline = Instant::now() + DRAINED_WITHIN;
    let (mut before, mut since) = (passed()?, Instant::now());
    while since.elapsed() < QUIET_FOR {
        if Instant::now() > deadline {
            return say(&format!("link {link} drains, but data still comes over it from a peer"));
        }
        std::thread::sleep(QUIET_FOR / 10);
        let now = passed()?;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    say(&format!("link {link} is drained: no data passes over it"))
}

/// Has the bundle `name` change something, and prints what has changed, a line each.
pub(crate) fn change(name: &str, request: &Request) -> anyhow::Result<()> {
    let Answer::Changed { done } = ask(name, request)? else { return other_answer() };
    if done.is_empty() {
        return print("nothing differs\n");
    }
    done.iter().try_for_each(|change| say(change))
}

/// Prints the classes of the bundle `name`, each with its number.
pub(crate) fn list_classes(name: &str) -> anyhow::Result<()> {
    let Answer::Classes { classes } = ask(name, &Request::Classes)? else { return other_answer() };
    (1..).zip(&classes).try_for_each(|(number, class)| say(&format!("{number}  {class}")))
}

/// Adds a class to the bundle `name`, or removes one, and prints its number, or what it was.
pub(crate) fn change_class(name: &str, request: &Request) -> anyhow::Result<()> {
    match ask(name, request)? {
        Answer::ClassAdded { number } => say(&format!("class {number}")),
        Answer::ClassRemoved { class } => say(&format!("was {class}")),
        _ => other_answer(),
    }
}

fn other_answer<T>() -> anyhow::Result<T> {
    Err(AskError::other_answer().into())
}

/// Prints one line of the log; `false` when stdout is closed.
fn print_event(line: &str, json: bool) -> io::Result<bool> {
    let text = if json { printable_json(line) } else { serde_json::from_str::<Entry>(line)?.line() };
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}
