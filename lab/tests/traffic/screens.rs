//! What commands print for people, as it looks in a terminal: no line is broken by the terminal, and what is wrong can be read.
//! And what they ask there. TABANE_SHOW_SCREENS in the environment prints all screens.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::{DEVICE, program};
use tabane_kit::netns::Namespace;
use tabane_kit::status::{LINK_DOWN, LINK_UP};
use tabane_kit::topology::{Topology, nic};

use crate::case::Case;
use crate::traffic::stage::{FAST, options, plan, told, with_bundles};
use crate::traffic::terminal;
use crate::traffic::terminal::{SMALL, Terminal, USUAL};

const LINKS: usize = 2;
const VICTIM: usize = 1;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("what_is_printed_fits_the_terminal", terminal::NEEDS, fits),
        Case::new("init_and_join_ask_for_what_they_were_not_told", terminal::NEEDS, asks),
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
    if env::var_os("TABANE_SHOW_SCREENS").is_some() {
        println!("--- {command} in {} columns ---\n{text}", size.0);
    }
    ensure!(text == joined, "{command}: {} columns are too few:\n{text}", size.0);
    let (said, _) = text.split_once("ended with").context("no end")?;
    let is_one_screen = said.lines().count() < usize::from(size.1);
    ensure!(is_one_screen || command == "doctor", "{command} takes more than {} lines:\n{said}", size.1);
    Ok(said.to_owned())
}

/// Both take the proposals; the second one has to have the line of the first.
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
