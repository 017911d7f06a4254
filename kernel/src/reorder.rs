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

use tabane_io::MappedArray;
use tabane_io::netlink::{self, DeviceSettings, NetlinkError, Nic};
use tabane_io::tcx::Direction;
use tabane_proto::KernelOrder;

use crate::Error;
use crate::layout::{Config, LANES, LINKS, Order, ReorderCounts, Turn};
use crate::load::{self, Loaded};
use crate::path::{check, key, place};

/// Letters of a device's name that fit into the pair's: the kernel takes 15 in all.
const NAME_MAX: usize = 9;
/// What the names of the halves end with: of two processes one has the one pair, and one the other.
const ENDINGS: [[&str; 2]; 2] = [["far", "near"], ["far2", "near2"]];
/// The halves take whatever the device does.
const MTU: u32 = 65_535;
/// How long what one link is not known to have lost is waited for after all others have brought later frames: processors may
/// change the order of frames of one link by as much.
const GRACE_NS: u64 = 2_000_000;
/// Most that waits for the frames of one flow, in bytes: 100 ms at 670 Mbit/s.
const HELD_MAX: u32 = 8 << 20;
/// A change of less than one part in so many of a time is none.
const PARTS: u64 = 16;

/// The qdisc in force. It ends with this value, and what it holds with it.
pub struct Reorder {
    pair: Pair,
    device: String,
    _deliver: OwnedFd,
    loaded: Loaded,
    /// As the map has them, by the peers' numbers.
    orders: Vec<Option<Order>>,
    counts: MappedArray,
}

impl Reorder {
    /// Makes the pair for the device of this name in this thread's network namespace, and takes away what a crash has left. `beside`: the
    /// [`Self::name`] of the process that is about to hand the device over, which stays. Frames of peers that have no order
    /// pass as they come.
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
        Ok(Self { pair, device: device.name, _deliver: deliver, loaded, orders: vec![None; peers], counts })
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

    /// Says how the frames of a peer are put in order, where that is about another than before.
    pub fn set_order(&mut self, peer: usize, order: &KernelOrder) -> Result<(), Error> {
        check("peer", peer, self.orders.len())?;
        let [.., a, b, c, d] = order.incarnation.to_be_bytes();
        let entry = Order {
            hold_ns: u64::try_from(order.hold.as_nanos()).unwrap_or(u64::MAX / 2),
            grace_ns: GRACE_NS,
            held_max: HELD_MAX,
            links: order.links.into(),
            session: u32::from_be_bytes([a, b, c, d]),
            padding: 0,
        };
        let before = self.orders[peer];
        let is_same = |before: Order| {
            Order { hold_ns: before.hold_ns, ..entry } == before && is_near(before.hold_ns, entry.hold_ns)
        };
        if before.is_some_and(is_same) {
            return Ok(());
        }
        self.loaded.write("orders", &key(peer), &entry.bytes())?;
        // None of the numbers that begin anew is taken for one whose turn it is in the old ones.
        if before.map_or(0, |before| before.session) != entry.session {
            let nobody = Turn { word: 0 }.bytes();
            (peer * LANES..(peer + 1) * LANES)
                .try_for_each(|lane| self.loaded.write("turns", &key(lane), &nobody))?;
        }
        self.orders[peer] = Some(entry);
        Ok(())
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

pub(crate) fn is_near(one: impl Into<u64>, other: impl Into<u64>) -> bool {
    let (one, other) = (one.into(), other.into());
    one.abs_diff(other) <= one.max(other) / PARTS
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
