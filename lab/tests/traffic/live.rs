//! Changes of a running bundle: links that are drained, a file that is read again, what was changed by hand and is saved.

use std::process::Command;

use crate::traffic::changes::{CHANGED, LINKS, RATE, load};
use crate::traffic::faults::carry;
use crate::traffic::stage::*;

/// What a link without data carries in some tenths of a second: heartbeats, and what was on its way.
const QUIET_BYTES_MAX: u64 = 128 << 10;
const KEY: &str = "6c697665206368616e676573206f6620612072756e6e696e672062756e646c65";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a_drained_link_may_be_pulled_and_is_better_than_none", DAEMON, drained),
        Case::new("a_file_that_is_read_again_under_load_loses_nothing", IPERF, reload_under_load),
        // Exercises: link set, save, save --key, save --node-key, reload, link.drained =
        Case::new("what_was_changed_by_hand_is_shown_kept_and_saved", DAEMON, by_hand),
        // Exercises: key
        Case::new("keys_of_a_file_that_is_read_again_are_spoken", DAEMON, keys),
        // Exercises: peer add, peer remove
        Case::new("a_peer_that_is_named_later_is_found", DAEMON, named_later),
    ]
}

fn until_drained(bundles: &mut [Bundle<'_>], link: usize) -> Result<()> {
    bundles.iter_mut().try_for_each(|bundle| {
        let is_drained = |path: &PathStatus| path.link as usize == link && path.tx == PathState::Drained;
        bundle.wait_until("a drained link", |status| status.peers[0].paths.iter().any(is_drained)).map(drop)
    })
}

pub(crate) fn drain_and_resume(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    carry(topology, CHANGED)?;
    let said = bundles[0].ask(&["link", "drain", DEVICE, &nic(CHANGED)])?;
    ensure!(said == format!("link {CHANGED} is drained: no data passes over it\n"), "{said}");
    until_drained(bundles, CHANGED)?;
    let received =
        |host: usize| Ok::<_, anyhow::Error>(received_bytes(topology.host(host), [&nic(CHANGED)])?[0]);
    let before = [received(0)?, received(1)?];
    carry(topology, 0)?;
    for (host, before) in before.iter().enumerate() {
        let carried = received(host)? - before;
        ensure!(carried <= QUIET_BYTES_MAX, "host {host} received {carried} B over the drained link");
    }
    bundles[0].ask(&["link", "resume", DEVICE, &nic(CHANGED)])?;
    ready(bundles, LINKS)?;
    carry(topology, CHANGED)
}

fn refused(bundle: &Bundle<'_>, arguments: &[&str]) -> Result<String> {
    match bundle.ask(arguments) {
        Ok(answer) => bail!("{arguments:?} is done: {answer}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

fn drained() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options_with(&["--workers", "2"])?, |topology, bundles| {
        bundles[0].ask(&["link", "drain", DEVICE, &nic(1)])?;
        until_drained(bundles, 1)?;
        for (bundle, link) in [(0, nic(0)), (1, nic(0))] {
            let why = refused(&bundles[bundle], &["link", "drain", DEVICE, &link])?;
            ensure!(why.contains(&format!("link {link} carries on: it is the last one that works")), "{why}");
        }
        let outcome = under_a_file(topology, FILE, || {
            carry(topology, 0)?;
            topology.pull_cable(0, 1)?;
            carry(topology, 0)
        })?;
        println!("a drained cable pulled: {:?}", outcome.gaps.longest());
        topology.plug_cable(0, 1)?;
        until_drained(bundles, 1)?;
        let outcome = under_a_file(topology, FILE, || {
            carry(topology, 0)?;
            topology.kill_switch(0)?;
            // The drained link carries the rest.
            carry(topology, 1)
        })?;
        println!("the other one died: {:?}", outcome.gaps.longest());
        topology.revive_switch(0)?;
        bundles[0].ask(&["link", "resume", DEVICE, &nic(1)])?;
        ready(bundles, 2)?;
        let why = refused(&bundles[0], &["link", "resume", DEVICE, &nic(1)])?;
        ensure!(why.contains(&format!("link {} is not drained", nic(1))), "{why}");
        Ok(())
    })
}

pub(crate) struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new() -> Result<Files> {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("key"), KEY)?;
        Ok(Files { directory })
    }

    fn path(&self, host: usize) -> PathBuf {
        self.directory.path().join(format!("{host}.toml"))
    }

    fn name(&self, host: usize) -> String {
        self.path(host).display().to_string()
    }

    /// Writes what the file of a host says besides its name, key and address.
    pub(crate) fn write(&self, host: usize, rest: &str) -> Result<()> {
        let head = format!(
            "# host {host}\nname = \"{DEVICE}\"\nkey = \"key\"\naddress = [\"{}/24\"]\n",
            address(host)
        );
        Ok(fs::write(self.path(host), head + rest)?)
    }

    fn read(&self, host: usize) -> Result<String> {
        Ok(fs::read_to_string(self.path(host))?)
    }

    pub(crate) fn start<'a>(&self, topology: &'a Topology) -> Result<Vec<Bundle<'a>>> {
        let start =
            |(host, namespace)| Bundle::start_from(namespace, &program(None)?, DEVICE, &self.path(host));
        topology.hosts().iter().enumerate().map(start).collect()
    }
}

