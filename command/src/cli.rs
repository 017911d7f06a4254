//! The command line: which commands there are, what their flags mean, and which part of the program does them.
//!
//! Flags become [`Settings`] as typed; `config` checks them together with the file's values. Where a name may be left out,
//! [`words`] tells it from what follows.

mod live;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use tabane_api::AskError;
use tabane_config::Config;
use tabane_config::key::{Key, KeyError, Owner, public};
use tabane_config::problem::{BadInput, quoted};
use tabane_config::settings::Settings;
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};

use crate::doctor::{self, Asked};
use crate::init::{self, InitFlags, JoinFlags};
use crate::metrics::Format;
use crate::save::KeyFiles;
use crate::source::{self, UpFlags};
pub use crate::stdout::print;
use crate::{daemon, remote, save, top, trace, why};
use live::{ClassChange, LinkChange, PeerChange};
use tabane_process::exit::report;
use tabane_process::start_log;
use words::BundleAndFile;

/// What `--version` says.
const VERSION: &str = if cfg!(feature = "kernel-path") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), ", built without the kernel path")
};
/// How long `down` waits for the bundle's process to end.
const DOWN_WAIT: Duration = Duration::from_secs(5);

/// Several network links become one Ethernet device.
#[derive(Debug, Parser)]
#[command(
    name = "tabane",
    version = VERSION,
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
        which: BundleAndFile,
        /// Start the process that takes the bundle over in the background, for a service manager's reload
        #[arg(long)]
        background: bool,
    },
    /// Show in one screen how the bundles are that are up here, or the one that is named
    Status {
        #[command(flatten)]
        bundle: Bundle,
        /// Print JSON, of one bundle
        #[arg(long, conflicts_with = "verbose")]
        json: bool,
        /// Print all that is known, with every counter
        #[arg(long, short)]
        verbose: bool,
    },
    /// List the bundles that are up in this network namespace, and how each one is
    List {
        /// Print JSON: a list of what `status --json` prints
        #[arg(long)]
        json: bool,
    },
    /// Set a bundle up on the first machine: writes its configuration and its key, starts it, and prints what to do on the others
    Init(InitFlags),
    /// Set a bundle up on a further machine, from the line that `tabane init` has printed there; reads it from standard input
    Join(JoinFlags),
    /// Undo `init` or `join`: end the bundle, disable its service, delete its configuration and its key
    Forget {
        /// Name of the bundle
        #[arg(value_parser = device_name)]
        name: String,
    },
    /// Look for what is wrong on this machine and on a bundle's paths, and for what mends it; exit code 3 when something is
    Doctor {
        /// A running bundle, or a configuration file (`./FILE`, `FILE.toml`) [default: the only bundle that is up]
        target: Option<String>,
        /// A NIC to look at before there is a bundle; can be repeated
        #[arg(long = "nic", value_name = "NIC")]
        nics: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Watch a running bundle for a moment, and say what keeps it from being faster
    Why {
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
    /// Show what a running bundle does, and go on showing it: links, flows, events; keys change the policy
    Top {
        #[command(flatten)]
        bundle: Bundle,
    },
    /// Print the metrics of the bundles that are up here, or of the one that is named, in the text format of Prometheus
    Metrics {
        #[command(flatten)]
        bundle: Bundle,
        /// Print OpenMetrics 1.0
        #[arg(long)]
        openmetrics: bool,
    },
    /// Write what passes the links, or the device, to a capture file for Wireshark, until Ctrl-C
    Trace {
        #[command(flatten)]
        bundle: Bundle,
        #[command(flatten)]
        wishes: trace::Wishes,
    },
    /// Show the policy, or switch it while traffic runs
    Policy {
        /// Name of the bundle [default: the only one that is up]
        #[arg(value_name = "NAME")]
        first: Option<String>,
        /// How cells are spread over the links, as after `--policy` of `tabane up`; without it the policy is shown
        #[arg(value_name = "POLICY")]
        second: Option<String>,
    },
    /// Show the receive engine, or switch it while traffic runs
    Receive {
        /// Name of the bundle [default: the only one that is up]
        #[arg(value_name = "NAME")]
        first: Option<String>,
        /// How the workers wait for frames and cells, as after `--receive` of `tabane up`; without it the engine is shown
        #[arg(value_name = "ENGINE")]
        second: Option<String>,
    },
    /// Change the group key while traffic runs: this node sends with the first, and accepts the others, too
    Key {
        /// Name of the bundle [default: the only one that is up], and key files: all group keys from now on
        #[arg(value_name = "NAME|FILE", required = true)]
        words: Vec<String>,
    },
    /// Set while traffic runs which nodes are let in; a peer with another key, or with none of its own, is out at once
    Allow {
        /// Name of the bundle [default: the only one that is up], and public keys of all nodes that are let in from now on
        #[arg(value_name = "NAME|PUBLIC-KEY", required_unless_present = "everyone")]
        words: Vec<String>,
        /// Let in every node that has the key of the group
        #[arg(long)]
        everyone: bool,
    },
    /// Add, remove, drain or change a link while traffic runs
    Link {
        #[command(subcommand)]
        change: LinkChange,
    },
    /// Name further peers on a link while traffic runs, or fewer
    Peer {
        #[command(subcommand)]
        change: PeerChange,
    },
    /// Show or change the classes of frames that have a policy of their own, while traffic runs
    Class {
        #[command(subcommand)]
        change: ClassChange,
    },
    /// Read the configuration file again, and change what differs while traffic runs: all of it, or nothing
    Reload {
        #[command(flatten)]
        which: BundleAndFile,
    },
    /// Write what was changed by hand into the configuration file, beside its comments
    Save {
        #[command(flatten)]
        which: BundleAndFile,
        #[command(flatten)]
        key_files: KeyFiles,
    },
    /// Measure any network, with or without a bundle: starts the program tabane-probe, which lies beside this one
    #[command(disable_help_flag = true)]
    Probe(Arguments),
    /// Show the bundles that are up here in a browser, and their figures to Prometheus: starts the program tabane-web, which lies beside this one
    #[command(disable_help_flag = true)]
    Web(Arguments),
    /// Keep the peers and keys of a running bundle as etcd or DNS has them: starts the program tabane-follow, beside this one
    #[command(disable_help_flag = true)]
    Follow(Arguments),
    /// Read a configuration file and print what was understood, defaults included
    Check {
        /// Name of a bundle whose configuration is /etc/tabane/NAME.toml, or a configuration file: a path with `/` or `.toml`
        #[arg(value_name = "NAME|FILE")]
        file: String,
        /// Do not look for the NICs: the file is another machine's
        #[arg(long)]
        no_nics: bool,
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

/// What another program gets.
#[derive(Args, Debug)]
struct Arguments {
    /// Its arguments
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Args, Debug)]
struct Bundle {
    /// Name of the bundle [default: the only one that is up]
    #[arg(value_parser = device_name)]
    name: Option<String>,
}

impl Bundle {
    /// The bundle that is meant.
    fn meant(self) -> Result<String, AskError> {
        tabane_api::meant(self.name)
    }
}

/// The definition of the command line, from which manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the command line `arguments` asks; the first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    run("tabane", "tabane", Cli::try_parse_from(&arguments), |cli| cli.command.execute(&arguments))
}

/// Has `program` do what was typed, and starts its log before. `command`: what its help is asked by.
pub fn run<C>(
    program: &str,
    command: &str,
    typed: Result<C, clap::Error>,
    execute: impl FnOnce(C) -> anyhow::Result<()>,
) -> ExitCode {
    let done = match typed {
        Ok(typed) => start_log().map_err(anyhow::Error::new).and_then(|()| execute(typed)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&error.render().to_string())
        }
        Err(error) => Err(BadInput::new(sentence(&error, command)).into()),
    };
    done.map_or_else(|error| report(program, &error), |()| ExitCode::SUCCESS)
}

