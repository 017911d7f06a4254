//! The process that asks the system's resolver, `tabaned resolve-names`.
//!
//! A daemon with named peers starts it before it gives up its rights. It is a fresh program and no fork, so that it holds no
//! keys. Before the first question it gives up more than the daemon in one respect, all capabilities, and less in another:
//! it reads the files that resolvers read ([`confine_resolver`]). It reads names from its standard
//! input, a line each, writes an answer for each to its standard output, and ends with its input, so with the daemon.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use tabane_config::{Access, Config};
use tabane_process::sandbox::confine_resolver;

use super::{ADDRESSES_MAX, Answer, is_of_one_host};

/// The word with which the daemon starts the process, and those that may follow.
pub(crate) const RESOLVE: &str = "resolve-names";
const USER: &str = "--user";
const NO_SANDBOX: &str = "--no-sandbox";

/// The daemon's end of the conversation with the process.
pub(crate) struct Resolver(UnixStream);

impl Resolver {
    /// Starts the process, if the configuration has names. It becomes the same user as the daemon.
    pub(crate) fn start(config: &Config) -> io::Result<Option<Resolver>> {
        if !config.names_peers() {
            return Ok(None);
        }
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        // This program, also when another has taken its place in the file system.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tabaned").arg(RESOLVE);
        match &config.access {
            Access { sandbox: false, .. } => drop(command.arg(NO_SANDBOX)),
            Access { user: Some(user), .. } => drop(command.args([USER, user])),
            Access { user: None, .. } => {}
        }
        // Nobody waits for it: it ends when the daemon does.
        command.stdin(theirs.try_clone()?).stdout(theirs).stderr(Stdio::inherit()).spawn()?;
        Ok(Some(Resolver(ours)))
    }

    pub(super) fn into_stream(self) -> UnixStream {
        self.0
    }
}

/// Is that process, started with these words: answers until its input ends.
pub(crate) fn serve(words: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => confine_resolver(None)?,
        [USER, user] => confine_resolver(Some(user))?,
        [NO_SANDBOX] => {}
        _ => anyhow::bail!("tabaned {RESOLVE} is started by a bundle alone"),
    }
    for name in io::stdin().lock().lines() {
        let name = name?;
        // A name may take half a minute; the others do not wait for it.
        std::thread::Builder::new().name("name".to_owned()).spawn(move || say(&resolve(name)))?;
    }
    Ok(())
}

fn say(answer: &Answer) {
    let Ok(line) = serde_json::to_string(answer) else { return };
    // When nobody listens any more, the input ends, too.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Asks the system for the addresses of a name, in the order of its preference.
fn resolve(name: String) -> Answer {
    match (name.as_str(), 0).to_socket_addrs() {
        Ok(found) => {
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.map(|endpoint| endpoint.ip()).filter(|address| is_of_one_host(*address)) {
                if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                    addresses.push(address);
                }
            }
            Answer { name, addresses, error: None }
        }
        Err(error) => Answer { name, addresses: Vec::new(), error: Some(error.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_its_own_name_and_not_what_nobody_is_called() {
        let found = resolve("localhost".to_owned());
        assert!(found.error.is_none() && found.addresses.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(!found.addresses.is_empty());
        let missing = resolve("nobody.invalid".to_owned());
        assert!(missing.error.is_some() && missing.addresses.is_empty(), "{missing:?}");
    }
}