fn tables(links: &[usize]) -> String {
    links.iter().map(|link| format!("\n[[link]]  # {link}\nnic = \"{}\"\n", nic(*link))).collect()
}

fn reload_under_load() -> Result<()> {
    let topology = Topology::build(plan(&[RATE; LINKS]))?;
    let files = Files::new()?;
    let all = tables(&[0, CHANGED, 2]);
    let fewer = "policy = \"rr\"\n[[class]]\nmatch = { port = 53 }\npolicy = \"duplicate\"\n".to_owned()
        + &tables(&[0, 2])
        + "rate = \"50 Mbit/s\"\n";
    for host in 0..2 {
        files.write(host, &all)?;
    }
    let mut bundles = files.start(&topology)?;
    ready(&mut bundles, LINKS)?;
    load(&topology, &mut bundles, |topology, bundles| {
        for (text, links) in [(&fewer, LINKS - 1), (&all, LINKS)] {
            carry(topology, 2)?;
            for (host, bundle) in bundles.iter().enumerate() {
                files.write(host, text)?;
                bundle.ask(&["reload", DEVICE, &files.name(host)])?;
            }
            ready(bundles, links)?;
            for bundle in bundles.iter() {
                let status = bundle.status()?;
                let policy = if links == LINKS { "adaptive" } else { "rr" };
                ensure!(status.policy == policy && status.changed_by_hand.is_empty(), "{status:?}");
            }
        }
        carry(topology, CHANGED)
    })?;
    Bundle::stop_all(bundles)
}

