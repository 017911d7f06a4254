//! The commands that ask a running bundle, and what they print.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use tabane_api::{AskError, Entry, Request, Status};
use tabane_config::key::{Key, KeyError, Owner};
use tabane_config::problem::BadInput;

use crate::metrics::{self, Asked, Format};
use crate::screen::{full, screen, verdict};
use crate::stdout::{columns, has_colours, print, print_json, printable_json, say};

/// A link is drained when no data has passed over it for so long, and that is waited for at most for so long.
const QUIET_FOR: Duration = Duration::from_millis(100);
const DRAINED_WITHIN: Duration = Duration::from_secs(2);
/// Rates are those over this time.
const RATES_OVER: Duration = Duration::from_millis(250);

/// Prints the events of the bundle `name`, and those to come when it is to `follow`.
pub(crate) fn events(name: &str, follow: bool, json: bool) -> anyhow::Result<()> {
    if follow {
        return Ok(tabane_api::follow(name, |line| print_event(line, json))?);
    }
    let mut answer = tabane_api::ask(name, &Request::Events)?;
    let events: Vec<Entry> =
        serde_json::from_value(answer["events"].take()).context("no events in the answer")?;
    let line = |event: &Entry| -> anyhow::Result<String> {
        let line = if json { printable_json(&serde_json::to_string(event)?) } else { event.line() };
        Ok(line + "\n")
    };
    print(&events.iter().map(line).collect::<anyhow::Result<String>>()?)
}

/// The status of the bundle `name`.
pub(crate) fn status_of(name: &str) -> anyhow::Result<Status> {
    let answer = tabane_api::ask(name, &Request::Status)?;
    serde_json::from_value(answer).context("the bundle answers with another status than this program knows")
}

/// Prints the status of the bundle `name` as JSON.
pub(crate) fn status_json(name: &str) -> anyhow::Result<()> {
    print_json(&tabane_api::ask(name, &Request::Status)?)
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
        names.iter().zip(&earlier).map(screen).collect::<anyhow::Result<_>>()?
    };
    print(&shown.join("\n"))
}

/// Prints which bundles are up here, and how each one is.
pub(crate) fn list(json: bool) -> anyhow::Result<()> {
    let mut statuses = Vec::new();
    for name in tabane_api::present()? {
        statuses.push(tabane_api::ask(&name, &Request::Status)?);
    }
    if json {
        return print_json(&statuses.into());
    }
    let colour = has_colours();
    let lines =
        statuses.into_iter().map(|status| Ok(verdict(&serde_json::from_value(status)?, colour, columns())));
    print(&lines.collect::<anyhow::Result<String>>()?)
}

/// Prints the metrics of the bundle `name`, or of all that are up here.
pub(crate) fn metrics(name: Option<String>, format: Format) -> anyhow::Result<()> {
    let bundles = match name {
        Some(name) => {
            let status = Some(serde_json::from_value(tabane_api::ask(&name, &Request::Status)?)?);
            vec![Asked { name, status }]
        }
        None => metrics::ask_all()?,
    };
    print(&metrics::page(&bundles, format))
}

/// Switches the policy of a bundle, or shows it.
pub(crate) fn policy((name, policy): (String, Option<String>)) -> anyhow::Result<()> {
    show_or_switch(&name, "policy", policy.map(|policy| Request::Policy { policy }))
}

/// Switches the receive engine of a bundle, or shows it.
pub(crate) fn engine((name, engine): (String, Option<String>)) -> anyhow::Result<()> {
    show_or_switch(&name, "receive", engine.map(|engine| Request::Receive { engine }))
}

fn show_or_switch(name: &str, what: &str, request: Option<Request>) -> anyhow::Result<()> {
    let word = |answer: &serde_json::Value, key: &str| answer[key].as_str().unwrap_or("?").to_owned();
    let Some(request) = request else {
        return say(&word(&tabane_api::ask(name, &Request::Status)?, what));
    };
    let answer = tabane_api::ask(name, &request)?;
    say(&format!("{what} {}, was {}", word(&answer, "new"), word(&answer, "old")))
}

