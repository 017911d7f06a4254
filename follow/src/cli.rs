//! The command line of `tabane-follow`, and the threads that it starts.
//!
//! 0: it was told to end, or the rotation is done; 1: it failed while running; 2: what was asked cannot be done. An error is one
//! sentence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::{env, fs, thread};

use anyhow::Context;
use clap::{CommandFactory, Parser};
use rustix::event::{PollFd, PollFlags, poll};
use tabane_config::address::parse_host;
use tabane_config::key::{Key, KeyError, Owner};
use tabane_config::problem::{BadInput, quoted};
use tabane_config::{PORT, Peer};
use tabane_io::Signals;
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};

use crate::News;
use crate::announce::{Announced, Announcer};
use crate::cache::Cache;
use crate::dns::{self, Service};
use crate::etcd::{Access, Etcd, Login, watch};
use crate::follower::Follower;
use crate::plan::Wishes;
use crate::rotate::rotate;

/// Where the cache lies when no service manager says so.
const STATE: &str = "/var/lib/tabane-follow";
/// Longest name of a node, in bytes: that of a host name.
const NAME_MAX: usize = 253;

/// Keep the peers and keys of a running bundle as etcd or DNS has them, until Ctrl-C or SIGTERM
#[derive(Debug, Parser)]
#[command(name = "tabane-follow", version, arg_required_else_help = false)]
struct Cli {
    /// Name of the bundle, which need not be up yet
    bundle: String,
    /// Where etcd listens, and the prefix below which the fleet stands; repeated for the members of a cluster [default prefix:
    /// /tabane/BUNDLE]
    #[arg(long, value_name = "URL", required_unless_present = "srv")]
    etcd: Vec<String>,
    /// A name whose SRV records say where nodes listen, for one link or for all; can be repeated
    #[arg(long, value_name = "[NIC=]NAME", conflicts_with = "etcd")]
    srv: Vec<String>,
    /// A DNS server to ask; can be repeated [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "ADDRESS", requires = "srv")]
    dns: Vec<IpAddr>,
    /// File of certificates, one of which vouches for etcd
    #[arg(long, value_name = "FILE", requires = "etcd")]
    ca: Option<PathBuf>,
    /// File with this node's certificate for etcd
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "cert_key"])]
    cert: Option<PathBuf>,
    /// File with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// User of etcd
    #[arg(long, value_name = "NAME", requires_all = ["etcd", "password_file"])]
    user: Option<String>,
    /// File with that user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Take the group keys from etcd, too; only over TLS, and with a certificate or a user
    #[arg(long, requires = "etcd")]
    keys: bool,
    /// Let in only the nodes whose public keys etcd has; only over TLS, and with a certificate or a user
    #[arg(long, requires = "etcd")]
    allow: bool,
    /// This node's name in the fleet [default: the host's name]
    #[arg(long = "as", value_name = "NODE", requires = "etcd")]
    name: Option<String>,
    /// Where others greet a link, when its own address is not stated or is another outside; can be repeated
    #[arg(long, value_name = "NIC=ADDRESS[:PORT]", requires = "etcd", conflicts_with = "silent")]
    announce: Vec<String>,
    /// Announce nothing of this node
    #[arg(long, requires = "etcd")]
    silent: bool,
    /// How long this node's record outlives it, in seconds, 5 to 3600
    #[arg(long, value_name = "SECONDS", requires = "etcd", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=3600))]
    lease: u32,
    /// File that keeps what was known last [default: BUNDLE.json in $STATE_DIRECTORY, or in /var/lib/tabane-follow]
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,
    /// Follow nothing: have the whole fleet change its group key to the one in this file, and end
    #[arg(long, value_name = "FILE", requires = "etcd", conflicts_with_all = ["keys", "allow", "silent", "announce", "cache"])]
    rotate: Option<PathBuf>,
    /// A node that is not waited for, such as one that was stolen; can be repeated
    #[arg(long, value_name = "NAME", requires = "rotate")]
    without: Vec<String>,
}

/// The definition of the command line, from which manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the command line `arguments` asks; the first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    tabane::cli::run("tabane-follow", "tabane-follow", Cli::try_parse_from(arguments), Cli::execute)
}

