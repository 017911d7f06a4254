//! The command line: which commands there are, what their flags mean, and which part of the program does them.
//!
//! Flags become [`Settings`] as typed; `config` checks them together with the file's values.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};

use crate::config::classes::policy_names;
use crate::config::problem::quoted;
use crate::config::settings::{
    AccessSettings, Given, LinkSettings, NodeSettings, OffloadSettings, ReceiveSettings, Settings,
    parse_link_flag,
};
use crate::config::{Config, Security};
use crate::control::{self, Request};
use crate::error::{BadInput, report};
use crate::key::{Key, KeyError, Owner, public};
use crate::status::Status;
use crate::stdout::print;
use crate::{background, log, names, probe, remote, run, stderr};

/// How long `down` waits for the bundle's process to end.
const DOWN_WAIT: Duration = Duration::from_secs(5);

/// Several network links become one Ethernet device.
#[derive(Debug, Parser)]
#[command(
    name = "tabane",
    version,
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the device and carry its frames, in the foreground, until SIGTERM, SIGINT or `tabane down`
    Up(Box<UpFlags>),
    /// End a running bundle and wait until it is gone
    Down {
        #[command(flatten)]
        bundle: Bundle,
    },
    /// Take a running bundle over with this program, in the foreground: the device and its connections live on
    Upgrade {
        #[command(flatten)]
        bundle: Bundle,
        /// Start the process that takes the bundle over in the background, for a service manager's reload
        #[arg(long)]
        background: bool,
    },
    /// Show what a running bundle does
    Status {
        #[command(flatten)]
        bundle: Bundle,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what happened lately: peers and links that came and went, and what showed it
    Events {
        #[command(flatten)]
        bundle: Bundle,
        /// Go on until Ctrl-C or until the bundle ends
        #[arg(long)]
        follow: bool,
        /// Print JSON, an object per line
        #[arg(long)]
        json: bool,
    },
    /// Switch the policy while traffic runs
    Policy {
        #[command(flatten)]
        bundle: NamedBundle,
        /// How cells are spread over the links, as after `--policy` of `tabane up`
        policy: String,
    },
    /// Switch the receive engine while traffic runs
    Receive {
        #[command(flatten)]
        bundle: NamedBundle,
        /// How the workers wait for frames and cells, as after `--receive` of `tabane up`
        engine: String,
    },
    /// Change the group key while traffic runs: this node sends with the first, and accepts the others, too
    Key {
        #[command(flatten)]
        bundle: NamedBundle,
        /// Key files: all group keys from now on
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Set while traffic runs which nodes are let in; a peer with another key, or with none of its own, is out at once
    Allow {
        #[command(flatten)]
        bundle: NamedBundle,
        /// Public keys of all nodes that are let in from now on
        #[arg(value_name = "PUBLIC-KEY", required_unless_present = "everyone")]
        keys: Vec<String>,
        /// Let in every node that has the key of the group
        #[arg(long, conflicts_with = "keys")]
        everyone: bool,
    },
    /// Add or remove a link while traffic runs
    Link {
        #[command(subcommand)]
        change: LinkChange,
    },
    /// Measure any network, with or without a bundle: starts the program tabane-probe, which lies beside this one
    #[command(disable_help_flag = true)]
    Probe {
        /// Its arguments
        #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Resolve names for a running bundle, which starts this by itself
    #[command(hide = true)]
    ResolveNames {
        #[arg(long)]
        user: Option<String>,
        #[arg(long)]
        no_sandbox: bool,
    },
    /// Read a configuration file and print what was understood, defaults included
    Check {
        /// The TOML file
        file: PathBuf,
    },
    /// Make a new group key: 32 random bytes as 64 hexadecimal digits
    Genkey {
        /// File to write, with mode 0600, never over an existing one [default: standard output]
        file: Option<PathBuf>,
        /// Make a key of this node alone, and print its public part, for `allow` on the others
        #[arg(long, requires = "file")]
        node: bool,
    },
}

#[derive(Args, Debug)]
struct Bundle {
    /// Name of the bundle
    #[arg(default_value = "tb0", value_parser = device_name)]
    name: String,
}

#[derive(Debug, Subcommand)]
enum LinkChange {
    /// Add a link
    Add {
        #[command(flatten)]
        bundle: NamedBundle,
        /// As after `--link` of `tabane up`
        #[arg(value_name = "NIC[,local=ADDR][,peer=HOST:PORT]...[,rate=RATE]")]
        link: String,
    },
    /// Remove a link; cells on their way still arrive
    Remove {
        #[command(flatten)]
        bundle: NamedBundle,
        /// The link's NIC, and its local address where several links use that NIC
        #[arg(value_name = "NIC[,local=ADDR]")]
        link: String,
    },
}

#[derive(Args, Debug)]
struct NamedBundle {
    /// Name of the bundle
    #[arg(value_parser = device_name)]
    name: String,
}

/// Flags of `up`. A flag replaces the file's value; links and addresses are added to the file's.
#[derive(Args, Debug)]
struct UpFlags {
    /// Configuration file (TOML)
    config: Option<PathBuf>,
    /// Name of the device and the bundle [default: tb0]
    #[arg(long)]
    name: Option<String>,
    /// One link; can be repeated. Without peers it finds them by IPv6 multicast, or, with a
    /// local address that routers forward to, listens for them. Without any IP, as Ethernet frames:
    /// `ether:NIC[,engine=auto|xdp|packet][,completion=WAY][,rate=RATE][,weight=N]`. In place of a NIC:
    /// `mem:PATH[,unit=SIZE][,ring=SIZE][,slots=N][,slot=N][,poll=TIME]`, memory that is shared with the other nodes
    #[arg(long = "link", value_name = "NIC[,local=ADDR][,peer=HOST:PORT]...[,rate=RATE][,weight=N]", value_parser = parse_link_flag)]
    links: Vec<LinkSettings>,
    /// Key file, the same on every node: nodes that have it are let in, and nobody else reads or changes what the links
    /// carry
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Key file of this node alone, as `tabane genkey --node FILE` makes it: others may then let it in or shut it out
    #[arg(long, value_name = "FILE")]
    node_key: Option<PathBuf>,
    /// Let in only nodes with this public key; can be repeated [default: every node that has the key of the group]
    #[arg(long = "allow", value_name = "PUBLIC-KEY")]
    allow: Vec<String>,
    /// Neither encrypt nor authenticate: for networks of your own
    #[arg(long)]
    insecure: bool,
    /// Cipher of the cells: auto, aes-256-gcm, chacha20-poly1305 or aegis-128l; auto is the processor's fastest,
    /// or the one that the peer demands [default: auto]
    #[arg(long)]
    cipher: Option<String>,
    /// UDP port of the first worker [default: 7420]
    #[arg(long, value_name = "N", value_parser = whole_number, allow_negative_numbers = true)]
    port: Option<i64>,
    /// MTU of the device, 68 to 65521; the links' MTUs do not limit it [default: 1500]
    #[arg(long, value_name = "BYTES", value_parser = whole_number, allow_negative_numbers = true)]
    mtu: Option<i64>,
    #[arg(long, help = format!("How cells are spread over the links: {} [default: adaptive]", policy_names()))]
    policy: Option<String>,
    /// Never send a lost cell again: applications repair what a link loses
    #[arg(long)]
    no_repair: bool,
    /// Link that active-backup uses while it is up
    #[arg(long, value_name = "NIC")]
    primary: Option<String>,
    /// When the primary link has come back, active-backup stays on the other
    #[arg(long)]
    no_preempt: bool,
    /// What makes a flow for the policy hash: layer2, layer2+3 or layer3+4 [default: layer3+4]
    #[arg(long, value_name = "LAYERS")]
    hash: Option<String>,
    #[command(flatten)]
    receive: ReceiveFlags,
    /// Pieces of a frame that are copied into one before the device takes it: auto, gather (none), copy (all), or how
    /// many of the first [default: auto]
    #[arg(long, value_name = "WHICH")]
    fragments: Option<String>,
    /// Workers, each with a queue of the device and a thread [default: 1]
    #[arg(long, value_name = "N", value_parser = whole_number, allow_negative_numbers = true)]
    workers: Option<i64>,
    /// Address of the device, such as 10.9.0.1/24; can be repeated
    #[arg(long = "address", value_name = "CIDR")]
    addresses: Vec<String>,
    /// User that the daemon becomes once all is open [default: tabane, if there is one]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Group whose members may ask the running bundle, besides root; they may not change its keys or take it over
    #[arg(long, value_name = "NAME")]
    control_group: Option<String>,
    /// Keep all rights of the user who starts it: for debuggers, never for shared machines
    #[arg(long)]
    no_sandbox: bool,
    #[command(flatten)]
    offload: OffloadFlags,
}

#[derive(Args, Debug)]
struct ReceiveFlags {
    /// How a worker waits for frames and cells: interrupt, timer, busy or adaptive [default: adaptive]
    #[arg(long, value_name = "ENGINE")]
    receive: Option<String>,
    /// Time between two polls of the engine timer, such as 20us [default: 20 us]
    #[arg(long, value_name = "TIME")]
    receive_interval: Option<String>,
    /// The largest part of a processor that a worker's engine adaptive may spin away, such as 50% [default: 90 %]
    #[arg(long, value_name = "PERCENT")]
    spin_share: Option<String>,
}

#[derive(Args, Debug)]
struct OffloadFlags {
    /// Send each cell by itself (no UDP_SEGMENT)
    #[arg(long)]
    no_gso: bool,
    /// Receive each cell by itself (no UDP_GRO)
    #[arg(long)]
    no_gro: bool,
    /// No TCP superframes on the device
    #[arg(long)]
    no_tso: bool,
    /// No UDP superframes on the device
    #[arg(long)]
    no_uso: bool,
    /// No unfinished checksums on the device; also ends TSO and USO there
    #[arg(long)]
    no_checksum: bool,
}

/// The definition of the command line, from which manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the command line `arguments` asks; the first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = match Cli::try_parse_from(arguments) {
        // The process that resolves names says nothing but answers.
        Ok(Cli { command: command @ Command::ResolveNames { .. } }) => command.execute(),
        Ok(cli) => log::start().map_err(anyhow::Error::new).and_then(|()| cli.command.execute()),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&error.render().to_string())
        }
        Err(error) => Err(BadInput::new(sentence(&error)).into()),
    };
    let code = done.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS);
    stderr::flush();
    code
}

