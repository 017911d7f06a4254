//! Addresses as people write them: a device's address with its prefix, a link's endpoint with its port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::problem::quoted;

/// Where greetings to everyone go: a transient link-local multicast group (RFC 4291, 2.7).
pub const GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x7461, 0x6261);
/// What [`Cidr`] is read from, for error sentences.
pub const CIDR_ALLOWED: &str = "an address and a prefix length, such as 10.9.0.1/24 or fd00::1/64";
/// What [`parse_peer`] takes, for error sentences.
pub const PEER_ALLOWED: &str = "ADDRESS or NAME, with or without :PORT, such as 198.51.100.7:7420, [2001:db8::7]:7420 or \
     office.example.net:7420";

/// What [`parse_local`] takes, for error sentences.
pub const LOCAL_ALLOWED: &str =
    "an address of this host, such as 192.0.2.1 or 2001:db8::1, or 0.0.0.0 or :: for any address of the nic";

/// Where a peer listens, as the user states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// At this endpoint.
    Address(SocketAddr),
    /// At the addresses that this name has.
    Name {
        /// The name in lower case.
        host: String,
        /// UDP port of the first worker.
        port: u16,
    },
}

impl Peer {
    /// The endpoint, where one is stated.
    pub fn address(&self) -> Option<SocketAddr> {
        if let Self::Address(endpoint) = self { Some(*endpoint) } else { None }
    }

    /// UDP port of its first worker.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(endpoint) => endpoint.port(),
            Self::Name { port, .. } => *port,
        }
    }

    /// The name, where one is stated.
    pub fn host(&self) -> Option<&str> {
        if let Self::Name { host, .. } = self { Some(host) } else { None }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(endpoint) => write!(f, "{endpoint}"),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// An address of the device and the length of its network's prefix, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    /// 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix: u8,
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Cidr, String> {
        let (address, prefix) =
            text.split_once('/').ok_or_else(|| format!("{} has no prefix", quoted(text)))?;
        let address = parse_host(address)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        match prefix.parse() {
            Ok(prefix) if prefix <= bits => Ok(Cidr { address, prefix }),
            _ => Err(format!("prefix {} is not a number from 0 to {bits}", quoted(prefix))),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Reads the address of one host: no group, nor the address that stands for none.
pub fn parse_host(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("{} names a scope, which the link's nic does already", quoted(text)));
    }
    let address: IpAddr = text.parse().map_err(|_| format!("{} is not an address", quoted(text)))?;
    if address.is_unspecified() || address.is_multicast() || is_broadcast(address) {
        return Err(format!("{address} is not the address of one host"));
    }
    Ok(address)
}

/// Reads the local address of a link: one of this host, or the one that stands for any of its family.
pub fn parse_local(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(any) if any.is_unspecified() => Ok(any),
        _ => parse_host(text),
    }
}

/// Reads where a peer listens; `port` completes what names none.
pub fn parse_peer(text: &str, port: u16) -> Result<Peer, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if bare.contains('%') || bare.parse::<IpAddr>().is_ok() {
        return Ok(Peer::Address(SocketAddr::new(parse_host(bare)?, port)));
    }
    let zero = || format!("{} has port 0", quoted(text));
    if let Ok(endpoint) = text.parse::<SocketAddr>() {
        if endpoint.port() == 0 {
            return Err(zero());
        }
        let address = parse_host(&endpoint.ip().to_string())?;
        return Ok(Peer::Address(SocketAddr::new(address, endpoint.port())));
    }
    let neither = || format!("{} is neither an address nor a name", quoted(text));
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| neither())?),
        None => (text, port),
    };
    match port {
        _ if !is_host_name(host) => Err(neither()),
        0 => Err(zero()),
        port => Ok(Peer::Name { host: host.to_ascii_lowercase(), port }),
    }
}

