//! The reorder qdisc of one bundle: a pair of devices (netkit), the qdisc on its far half, and what carries on from there to the device.
//!
//! ```text
//!     NIC's ingress: receive -> far half: the qdisc -> on the way to the near half: deliver -> device's ingress
//! ```
//!
//! Frames that come in their turn go from the receive program to the device (`programs/turn.h`).
//!
//! A qdisc does not vanish with the process: after a crash the pair is left, its qdisc hands out what it holds, and the pair,
//! whose program has vanished, drops it. The next start takes it away. A process that takes a bundle over makes a second pair
//! beside the first one, which receives until the other process ends.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tabane_io::MappedArray;
use tabane_io::netlink::{self, DeviceSettings, NetlinkError, Nic};
use tabane_io::tcx::Direction;

use crate::Error;
use crate::layout::{self, Config, LANES, LINKS, ReorderCounts, Turn};
use crate::load::{self, Loaded};
use crate::path::place;

/// Letters of a device's name that fit into the pair's: the kernel takes 15 in all.
const NAME_MAX: usize = 9;
/// What the names of the halves end with: of two processes one has the one pair, and one the other.
const ENDINGS: [[&str; 2]; 2] = [["far", "near"], ["far2", "near2"]];
/// The halves take whatever the device does.
const MTU: u32 = 65_535;

/// How the frames of a peer are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How long a missing number is waited for at least; it is given up before twice that. Shorter than the skew of the links,
    /// it costs retransmissions.
    pub hold: Duration,
    /// The same after every link has delivered a later one.
    pub grace: Duration,
    /// Most that waits in a lane, in bytes.
    pub held_max: u32,
    /// Links that the peer uses, a bit each; 0: nobody knows, and only `hold` ends a wait.
    pub links: u32,
    /// Another one than before: the peer's numbers begin anew at 0.
    pub session: u32,
}

/// The qdisc in force. It ends with this value, and what it holds with it.
pub struct Reorder {
    pair: Pair,
    device: String,
    _deliver: OwnedFd,
    loaded: Loaded,
    /// The session of each peer's order.
    sessions: Vec<u32>,
    counts: MappedArray,
}

impl std::fmt::Debug for Reorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reorder").field("far", &self.pair.far.name).finish_non_exhaustive()
    }
}

impl Reorder {
    /// Makes the pair for the device of this name in this thread's network namespace, and takes away what a crash has left. `beside`: the
    /// [`Self::name`] of the process that is about to hand the device over, which stays. Frames of peers that have no [`Order`] pass as
    /// they come.
    /// Errors: [`Error::NotBuilt`], [`Error::NoQdiscs`], [`Error::Load`], [`Error::Qdisc`], [`Error::Devices`]. Nothing
    /// is left behind.
    pub fn attach(device: &str, peers: usize, beside: Option<&str>) -> Result<Self, Error> {
        crate::available()?;
        if !load::kernel_has_qdiscs() {
            return Err(Error::NoQdiscs);
        }
        let device = netlink::nic(device)?;
        let paths = u32::try_from(peers * LINKS).unwrap_or(u32::MAX);
        let config = Config { device: device.index, reorder: 0, paths, port: [0; 2], padding: [0; 2] };
        let kind = kind();
        let loaded = Loaded::qdisc(&config, &kind)?;
        let counts = MappedArray::new(loaded.map("reorder_counts"), ReorderCounts::NAMES.len())
            .map_err(Error::Counters)?;
        let pair = Pair::make(&device, &kind, beside)?;
        let deliver = place(&loaded, "deliver", pair.far.index, Direction::Across)?;
        Ok(Self { pair, device: device.name, _deliver: deliver, loaded, sessions: vec![0; peers], counts })
    }

    /// Name of the half to which frames go that need an order.
    pub fn name(&self) -> &str {
        &self.pair.far.name
    }

    /// The qdisc's programs; the receive program sees in a map of theirs whose turn it is.
    pub(crate) fn programs(&self) -> &Loaded {
        &self.loaded
    }

    /// Interface index of where frames go that need an order.
    pub(crate) fn entry(&self) -> u32 {
        self.pair.far.index
    }

