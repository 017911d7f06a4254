//! Switch ports that forward or swallow, set by a message to the kernel that takes effect within microseconds.
//!
//! A port in state "disabled" takes nothing in and lets nothing out, and says so to nobody: carrier stays. What it
//! had queued still goes out, at most the port's queue; it is empty as a rule, since hosts send no faster than it.
//! Replacing the port's queue by one that drops all was tried first: the kernel waits several milliseconds between
//! one port and the next, in which half of the switch lives on. Message layout: linux/rtnetlink.h, linux/if_link.h.

use std::io::Error;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

use crate::clock::{Moment, monotonic_ns};

const RTM_SETLINK: u16 = 19;
/// NLM_F_REQUEST and NLM_F_ACK.
const FLAGS: u16 = 0x0001 | 0x0004;
const AF_BRIDGE: u32 = 7;
/// IFLA_PROTINFO, which is nested.
const PROTOCOL: u16 = 12 | 0x8000;
const IFLA_BRPORT_STATE: u16 = 1;
const NLMSG_ERROR: u16 = 2;
/// Length of a message's head.
const HEAD: usize = 16;

/// State of a bridge port, as in linux/if_bridge.h.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Disabled = 0,
    Forwarding = 3,
}

/// Name of the switch port to which `host` is plugged.
pub(super) fn name(host: usize) -> String {
    format!("port{}", host + 1)
}

/// Puts `ports`, of the namespace in which the calling thread is, into `state`.
pub(super) fn set(ports: &[String], state: State) -> Result<Moment> {
    let (family, kind, protocol) = (AddressFamily::Netlink, SockType::Datagram, SockProtocol::NetlinkRoute);
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol).context("a netlink socket")?;
    let mut messages = Vec::new();
    for port in ports {
        messages.extend(message(if_nametoindex(port.as_str()).with_context(|| port.clone())?, state));
    }
    let before_ns = monotonic_ns()?;
    send(socket.as_raw_fd(), &messages, MsgFlags::empty())?;
    for port in ports {
        acknowledged(socket.as_raw_fd()).with_context(|| format!("{port} {state:?}"))?;
    }
    Ok(Moment { before_ns, after_ns: monotonic_ns()? })
}

/// The request for the port of number `index`: message head, ifinfomsg, one attribute within another.
fn message(index: u32, state: State) -> Vec<u8> {
    let state = attribute(IFLA_BRPORT_STATE, &[state as u8]);
    let mut body = Vec::new();
    for word in [AF_BRIDGE.to_le(), index, 0, 0] {
        body.extend(word.to_ne_bytes());
    }
    body.extend(attribute(PROTOCOL, &state));
    let length = u32::try_from(HEAD + body.len()).expect("messages are of some dozen bytes");
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(RTM_SETLINK.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// An attribute, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("attributes are of some bytes");
    let mut attribute = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// Reads the kernel's answer: an error message whose number is 0 means done.
fn acknowledged(socket: i32) -> Result<()> {
    let mut answer = [0; 256];
    let length = recv(socket, &mut answer, MsgFlags::empty())?;
    ensure!(length >= HEAD + 4, "the kernel answers with {length} bytes");
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let number = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    ensure!(kind == NLMSG_ERROR, "the kernel answers with a message of type {kind}");
    if number == 0 { Ok(()) } else { Err(Error::from_raw_os_error(-number).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_layout_of_rtnetlink() {
        let message = message(0x0102_0304, State::Forwarding);
        assert_eq!(message.len(), HEAD + 16 + 4 + 8);
        assert_eq!(message[..4], 44_u32.to_ne_bytes());
        assert_eq!(message[4..6], RTM_SETLINK.to_ne_bytes());
        assert_eq!(message[16], 7);
        assert_eq!(message[20..24], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!(message[32..36], [12_u16.to_ne_bytes(), PROTOCOL.to_ne_bytes()].concat());
        assert_eq!(message[36..40], [5_u16.to_ne_bytes(), IFLA_BRPORT_STATE.to_ne_bytes()].concat());
        assert_eq!(message[40..], [3, 0, 0, 0]);
    }
}