impl Command {
    fn execute(self) -> anyhow::Result<()> {
        match self {
            Command::Up(flags) => {
                let file = flags.config.clone();
                run::up(&load(file.as_deref(), flags.settings())?)
            }
            Command::Down { bundle } => Ok(control::stop(&bundle.name, DOWN_WAIT)?),
            Command::Upgrade { bundle, background: true } => background::upgrade(&bundle.name),
            Command::Upgrade { bundle, background: false } => run::upgrade(&bundle.name),
            Command::Status { bundle, json } => status(&bundle.name, json),
            Command::Events { bundle, follow, json } => remote::events(&bundle.name, follow, json),
            Command::Policy { bundle, policy } => remote::switch_policy(&bundle.name, policy),
            Command::Receive { bundle, engine } => remote::switch_engine(&bundle.name, engine),
            Command::Key { bundle, files } => remote::change_keys(&bundle.name, &files),
            Command::Allow { bundle, keys, everyone } => {
                remote::change_allow(&bundle.name, (!everyone).then_some(keys))
            }
            Command::Link { change } => change.execute(),
            Command::Probe { arguments } => probe::execute(&arguments),
            Command::ResolveNames { user, no_sandbox } => names::serve(user.as_deref(), !no_sandbox),
            Command::Check { file } => print(&load(Some(&file), Settings::default())?.to_string()),
            Command::Genkey { file, node } => {
                generate_key(file.as_deref(), if node { Owner::Node } else { Owner::Group })
            }
        }
    }
}