fn by_hand() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let files = Files::new()?;
    for host in 0..2 {
        files.write(host, &format!("policy = \"adaptive\"  # as ever\n{}", tables(&[0, 1])))?;
    }
    let mut bundles = files.start(&topology)?;
    ready(&mut bundles, 2)?;
    let (first, link) = (&bundles[0], nic(1));
    let changes: [&[&str]; 5] = [
        &["policy", DEVICE, "rr"],
        &["receive", DEVICE, "interrupt"],
        &["link", "set", DEVICE, &format!("{link},rate=150 Mbit/s")],
        &["link", "drain", DEVICE, &link],
        &["class", "add", DEVICE, "protocol=udp,port=53,policy=duplicate"],
    ];
    for change in changes {
        first.ask(change)?;
    }
    let classes = first.ask(&["class", "list"])?;
    ensure!(classes == "1  protocol=udp,port=53,policy=duplicate\n", "{classes}");
    let told = [
        "policy rr, in the file adaptive".to_owned(),
        "receive interrupt, in the file adaptive".to_owned(),
        "class protocol=udp,port=53,policy=duplicate, not in the file".to_owned(),
        format!("link {link}: rate 150 Mbit/s, in the file measured"),
        format!("link {link}: drained yes, in the file no"),
    ];
    let status = first.status()?;
    ensure!(status.changed_by_hand == told, "{:?}", status.changed_by_hand);
    ensure!(status.file.as_deref() == files.path(0).to_str(), "{:?}", status.file);
    let table = first.ask(&["status", DEVICE])?;
    ensure!(table.contains("changed by hand: policy rr, in the file adaptive\n"), "{table}");

    bundles[0].upgrade()?;
    until_drained(&mut bundles, 1)?;
    let kept = bundles[0].status()?;
    ensure!(kept.changed_by_hand == told && kept.policy == "rr", "{kept:?}");
    send_both_ways(&topology, FILE)?;

    let file = files.name(0);
    let saved = bundles[0].ask(&["save", DEVICE, &file])?;
    ensure!(saved.lines().count() == told.len(), "{saved}");
    let text = files.read(0)?;
    for line in ["# host 0\n", "policy = \"rr\"  # as ever\n", "[[link]]  # 1\n", "drained = true\n"] {
        ensure!(text.contains(line), "{line} is not in {text}");
    }
    ensure!(bundles[0].status()?.changed_by_hand.is_empty());
    let again = bundles[0].ask(&["reload", DEVICE, &file])?;
    ensure!(again == "nothing differs\n", "{again}");
    read_again(topology.host(0), &bundles[0], &files)?;
    elsewhere(&bundles[0], files.directory.path())?;
    Bundle::stop_all(bundles)
}

/// A file is taken whole or not at all: another address, a policy beside a NIC that is not there, and no file.
fn read_again(host: &Namespace, bundle: &Bundle<'_>, files: &Files) -> Result<()> {
    let (file, text) = (files.name(0), files.read(0)?);
    fs::write(files.path(0), text.replace("/24\"]", "/24\", \"10.78.0.1/24\"]"))?;
    let more = bundle.ask(&["reload", DEVICE, &file])?;
    let addresses = || host.ip(&format!("-brief address show dev {DEVICE}"));
    ensure!(more == "address 10.78.0.1/24 added\n" && addresses()?.contains("10.78.0.1/24"), "{more}");
    fs::write(files.path(0), format!("{}[[link]]\nnic = \"nowhere\"\n", text.replace("\"rr\"", "\"hash\"")))?;
    let said = refused(bundle, &["reload", DEVICE, &file])?;
    ensure!(said.contains("link nowhere: no such NIC"), "{said}");
    let status = bundle.status()?;
    ensure!(status.policy == "rr" && addresses()?.contains("10.78.0.1/24"), "something changed: {status:?}");
    let unnamed = refused(bundle, &["reload", DEVICE])?;
    ensure!(unnamed.contains(&format!("was started from {file}; allowed: to name the file")), "{unnamed}");
    fs::write(files.path(0), text)?;
    bundle.ask(&["reload", DEVICE, &file])?;
    ensure!(!addresses()?.contains("10.78.0.1/24"), "{}", addresses()?);
    Ok(())
}