/// Whether `text` can name a host (RFC 1123, section 2.1): labels of letters, digits, hyphens and, as in local networks,
/// underscores; the last one is no number, for then the text is a mistyped address.
fn is_host_name(text: &str) -> bool {
    const NAME_MAX: usize = 253;
    const LABEL_MAX: usize = 63;
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=LABEL_MAX).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
            && bytes[0] != b'-'
            && !label.ends_with('-')
    };
    let labels = text.strip_suffix('.').unwrap_or(text);
    let last = labels.rsplit('.').next().unwrap_or_default();
    labels.len() <= NAME_MAX
        && labels.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `address` is valid only on its own link, so that nodes on it can find each other by multicast.
pub fn is_ipv6_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The word for the family of `address` in sentences.
pub fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.is_broadcast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidr_round_trip_and_refusals() {
        for text in ["10.9.0.1/24", "10.9.0.1/0", "10.9.0.1/32", "fd00::1/64", "fd00::1/128"] {
            assert_eq!(text.parse::<Cidr>().map(|cidr| cidr.to_string()), Ok(text.to_owned()));
        }
        let why = |text: &str| text.parse::<Cidr>().expect_err(text);
        assert_eq!(why("10.9.0.1"), "`10.9.0.1` has no prefix");
        assert_eq!(why("10.9.0.1/33"), "prefix `33` is not a number from 0 to 32");
        assert_eq!(why("10.9.0/24"), "`10.9.0` is not an address");
        assert_eq!(why("0.0.0.0/0"), "0.0.0.0 is not the address of one host");
    }

    #[test]
    fn peers_with_and_without_port() {
        let read = |text| parse_peer(text, 7420).map(|peer| peer.to_string());
        assert_eq!(read("198.51.100.7"), Ok("198.51.100.7:7420".into()));
        assert_eq!(read("198.51.100.7:9"), Ok("198.51.100.7:9".into()));
        assert_eq!(read("2001:db8::7"), Ok("[2001:db8::7]:7420".into()));
        assert_eq!(read("[2001:db8::7]"), Ok("[2001:db8::7]:7420".into()));
        assert_eq!(read("[2001:db8::7]:9"), Ok("[2001:db8::7]:9".into()));
        assert_eq!(read("Office.example.net"), Ok("office.example.net:7420".into()));
        assert_eq!(read("hostb:9"), Ok("hostb:9".into()));
        assert_eq!(read("4.up-link_1.example."), Ok("4.up-link_1.example.:7420".into()));
    }

    #[test]
    fn peers_that_are_none() {
        let why = |text| parse_peer(text, 7420).expect_err(text);
        let neither = [
            "",
            "office..net",
            "-office.net",
            "office-.net:7420",
            "büro.example.net",
            "office.example.net:65536",
            "office.example.net:",
            "198.51.100.7:65536",
            "198.51.100",
            "2001:db8::7:7420:x",
            "http://office.example.net",
        ];
        for text in neither {
            assert_eq!(why(text), format!("`{text}` is neither an address nor a name"));
        }
        assert!(is_host_name(&"a".repeat(63)) && !is_host_name(&"a".repeat(64)));
        assert!(is_host_name(&"a.".repeat(126)) && !is_host_name(&"a.".repeat(128)));
        assert_eq!(why("198.51.100.7:0"), "`198.51.100.7:0` has port 0");
        assert_eq!(why("office.example.net:0"), "`office.example.net:0` has port 0");
        assert_eq!(
            why("[fe80::2%3]:7420"),
            "`[fe80::2%3]:7420` names a scope, which the link's nic does already"
        );
        assert_eq!(why("224.0.0.1:7420"), "224.0.0.1 is not the address of one host");
        assert_eq!(why("255.255.255.255"), "255.255.255.255 is not the address of one host");
    }

    #[test]
    fn a_local_address_may_stand_for_any() {
        let read = |text| parse_local(text).map(|address| address.to_string());
        assert_eq!(read("0.0.0.0"), Ok("0.0.0.0".into()));
        assert_eq!(read("::"), Ok("::".into()));
        assert_eq!(read("192.0.2.1"), Ok("192.0.2.1".into()));
        assert_eq!(read("any"), Err("`any` is not an address".into()));
    }
}
