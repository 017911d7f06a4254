//! A hostile node among bundles: it hears one link, sends what it likes there, and has not the key, or nothing but the group's.
//!
//! ```text
//!  h1.eth1 ── port1 [ s1 ] port2 ── eth1.h2       the hostile node hears both ports, and sends out of port2, or of both
//!  h1.eth2 ──────── [ s2 ] ──────── eth2.h2       it is not on this one
//!  h3.eth1 ── port3 [ s1 ]                        its own address, where answers would reach it
//! ```
//!
//! A TCP connection and numbered datagrams run through the bundle all the while. Of each attack the table tells how
//! often it was tried, what of it was taken, and what it costs: CPU, memory and speed of the connection.
//!
//! 1. [`frame`], [`recording`]: what is heard.
//! 2. [`forge`]: the kinds of attack, and the cells that each is made of.
//! 3. [`hostile`]: sends them.
//! 4. [`watch`], [`trial`]: what becomes of them.
//! 5. [`summary`]: against what is wanted.

mod forge;
mod frame;
mod hostile;
mod recording;
mod summary;
mod trial;
mod watch;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use forge::{Attack, Stranger};
use hostile::Hostile;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::options::Common;
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;
use tabane_kit::status::{Questions, Status};
use tabane_kit::tool;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

/// Links of each host, of which the hostile node hears one.
const LINKS: usize = 2;
/// Rate of each: low, for the attacker shares the CPUs of this machine.
const RATE: Bitrate = Bitrate::mbit(100);

/// A hostile node on one link: forged and replayed cells, floods, a wrong key: about 4 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Only this attack; can be repeated [default: all]
    #[arg(long = "attack", value_name = "KIND", value_enum)]
    attacks: Vec<Attack>,
    /// Seconds of each attack, and of the quiet before and after it
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::new().range(1..=60))]
    seconds: u64,
}

/// Two hosts in a bundle, and the hostile node: new ones for each attack, for an attack may spoil them.
struct Scene<'a> {
    topology: &'a Topology,
    bundles: Vec<Bundle<'a>>,
    hostile: Hostile,
    stranger: Stranger,
    daemon: &'a Path,
    /// The file of the group's key, and of one that it has not, or not yet.
    key: String,
    other_key: String,
    /// The files of the hosts' own keys; each lets in only the other.
    node_keys: [String; 2],
}

/// Runs the wanted attacks.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let attacks = if options.attacks.is_empty() { Attack::value_variants() } else { &options.attacks[..] };
    let mut report = Report::new("attack", common.seed);
    let keys = tempfile::tempdir()?;
    let topology = {
        let _step = progress::step(&format!("joining 3 hosts by {LINKS} switches at {RATE}"));
        let links = vec![LinkPlan::shaped(RATE); LINKS];
        Topology::build(Plan { hosts: 3, addressed: false, ..Plan::two_hosts(links) })?
    };
    let mut seen = Vec::new();
    for (number, attack) in attacks.iter().enumerate() {
        let _step = progress::step(&format!("{} of {}: {}", number + 1, attacks.len(), attack.name()));
        let mut scene = Scene::set(&topology, &daemon, keys.path(), number)?;
        let figures = trial::run(&mut scene, *attack, Duration::from_secs(options.seconds), common.seed)?;
        seen.push((*attack, figures));
        Bundle::stop_all(scene.bundles)?;
    }
    report.field("seconds", options.seconds);
    summary::write(&mut report, &seen, Duration::from_secs(options.seconds));
    report.finish(common.json.as_deref())
}

impl<'a> Scene<'a> {
    /// Starts both bundles, heard from their first cell on, with keys of their `number`.
    fn set(topology: &'a Topology, daemon: &'a Path, keys: &Path, number: usize) -> Result<Scene<'a>> {
        let key = new_key(daemon, &keys.join(format!("group-{number}")))?;
        let other_key = new_key(daemon, &keys.join(format!("other-{number}")))?;
        let stranger = Stranger::of(topology.host(trial::STRANGER))?;
        let node_keys = [0, 1].map(|host| keys.join(format!("node-{number}-{host}")).display().to_string());
        let mut public = Vec::new();
        for file in &node_keys {
            public.push(tool::run(Command::new(daemon).args(["genkey", "--node", file]))?);
        }
        let hearing = Hostile::enter(topology)?.hear();
        let start = |host: usize| {
            let words = ["--node-key", &node_keys[host], "--allow", public[1 - host].trim()];
            let arguments = words.map(String::from).to_vec();
            let options = bundle::Options { arguments, ..with_key(daemon, &key) };
            Bundle::start(topology.host(host), host, &topology.nics(), &options)
        };
        let mut bundles = vec![start(trial::FRIEND)?, start(trial::VICTIM)?];
        for bundle in &mut bundles {
            bundle.wait_until("the other host", |status| status.is_ready(1, LINKS))?;
        }
        let hostile = hearing.finish()?;
        Ok(Scene { topology, bundles, hostile, stranger, daemon, key, other_key, node_keys })
    }

    fn statuses(&self) -> Result<Vec<Status>> {
        self.bundles.iter().map(Bundle::status).collect()
    }
}

/// How a bundle of the group `key` is started.
fn with_key(daemon: &Path, key: &str) -> bundle::Options {
    let protection = bundle::Protection::KeyFile(key.into());
    bundle::Options { protection, ..bundle::Options::new(daemon) }
}

/// Has the program itself write a new key to `path`, which is returned.
fn new_key(daemon: &Path, path: &Path) -> Result<String> {
    tool::run(Command::new(daemon).arg("genkey").arg(path))?;
    Ok(path.to_string_lossy().into_owned())
}
