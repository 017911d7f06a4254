//! Places of BPF programs at a NIC's traffic control (TCX), which see each frame that it receives or sends; and those in a pair of
//! devices.
//!
//! The place is a descriptor: when the last copy of it is closed, also by a crash, the program is off the NIC. Programs of others
//! stay where they are.
//!
//! Source: `linux/bpf.h` and `kernel/bpf/tcx.c` of Linux 6.18 (TCX: since 6.6), `drivers/net/netkit.c` (since 6.7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::bpf;

/// `BPF_TCX_INGRESS`, `BPF_TCX_EGRESS`, `BPF_NETKIT_PRIMARY`.
const INGRESS: u32 = 46;
const EGRESS: u32 = 47;
const ACROSS: u32 = 54;

/// Which frames of a NIC a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Those that it receives, before the stack does.
    Ingress,
    /// Those that it is about to send, with the headers and the segmentation state that the stack gave them.
    Egress,
    /// Those that the first half of a pair is given ([`crate::netlink::add_pair`]), on their way to the other one.
    Across,
}

/// Puts a program behind those that the NIC of this index has, for as long as the descriptor lives.
/// Errors: `EPERM` without CAP_BPF and CAP_NET_ADMIN, `EINVAL` before Linux 6.6, `ENODEV` without such a NIC.
pub fn attach(program: impl AsFd, nic: u32, direction: Direction) -> io::Result<OwnedFd> {
    let place = match direction {
        Direction::Ingress => INGRESS,
        Direction::Egress => EGRESS,
        Direction::Across => ACROSS,
    };
    bpf::attach(program, nic, place, 0)
}

// An array that BPF programs count in, mapped: reading a counter takes no call.
//
// Source: `BPF_F_MMAPABLE` and `array_map_mmap` in `kernel/bpf/arraymap.c` of Linux 6.18 (since 5.5).

const WORD: usize = size_of::<u64>();

/// The words of an array of BPF, which programs write meanwhile.
#[derive(Debug)]
pub struct MappedArray {
    memory: MmapRaw,
}

impl MappedArray {
    /// Maps the first `words` words of an array that was made with `BPF_F_MMAPABLE`.
    /// Errors: `EINVAL` when the array cannot be mapped or is shorter.
    pub fn new(map: impl AsFd, words: usize) -> io::Result<Self> {
        // All pages at once: who reads it may be in a hurry.
        let memory =
            MmapOptions::new().len(words * WORD).populate().map_raw_read_only(map.as_fd().as_raw_fd())?;
        Ok(Self { memory })
    }

    /// A word as it is at the moment; `None` beyond the end.
    pub fn word(&self, index: usize) -> Option<u64> {
        if index >= self.memory.len() / WORD {
            return None;
        }
        // SAFETY: the word lies inside the mapping, which lives as long as `self` and begins at a page; the kernel writes it by
        // single accesses.
        let word = unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().cast::<u64>().add(index)) };
        Some(word.load(Ordering::Relaxed))
    }
}
