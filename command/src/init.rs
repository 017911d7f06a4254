//! First contact: `tabane init` on the first machine, `tabane join` on the others, `tabane forget` to undo either.
//!
//! ```text
//!   flags, questions (prompt.rs, nics.rs) ──> Setup ──> NAME.toml and NAME.key, service (setup.rs)
//!   init:  prints the line (token.rs) that join reads: it holds the key, so it never stands on a command line
//! ```
//!
//! Nothing is written before all is known, and what was written is taken back when it cannot be used.

mod nics;
mod prompt;
mod setup;
mod token;

use std::io::{self, IsTerminal, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use tabane_api::origin::file_of_service;
use tabane_config::classes::policy_names;
use tabane_config::key::{Key, KeyError, Owner};
use tabane_config::problem::{BadInput, quoted};
use tabane_config::{Cidr, LinkConfig, Mtu, PORT, Ports, parse_link};
use tabane_io::tap::is_device_name;
use tabane_proto::PolicyKind;
use zeroize::Zeroizing;

use crate::stdout::print;
use prompt::Prompt;
use setup::Setup;
use token::LINE_MAX;
pub(crate) use token::Token;

/// The first bundle of a machine has the usual port; each further one gets one that is so much higher.
const PORT_STEP: u16 = 100;
/// The first machine's address, unless it wants another.
const ADDRESS: &str = "10.9.0.1/24";

/// Flags of `init`. What is missing is asked for.
#[derive(Args, Debug)]
pub(crate) struct InitFlags {
    /// Name of the bundle and its device
    #[arg(long, default_value = "tb0")]
    name: String,
    /// Key file that exists already [default: a new key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Neither encrypt nor authenticate: for networks of your own
    #[arg(long)]
    insecure: bool,
    #[arg(long, default_value = PolicyKind::default().name(), help = format!("How cells are spread over the links: {}", policy_names()))]
    policy: String,
    /// UDP port of the first worker [default: 7420, or a higher one beside other bundles]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// MTU of the device, or auto: what fits into the links' packets whole where programs in the kernel carry frames, else 1500
    #[arg(long, value_name = "BYTES", default_value_t)]
    mtu: Mtu,
    #[command(flatten)]
    machine: MachineFlags,
}

/// Flags of `join`. What is missing is asked for.
#[derive(Args, Debug)]
pub(crate) struct JoinFlags {
    #[command(flatten)]
    machine: MachineFlags,
}

/// What every machine decides for itself.
#[derive(Args, Debug)]
struct MachineFlags {
    /// One link, as after `--link` of `tabane up`; can be repeated
    #[arg(long = "link", value_name = "NIC[,…]")]
    links: Vec<String>,
    /// Address of the device, such as 10.9.0.1/24; `none` gives it none
    #[arg(long, value_name = "CIDR")]
    address: Option<String>,
    /// Take the proposals in place of questions
    #[arg(long, short)]
    yes: bool,
    /// Write the configuration and start nothing
    #[arg(long)]
    no_start: bool,
    /// Configuration file to write; the key goes beside it [default: /etc/tabane/NAME.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Sets a bundle up on its first machine.
pub(crate) fn init(flags: InitFlags) -> anyhow::Result<()> {
    let prompt = Prompt::new(flags.machine.yes);
    let file = flags.machine.file(&flags.name)?;
    let policy = policy(&flags.policy)?;
    let port = flags.port.map_or_else(free_port, Ok)?;
    let links = flags.machine.links(&prompt, port)?;
    let key = match flags.key {
        Some(path) => read_key(&path)?,
        None if flags.insecure => Key::generate()?,
        None => {
            match prompt.ask("Key: a new one, or the file of one that exists", "new", "--key FILE")?.as_str()
            {
                "new" => Key::generate()?,
                path => read_key(Path::new(path))?,
            }
        }
    };
    let address = flags.machine.address(&prompt, ADDRESS)?;
    let (name, mtu, sealed) = (flags.name, flags.mtu, !flags.insecure);
    let token = Token { name, key, sealed, port, policy, mtu, address };
    let started = Setup { token: &token, links, address, file }.perform(!flags.machine.no_start)?;
    let line = token.line();
    print(&format!(
        "{started}\nOn each other machine `tabane join` asks for this line. Who has it belongs to the group:\n\n{}\n\n\
         In a script: tabane join --yes --link NIC --link NIC --address ADDRESS < FILE, where FILE has the line and mode 0600\n",
        line.as_str()
    ))
}

/// Sets a bundle up on a further machine.
pub(crate) fn join(flags: &JoinFlags) -> anyhow::Result<()> {
    let prompt = Prompt::new(flags.machine.yes);
    let token = read_token(&prompt)?;
    let file = flags.machine.file(&token.name)?;
    let links = flags.machine.links(&prompt, token.port)?;
    let proposed =
        token.address.and_then(next).map_or_else(|| "none".to_owned(), |address| address.to_string());
    let address = flags.machine.address(&prompt, &proposed)?;
    print(&Setup { token: &token, links, address, file }.perform(!flags.machine.no_start)?)
}

/// Undoes [`init`] or [`join`].
pub(crate) fn forget(name: &str) -> anyhow::Result<()> {
    print(&setup::forget(name)?)
}

impl MachineFlags {
    fn file(&self, name: &str) -> Result<PathBuf, BadInput> {
        if !is_device_name(name) {
            let allowed = tabane_io::tap::DEVICE_NAME_ALLOWED;
            return Err(BadInput::new(format!(
                "--name: {} cannot name a device; allowed: {allowed}",
                quoted(name)
            )));
        }
        let file = self.file.clone().unwrap_or_else(|| file_of_service(name));
        if file.exists() {
            return Err(BadInput::new(format!(
                "{} exists already; `tabane forget {name}` deletes it, or choose another name",
                file.display()
            )));
        }
        Ok(file)
    }

    fn links(&self, prompt: &Prompt, port: u16) -> Result<Vec<LinkConfig>, BadInput> {
        let typed = if self.links.is_empty() { ask_for_links(prompt)? } else { self.links.clone() };
        let ports = Ports { first: port, ..Ports::default() };
        let parse = |text: &String| parse_link(text, ports).map_err(BadInput::new);
        typed.iter().map(parse).collect()
    }

    fn address(&self, prompt: &Prompt, proposed: &str) -> Result<Option<Cidr>, BadInput> {
        let typed = match &self.address {
            Some(address) => address.clone(),
            None => prompt.ask("Address of the device, or none", proposed, "--address CIDR")?,
        };
        if typed == "none" {
            return Ok(None);
        }
        let allowed = tabane_config::address::CIDR_ALLOWED;
        let address = typed.parse();
        address
            .map(Some)
            .map_err(|why: String| BadInput::new(format!("--address: {why}; allowed: {allowed}, or none")))
    }
}

fn ask_for_links(prompt: &Prompt) -> Result<Vec<String>, BadInput> {
    let found = nics::found().map_err(|error| BadInput::new(error.to_string()))?;
    let proposed = nics::proposed(&found).join(" ");
    prompt.say(&nics::table(&found));
    let answer = prompt.ask("Which of them shall be links", &proposed, "--link NIC")?;
    let nics: Vec<String> =
        answer.split([' ', ',']).filter(|nic| !nic.is_empty()).map(str::to_owned).collect();
    if nics.is_empty() {
        return Err(BadInput::new("no link is given; allowed: --link NIC, one for each link"));
    }
    Ok(nics)
}

fn policy(name: &str) -> Result<PolicyKind, BadInput> {
    let unknown = |_| format!("--policy: {} is unknown; allowed: {}", quoted(name), policy_names());
    name.parse().map_err(|error| BadInput::new(unknown(error)))
}

fn read_key(path: &Path) -> anyhow::Result<Key> {
    let read = Key::read(path, Owner::Group);
    Ok(read.map_err(|error| BadInput::new(format!("--key: {error}; allowed: {}", KeyError::ALLOWED)))?)
}

/// The first port that no other bundle of this machine uses.
fn free_port() -> anyhow::Result<u16> {
    let mut used = setup::ports();
    for name in tabane_api::present()? {
        let node = tabane_api::status_of(&name).map(|status| status.node).unwrap_or_default();
        used.extend(node.rsplit('/').next().and_then(|port| port.parse::<u16>().ok()));
    }
    let free = (PORT..u16::MAX - PORT_STEP).step_by(PORT_STEP.into());
    let free = free.into_iter().find(|port| !used.iter().any(|used| used.abs_diff(*port) < PORT_STEP / 2));
    Ok(free.unwrap_or(PORT))
}

fn read_token(prompt: &Prompt) -> anyhow::Result<Token> {
    let mut line = Zeroizing::new(String::with_capacity(LINE_MAX));
    if io::stdin().is_terminal() {
        line.push_str(
            &prompt
                .ask_unseen("The line that `tabane init` printed on the first machine (it is not shown)")?,
        );
    } else {
        io::stdin().take(LINE_MAX as u64).read_to_string(&mut line)?;
    }
    let allowed = "the line that `tabane init` has printed, on standard input";
    Ok(Token::parse(&line).map_err(|error| BadInput::new(format!("{error}; allowed: {allowed}")))?)
}

/// The next address of the same network, for the second machine.
fn next(first: Cidr) -> Option<Cidr> {
    let address = match first.address {
        IpAddr::V4(address) => IpAddr::from(u32::from(address).checked_add(1)?.to_be_bytes()),
        IpAddr::V6(address) => IpAddr::from(u128::from(address).checked_add(1)?.to_be_bytes()),
    };
    Some(Cidr { address, ..first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_machine_has_the_next_address() {
        let next = |text: &str| next(text.parse().expect("an address")).map(|next| next.to_string());
        assert_eq!(next("10.9.0.1/24").as_deref(), Some("10.9.0.2/24"));
        assert_eq!(next("fd00::1/64").as_deref(), Some("fd00::2/64"));
        assert_eq!(next("255.255.255.254/8").as_deref(), Some("255.255.255.255/8"));
    }
}