impl LinkChange {
    fn execute(self) -> anyhow::Result<()> {
        match self {
            LinkChange::Add { bundle, link } => remote::change_link(&bundle.name, &Request::LinkAdd { link }),
            LinkChange::Remove { bundle, link } => {
                remote::change_link(&bundle.name, &Request::LinkRemove { link })
            }
        }
    }
}

impl UpFlags {
    fn settings(self) -> Settings {
        Settings {
            file: None,
            name: self.name.map(|name| Given::by_flag(name, "--name")),
            key: self.key.map(|key| Given::by_flag(key, "--key")),
            accept_keys: Vec::new(),
            nodes: NodeSettings {
                key: self.node_key.map(|key| Given::by_flag(key, "--node-key")),
                allow: Some(self.allow)
                    .filter(|allow| !allow.is_empty())
                    .map(|allow| Given::by_flag(allow, "--allow")),
            },
            port: self.port.map(|port| Given::by_flag(port, "--port")),
            mtu: self.mtu.map(|mtu| Given::by_flag(mtu, "--mtu")),
            policy: self.policy.map(|policy| Given::by_flag(policy, "--policy")),
            repair: self.no_repair.then(|| Given::by_flag(false, "--no-repair")),
            primary: self.primary.map(|primary| Given::by_flag(primary, "--primary")),
            preempt: self.no_preempt.then(|| Given::by_flag(false, "--no-preempt")),
            hash: self.hash.map(|hash| Given::by_flag(hash, "--hash")),
            classes: Vec::new(),
            receive: self.receive.settings(),
            fragments: self.fragments.map(|which| Given::by_flag(which, "--fragments")),
            workers: self.workers.map(|workers| Given::by_flag(workers, "--workers")),
            addresses: self
                .addresses
                .into_iter()
                .map(|address| Given::by_flag(address, "--address"))
                .collect(),
            security: self.insecure.then(|| Given::by_flag(Security::None.name().to_owned(), "--insecure")),
            cipher: self.cipher.map(|cipher| Given::by_flag(cipher, "--cipher")),
            access: AccessSettings {
                user: self.user.map(|user| Given::by_flag(user, "--user")),
                control_group: self.control_group.map(|group| Given::by_flag(group, "--control-group")),
                sandbox: self.no_sandbox.then(|| Given::by_flag(false, "--no-sandbox")),
            },
            tx_queue_len: None,
            offload: self.offload.settings(),
            links: self.links,
        }
    }
}

