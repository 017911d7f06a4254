//! What `ethtool` shows of a device: its speed, and for whoever watches what its ends can do and which offloads are on.
//!
//! The speed by `ETHTOOL_GSET` and `ETHTOOL_SSET`, whose structure has one size on all kernels. A TAP device shows whatever
//! was set last, and 10 Mbit/s before.
//!
//! Source: `struct ethtool_cmd` in `include/uapi/linux/ethtool.h`, `tun_set_link_ksettings` in `drivers/net/tun.c` of
//! Linux 6.18.

#[cfg(feature = "watch")]
mod ends;

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

use crate::sockets::{check, request_for};

#[cfg(feature = "watch")]
pub use ends::{Negotiated, Offloading, negotiated, offloads};

const GET: u32 = 1;
const SET: u32 = 2;
const FULL_DUPLEX: u8 = 1;
/// A speed that a driver does not know, in both halves.
const UNKNOWN: u32 = u32::MAX;

/// `struct ethtool_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex: u8,
    port: u8,
    phy_address: u8,
    transceiver: u8,
    autoneg: u8,
    mdio: u8,
    max_tx_packets: u32,
    max_rx_packets: u32,
    speed_high: u16,
    crossover: [u8; 2],
    partner: u32,
    reserved: [u32; 2],
}

/// Mbit/s of a device; `None`: it does not know, has no carrier, or is none.
pub fn speed(device: &str) -> Option<u32> {
    let settings = ask(device, Settings { command: GET, ..Settings::default() }).ok()?;
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    Some(speed).filter(|speed| ![0, u32::from(u16::MAX), UNKNOWN].contains(speed))
}

/// Sets the speed that a TAP device shows to `mbits` Mbit/s.
/// Errors: the kernel's: no such device, no right, or a kernel before 4.16.
pub fn set_speed(device: &str, mbits: u32) -> io::Result<()> {
    let now = ask(device, Settings { command: GET, ..Settings::default() })?;
    let [high, low] = [mbits >> 16, mbits & 0xffff].map(|half| u16::try_from(half).unwrap_or_default());
    ask(device, Settings { command: SET, speed: low, speed_high: high, duplex: FULL_DUPLEX, ..now }).map(drop)
}

/// Sends a request to the driver; its answer has the same structure.
fn ask<T>(device: &str, mut settings: T) -> io::Result<T> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request_for(device)?;
    request.ifr_ifru.ifru_data = (&raw mut settings).cast();
    // SAFETY: the kernel reads and writes one structure of the command in its first field, which is `T` and lives until the
    // call returns.
    check(unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })?;
    Ok(settings)
}