impl Cli {
    fn execute(self) -> anyhow::Result<()> {
        if !is_device_name(&self.bundle) {
            let bundle = quoted(&self.bundle);
            return refused(format!("{bundle} cannot name a bundle; allowed: {DEVICE_NAME_ALLOWED}"));
        }
        if self.etcd.is_empty() { self.follow_dns() } else { self.follow_etcd() }
    }

    fn follow_dns(self) -> anyhow::Result<()> {
        let services: Vec<Service> = self.srv.iter().map(|text| service(text)).collect::<Result<_, _>>()?;
        let source = self.srv.join(" ");
        let signals = blocked()?;
        let follower = self.follower(String::new(), Wishes::default(), source)?;
        let servers = self.dns;
        run(follower, signals, move |news| {
            if let Err(error) = dns::watch(&services, &servers, &news) {
                // The thread ends, and with it the news.
                let _ = news.send(News::Away(format!("no name can be resolved: {error}")));
            }
        })
    }

    fn follow_etcd(mut self) -> anyhow::Result<()> {
        let name = self.name.take().unwrap_or_else(host_name);
        if name.is_empty()
            || name.len() > NAME_MAX
            || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
        {
            let allowed = "1 to 253 letters, digits and signs of ASCII without `/`";
            return refused(format!("--as {}: no name of a node; allowed: {allowed}", quoted(&name)));
        }
        let access = self.access()?;
        let protected = access.is_protected();
        let secrets = [(self.keys, "--keys"), (self.allow, "--allow"), (self.rotate.is_some(), "--rotate")];
        if let Some((_, flag)) = secrets.iter().find(|(is_asked, _)| *is_asked && !protected) {
            let why = "what decides who is let in does not come over an open connection";
            let allowed = "https:// URLs with --cert and --cert-key, or with --user and --password-file";
            return refused(format!("{flag}: {why}; allowed: {allowed}"));
        }
        let source = access.urls.join(" ");
        let etcd = access.client(&format!("/tabane/{}", self.bundle))?;
        if let Some(file) = &self.rotate {
            let key = Key::read(file, Owner::Group).map_err(|error| {
                BadInput::new(format!("--rotate: {error}; allowed: {}", KeyError::ALLOWED))
            })?;
            return rotate(&etcd, &key.hex(), &self.without, |what| tabane::cli::print(&format!("{what}\n")));
        }
        self.start(Arc::new(etcd), name, source)
    }

    fn start(self, etcd: Arc<Etcd>, name: String, source: String) -> anyhow::Result<()> {
        let endpoints: BTreeMap<String, SocketAddr> =
            self.announce.iter().map(|text| announced(text)).collect::<Result<_, _>>()?;
        let wishes = Wishes { keys: self.keys, allow: self.allow };
        let mut follower = self.follower(name.clone(), wishes, source)?;
        let signals = blocked()?;
        let watched = Arc::clone(&etcd);
        if !self.silent {
            let announced = Announced { bundle: self.bundle, name, endpoints, lease: self.lease };
            let announcer = Announcer::start(etcd, announced).context("no thread")?;
            follower.announce_by(announcer);
        }
        run(follower, signals, move |news| watch(&watched, &news))
    }

    fn follower(&self, own: String, wishes: Wishes, source: String) -> anyhow::Result<Follower> {
        let path = self.cache.clone().unwrap_or_else(|| {
            let directory = env::var_os("STATE_DIRECTORY").map_or_else(|| STATE.into(), PathBuf::from);
            directory.join(format!("{}.json", self.bundle))
        });
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            let (path, parent) = (path.display(), parent.display());
            let allowed = "--cache FILE in a directory that exists";
            return refused(format!("the cache {path}: no directory {parent}; allowed: {allowed}"));
        }
        Ok(Follower::new(self.bundle.clone(), own, wishes, Cache::new(path), source))
    }

    fn access(&self) -> anyhow::Result<Access> {
        let login = self.user.clone().zip(self.password_file.as_ref());
        let login = login.map(|(user, file)| {
            let wrong =
                |error| format!("--password-file {}: {error}; allowed: a file of one line", file.display());
            let password = fs::read_to_string(file).map_err(|error| BadInput::new(wrong(error)))?;
            anyhow::Ok(Login { user, password: password.trim_end_matches(['\r', '\n']).to_owned() })
        });
        Ok(Access {
            urls: self.etcd.clone(),
            ca: self.ca.clone(),
            certificate: self.cert.clone().zip(self.cert_key.clone()),
            login: login.transpose()?,
        })
    }
}