/// Sends the keys in `files` to the bundle `name`, which cannot open files.
pub(crate) fn change_keys(name: &str, files: &[PathBuf]) -> anyhow::Result<()> {
    let read = |file: &PathBuf| Key::read(file, Owner::Group).map(|key| key.hex().to_string());
    let keys = files.iter().map(read).collect::<Result<_, KeyError>>();
    let keys = keys.map_err(|error| BadInput::new(format!("{error}; allowed: {}", KeyError::ALLOWED)))?;
    let answer = tabane_api::ask(name, &Request::Keys { keys })?;
    let group = answer["group"].as_str().unwrap_or("?");
    say(&format!("group {group}, {} further keys accepted", files.len() - 1))
}

/// Sets which nodes the bundle `name` lets in from now on: those with these keys, or every node of the group.
pub(crate) fn change_allow(name: &str, allow: Option<Vec<String>>) -> anyhow::Result<()> {
    let answer = tabane_api::ask(name, &Request::Allow { allow })?;
    match answer["allowed"].as_u64() {
        Some(count) => say(&format!("{count} node keys allowed")),
        None => print("every node of the group allowed\n"),
    }
}

/// Takes a link into the bundle `name`, or out of it, or uses a drained one again.
pub(crate) fn change_link(name: &str, request: &Request) -> anyhow::Result<()> {
    let answer = tabane_api::ask(name, request)?;
    let done = match request {
        Request::LinkAdd { .. } => "joined",
        Request::LinkResume { .. } => "carries data again",
        _ => "left",
    };
    say(&format!("link {} {done}", answer["link"]))
}

/// Drains a link of the bundle `name`, and waits until no data passes over it any more.
pub(crate) fn drain_link(name: &str, link: String) -> anyhow::Result<()> {
    let link = tabane_api::ask(name, &Request::LinkDrain { link })?["link"].clone();
    let passed = || -> anyhow::Result<u64> {
        let status = status_of(name)?;
        let paths = status.peers.iter().flat_map(|peer| &peer.paths);
        let paths = paths.filter(|path| link.as_u64() == Some(path.link.into()));
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

/// Changes a link of the bundle `name`, and prints what has changed.
pub(crate) fn set(name: &str, request: &Request) -> anyhow::Result<()> {
    print_changes(&tabane_api::ask(name, request)?)
}

/// Prints what has changed, a line each.
pub(crate) fn print_changes(answer: &Value) -> anyhow::Result<()> {
    let changes: Vec<String> = serde_json::from_value(answer["done"].clone()).unwrap_or_default();
    if changes.is_empty() {
        return print("nothing differs\n");
    }
    changes.iter().try_for_each(|change| say(change))
}

/// Prints the classes of the bundle `name`, each with its number.
pub(crate) fn list_classes(name: &str) -> anyhow::Result<()> {
    let answer = tabane_api::ask(name, &Request::Classes)?;
    let classes: Vec<String> = serde_json::from_value(answer["classes"].clone()).unwrap_or_default();
    (1..).zip(&classes).try_for_each(|(number, class)| say(&format!("{number}  {class}")))
}

/// Adds a class to the bundle `name`, and prints its number.
pub(crate) fn add_class(name: &str, class: String, before: Option<usize>) -> anyhow::Result<()> {
    let answer = tabane_api::ask(name, &Request::ClassAdd { class, before })?;
    say(&format!("class {}", answer["number"]))
}

/// Removes a class of the bundle `name`, and prints what it was.
pub(crate) fn remove_class(name: &str, number: usize) -> anyhow::Result<()> {
    let answer = tabane_api::ask(name, &Request::ClassRemove { number })?;
    say(&format!("was {}", answer["class"].as_str().unwrap_or("?")))
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
