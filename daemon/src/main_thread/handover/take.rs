//! The new process's part: it asks for the bundle, prepares, and takes it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::unistd::User;
use serde_json::Value;
use tabane_api::socket::peer_of;
use tabane_api::{AskError, Origin, Request, open_request, refusal};
use tabane_config::{Access, Config, FixedConfig, LinkConfig};
use tabane_io::{AnyLink, Offload, Tap, TapQueue};

use super::{BundleState, Talk, VERSION, Word};
use crate::machine::medium::Medium;
use crate::machine::sockets;
use crate::shell::in_force::Filed;

/// Time for the old process to answer, and to let its workers drain.
const ANSWER: Duration = Duration::from_secs(5);
/// Time for the old process to tell the service manager.
const FAREWELL: Duration = Duration::from_secs(1);

/// A handover under way, as the new process sees it.
pub(crate) struct Takeover {
    talk: Talk,
    name: String,
    state: BundleState,
    config: Config,
    filed: Filed,
}

pub(crate) struct Share {
    pub(crate) queue: TapQueue,
    pub(crate) sockets: Vec<AnyLink>,
}

/// The open files of a bundle.
pub(crate) struct Files {
    pub(crate) listener: OwnedFd,
    pub(crate) tap: Tap,
    pub(crate) shares: Vec<Share>,
    /// The socket to the service manager; a process that is no service of one has none.
    pub(crate) notify: Option<OwnedFd>,
}

impl Takeover {
    /// Asks the bundle `name` for its state and its files. Which user this process becomes, who may ask it, and whether it has a
    /// sandbox is as `stated`; without that it has a sandbox, and the other's user, if that is not root.
    pub(crate) fn ask(name: &str, stated: Option<Access>) -> anyhow::Result<Takeover> {
        let stream = open_request(name, &Request::Upgrade)?;
        let user = user_of(peer_of(&stream)?.pid);
        let mut talk = Talk::new(stream)?;
        let answer: Value = talk.receive(ANSWER).map_err(|error| failed(name, &error.to_string()))?;
        let (state, told) = understood(name, answer)?;
        // The other process may have been taken over, and this one may have more rights: none are as it says.
        let access = stated.unwrap_or_else(|| Access { user, ..Access::default() });
        let config = Config { fixed: FixedConfig { access, ..told.fixed }, ..told };
        let filed = match &state.filed {
            Some((told, origin)) => {
                let config = told.understood().map_err(|reason| failed(name, &reason))?;
                Filed { config, origin: origin.clone() }
            }
            None => Filed { config: config.clone(), origin: Origin::default() },
        };
        Ok(Takeover { talk, name: name.to_owned(), state, config, filed })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn filed(&self) -> Filed {
        self.filed.clone()
    }

    pub(crate) fn state(&self) -> &BundleState {
        &self.state
    }

    pub(crate) fn media(&self) -> Result<Vec<Medium>, AskError> {
        let pairs = self.config.links.iter().zip(&self.state.nics);
        let same = |(link, index): (&LinkConfig, &u32)| {
            let medium = Medium::in_use(link, *index);
            medium.ok_or_else(|| failed(&self.name, &format!("NIC {} is gone", link.nic)))
        };
        pairs.map(same).collect()
    }

    pub(crate) fn files(&mut self) -> anyhow::Result<Files> {
        let config = &self.config;
        let mut files = std::mem::take(&mut self.talk.files).into_iter();
        let mut next = || files.next().ok_or_else(|| failed(&self.name, "it gave too few files"));
        let listener = next()?;
        let (mut queues, mut sockets) = (Vec::new(), Vec::new());
        for number in 0..config.workers {
            queues.push(next()?);
            let adopt = |link| -> anyhow::Result<AnyLink> { sockets::adopt(config, link, number, next()?) };
            sockets.push(config.links.iter().map(adopt).collect::<Result<Vec<_>, _>>()?);
        }
        let notify = files.next();
        let [checksum, tso, uso] = self.state.offload;
        let (tap, queues) = Tap::adopt(&config.name, queues, Offload { checksum, tso, uso })?;
        let shares = queues.into_iter().zip(sockets).map(|(queue, sockets)| Share { queue, sockets });
        Ok(Files { listener, tap, shares: shares.collect(), notify })
    }

    /// Takes the bundle, once everything is prepared. On success it belongs to this process.
    pub(crate) fn take(mut self) -> Result<Taken, AskError> {
        let mut taken = || -> io::Result<()> {
            self.talk.say(&Word::Ready, ANSWER)?;
            self.talk.expect(&Word::Yours, ANSWER)?;
            self.talk.say(&Word::Taken, ANSWER)
        };
        taken().map_err(|error| failed(&self.name, &error.to_string()))?;
        Ok(Taken(self.talk))
    }
}

/// A bundle that belongs to this process now.
pub(crate) struct Taken(pub(super) Talk);

impl Taken {
    /// Waits until the process that had the bundle has said so to the service manager: who asks for the bundle afterwards, and then the
    /// service manager for its process, hears of the same one.
    pub(crate) fn wait_for_farewell(mut self) {
        let farewell: io::Result<Word> = self.0.receive(FAREWELL);
        tracing::debug!(?farewell, "the process that had the bundle is done");
    }
}

/// What the other process answers: the state of its bundle, and the configuration in that.
pub(crate) fn understood(name: &str, answer: Value) -> anyhow::Result<(BundleState, Config)> {
    let answer = refusal(name, answer)?;
    if answer["handover"] != VERSION {
        let (theirs, ours) = (&answer["handover"], VERSION);
        return Err(failed(name, &format!("it hands over by version {theirs}, this is {ours}")).into());
    }
    let state: BundleState = serde_json::from_value(answer)?;
    let config = state.told.understood().map_err(|reason| failed(name, &reason))?;
    Ok((state, config))
}

/// The user of a process, unless it is root.
fn user_of(pid: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
    let user = User::from_uid(uid.parse::<u32>().ok()?.into()).ok()??;
    (!user.uid.is_root()).then_some(user.name)
}

fn failed(name: &str, reason: &str) -> AskError {
    let reason = format!("the bundle stays with its process: {reason}");
    AskError::Failed { name: name.to_owned(), reason }
}