/// Follows, with a thread that brings news, until a signal comes.
fn run(
    follower: Follower,
    signals: Signals,
    bring: impl FnOnce(Sender<News>) + Send + 'static,
) -> anyhow::Result<()> {
    let (sender, news) = channel();
    let stop = sender.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while poll(&mut [PollFd::new(&signals, PollFlags::IN)], None).is_err() {}
            let _ = stop.send(News::Stop);
        })
        .context("no thread")?;
    thread::Builder::new().name("news".to_owned()).spawn(move || bring(sender)).context("no thread")?;
    follower.run(&news);
    Ok(())
}

/// Signals, blocked before there are threads that one could end.
fn blocked() -> anyhow::Result<Signals> {
    Signals::block().context("waiting for signals")
}

/// Reads `[NIC=]NAME`.
fn service(text: &str) -> anyhow::Result<Service> {
    let (nic, name) = text.split_once('=').unwrap_or(("", text));
    let is_name =
        !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_name && (nic.is_empty() || is_device_name(nic)) {
        return Ok(Service { nic: nic.to_owned(), name: name.to_owned() });
    }
    let allowed = "NAME or NIC=NAME, such as _tabane._udp.example.org";
    refused(format!("--srv {}: no name; allowed: {allowed}", quoted(text)))
}

/// Reads `NIC=ADDRESS[:PORT]`.
fn announced(text: &str) -> anyhow::Result<(String, SocketAddr)> {
    let allowed = "NIC=ADDRESS or NIC=ADDRESS:PORT, such as eth1=198.51.100.1";
    let wrong = |why: &str| BadInput::new(format!("--announce {}: {why}; allowed: {allowed}", quoted(text)));
    let (nic, address) = text.split_once('=').ok_or_else(|| wrong("no NIC"))?;
    match tabane_config::address::parse_peer(address, PORT).map_err(|why| wrong(&why))? {
        Peer::Address(endpoint) if parse_host(&endpoint.ip().to_string()).is_ok() => {
            Ok((nic.to_owned(), endpoint))
        }
        _ => Err(wrong("no address").into()),
    }
}

fn refused<T>(why: String) -> anyhow::Result<T> {
    Err(BadInput::new(why).into())
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use tabane::cli::sentence;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn why_not(words: &str) -> String {
        let words = ["tabane-follow"].into_iter().chain(words.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| sentence(&error, "tabane-follow"));
        cli.map_or_else(|why| why, |cli| cli.execute().expect_err("refused").to_string())
    }

    #[test]
    fn what_cannot_be_done_is_one_sentence() {
        let open = "does not come over an open connection; allowed: https:// URLs with";
        for (words, why) in [
            ("tb0", "--etcd <URL>"),
            ("tb0 --etcd http://127.0.0.1:2379 --keys --cache /tmp/a", open),
            ("tb0 --etcd http://127.0.0.1:2379 --allow --cache /tmp/a", open),
            ("tb0 --etcd http://127.0.0.1:2379 --rotate /dev/null", open),
            (
                "tb0 --etcd http://127.0.0.1:2379 --cache /no/such/file",
                "no directory /no/such; allowed: --cache FILE",
            ),
            ("tb0 --etcd http://127.0.0.1:2379 --as a/b --cache /tmp/a", "--as `a/b`: no name of a node"),
            ("tb0 --etcd http://127.0.0.1:2379 --announce eth1 --cache /tmp/a", "--announce `eth1`: no NIC"),
            (
                "tb0 --etcd http://127.0.0.1:2379 --announce eth1=h --cache /tmp/a",
                "no address; allowed: NIC=ADDRESS",
            ),
            ("tb0 --etcd 127.0.0.1 --cache /tmp/a", "allowed: http://HOST:PORT"),
            ("tb0 --srv =x.example --dns 192.0.2.1 --cache /no/such/file", "no directory"),
            ("tb0 --srv eth1= --cache /tmp/a", "--srv `eth1=`: no name; allowed: NAME or NIC=NAME"),
            ("a_name_that_is_too_long --srv x --cache /tmp/a", "cannot name a bundle"),
        ] {
            let said = why_not(words);
            assert!(said.contains(why) && !said.contains('\n'), "{words}: {said}");
        }
    }
}
