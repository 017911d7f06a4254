//! Addresses as people write them: a device's address with its prefix, a link's endpoint with its port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::problem::quoted;

/// What [`Cidr`] is read from, for error sentences.
pub const CIDR_ALLOWED: &str = "an address and a prefix length, such as 10.9.0.1/24 or fd00::1/64";
/// What [`parse_endpoint`] takes, for error sentences.
pub const ENDPOINT_ALLOWED: &str = "ADDRESS or ADDRESS:PORT, such as 198.51.100.7:7420 or [2001:db8::7]:7420";
/// What [`parse_host`] takes, for error sentences.
pub const HOST_ALLOWED: &str = "an IPv4 or IPv6 address of one host, such as 192.0.2.1 or 2001:db8::1";

/// An address of the device and the length of its network's prefix, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The device's own address.
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
///
/// # Errors
/// What is wrong with `text`; [`HOST_ALLOWED`] completes the sentence.
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

/// Reads an endpoint; `port` completes an address without one.
///
/// # Errors
/// What is wrong with `text`; [`ENDPOINT_ALLOWED`] completes the sentence.
pub fn parse_endpoint(text: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if bare.contains('%') || bare.parse::<IpAddr>().is_ok() {
        return Ok(SocketAddr::new(parse_host(bare)?, port));
    }
    let endpoint: SocketAddr = text.parse().map_err(|_| format!("{} is not an endpoint", quoted(text)))?;
    if endpoint.port() == 0 {
        return Err(format!("{} has port 0", quoted(text)));
    }
    Ok(SocketAddr::new(parse_host(&endpoint.ip().to_string())?, endpoint.port()))
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
    fn endpoints_with_and_without_port() {
        let read = |text| parse_endpoint(text, 7420).map(|endpoint| endpoint.to_string());
        assert_eq!(read("198.51.100.7"), Ok("198.51.100.7:7420".into()));
        assert_eq!(read("198.51.100.7:9"), Ok("198.51.100.7:9".into()));
        assert_eq!(read("2001:db8::7"), Ok("[2001:db8::7]:7420".into()));
        assert_eq!(read("[2001:db8::7]"), Ok("[2001:db8::7]:7420".into()));
        assert_eq!(read("[2001:db8::7]:9"), Ok("[2001:db8::7]:9".into()));
    }

    #[test]
    fn endpoints_that_are_none() {
        let why = |text| parse_endpoint(text, 7420).expect_err(text);
        assert_eq!(why("hostb:7420"), "`hostb:7420` is not an endpoint");
        assert_eq!(why("198.51.100.7:0"), "`198.51.100.7:0` has port 0");
        assert_eq!(why("198.51.100.7:65536"), "`198.51.100.7:65536` is not an endpoint");
        assert_eq!(
            why("[fe80::2%3]:7420"),
            "`[fe80::2%3]:7420` names a scope, which the link's nic does already"
        );
        assert_eq!(why("224.0.0.1:7420"), "224.0.0.1 is not the address of one host");
        assert_eq!(why("255.255.255.255"), "255.255.255.255 is not the address of one host");
    }
}
