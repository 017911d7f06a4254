//! What is looked at: a running bundle, a configuration file, or NICs that shall be links.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use tabane_api::status::LinkStatus;
use tabane_api::{AskError, Status, status_of};
use tabane_config::address::is_ipv6_link_local;
use tabane_config::problem::BadInput;
use tabane_config::settings::Settings;
use tabane_config::{Config, PORT, names_window};

use super::Asked;
use crate::source::is_file;

pub(crate) type Bundle = Status;

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The running bundle, as it was at first.
    pub(crate) bundle: Option<Status>,
    pub(crate) title: String,
    /// Its links over NICs.
    pub(crate) links: Vec<Link>,
}

/// A link over a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Number in the running bundle, or place in the file.
    pub(crate) number: u32,
    pub(crate) nic: String,
    pub(crate) medium: Medium,
    /// UDP port of the first worker.
    pub(crate) port: u16,
}

/// What carries the cells of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// UDP; peers are found by multicast.
    Multicast,
    /// UDP between addresses; `None`: any of the NIC.
    Addresses(Option<IpAddr>),
    Frames,
}

impl Subject {
    pub(crate) fn of(asked: &Asked) -> anyhow::Result<Self> {
        match &asked.target {
            _ if !asked.nics.is_empty() && asked.target.is_some() => {
                Err(BadInput::new("--nic and a bundle exclude each other; allowed: one of them").into())
            }
            _ if !asked.nics.is_empty() => Ok(Self::over(&asked.nics)),
            Some(target) if is_file(target) => Self::file(Path::new(target)),
            name => Self::running(name.clone()),
        }
    }

    fn running(name: Option<String>) -> anyhow::Result<Self> {
        let running = tabane_api::meant(name).and_then(|name| Ok((status_of(&name)?, name)));
        let (status, name) = running.map_err(|error| match error {
            AskError::NotUp { .. } | AskError::NoneUp => BadInput::new(format!(
                "{error}; before one is: `tabane doctor --nic NIC`, or a configuration file (`./FILE`, `FILE.toml`)"
            ))
            .into(),
            _ => anyhow::Error::new(error),
        })?;
        let links = status
            .links
            .iter()
            .filter(|link| !names_window(&link.nic))
            .map(|link| Link::of_running(link, &status));
        Ok(Self { links: links.collect(), title: format!("bundle {name}"), bundle: Some(status) })
    }

    fn file(path: &Path) -> anyhow::Result<Self> {
        let config = Config::load(Some(path), Settings::default()).map_err(BadInput::from)?;
        let links = (0..).zip(&config.links).filter(|(_, link)| link.window.is_none());
        let links = links.map(|(number, link)| Link {
            number,
            nic: link.nic.clone(),
            medium: match link.ether {
                Some(_) => Medium::Frames,
                None if link.uses_multicast() => Medium::Multicast,
                None => Medium::Addresses(link.local),
            },
            port: link.first_port(config.ports()),
        });
        Ok(Self { links: links.collect(), title: format!("file {}", path.display()), bundle: None })
    }

    fn over(names: &[String]) -> Self {
        let link = |(number, nic): (u32, &String)| Link {
            number,
            nic: nic.clone(),
            medium: Medium::Multicast,
            port: PORT,
        };
        let links = (0..).zip(names).map(link).collect();
        Self { links, title: format!("NICs {}", names.join(" ")), bundle: None }
    }

    /// The running bundle as it is now.
    pub(crate) fn status(&self) -> anyhow::Result<Option<Status>> {
        Ok(self.bundle.as_ref().map(|bundle| status_of(&bundle.name)).transpose()?)
    }

    /// The NICs, each once.
    pub(crate) fn nics(&self) -> Vec<String> {
        let mut nics: Vec<String> = Vec::new();
        for link in &self.links {
            if !nics.contains(&link.nic) {
                nics.push(link.nic.clone());
            }
        }
        nics
    }
}

impl Link {
    fn of_running(link: &LinkStatus, status: &Status) -> Self {
        let local = endpoint(&link.local);
        let paths = status.peers.iter().flat_map(|peer| &peer.paths).filter(|path| path.link == link.link);
        let mut ends = paths.filter_map(|path| endpoint(&path.endpoint));
        let medium = match local.map(|local| local.ip()) {
            _ if link.kind.starts_with("ether") => Medium::Frames,
            Some(local) if is_ipv6_link_local(local) => Medium::Multicast,
            // A socket of no IPv6 address finds its peers by multicast, unless they are named.
            Some(IpAddr::V6(local))
                if local.is_unspecified() && ends.all(|end| is_ipv6_link_local(end.ip())) =>
            {
                Medium::Multicast
            }
            local => Medium::Addresses(local.filter(|local| !local.is_unspecified())),
        };
        Self {
            number: link.link,
            nic: link.nic.clone(),
            medium,
            port: local.map_or(PORT, |local| local.port()),
        }
    }

    /// Whether IP carries its cells.
    pub(crate) fn is_udp(&self) -> bool {
        self.medium != Medium::Frames
    }
}

/// An endpoint as the status writes it, with the zone behind a link-local address.
pub(crate) fn endpoint(text: &str) -> Option<SocketAddr> {
    let Some((address, rest)) = text.split_once('%') else { return text.parse().ok() };
    let (zone, port) = rest.split_once(']')?;
    let SocketAddr::V6(mut endpoint) = format!("{address}]{port}").parse().ok()? else { return None };
    endpoint.set_scope_id(zone.parse().ok()?);
    Some(endpoint.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_the_status_writes_them() {
        let endpoint = |text| endpoint(text).map(|endpoint| endpoint.to_string());
        assert_eq!(endpoint("[fe80::1%3]:7420"), Some("[fe80::1%3]:7420".to_owned()));
        assert_eq!(endpoint("192.0.2.1:7420"), Some("192.0.2.1:7420".to_owned()));
        assert_eq!(endpoint("mem"), None);
        assert_eq!(endpoint("[fe80::1%3"), None);
    }

    #[test]
    fn the_medium_of_a_link_follows_from_its_endpoint() {
        let status = crate::screen::example();
        let mut named = status.clone();
        named.peers[0].paths[0].endpoint = "192.0.2.7:7420".to_owned();
        let of = |local: &str, kind: &str| {
            let link =
                LinkStatus { local: local.to_owned(), kind: kind.to_owned(), ..status.links[0].clone() };
            Link::of_running(&link, if local == "[::]:7421" { &named } else { &status }).medium
        };
        assert_eq!(of("[fe80::1%3]:7420", "udp"), Medium::Multicast);
        assert_eq!(of("[::]:7420", "udp"), Medium::Multicast);
        assert_eq!(of("[::]:7421", "udp"), Medium::Addresses(None));
        assert_eq!(
            of("192.0.2.1:7420", "udp"),
            Medium::Addresses(Some("192.0.2.1".parse().expect("an address")))
        );
        assert_eq!(of("[fe80::1%3]:7420", "ether/packet"), Medium::Frames);
    }
}