impl Command {
    /// Does the command; `line`: all words of the command line.
    fn execute(self, line: &[OsString]) -> anyhow::Result<()> {
        match self {
            Command::Up(flags) => {
                let (config, origin) = source::configured(*flags, line.get(2..).unwrap_or_default())?;
                daemon::up(&config, origin)
            }
            Command::Down { bundle } => Ok(tabane_api::stop(&bundle.meant()?, DOWN_WAIT)?),
            Command::Upgrade { which, background } => {
                let (name, file) = which.meant()?;
                let upgrade = if background { daemon::upgrade_in_background } else { daemon::upgrade };
                upgrade(&name, file.as_deref())
            }
            Command::Status { bundle, json: true, .. } => remote::status_json(&bundle.meant()?),
            Command::Status { bundle, verbose, .. } => remote::status(bundle.name, verbose),
            Command::List { json } => remote::list(json),
            Command::Init(flags) => init::init(flags),
            Command::Join(flags) => init::join(&flags),
            Command::Forget { name } => init::forget(&name),
            Command::Doctor { target, nics, json } => doctor::doctor(&Asked { target, nics, json }),
            Command::Why { bundle, json } => why::why(&bundle.meant()?, json),
            Command::Events { bundle, follow, json } => remote::events(&bundle.meant()?, follow, json),
            Command::Top { bundle } => top::run(&bundle.meant()?),
            Command::Metrics { bundle, openmetrics } => {
                let format = if openmetrics { Format::OpenMetrics } else { Format::Text };
                remote::metrics(bundle.name, format)
            }
            Command::Trace { bundle, wishes } => trace::run(&bundle.meant()?, &wishes),
            Command::Policy { first, second } => {
                remote::policy(words::with_value(first, second, words::is_policy)?)
            }
            Command::Receive { first, second } => {
                remote::engine(words::with_value(first, second, words::is_engine)?)
            }
            Command::Key { words } => {
                let (name, files) = words::with_files(words)?;
                remote::change_keys(&name, &files)
            }
            Command::Allow { words, everyone } => {
                let (name, keys) = words::with_keys(words)?;
                remote::change_allow(&name, (!everyone).then_some(keys))
            }
            Command::Link { change } => change.execute(),
            Command::Peer { change } => change.execute(),
            Command::Class { change } => change.execute(),
            Command::Reload { which } => {
                let (name, file) = which.meant()?;
                save::reload(&name, file.as_deref())
            }
            Command::Save { which, key_files } => {
                let (name, file) = which.meant()?;
                save::save(&name, file.as_deref(), &key_files)
            }
            Command::Probe(Arguments { arguments }) => daemon::execute("probe", &arguments),
            Command::Web(Arguments { arguments }) => daemon::execute("web", &arguments),
            Command::Follow(Arguments { arguments }) => daemon::execute("follow", &arguments),
            Command::Check { file, no_nics } => check(&file, !no_nics),
            Command::Genkey { file, node } => {
                generate_key(file.as_deref(), if node { Owner::Node } else { Owner::Group })
            }
        }
    }
}

/// Prints what is understood of a configuration, and looks whether its links can be opened here.
fn check(file: &str, nics: bool) -> anyhow::Result<()> {
    let (path, _) = source::file(file)?;
    let config = Config::load(Some(&path), Settings::default()).map_err(BadInput::from)?;
    print(&config.to_string())?;
    if nics { daemon::check(&config) } else { Ok(()) }
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

fn device_name(text: &str) -> Result<String, String> {
    let allowed = || format!("{} cannot name a device; allowed: {DEVICE_NAME_ALLOWED}", quoted(text));
    is_device_name(text).then(|| text.to_owned()).ok_or_else(allowed)
}

/// Clap's error as one sentence: its message and its tips without the usage text; `command` explains more.
#[must_use]
pub fn sentence(error: &clap::Error, command: &str) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let parts = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let parts = parts.map(|line| line.trim_start_matches("error: ").replacen("tip: ", "; ", 1));
    let joined = parts.collect::<Vec<_>>().join(" ").replace(" ; ", "; ");
    format!("{joined}; `{command} --help` explains")
}

#[cfg(test)]
mod tests;