impl ReceiveFlags {
    fn settings(self) -> ReceiveSettings {
        ReceiveSettings {
            engine: self.receive.map(|engine| Given::by_flag(engine, "--receive")),
            interval: self.receive_interval.map(|time| Given::by_flag(time, "--receive-interval")),
            spin_share: self.spin_share.map(|share| Given::by_flag(share, "--spin-share")),
        }
    }
}

impl OffloadFlags {
    fn settings(&self) -> OffloadSettings {
        let off = |flagged: bool, flag| flagged.then(|| Given::by_flag(false, flag));
        OffloadSettings {
            gso: off(self.no_gso, "--no-gso"),
            gro: off(self.no_gro, "--no-gro"),
            tso: off(self.no_tso, "--no-tso"),
            uso: off(self.no_uso, "--no-uso"),
            checksum: off(self.no_checksum, "--no-checksum"),
        }
    }
}

fn load(file: Option<&Path>, flags: Settings) -> Result<Config, BadInput> {
    Config::load(file, flags).map_err(BadInput::from)
}

fn status(name: &str, json: bool) -> anyhow::Result<()> {
    let answer = control::ask(name, &Request::Status)?;
    if json {
        return print(&format!("{answer:#}\n"));
    }
    let status: Status = serde_json::from_value(answer)?;
    print(&status.table(io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()))
}

fn generate_key(file: Option<&Path>, owner: Owner) -> anyhow::Result<()> {
    let key = Key::generate()?;
    let Some(path) = file else { return print(&format!("{}\n", key.hex().as_str())) };
    key.write_new(path, owner).map_err(|error| match error {
        KeyError::Exists(_) | KeyError::Unwritable { .. } => BadInput::new(error.to_string()).into(),
        _ => anyhow::Error::new(error),
    })?;
    match owner {
        Owner::Group => Ok(()),
        Owner::Node => print(&format!("{}\n", public(&key.public()))),
    }
}

fn whole_number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "allowed: a whole number".to_owned())
}

fn device_name(text: &str) -> Result<String, String> {
    let allowed = || format!("{} cannot name a device; allowed: {DEVICE_NAME_ALLOWED}", quoted(text));
    is_device_name(text).then(|| text.to_owned()).ok_or_else(allowed)
}

/// Clap's error as one sentence: its message and its tips without the usage text.
fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let parts = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let parts = parts.map(|line| line.trim_start_matches("error: ").replacen("tip: ", "; ", 1));
    let joined = parts.collect::<Vec<_>>().join(" ").replace(" ; ", "; ");
    format!("{joined}; `tabane --help` explains")
}

#[cfg(test)]
mod tests;