/// A group changes its key by its files, in the three rounds of a change; then by hand, and the file follows.
fn keys() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let files = Files::new()?;
    fs::write(files.directory.path().join("new"), KEY.replace('6', "7"))?;
    for host in 0..2 {
        files.write(host, &tables(&[0]))?;
    }
    let mut bundles = files.start(&topology)?;
    ready(&mut bundles, 1)?;
    for round in [
        "key = \"key\"\naccept_keys = [\"new\"]\n",
        "key = \"new\"\naccept_keys = [\"key\"]\n",
        "key = \"new\"\n",
    ] {
        for (host, bundle) in bundles.iter().enumerate() {
            files.write(host, &tables(&[0]))?;
            fs::write(files.path(host), files.read(host)?.replace("key = \"key\"\n", round))?;
            let said = bundle.ask(&["reload", DEVICE, &files.name(host)])?;
            ensure!(said.contains("group key"), "{said}");
        }
        send_both_ways(&topology, FILE)?;
    }
    bundles[0].upgrade()?;
    ready(&mut bundles, 1)?;
    send_both_ways(&topology, FILE)?;
    let old = files.directory.path().join("key");
    let new = files.directory.path().join("new");
    let (old, new) = (old.to_str().context("a path")?, new.to_str().context("a path")?);
    let (first, file) = (&bundles[0], files.name(0));
    first.ask(&["key", DEVICE, new, old])?;
    let by_hand = first.status()?.changed_by_hand;
    ensure!(by_hand.len() == 1 && by_hand[0].starts_with("accepted group key "), "{by_hand:?}");
    let left = first.ask(&["save", DEVICE, &file])?;
    ensure!(left.contains("group keys: still differ: `--key PATH` names the file"), "{left}");
    first.ask(&["save", DEVICE, &file, "--key", new, "--key", old])?;
    let text = files.read(0)?;
    ensure!(text.contains(&format!("accept_keys = [\"{old}\"]\n")), "{text}");
    ensure!(first.status()?.changed_by_hand.is_empty());
    Bundle::stop_all(bundles)
}

fn elsewhere(bundle: &Bundle<'_>, directory: &Path) -> Result<()> {
    let (file, key) = (directory.join("elsewhere.toml"), directory.join("key"));
    let (path, key) = (file.to_str().context("a path")?, key.to_str().context("a path")?);
    let without = refused(bundle, &["save", DEVICE, path])?;
    ensure!(without.contains("a new file has to name the group key; allowed: `--key PATH`"), "{without}");
    bundle.ask(&["save", DEVICE, path, "--key", key])?;
    let status = bundle.status()?;
    ensure!(status.file.as_deref() == Some(path) && status.changed_by_hand.is_empty(), "{status:?}");
    let again = bundle.ask(&["reload", path])?;
    ensure!(again == "nothing differs\n", "{again}");
    let (own, whole) = (directory.join("own"), directory.join("whole.toml"));
    let (own, whole) = (own.to_str().context("a path")?, whole.to_str().context("a path")?);
    process::run(Command::new(program(None)?).args(["genkey", "--node", own]))?;
    bundle.ask(&["save", DEVICE, whole, "--key", key, "--node-key", own])?;
    let text = fs::read_to_string(whole)?;
    ensure!(text.contains(&format!("node_key = \"{own}\"")), "{text}");
    Ok(())
}

fn named_later() -> Result<()> {
    let topology = Topology::build(Plan { addressed: true, ..plan(&[FAST]) })?;
    let options = options()?;
    let mut bundles = Vec::new();
    for (number, host) in topology.hosts().iter().enumerate() {
        let link = format!("{},local={}", nic(0), address_of(0, number));
        bundles.push(Bundle::start(host, number, &[link], &options)?);
    }
    for bundle in &mut bundles {
        let alone = bundle.wait_until("a bundle without peers", |_| true)?;
        ensure!(alone.peers.is_empty(), "{alone:?}");
    }
    let (link, peer) = (nic(0), address_of(0, 1).to_string());
    let added = bundles[0].ask(&["peer", "add", DEVICE, &link, &peer])?;
    ensure!(added.contains(&format!("peers {peer}:7420, was none")), "{added}");
    ready(&mut bundles, 1)?;
    let twice = refused(&bundles[0], &["peer", "add", DEVICE, &link, &peer])?;
    ensure!(twice.contains("already"), "{twice}");
    send_both_ways(&topology, FILE)?;
    bundles[0].ask(&["peer", "remove", DEVICE, &link, &peer])?;
    ensure!(bundles[0].status()?.peers.len() == 1, "a peer that has joined is sent away");
    Bundle::stop_all(bundles)
}
