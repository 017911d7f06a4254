//! Socket addresses as the kernel reads and writes them.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an IPv4 or IPv6 `sockaddr`. All zeroes stand for no address.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    /// Room for one address, bytes.
    #[expect(clippy::cast_possible_truncation, reason = "28 bytes")]
    pub(super) const ROOM: libc::socklen_t = mem::size_of::<Self>() as libc::socklen_t;
    const FAMILY_V4: libc::sa_family_t = family(libc::AF_INET);
    const FAMILY_V6: libc::sa_family_t = family(libc::AF_INET6);

    pub(super) const fn empty() -> Self {
        // SAFETY: both variants are integers, for which all zeroes are valid.
        unsafe { mem::zeroed() }
    }

    pub(super) fn new(address: &SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self {
                v4: libc::sockaddr_in {
                    sin_family: Self::FAMILY_V4,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(address) => Self {
                v6: libc::sockaddr_in6 {
                    sin6_family: Self::FAMILY_V6,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo().to_be(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                },
            },
        }
    }

    /// Bytes in use: the kernel refuses an IPv6 length with an IPv4 family on some paths.
    #[expect(clippy::cast_possible_truncation, reason = "16 or 28 bytes")]
    pub(super) fn length(&self) -> libc::socklen_t {
        let length = match self.family() {
            Self::FAMILY_V4 => mem::size_of::<libc::sockaddr_in>(),
            _ => mem::size_of::<libc::sockaddr_in6>(),
        };
        length as libc::socklen_t
    }

    /// The address that the kernel wrote; `None` when it wrote none.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        match self.family() {
            Self::FAMILY_V4 => {
                // SAFETY: the family says that the IPv4 variant was written; any bytes are valid integers.
                let raw = unsafe { self.v4 };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            Self::FAMILY_V6 => {
                // SAFETY: the family says that the IPv6 variant was written; any bytes are valid integers.
                let raw = unsafe { self.v6 };
                let (ip, port) = (Ipv6Addr::from(raw.sin6_addr.s6_addr), u16::from_be(raw.sin6_port));
                Some(SocketAddrV6::new(ip, port, u32::from_be(raw.sin6_flowinfo), raw.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    fn family(&self) -> libc::sa_family_t {
        // SAFETY: both variants begin with the family, and all bytes of the union are initialised.
        unsafe { self.v4.sin_family }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "address families are below 50")]
const fn family(family: libc::c_int) -> libc::sa_family_t {
    family as libc::sa_family_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let link_local = SocketAddrV6::new("fe80::1".parse().unwrap(), 7420, 0, 3);
        for address in [SocketAddr::V6(link_local), "10.1.2.3:65535".parse().unwrap()] {
            assert_eq!(RawAddress::new(&address).read(), Some(address));
        }
        assert_eq!(RawAddress::empty().read(), None);
    }
}