    /// Says how the frames of a peer are put in order.
    /// Errors: [`Error::Map`], also when the peer's number is not below the bound.
    pub fn set_order(&mut self, peer: usize, order: &Order) -> Result<(), Error> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        let entry = layout::Order {
            hold_ns: ns(order.hold),
            grace_ns: ns(order.grace),
            held_max: order.held_max,
            links: order.links,
            session: order.session,
            padding: 0,
        };
        let key = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes();
        self.loaded.write("orders", &key(peer), &entry.bytes())?;
        if std::mem::replace(&mut self.sessions[peer], entry.session) == entry.session {
            return Ok(());
        }
        // None of the numbers that begin anew is taken for one whose turn it is in the old ones.
        let nobody = Turn { word: 0 }.bytes();
        (peer * LANES..(peer + 1) * LANES)
            .try_for_each(|lane| self.loaded.write("turns", &key(lane), &nobody))
    }

    /// What the qdisc did; takes no call.
    pub fn counts(&self) -> ReorderCounts {
        let words = 0..ReorderCounts::NAMES.len();
        ReorderCounts::from_words(words.map(|word| self.counts.word(word).unwrap_or(0)))
    }

    /// Has the kernel process each flow of the device on a processor of its own (RPS), also where frames leave the qdisc on
    /// different ones. Without, one may overtake another there. The device keeps it.
    /// Errors: the kernel's; `/sys` shows another network namespace, or may not be written.
    pub fn spread(&self) -> io::Result<()> {
        let processors = load::processors().map_err(io::Error::other)?;
        fs::write(format!("/sys/class/net/{}/queues/rx-0/rps_cpus", self.device), mask(processors))
    }
}

/// A kind that no other qdisc has: the kernel has one list for all network namespaces, and 15 letters for each.
fn kind() -> String {
    format!("tabane{:09x}", tabane_io::now_ns() & 0xf_ffff_ffff)
}

/// What the pair's names begin with: the device's, or where that is too long a beginning of it and a hash, so that devices differ.
fn stem(device: &str) -> String {
    if device.len() <= NAME_MAX {
        return device.to_owned();
    }
    // FNV-1a, of which 20 bits are enough.
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{:.4}{:05x}", device, device.bytes().fold(0x811c_9dc5, hash) >> 12)
}

/// All processors as the kernel's bitmaps have them: groups of 32 in hexadecimal, the last processors first.
fn mask(processors: usize) -> String {
    let group = |first: usize| (1_u64 << (processors - first).min(32)) - 1;
    let groups = (0..processors).step_by(32).map(|first| format!("{:x}", group(first)));
    groups.rev().collect::<Vec<_>>().join(",")
}

/// The devices, by the half that has the qdisc; both are deleted with this value, and the qdisc with them.
struct Pair {
    far: Nic,
}

impl Pair {
    /// Makes them for `device`, and deletes all others of it but `beside`.
    fn make(device: &Nic, kind: &str, beside: Option<&str>) -> Result<Self, NetlinkError> {
        let stem = stem(&device.name);
        let names = ENDINGS.map(|pair| pair.map(|half| format!("{stem}.{half}")));
        let free = names.iter().filter(|[far, _]| beside != Some(far));
        for [far, _] in free.clone() {
            netlink::delete_device(far)
                .or_else(|error| if error.is_so_already() { Ok(()) } else { Err(error) })?;
        }
        let names = free.clone().next().unwrap_or(&names[0]);
        netlink::add_pair(names.each_ref().map(String::as_str))?;
        let pair = Self { far: netlink::nic(&names[0])? };
        netlink::set_qdisc(pair.far.index, kind)?;
        let up = DeviceSettings { up: Some(true), mtu: Some(MTU), ..DeviceSettings::default() };
        netlink::set_device(netlink::nic(&names[1])?.index, &up)?;
        netlink::set_device(pair.far.index, &up)?;
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Who left in the meantime has taken them along.
        let _ = netlink::delete_device(&self.far.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_in_groups_of_32() {
        assert_eq!([1, 2, 32, 33, 64].map(mask), ["1", "3", "ffffffff", "1,ffffffff", "ffffffff,ffffffff"]);
    }

    #[test]
    fn devices_with_long_names_have_pairs_of_their_own() {
        assert_eq!(stem("storage-1"), "storage-1");
        let long = ["storage-left", "storage-light"].map(stem);
        assert!(long[0] != long[1] && long.iter().all(|stem| stem.len() == NAME_MAX), "{long:?}");
    }

    #[test]
    fn a_kind_is_short_enough_for_the_kernel() {
        assert_eq!(kind().len(), 15);
    }
}
