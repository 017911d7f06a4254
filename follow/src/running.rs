//! A running bundle as its control socket shows it: links with their peers, and which nodes it trusts.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::Deserialize;
use tabane_api::{AskError, Request, Status, Told, ask};
use tabane_config::key::public;
use tabane_config::{LinkConfig, Peer, link_name};

/// What a fleet has to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Its links in their order.
    pub links: Vec<Link>,
    /// The numbers of its group keys, first the one that it sends with.
    pub groups: Vec<String>,
    /// Public keys of those that it lets in; `None`: all of the group.
    pub allow: Option<BTreeSet<String>>,
    /// The public key of its own.
    pub node_key: Option<String>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As it was stated.
    pub config: LinkConfig,
    /// UDP port of its first worker.
    pub port: u16,
}

#[derive(Deserialize)]
struct Answer {
    told: Told,
    groups: Vec<String>,
}

impl Running {
    /// Asks the bundle `name`.
    pub fn ask(name: &str) -> Result<Running, AskError> {
        let strange = |reason: String| AskError::Failed { name: name.to_owned(), reason };
        let answer = ask(name, &Request::Configuration)?;
        let answer: Answer =
            serde_json::from_value(answer).map_err(|error| strange(format!("no configuration: {error}")))?;
        let config = answer.told.understood().map_err(strange)?;
        let status = ask(name, &Request::Status)?;
        let status: Status =
            serde_json::from_value(status).map_err(|error| strange(format!("no status: {error}")))?;
        let ports = config.ports();
        let link = |config: LinkConfig| Link { port: config.first_port(ports), config };
        Ok(Running {
            allow: config.live.allow.as_ref().map(|keys| keys.iter().map(public).collect()),
            links: config.links.into_iter().map(link).collect(),
            groups: answer.groups,
            node_key: status.node_key,
        })
    }
}

impl Link {
    /// As a request names it.
    pub fn name(&self) -> String {
        link_name(&self.config)
    }

    /// Whether it greets this endpoint.
    pub fn has(&self, peer: SocketAddr) -> bool {
        self.config.peers.contains(&Peer::Address(peer))
    }

    /// Whether it can greet endpoints that somebody names: one that finds its peers by multicast has a socket for that, and
    /// Ethernet frames and memory have no endpoints.
    pub fn takes_peers(&self) -> bool {
        let over_ip = self.config.ether.is_none() && self.config.window.is_none();
        over_ip && !self.config.uses_multicast()
    }

    /// Where it listens, if it was stated for one address.
    pub fn endpoint(&self) -> Option<SocketAddr> {
        let local = self.config.local.filter(|local| !local.is_unspecified() && self.takes_peers())?;
        Some(SocketAddr::new(local, self.port))
    }
}
