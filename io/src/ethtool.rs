//! What `ethtool` shows of a device: its speed, what its ends can do, and which offloads are on.
//!
//! The speed by `ETHTOOL_GSET` and `ETHTOOL_SSET`, whose structure has one size on all kernels. A TAP device shows whatever
//! was set last, and 10 Mbit/s before. What the ends can do: [`negotiated`].
//!
//! Source: `struct ethtool_cmd` in `include/uapi/linux/ethtool.h`, `tun_set_link_ksettings` in `drivers/net/tun.c` of
//! Linux 6.18.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

use crate::sockets::{check, request_for};

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

/// What the kernel or the NIC does for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloading {
    /// Merges received packets (GRO).
    Merge = 0x2b,
    /// Segments what is sent as late as possible (GSO).
    Segment = 0x23,
    /// Segments TCP in the NIC (TSO).
    SegmentTcp = 0x1e,
    /// Computes checksums of what is sent.
    Checksum = 0x16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Value {
    command: u32,
    value: u32,
}

/// Whether a device has this switched on; `None`: it does not say.
pub fn offloads(device: &str, what: Offloading) -> Option<bool> {
    let answer = ask(device, Value { command: what as u32, value: 0 }).ok()?;
    Some(answer.value != 0)
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

// What a NIC has agreed on with the other end of its cable, and what both could do.
//
// By `ETHTOOL_GLINKSETTINGS`: the first question tells how many words a set of modes has, the second one gets them.
//
// Source: `struct ethtool_link_settings` and `enum ethtool_link_mode_bit_indices` in `include/uapi/linux/ethtool.h` of
// Linux 6.18.

const GET_LINK_SETTINGS: u32 = 0x4c;
/// Words of a set of modes that are read; 6.18 has four.
const WORDS: usize = 8;
const HALF: u8 = 0;
const FULL: u8 = 1;

/// `struct ethtool_link_settings` with room for three sets of modes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct LinkSettings {
    command: u32,
    speed: u32,
    duplex: u8,
    port: u8,
    phy_address: u8,
    autoneg: u8,
    mdio: u8,
    crossover: [u8; 2],
    words: i8,
    transceiver: u8,
    roles: [u8; 2],
    rate_matching: u8,
    reserved: [u32; 7],
    /// Supported, advertised, and advertised by the other end: `words` of each, one set behind the other.
    modes: [u32; 3 * WORDS],
}

/// What a NIC says of its cable. Speeds in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// The speed now; `None`: the NIC does not know.
    pub speed: Option<u32>,
    /// Whether both ends may send at once; `None`: the NIC does not know.
    pub full_duplex: Option<bool>,
    /// Whether the ends agree by themselves.
    pub autoneg: bool,
    /// The highest speed that the NIC can do; `None`: it does not say.
    pub supported: Option<u32>,
    /// The highest speed that it offers.
    pub offered: Option<u32>,
    /// The highest speed that the other end offers; `None`: it does not say.
    pub partner: Option<u32>,
}

/// What the device has agreed on; `None`: it has no such thing.
pub fn negotiated(device: &str) -> Option<Negotiated> {
    let question = |words| LinkSettings { command: GET_LINK_SETTINGS, words, ..LinkSettings::default() };
    // The answer to a question without words is their number, made negative.
    let words = ask(device, question(0)).ok()?.words.checked_neg().filter(|words| *words > 0)?;
    let fits = usize::try_from(words).is_ok_and(|words| words <= WORDS);
    let answer: io::Result<LinkSettings> = if fits { ask(device, question(words)) } else { return None };
    Some(understood(&answer.ok()?))
}

fn understood(answer: &LinkSettings) -> Negotiated {
    let words = usize::try_from(answer.words).unwrap_or(0).min(WORDS);
    let set = |number: usize| fastest(&answer.modes[number * words..(number + 1) * words]);
    Negotiated {
        speed: Some(answer.speed).filter(|speed| ![0, u32::from(u16::MAX), UNKNOWN].contains(speed)),
        full_duplex: match answer.duplex {
            HALF => Some(false),
            FULL => Some(true),
            _ => None,
        },
        autoneg: answer.autoneg != 0,
        supported: set(0),
        offered: set(1),
        partner: set(2),
    }
}

/// The highest speed in a set of modes, in Mbit/s.
fn fastest(modes: &[u32]) -> Option<u32> {
    let has = |bit: usize| modes.get(bit / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1);
    SPEEDS.iter().filter(|(bits, _)| bits.iter().any(|bit| has(*bit))).map(|(_, speed)| *speed).max()
}

/// The bits of the modes of each speed.
const SPEEDS: [(&[usize], u32); 12] = [
    (&[0, 1, 99, 100, 101], 10),
    (&[2, 3, 67, 90, 91], 100),
    (&[4, 5, 17, 41, 68, 69], 1_000),
    (&[15, 47], 2_500),
    (&[48], 5_000),
    (&[12, 18, 19, 20, 42, 43, 44, 45, 46], 10_000),
    (&[21, 22], 20_000),
    (&[31, 32, 33], 25_000),
    (&[23, 24, 25, 26], 40_000),
    (&[34, 35, 40, 52, 53, 54, 55, 56], 50_000),
    (&[36, 37, 38, 39, 57, 58, 59, 60, 61, 75, 76, 77, 78, 79], 100_000),
    (&[62, 63, 64, 65, 66, 80, 81, 82, 83, 84], 200_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(supported: u32, partner: u32) -> LinkSettings {
        let mut modes = [0; 3 * WORDS];
        (modes[0], modes[4], modes[8]) = (supported, supported, partner);
        LinkSettings { speed: 100, duplex: HALF, autoneg: 1, words: 4, modes, ..LinkSettings::default() }
    }

    #[test]
    fn the_highest_mode_of_each_end_counts() {
        // 10 to 1000 Mbit/s here, 10 and 100 Mbit/s there.
        let found = understood(&settings(0x3f, 0x0f));
        assert_eq!((found.speed, found.full_duplex, found.autoneg), (Some(100), Some(false), true));
        assert_eq!((found.supported, found.offered, found.partner), (Some(1_000), Some(1_000), Some(100)));
        assert_eq!(understood(&settings(0, 0)).supported, None);
    }

    #[test]
    fn modes_beyond_the_first_word_are_found() {
        let mut bits = [0; 2];
        bits[47 / 32] = 1 << (47 % 32);
        assert_eq!(fastest(&bits), Some(2_500));
    }

    #[test]
    fn loopback_agrees_on_nothing() {
        assert_eq!(negotiated("lo").and_then(|lo| lo.speed), None);
    }
}
